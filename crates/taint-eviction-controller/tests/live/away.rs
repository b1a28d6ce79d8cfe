//! The API server away.

use controller_testing::soon;
use local_control_plane::Stop;

use crate::support::{
    CANCELLED, Cluster, DELETIONS, For, OVERDUE, SOON, now, seconds_after, until, until_pending, whole,
};

/// How long it is away: three times as long as the pods tolerate their taints.
const AWAY: u64 = 60;
const TOLERATED: i64 = 20;
/// How long after its return the nodes are well again.
const WELL_AFTER: u64 = 5;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_an_outage_longer_than_the_toleration_kills_nobody_if_the_nodes_come_back() {
    const NODES: [&str; 4] = ["a", "b", "c", "d"];
    let mut cluster = Cluster::with_nodes(NODES).await;
    for node in NODES {
        cluster.pods(50, node, node, For::Seconds(TOLERATED)).await;
    }
    let replica = cluster.start_leading(&[]).await;
    let tainted = whole(now());
    for node in NODES {
        cluster.taint_added(node, tainted).await;
    }
    until_pending(&replica, 200, SOON).await;

    cluster.control_plane.stop_api_server(Stop::AtOnce).await.unwrap();
    until(seconds_after(now(), AWAY)).await;
    cluster.control_plane.start_api_server().await.unwrap();
    let back = now();
    // Who does not lead counts nothing.
    replica.until_leading().await;
    until(seconds_after(back, WELL_AFTER)).await;
    for node in NODES {
        cluster.untaint(node).await;
    }
    assert!(now() < seconds_after(back, 10), "the nodes are late");
    until_pending(&replica, 0, SOON * 2).await;

    // Each is told after it was judged.
    let told = async || (replica.total(CANCELLED).await == 200).then_some(());
    soon("200 evictions are cancelled", told).await;
    assert_eq!(replica.total(DELETIONS).await, 0);
    assert_eq!(replica.total(OVERDUE).await, 0);
    assert_eq!(cluster.deleting("Pod").await, 0);
    assert_eq!(replica.stop().await, Some(0));
}
