//! The binary next to a cluster of the largest size on the embedded server, which takes gigabytes: only
//! `cargo xtask ci --nightly` runs it, on a release build (TE-15, TE-16).
#![allow(missing_docs, reason = "a test")]

use controller_testing::large_cluster::LargeCluster;
use embedded_apiserver::NODES;
use serde_json::json;

const POD_COUNT: usize = 150_000;
/// Thirty pods on each, which tolerate being unreachable for 300 s.
const UNREACHABLE: usize = 1_667;
const PENDING: u64 = 50_010;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "nightly: takes 3 GiB of memory, and a release build in $TAINT_EVICTION_CONTROLLER_BINARY"]
async fn fifty_thousand_of_150_000_pods_wait_for_eviction_in_little_memory() {
    let cluster = LargeCluster::start("TAINT_EVICTION_CONTROLLER_BINARY", &[], |server| {
        server.seed_nodes(5_000);
        server.seed_pods(POD_COUNT);
    })
    .await;
    cluster
        .until_metric("informer_objects", "resource=\"pods\"", POD_COUNT as u64)
        .await;
    for number in 1..=UNREACHABLE {
        let taint = json!([{
            "key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": cluster.clock.now(),
        }]);
        let edit = |node: &mut serde_json::Value| node["spec"]["taints"] = taint;
        cluster.edit(&NODES, "", &format!("node-{number}"), edit);
    }
    cluster
        .until_metric("taint_eviction_controller_pending_evictions", "", PENDING)
        .await;
    // What judging may have cost apart from reading and decoding 1.7 GB.
    cluster
        .assert_small("their evictions are pending", 100 << 20)
        .await;
    assert_eq!(cluster.replica.stop().await, Some(0));
}
