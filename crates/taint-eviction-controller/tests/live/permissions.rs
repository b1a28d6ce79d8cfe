//! The permissions that the chart gives.

use crate::support::{Cluster, For, SOON, now, until_pending, whole};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_permissions_of_the_chart_are_enough_and_none_is_unused() {
    let cluster = Cluster::with_nodes(["n"]).await;
    cluster.pods(1, "goes", "n", For::No).await;
    cluster.pods(1, "stays", "n", For::Seconds(300)).await;
    let replica = cluster.start_leading(&[]).await;
    // It watches the lease.
    let standby = cluster.start(&[]);
    standby.until_knowing("pods", 2).await;

    // Kept twice for the same reason: one event, and a patch of it.
    let tainted = whole(now());
    for _ in 0..2 {
        cluster.taint_added("n", tainted).await;
        cluster.until_evicted(1, SOON).await;
        until_pending(&replica, 1, SOON).await;
        cluster.untaint("n").await;
        until_pending(&replica, 0, SOON).await;
    }
    let explained = cluster.explain("stays-0").await;
    assert!(explained.contains("default/stays-0"), "{explained}");

    cluster.until_all_used().await;
    assert_eq!(replica.stop().await, Some(0));
    assert_eq!(standby.stop().await, Some(0));

    assert_eq!(cluster.refused(), []);
    assert_eq!(cluster.beyond(), []);
}
