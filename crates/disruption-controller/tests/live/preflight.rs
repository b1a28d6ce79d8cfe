//! What `preflight` says next to kube-controller-manager.

use std::cell::Cell;

use controller_testing::preflight::finding;
use controller_testing::soon;
use serde_json::json;

use crate::support::{Budgets, CHART, Cluster};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_preflight_blocks_while_the_flags_have_the_built_in_loop_on() {
    let cluster = Cluster::new().await;
    let on = ["disruption-controller"];
    let _manager = cluster.start_manager(&on).await;
    cluster.show_manager(&on).await;
    let (code, report) = cluster.preflight(&[]).await;
    assert_eq!((code, &report["builtInLoop"]), (2, &json!("on")), "{report:#}");
    // Next to it, a dry run may begin.
    let (code, report) = cluster.preflight(&["--dry-run"]).await;
    assert_eq!((code, &report["verdict"]), (0, &json!("warning")), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_preflight_lets_go_once_the_built_in_loop_is_off_everywhere() {
    let cluster = Cluster::new().await;
    let off = ["ttl-controller", "-disruption-controller"];
    let _manager = cluster.start_manager(&off).await;
    cluster.pdb("web", "minAvailable", json!(1)).await;
    // Nobody shows the flags yet.
    let (code, report) = cluster.preflight(&[]).await;
    assert_eq!(
        (code, &report["builtInLoop"]),
        (1, &json!("unknown")),
        "{report:#}"
    );
    cluster.show_manager(&off).await;
    let (code, report) = cluster.preflight(&[]).await;
    assert_eq!((code, &report["builtInLoop"]), (0, &json!("off")), "{report:#}");
    // A control plane node that shows nothing may have it on.
    let role = json!({"node-role.kubernetes.io/control-plane": ""});
    cluster
        .create(json!({"kind": "Node", "metadata": {"name": "second", "labels": role}}))
        .await;
    let (code, report) = cluster.preflight(&[]).await;
    assert_eq!(
        (code, &report["builtInLoop"]),
        (1, &json!("unknown")),
        "{report:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_preflight_sees_that_the_leader_writes_statuses() {
    let cluster = Cluster::new().await;
    let _manager = cluster.start_manager(&["disruption-controller"]).await;
    cluster.pdb("web", "minAvailable", json!(1)).await;
    let count = Cell::new(1);
    let stir = async || {
        count.set(count.get() + 1);
        let spec = json!({"spec": {"minAvailable": count.get()}});
        cluster.merge("PodDisruptionBudget", "web", spec).await;
    };
    cluster
        .until_preflight_sees_work("poddisruptionbudgets default/web", stir)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_preflight_needs_no_more_than_the_chart_gives_for_helm_test() {
    let cluster = Cluster::new().await;
    let off = ["ttl-controller", "-disruption-controller"];
    let _manager = cluster.start_manager(&off).await;
    cluster.show_manager(&off).await;
    // By default it has all that the controller needs, and may not look at kube-controller-manager.
    let (code, report) = cluster.preflight_by(&cluster.kubeconfig, &[]).await;
    assert_eq!(code, 1, "{report:#}");
    assert_eq!(finding(&report, "permissions")["level"], "ok", "{report:#}");
    let text = "cannot tell whether it is off: may not list nodes";
    assert_eq!(finding(&report, "builtInLoop")["text"], text);

    CHART.install_for_test(&cluster.control_plane).await;
    let lets_go = async || (cluster.preflight_by(&cluster.kubeconfig, &[]).await.0 == 0).then_some(());
    soon("the permissions of `helm test` are in force", lets_go).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_preflight_names_what_the_account_may_not() {
    let cluster = Cluster::new().await;
    let mut rules = CHART.rules();
    rules
        .as_array_mut()
        .unwrap()
        .retain(|rule| rule["resources"] != json!(["pods/status"]));
    cluster.grant(rules).await;
    let (code, report) = cluster.preflight_by(&cluster.kubeconfig, &[]).await;
    let found = finding(&report, "permissions");
    assert_eq!(
        (code, &found["text"]),
        (2, &json!("missing: patch pods/status")),
        "{report:#}"
    );
}
