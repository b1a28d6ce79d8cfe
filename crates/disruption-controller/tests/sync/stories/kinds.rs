//! Whose scale counts.

use controller_testing::stories::StoryStage;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::budget::numbers;
use crate::stories::{AT_ONCE, Budgets, status_written};

crate::told![
    the_scale_of_each_built_in_kind_counts_and_its_change_at_once,
    custom_resources_count_by_their_scale_whenever_they_are_defined,
];

/// How long a custom resource's scale may be old: it is read again every 30 s.
const REREAD: SignedDuration = SignedDuration::from_secs(30);

async fn the_scale_of_each_built_in_kind_counts_and_its_change_at_once(stage: StoryStage) {
    const KINDS: [&str; 4] = ["ReplicaSet", "StatefulSet", "ReplicationController", "Deployment"];
    let controller = stage.start_leading(&[]).await;
    for kind in KINDS {
        let app = kind.to_lowercase();
        stage.pdb(&app, "maxUnavailable", json!(1)).await;
        let mut workload = stage.workload(kind, &app, 3, None).await;
        if kind == "Deployment" {
            workload = stage.workload("ReplicaSet", &app, 3, Some(&workload)).await;
        }
        stage.some_pods(&app, 3, Some(&workload)).await;
    }
    for kind in KINDS {
        let app = kind.to_lowercase();
        stage.until(&app, numbers(1, 3, 2, 3)).await;
        let before = stage.now();
        stage.scale(kind, &app, 5).await;
        stage.until(&app, numbers(0, 3, 4, 5)).await;
        assert_written(&stage, &app, before, stage.late(AT_ONCE)).await;
    }

    // Nobody collects its pods.
    stage.delete("ReplicaSet", "replicaset").await;
    let lost = "found no controllers for pod \"replicaset-0\" and 2 more";
    let condition = format!("False SyncFailed {lost}");
    stage.until_condition("replicaset", &condition).await;
    stage.until("replicaset", numbers(0, 3, 4, 5)).await;
    let event = format!(
        "replicaset Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: {lost}"
    );
    stage.until_event(&event).await;
    assert_eq!(stage.evict("replicaset-0").await, 429);
    controller.stop().await;
}

/// Our newest status of `pdb` was written within this time of `since`.
async fn assert_written(stage: &StoryStage, pdb: &str, since: Timestamp, within: SignedDuration) {
    let written = status_written(stage, "poddisruptionbudgets/status", pdb, since).await;
    assert!(written <= since + within, "{pdb}: {since} {written}");
}

async fn custom_resources_count_by_their_scale_whenever_they_are_defined(stage: StoryStage) {
    stage.define("Widget", true).await;
    let widget = stage.custom("Widget", "widget", 3).await;
    for app in ["widget", "gadget", "sprocket", "naked"] {
        stage.pdb(app, "maxUnavailable", json!(1)).await;
    }
    let controller = stage.start_leading(&[]).await;
    stage.some_pods("widget", 3, Some(&widget)).await;
    stage.until("widget", numbers(1, 3, 2, 3)).await;
    let scaled = stage.now();
    stage.scale("Widget", "widget", 4).await;

    // Of a kind that is not served yet.
    let unknown = json!({
        "apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "gadget", "uid": "unknown"},
    });
    stage.pod("gadget", "early", Some(&unknown)).await;
    let unserved = "False SyncFailed no matches for kind \"Gadget\" in version \"example.com/v1\"";
    stage.until_condition("gadget", unserved).await;
    stage.define("Gadget", true).await;
    let gadget = stage.custom("Gadget", "gadget", 3).await;
    stage.force_delete("Pod", "early").await;
    stage.some_pods("gadget", 3, Some(&gadget)).await;
    stage.until("gadget", numbers(1, 3, 2, 3)).await;
    stage.until_condition("gadget", "True SufficientPods").await;

    stage.define("Sprocket", false).await;
    let sprocket = stage.custom("Sprocket", "sprocket", 3).await;
    stage.some_pods("sprocket", 3, Some(&sprocket)).await;
    let none = "sprockets.example.com does not implement the scale subresource";
    stage
        .until_condition("sprocket", &format!("False SyncFailed {none}"))
        .await;
    // How many are healthy is known all the same.
    stage.until("sprocket", numbers(0, 3, 0, 0)).await;
    let event =
        "sprocket Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: ";
    stage.until_event(&format!("{event}{none}")).await;
    assert_eq!(stage.evict("sprocket-0").await, 429);

    // An unmanaged pod is healthy, and nobody expects it.
    stage.some_pods("naked", 2, None).await;
    stage.until("naked", numbers(0, 2, 0, 0)).await;
    stage.until_event("naked Warning UnmanagedPods ").await;

    stage.until("widget", numbers(0, 3, 3, 4)).await;
    assert_written(&stage, "widget", scaled, REREAD + stage.late(AT_ONCE)).await;
    controller.stop().await;
}
