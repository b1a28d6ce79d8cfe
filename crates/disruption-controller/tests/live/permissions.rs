//! The permissions that the chart gives.

use serde_json::json;

use crate::budget::numbers;
use crate::support::{Budgets, Cluster};

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

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_an_observer_reads_what_its_permissions_allow_and_writes_nothing() {
    let cluster = Cluster::observed().await;
    cluster.define("Widget", true).await;
    let widget = cluster.custom("Widget", "web", 2).await;
    cluster.some_pods("web", 2, Some(&widget)).await;
    cluster.pdb("web", "maxUnavailable", json!(0)).await;
    cluster
        .create(json!({"kind": "Node", "metadata": {"name": "n"}}))
        .await;
    let replica = cluster.start(&["--observe"]);
    replica.until_ready().await;
    let never = "cause=\"MaxUnavailableZero\",verdict=\"never\"";
    replica
        .until_metric("disruption_controller_budgets", never, 1)
        .await;
    let cordoned = "disruption_controller_cordoned_node_blockers";
    assert_eq!(replica.metric(cordoned, "").await, 0);
    cluster
        .merge("Node", "n", json!({"spec": {"unschedulable": true}}))
        .await;
    replica.until_metric(cordoned, "node_name=\"n\"", 2).await;
    cluster
        .merge("Node", "n", json!({"spec": {"unschedulable": false}}))
        .await;
    replica.until_metric(cordoned, "", 0).await;
    cluster.until_all_used().await;
    assert_eq!(replica.stop().await, Some(0));
    assert_eq!(cluster.refused(), []);
    assert_eq!(cluster.beyond(), []);
    let writes = cluster.requests().into_iter();
    let writes = writes.filter(|asked| !matches!(asked.verb.as_str(), "get" | "list" | "watch"));
    assert_eq!(
        writes.map(|asked| asked.verb).collect::<Vec<_>>(),
        Vec::<String>::new()
    );
}
