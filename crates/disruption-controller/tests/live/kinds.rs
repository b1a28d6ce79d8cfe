//! Whose scale counts.

use std::time::Duration;

use controller_testing::cluster::kubectl;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::budget::numbers;
use crate::record::Record;
use crate::stage::Stage;
use crate::support::{AT_ONCE, Cluster, after};

/// How long a custom resource's scale may be old: it is read again every 30 s.
const REREAD: Duration = Duration::from_secs(35);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_scale_of_each_built_in_kind_counts_and_its_change_at_once() {
    const KINDS: [&str; 4] = ["ReplicaSet", "StatefulSet", "ReplicationController", "Deployment"];
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::new().await;
    let replica = cluster.start_leading(&[]).await;
    for kind in KINDS {
        let app = kind.to_lowercase();
        cluster.pdb(&app, "maxUnavailable", json!(1)).await;
        let mut workload = cluster.workload(kind, &app, 3, None).await;
        if kind == "Deployment" {
            workload = cluster.workload("ReplicaSet", &app, 3, Some(&workload)).await;
        }
        cluster.some_pods(&app, 3, Some(&workload)).await;
    }
    for kind in KINDS {
        let app = kind.to_lowercase();
        cluster.until(&app, numbers(1, 3, 2, 3)).await;
        cluster
            .kubectl(&kubectl, &["scale", &app, &app, "--replicas=5"])
            .await;
        cluster.until(&app, numbers(0, 3, 4, 5)).await;
        let scale = format!("{app}s/scale");
        assert_follows(&cluster, &scale, &app, AT_ONCE).await;
    }

    // Nobody collects its pods.
    cluster
        .kubectl(&kubectl, &["delete", "replicaset", "replicaset"])
        .await;
    let lost = "found no controllers for pod \"replicaset-0\" and 2 more";
    let condition = format!("False SyncFailed {lost}");
    cluster.until_condition("replicaset", &condition).await;
    cluster.until("replicaset", numbers(0, 3, 4, 5)).await;
    let event = format!(
        "replicaset Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: {lost}"
    );
    cluster.until_event(&event).await;
    assert_eq!(cluster.evict("replicaset-0").await, 429);
    assert_eq!(replica.stop().await, Some(0));
}

/// Our newest status of `pdb` was written `within` this time of the newest change of the scale of its namesake.
async fn assert_follows(cluster: &Cluster, scale: &str, pdb: &str, within: Duration) {
    // A watch may show the change before it is answered.
    let scaled = cluster.patched(scale, pdb, false, Timestamp::MIN).await.received;
    let status = cluster.patched("poddisruptionbudgets/status", pdb, true, scaled);
    let written = status.await.answered;
    assert!(written <= after(scaled, within), "{pdb}: {scaled} {written}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_deployment_deleted_with_its_orphans_left_blocks_nobody() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::new().await;
    let _stage = Stage::with_nodes(&cluster, &["n"]).await;
    let controllers = [
        "deployment-controller",
        "replicaset-controller",
        "garbage-collector-controller",
    ];
    let _manager = cluster
        .control_plane
        .start_controller_manager(&controllers, &[])
        .unwrap();
    cluster.pdb("web", "maxUnavailable", json!(1)).await;
    let replica = cluster.start_leading(&[]).await;
    cluster.workload("Deployment", "web", 3, None).await;
    cluster.until("web", numbers(1, 3, 2, 3)).await;

    cluster
        .kubectl(&kubectl, &["scale", "deployment", "web", "--replicas=5"])
        .await;
    cluster.until("web", numbers(1, 5, 4, 5)).await;
    let record = Record::start(&cluster).await;
    cluster
        .kubectl(&kubectl, &["delete", "deployment", "web", "--cascade=orphan"])
        .await;
    // Only the ReplicaSet is left to say so.
    let replica_set = cluster.all("ReplicaSet").await.remove(0);
    assert_eq!(replica_set["metadata"]["ownerReferences"], Value::Null);
    let name = replica_set["metadata"]["name"].as_str().unwrap();
    cluster
        .kubectl(&kubectl, &["scale", "replicaset", name, "--replicas=6"])
        .await;
    cluster.until("web", numbers(1, 6, 5, 6)).await;
    for moment in record.end(&cluster, "web").await {
        moment.assert_honoured(4);
    }
    let failures = cluster.events().await;
    let failures = failures
        .iter()
        .filter(|event| event.contains("CalculateExpectedPodCountFailed"));
    assert_eq!(failures.collect::<Vec<_>>(), Vec::<&String>::new());
    assert_eq!(replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_custom_resources_count_by_their_scale_whenever_they_are_defined() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::new().await;
    cluster.define("Widget", true).await;
    let widget = cluster.custom("Widget", "widget", 3).await;
    for app in ["widget", "gadget", "sprocket", "naked"] {
        cluster.pdb(app, "maxUnavailable", json!(1)).await;
    }
    let replica = cluster.start_leading(&[]).await;
    cluster.some_pods("widget", 3, Some(&widget)).await;
    cluster.until("widget", numbers(1, 3, 2, 3)).await;
    let scaled = ["scale", "widget.example.com", "widget", "--replicas=4"];
    cluster.kubectl(&kubectl, &scaled).await;

    // Of a kind that is not served yet.
    let unknown = json!({
        "apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "gadget", "uid": "unknown"},
    });
    cluster.pod("gadget", "early", Some(&unknown)).await;
    let unserved = "False SyncFailed no matches for kind \"Gadget\" in version \"example.com/v1\"";
    cluster.until_condition("gadget", unserved).await;
    cluster.define("Gadget", true).await;
    let gadget = cluster.custom("Gadget", "gadget", 3).await;
    cluster.force_delete("Pod", "early").await;
    cluster.some_pods("gadget", 3, Some(&gadget)).await;
    cluster.until("gadget", numbers(1, 3, 2, 3)).await;
    cluster.until_condition("gadget", "True SufficientPods").await;

    cluster.define("Sprocket", false).await;
    let sprocket = cluster.custom("Sprocket", "sprocket", 3).await;
    cluster.some_pods("sprocket", 3, Some(&sprocket)).await;
    let none = "sprockets.example.com does not implement the scale subresource";
    cluster
        .until_condition("sprocket", &format!("False SyncFailed {none}"))
        .await;
    // How many are healthy is known all the same.
    cluster.until("sprocket", numbers(0, 3, 0, 0)).await;
    let event =
        "sprocket Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: ";
    cluster.until_event(&format!("{event}{none}")).await;
    assert_eq!(cluster.evict("sprocket-0").await, 429);

    // An unmanaged pod is healthy, and nobody expects it.
    cluster.some_pods("naked", 2, None).await;
    cluster.until("naked", numbers(0, 2, 0, 0)).await;
    cluster.until_event("naked Warning UnmanagedPods ").await;

    cluster.until_late("widget", numbers(0, 3, 3, 4), REREAD).await;
    assert_follows(&cluster, "widgets/scale", "widget", REREAD).await;
    assert_eq!(replica.stop().await, Some(0));
}
