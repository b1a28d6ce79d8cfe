//! The permissions that the chart gives.

use crate::support::{Cluster, Evicted, For, PENDING, SOON, now, whole};

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
        replica.until_metric(PENDING, "", 1).await;
        cluster.untaint("n").await;
        replica.until_metric(PENDING, "", 0).await;
    }
    let explained = cluster.explain("stays-0").await;
    assert!(explained.contains("default/stays-0"), "{explained}");

    for (pod, told) in [
        ("goes-0", "Marking for deletion"),
        ("stays-0", "Cancelling deletion of"),
    ] {
        let Some(text) = cluster.kubectl_describes(pod).await else {
            break;
        };
        let (_, events) = text.split_once("\nEvents:\n").unwrap();
        let line =
            format!(" taint-eviction-controller {told} Pod default/{pod}: taint k:NoExecute of node n, ");
        assert!(events.contains(&line), "{events}");
    }

    cluster.until_all_used().await;
    assert_eq!(replica.stop().await, Some(0));
    assert_eq!(standby.stop().await, Some(0));

    assert_eq!(cluster.refused(), []);
    assert_eq!(cluster.beyond(), []);
}
