//! The binary beside a cluster of the largest size on the embedded server, which takes gigabytes: only
//! `cargo xtask ci --nightly` runs it, on a release build (TE-15, TE-16).
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test: it fails by panicking and prints what it measures"
)]

use std::time::Duration;

use harness::beside::{Beside, REST, shown};
use serde_json::json;
use testkit::embedded::NODES;
use testkit::real::eventually;

const NODE_COUNT: usize = 5_000;
const POD_COUNT: usize = 150_000;
/// Thirty pods on each, which tolerate being unreachable for 300 s.
const UNREACHABLE: usize = 1_667;
const PENDING: u64 = 50_010;

const SYNCED_WITHIN: Duration = Duration::from_mins(5);
const JUDGED_WITHIN: Duration = Duration::from_mins(2);
const MEMORY: u64 = 100 << 20;
/// What judging may have cost beside reading and decoding 1.7 GB.
const CPU_AT_REST: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "nightly: takes 3 GiB of memory, and a release build in $TAINT_EVICTION_CONTROLLER_BINARY"]
async fn fifty_thousand_of_150_000_pods_wait_for_eviction_in_little_memory() {
    let beside = Beside::start("TAINT_EVICTION_CONTROLLER_BINARY", &[], |server| {
        server.seed_nodes(NODE_COUNT);
        server.seed_pods(POD_COUNT);
    })
    .await;
    let Beside {
        server,
        clock,
        replica,
        ..
    } = &beside;

    let began = clock.instant();
    eventually(SYNCED_WITHIN, "all pods are known", async || {
        let known = replica.metric("informer_objects", "resource=\"pods\"");
        (known.await == POD_COUNT as u64).then_some(())
    })
    .await
    .unwrap();
    let usage = replica.process.usage().unwrap();
    println!(
        "{POD_COUNT} pods known after {:.1?}: {}",
        began.elapsed(),
        shown(usage)
    );

    for number in 1..=UNREACHABLE {
        let taint = json!([{
            "key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": clock.now(),
        }]);
        let edit = |node: &mut serde_json::Value| node["spec"]["taints"] = taint;
        server.edit(&NODES, "", &format!("node-{number}"), edit).unwrap();
    }
    let began = clock.instant();
    eventually(JUDGED_WITHIN, "their evictions are pending", async || {
        let pending = replica.metric("taint_eviction_controller_pending_evictions", "");
        (pending.await == PENDING).then_some(())
    })
    .await
    .unwrap();
    println!("{PENDING} evictions pending after {:.1?}", began.elapsed());

    let before = beside.usage_at_rest().await;
    let after = beside.usage_at_rest().await;
    println!("at rest: {}", shown(after));
    assert!(after.rss < MEMORY, "{}", shown(after));
    let at_rest = after.cpu.saturating_sub(before.cpu);
    assert!(at_rest < CPU_AT_REST, "{at_rest:?} of CPU in {REST:?} of waiting");
    assert_eq!(beside.replica.stop().await, Some(0));
}
