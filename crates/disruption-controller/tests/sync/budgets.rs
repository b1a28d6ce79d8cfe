//! Budgets that come, change and go.

use embedded_apiserver::POD_DISRUPTION_BUDGETS;
use rstest::rstest;
use serde_json::{Value, json};

use crate::budget::numbers;
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn a_budget_follows_its_pods_one_by_one() {
    let world = World::new();
    world.pdb("web", "minAvailable", &json!(3));
    let _controller = world.start_and_settle().await;
    for count in 0..4 {
        assert_eq!(world.numbers("web"), numbers(0, count, 3, count));
        world.pod(&format!("web-{count}"), None);
        world.settle().await;
    }
    assert_eq!(world.numbers("web"), numbers(1, 4, 3, 4));
    assert_eq!(world.condition("web"), "True SufficientPods");
    world.ready("web-0", false);
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(0, 3, 3, 4));
    assert_eq!(world.condition("web"), "False InsufficientPods");
}

#[rstest]
#[case::an_empty_one(json!({}), 3)]
#[case::none(Value::Null, 0)]
#[case::one_that_wants_no_labels(json!({ "matchExpressions": [{ "key": "app", "operator": "DoesNotExist" }] }), 1)]
#[case::one_that_wants_a_label(json!({ "matchExpressions": [{ "key": "app", "operator": "Exists" }] }), 2)]
#[case::one_that_excludes(
    json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": ["web"] }] }),
    2
)]
#[tokio::test(start_paused = true)]
async fn a_budget_has_the_pods_that_its_selector_selects(#[case] selector: Value, #[case] matched: i64) {
    let world = World::new();
    world.pod_of("web", "web", None);
    world.pod_of("db", "db", None);
    world.pod_of("", "bare", None);
    world.edit("bare", |pod| pod["metadata"]["labels"] = json!({}));
    let elsewhere = json!({ "name": "elsewhere", "namespace": "elsewhere", "labels": { "app": "web" } });
    world.insert(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "elsewhere" } }));
    world.insert(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": elsewhere, "spec": { "nodeName": "n", "containers": [] },
    }));
    world.pdb_of("web", "minAvailable", &json!(0), &selector);
    let _controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(matched, matched, 0, matched));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_spec_is_computed_and_observed() {
    let world = World::new();
    world.pods(4, None);
    world.pod_of("db", "db", None);
    world.pdb("web", "minAvailable", &json!(3));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 4, 3, 4));
    world.edit_pdb("web", |pdb| pdb["spec"]["minAvailable"] = json!(1));
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(3, 4, 1, 4));
    assert_eq!(world.status("web")["observedGeneration"], 2);
    world.edit_pdb("web", |pdb| {
        pdb["spec"]["selector"]["matchLabels"]["app"] = json!("db");
    });
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(0, 1, 1, 1));
    assert_eq!(world.status("web")["observedGeneration"], 3);
}

#[tokio::test(start_paused = true)]
async fn foreign_conditions_and_fields_stay() {
    let world = World::with_budget(1, "minAvailable", &json!(0));
    let foreign = json!({
        "type": "Foreign", "status": "True", "reason": "Test", "message": "theirs",
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    });
    world.edit_pdb("web", |pdb| pdb["status"]["conditions"] = json!([foreign]));
    let _controller = world.start_and_settle().await;
    let conditions = world.status("web")["conditions"].clone();
    assert_eq!(conditions.as_array().unwrap().len(), 2);
    assert!(conditions.as_array().unwrap().contains(&foreign), "{conditions}");
    assert_eq!(world.condition("web"), "True SufficientPods");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_budget_leaves_nothing_behind() {
    let (world, widget) = World::with_widget(3, 3);
    world.pdb("web", "maxUnavailable", &json!(1));
    let entries = json!({ "web-0": world.seconds(0) });
    world.edit_pdb("web", |pdb| pdb["status"]["disruptedPods"] = entries);
    let controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(0, 2, 2, 3));
    world.delete_of(&POD_DISRUPTION_BUDGETS, "web");
    world.settle().await;
    let (added, mark) = (controller.metric("workqueue_adds_total"), world.server.mark());
    world.ready("web-1", false);
    world.scale(&widget, 7);
    world.pass(600).await;
    assert_eq!(controller.metric("workqueue_adds_total"), added);
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
    assert_eq!(controller.metric("disruption_controller_pdbs"), 0);
    assert_eq!(controller.metric("controller_sync_failures_total"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_is_made_again_begins_anew() {
    let world = World::with_budget(3, "minAvailable", &json!(1));
    let _controller = world.start_and_settle().await;
    world.delete_of(&POD_DISRUPTION_BUDGETS, "web");
    world.pdb("web", "minAvailable", &json!(2));
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 3, 2, 3));
}
