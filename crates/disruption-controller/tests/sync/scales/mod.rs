//! Controllers of every kind, and their scales.

mod kinds;
mod owners;

use embedded_apiserver::{DEPLOYMENTS, Fault, REPLICA_SETS};
use rstest::rstest;
use serde_json::{Value, json};

use crate::budget::numbers;
use crate::world::{World, process};

const WITHOUT_SCALE: &str = "widgets.example.com does not implement the scale subresource";

#[rstest]
#[case::replica_set(|world: &World| world.replica_set("web", 4, None))]
#[case::stateful_set(|world: &World| world.workload("StatefulSet", "web", 4))]
#[case::replication_controller(|world: &World| world.workload("ReplicationController", "web", 4))]
#[case::custom_resource(|world: &World| { world.define_widgets(true); world.workload("Widget", "web", 4) })]
#[case::deployment(|world: &World| {
    let deployment = world.workload("Deployment", "web", 4);
    // What the ReplicaSet wants itself does not count.
    world.replica_set("web-1", 9, Some(&deployment))
})]
#[tokio::test(start_paused = true)]
async fn a_budget_counts_the_scale_of_the_controller(
    #[case] controller: fn(&World) -> Value,
    #[values(true, false)] before_the_start: bool,
) {
    let world = World::new();
    let make = || {
        let controller = controller(&world);
        world.pods(3, Some(&controller));
        world.pdb("half", "minAvailable", &json!("50%"));
        world.pdb("one", "maxUnavailable", &json!(1));
    };
    let _running = if before_the_start {
        make();
        world.start()
    } else {
        let running = world.start_and_pass(5).await;
        make();
        running
    };
    world.settle().await;
    assert_eq!(world.numbers("half"), numbers(1, 3, 2, 4));
    assert_eq!(world.numbers("one"), numbers(0, 3, 3, 4));
}

#[tokio::test(start_paused = true)]
async fn pods_of_several_replica_sets_of_one_deployment_count_it_once() {
    let world = World::new();
    let deployment = world.workload("Deployment", "web", 4);
    let [old, new] = ["old", "new"].map(|name| world.replica_set(name, 2, Some(&deployment)));
    world.pod("a", Some(&old));
    world.pod("b", Some(&new));
    world.pdb("web", "maxUnavailable", &json!(2));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(0, 2, 2, 4));
}

#[tokio::test(start_paused = true)]
async fn the_scale_of_a_custom_resource_is_read_again_every_30_seconds() {
    let (world, widget) = World::with_widget(3, 3);
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 3, 2, 3));
    world.scale(&widget, 5);
    let mark = world.server.mark();
    world.pass(29).await;
    assert_eq!(world.scale_reads(mark), 0);
    world.pass(1).await;
    assert_eq!(world.numbers("web"), numbers(0, 3, 4, 5));
    world.pass(300).await;
    assert_eq!(world.scale_reads(mark), 11);
}

#[tokio::test(start_paused = true)]
async fn one_read_of_a_scale_serves_all_budgets_for_two_seconds() {
    let (world, _) = World::with_widget(3, 3);
    for number in 0..40 {
        world.pdb(&format!("web-{number}"), "maxUnavailable", &json!(1));
    }
    let mark = world.server.mark();
    // All ask while the first answer is on its way.
    let fault = Fault::Delay(std::time::Duration::from_millis(500));
    world.fail_those(1, |request| request.subresource == "scale", fault);
    let controller = world.start_and_pass(1).await;
    assert_eq!(world.scale_reads(mark), 1);
    world.ready("web-0", false);
    world.pass(1).await;
    assert_eq!(world.scale_reads(mark), 1);
    assert_eq!(world.allowed("web-39"), 0);
    world.pass(2).await;
    world.ready("web-0", true);
    world.pass(1).await;
    assert_eq!(world.scale_reads(mark), 2);
    assert_eq!(world.allowed("web-39"), 1);
    assert_eq!(controller.metric("disruption_controller_scale_requests_total"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_scale_that_hangs_holds_up_no_other_budget() {
    let world = World::new();
    world.define_widgets(true);
    for number in 0..500 {
        let app = number.to_string();
        let widget = world.workload("Widget", &app, 1);
        world.pod_of(&app, &app, Some(&widget));
        let selector = json!({ "matchLabels": { "app": app } });
        world.pdb_of(&format!("widget-{app}"), "maxUnavailable", &json!(1), &selector);
    }
    world.pods(2, None);
    world.pdb("web", "minAvailable", &json!(1));
    let fault = Fault::NoAnswer { takes_effect: false };
    world.fail_those(usize::MAX, |request| request.subresource == "scale", fault);
    let mark = world.server.mark();
    let _controller = world.start_and_pass(1).await;
    assert_eq!(world.numbers("web"), numbers(1, 2, 1, 2));
    // A limited number of one apiVersion is read at a time; the rest has its turn when those have failed.
    assert_eq!(world.scale_reads(mark), 16);
    world.ready("web-0", false);
    world.pass_millis(20).await;
    assert_eq!(world.allowed("web"), 0);
    world.pass(160).await;
    let condition = world.condition("widget-499");
    assert!(
        condition.starts_with("False SyncFailed get */scale"),
        "{condition}"
    );
}
