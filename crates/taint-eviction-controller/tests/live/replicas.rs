//! A restart and an upgrade while tolerations run, which go on as if nothing had happened.

use jiff::SignedDuration;

use crate::support::{
    Cluster, DELETIONS, For, PENDING, SOON, assert_prompt, now, seconds_after, until, until_pending, whole,
};

const TOLERATED: u64 = 20;
const SAME_POD: [&str; 1] = ["--leader-elect-identity=uid-of-the-pod"];
/// How late a pod may go. Whoever waits for a Lease to end, or counts from its own start, evicts 5 s late or later.
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
    until_pending(&killed, 15, SOON).await;
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

/// The standby has seen the taints as well, so it knows when those came that say nothing of their time.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_standby_that_takes_over_at_10_s_evicts_at_20_s() {
    const STAMPED: [&str; 2] = ["a", "b"];
    const UNSTAMPED: [&str; 2] = ["c", "d"];
    let cluster = Cluster::with_nodes(["a", "b", "c", "d"]).await;
    for node in STAMPED.into_iter().chain(UNSTAMPED) {
        cluster.pods(5, node, node, For::Seconds(20)).await;
    }
    let leader = cluster.start_leading(&[]).await;
    let standby = cluster.start(&[]);
    standby.until_knowing("pods", 20).await;

    let mut added = Vec::new();
    for (stamped, unstamped) in STAMPED.into_iter().zip(UNSTAMPED) {
        let tainted = whole(now());
        cluster.taint_added(stamped, tainted).await;
        cluster.taint(unstamped).await;
        added.push(tainted);
        until(seconds_after(tainted, 3)).await;
    }
    until_pending(&leader, 20, SOON).await;
    // A standby has nothing to do.
    assert_eq!(standby.total(PENDING).await, 0);
    until(seconds_after(added[0], 10)).await;
    assert_eq!(leader.stop().await, Some(0));
    cluster.until_evicted(20, SOON).await;

    let deleted = cluster.deleted_at(20).await;
    let (mut stamped, mut unstamped) = (Vec::new(), Vec::new());
    for (node, added) in STAMPED.into_iter().zip(added) {
        stamped.extend(deleted.lags(node, seconds_after(added, TOLERATED)));
    }
    for node in UNSTAMPED {
        let tainted = cluster.tainted_at(node).await;
        unstamped.extend(deleted.lags(node, seconds_after(tainted, TOLERATED)));
    }
    assert_eq!((stamped.len(), unstamped.len()), (10, 10));
    assert_prompt(&stamped, LATE);
    assert_prompt(&unstamped, LATE);
    standby.until_metric(DELETIONS, "", 20).await;
    assert_eq!(standby.stop().await, Some(0));
}
