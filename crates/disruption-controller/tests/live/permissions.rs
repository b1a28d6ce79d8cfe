//! The permissions that the chart gives.

use serde_json::json;

use crate::budget::numbers;
use crate::support::Cluster;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_permissions_of_the_chart_are_enough_and_none_is_unused() {
    let cluster = Cluster::new().await;
    cluster.define("Widget", true).await;
    let widget = cluster.custom("Widget", "web", 3).await;
    let set = cluster.workload("ReplicaSet", "web", 2, None).await;
    cluster.pod("web", "web-0", Some(&widget)).await;
    cluster.pod("web", "web-1", Some(&set)).await;
    cluster.pod("web", "naked", None).await;
    let stale = json!([
        {"type": "Ready", "status": "True"},
        {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]);
    cluster
        .merge_status("Pod", "naked", json!({"conditions": stale}))
        .await;
    cluster.pdb("web", "maxUnavailable", json!(4)).await;
    let replica = cluster.start_leading(&[]).await;
    // It watches the lease.
    let standby = cluster.start(&[]);
    standby.until_ready().await;
    cluster.until("web", numbers(2, 3, 1, 5)).await;
    // The same event again, soon: a series.
    for _ in 0..2 {
        cluster.relabel("naked", "none").await;
        cluster.until("web", numbers(1, 2, 1, 5)).await;
        cluster.relabel("naked", "web").await;
        cluster.until("web", numbers(2, 3, 1, 5)).await;
    }
    let explained = cluster.explain("web").await;
    assert!(explained.contains("default/web"), "{explained}");

    cluster.until_all_used().await;
    assert_eq!(replica.stop().await, Some(0));
    assert_eq!(standby.stop().await, Some(0));
    assert_eq!(cluster.refused(), []);
    assert_eq!(cluster.beyond(), []);
}
