//! A restart and an upgrade while tolerations run, which go on as if nothing had happened.

use jiff::SignedDuration;

use crate::support::{Cluster, Evicted, For, PENDING, SOON, assert_prompt, now, seconds_after, until, whole};

const TOLERATED: u64 = 20;
const SAME_POD: [&str; 1] = ["--leader-elect-identity=uid-of-the-pod"];
/// How late a pod may go. A replica that waits for a Lease to end, or counts from its own start, evicts 5 s late or later.
const LATE: SignedDuration = SignedDuration::from_secs(4);

/// As one container of a pod follows the other: under the uid of the pod it leads at once. Under a name of its own it
/// would wait for the Lease of the one that was killed to end.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_controller_that_is_killed_at_10_s_and_started_at_15_s_evicts_at_20_s() {
    const NODES: [&str; 3] = ["a", "b", "c"];
    let cluster = Cluster::with_nodes(NODES).await;
    for node in NODES {
        cluster.pods(5, node, node, For::Seconds(20)).await;
    }
    let mut killed = cluster.start_leading(&SAME_POD).await;

    let mut tainted = Vec::new();
    for node in NODES {
        let added = whole(now());
        cluster.taint_added(node, added).await;
        tainted.push((node, added));
        until(seconds_after(added, 2)).await;
    }
    killed.until_metric(PENDING, "", 15).await;
    let (_, first) = tainted[0];
    until(seconds_after(first, 10)).await;
    killed.process.kill().unwrap();
    killed.process.wait_exit(SOON).await.unwrap();
    until(seconds_after(first, 15)).await;
    let restarted = cluster.start(&SAME_POD);
    cluster.until_evicted(15, SOON).await;

    let deleted = cluster.deleted_at(15).await;
    let lags = tainted
        .iter()
        .flat_map(|(node, added)| deleted.lags(node, seconds_after(*added, TOLERATED)));
    assert_prompt(&lags.collect::<Vec<_>>(), LATE);
    assert_eq!(restarted.stop().await, Some(0));
}
