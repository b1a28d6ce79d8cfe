//! Controllers of every kind, and their scales.

use controller_testing::objects::owner;
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
async fn a_change_of_the_replicas_changes_the_budget_at_once() {
    let world = World::new();
    let deployment = world.workload("Deployment", "d", 3);
    let set = world.replica_set("rs", 3, Some(&deployment));
    world.pod_of("d", "d", Some(&set));
    let others = [
        world.replica_set("alone", 3, None),
        world.workload("StatefulSet", "sts", 3),
        world.workload("ReplicationController", "rc", 3),
    ];
    for app in ["alone", "sts", "rc", "d"] {
        let selector = json!({ "matchLabels": { "app": app } });
        world.pdb_of(app, "minAvailable", &json!("100%"), &selector);
    }
    for other in &others {
        let app = other["metadata"]["name"].as_str().unwrap();
        world.pod_of(app, app, Some(other));
    }
    let _controller = world.start_and_settle().await;
    for app in ["alone", "sts", "rc", "d"] {
        assert_eq!(world.numbers(app), numbers(0, 1, 3, 3), "{app}");
    }
    for workload in others.iter().chain([&deployment]) {
        world.scale(workload, 7);
    }
    world.pass_millis(20).await;
    for app in ["alone", "sts", "rc", "d"] {
        assert_eq!(world.numbers(app), numbers(0, 1, 7, 7), "{app}");
    }
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
    // So many of one apiVersion are read at a time; the rest has its turn when those have failed.
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

#[tokio::test(start_paused = true)]
async fn a_kind_whose_definition_comes_later_is_found() {
    let world = World::new();
    let unknown = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "web", "uid": "early" },
    });
    world.pod("early", Some(&unknown));
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = world.start_and_pass(60).await;
    assert_eq!(
        world.failure("web"),
        "no matches for kind \"Widget\" in version \"example.com/v1\""
    );
    world.define_widgets(true);
    let widget = world.workload("Widget", "web", 1);
    world.edit("early", |pod| {
        pod["metadata"]["ownerReferences"] = json!([owner(&widget)]);
    });
    // A group that is not served is asked for again after 30 s, by a budget that is tried again within a minute.
    world.pass(90).await;
    assert_eq!(world.numbers("web"), numbers(1, 1, 0, 1));
}

/// 500 pods of one tenant name controllers of groups that nobody serves, each of another one.
#[tokio::test(start_paused = true)]
async fn made_up_controllers_of_one_budget_keep_no_other_budget_waiting() {
    let world = World::new();
    world.pod("good", None);
    world.pdb("good", "minAvailable", &json!(1));
    for number in 0..500 {
        let made_up = json!({
            "apiVersion": format!("made-up-{number}.example.com/v1"), "kind": "Widget",
            "metadata": { "name": "web", "uid": format!("made-up-{number}") },
        });
        world.pod_of("bad", &format!("bad-{number}"), Some(&made_up));
    }
    let _controller = world.start_with(process().limits(50.0, 100));
    world.pass(60).await;
    let mark = world.server.mark();
    let discoveries = || {
        let requests = world.server.requests_since(mark);
        requests
            .only(|request| request.name.starts_with("/apis/made-up"))
            .len()
    };
    let bad = json!({ "matchLabels": { "app": "bad" } });
    world.pdb_of("bad", "maxUnavailable", &json!(1), &bad);
    world.ready("good", false);
    world.pass(1).await;
    assert_eq!(world.numbers("good"), numbers(0, 0, 1, 1));
    assert!(world.failure("bad").starts_with("no matches for kind"));
    assert_eq!(discoveries(), 8, "the first of them that fails decides");
    world.pass(28).await;
    assert_eq!(
        discoveries(),
        8,
        "what is not served is not asked for again so soon"
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_of_a_scale_does_not_serve_the_next_object_of_the_name() {
    let world = World::new();
    world.define_widgets(true);
    let first = world.workload("Widget", "web", 3);
    world.pod("a", Some(&first));
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(0, 1, 2, 3));
    world.delete("a");
    world.remove(&first);
    let second = world.workload("Widget", "web", 1);
    world.pod("b", Some(&second));
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_served_again_is_found_without_an_event() {
    let world = World::new();
    let unknown = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "web", "uid": "early" },
    });
    world.pod("a", Some(&unknown));
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = world.start_and_pass(10).await;
    world.define_widgets(true);
    world.pass(61).await;
    assert_eq!(world.failure("web"), "found no controllers for pod \"a\"");
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_a_scale_is_named() {
    let world = World::new();
    world.define_widgets(false);
    let widget = world.workload("Widget", "web", 1);
    world.pod("a", Some(&widget));
    world.pdb("web", "maxUnavailable", &json!(1));
    let mark = world.server.mark();
    let _controller = world.start_and_settle().await;
    assert_eq!(world.failure("web"), WITHOUT_SCALE);
    // Discovery says so: there is nothing to read.
    assert_eq!(world.scale_reads(mark), 0);
    world.give_scale(true);
    world.pass(301).await;
    assert_eq!(world.numbers("web"), numbers(1, 1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_scale_that_is_taken_away_is_missed() {
    let world = World::new();
    world.define_widgets(true);
    let widget = world.workload("Widget", "web", 1);
    world.pod("a", Some(&widget));
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.allowed("web"), 1);
    world.give_scale(false);
    world.pass(31).await;
    assert_eq!(world.failure("web"), WITHOUT_SCALE);
    assert_eq!(world.allowed("web"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_scale_of_another_uid_is_no_controller() {
    let world = World::new();
    world.define_widgets(true);
    world.workload("Widget", "web", 1);
    let gone = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "web", "uid": "gone" },
    });
    world.pod("a", Some(&gone));
    world.pod("b", Some(&gone));
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = world.start_and_settle().await;
    assert_eq!(
        world.failure("web"),
        "found no controllers for pod \"a\" and 1 more"
    );
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_has_no_scale() {
    let world = World::new();
    let set =
        world.insert(json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "web" } }));
    world.pod("a", Some(&set));
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = world.start_and_settle().await;
    assert_eq!(
        world.failure("web"),
        "daemonsets.apps does not implement the scale subresource"
    );
}

#[tokio::test(start_paused = true)]
async fn a_replica_set_whose_deployment_is_gone_counts_itself() {
    let world = World::new();
    let deployment = world.workload("Deployment", "web", 4);
    let set = world.replica_set("web-1", 2, Some(&deployment));
    world.pods(2, Some(&set));
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(0, 2, 3, 4));
    world.delete_of(&DEPLOYMENTS, "web");
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 2, 1, 2));
    // `--cascade=orphan` takes the reference away, too.
    let edit = |set: &mut Value| set["metadata"]["ownerReferences"] = json!([]);
    world.edit_of(&REPLICA_SETS, "web-1", edit);
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 2, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_deployments_that_lags_does_not_make_a_deployment_gone() {
    let world = World::new();
    world.lag("deployments", 20);
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = world.start_and_pass(5).await;
    let deployment = world.workload("Deployment", "web", 4);
    let set = world.replica_set("web-1", 2, Some(&deployment));
    world.pods(2, Some(&set));
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(0, 2, 3, 4));
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_gone_counts_nothing_while_its_pods_terminate() {
    let world = World::new();
    let set = world.workload("StatefulSet", "web", 2);
    world.pods(2, Some(&set));
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 2, 1, 2));
    world.remove(&set);
    world.settle().await;
    assert_eq!(
        world.failure("web"),
        "found no controllers for pod \"web-0\" and 1 more"
    );
    assert_eq!(world.allowed("web"), 0);
    world.terminate("web-0");
    world.terminate("web-1");
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(0, 0, 0, 0));
    assert_eq!(world.condition("web"), "False InsufficientPods");
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_controller_do_not_count_as_expected() {
    let (world, _) = World::with_set(2, 2);
    world.pod("naked", None);
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(2, 3, 1, 2));
    assert_eq!(world.count_events("UnmanagedPods"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_tenth_of_a_request_a_second_is_slow_and_never_stuck() {
    let world = World::new();
    world.define_widgets(true);
    for number in 0..15 {
        let app = number.to_string();
        let widget = world.workload("Widget", &app, 1);
        world.pod_of(&app, &app, Some(&widget));
        let selector = json!({ "matchLabels": { "app": app } });
        world.pdb_of(&format!("widget-{app}"), "maxUnavailable", &json!(1), &selector);
    }
    let controller = world.start_with(process().limits(0.1, 1));
    // Discovery, a scale and a status of each; what a scale was read for too long ago is read again.
    world.pass(900).await;
    for number in 0..15 {
        assert_eq!(world.allowed(&format!("widget-{number}")), 1);
    }
    assert_eq!(controller.metric("controller_sync_failures_total"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_more_controllers_than_are_read_allows_nothing() {
    let world = World::new();
    world.define_widgets(true);
    for number in 0..501 {
        let widget = world.workload("Widget", &format!("w-{number}"), 1);
        world.pod_of("web", &format!("p-{number}"), Some(&widget));
    }
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = world.start_and_pass(60).await;
    let scales = |request: &embedded_apiserver::RecordedRequest| request.subresource == "scale";
    assert_eq!(
        world.server.requests().only(scales).len(),
        0,
        "counted before they are read"
    );
    assert_eq!(world.allowed("web"), 0);
    let failure = "the scales of more than 500 controllers must be read";
    assert_eq!(world.failure("web"), failure);
    world.delete("p-0");
    world.pass(60).await;
    assert_eq!(world.allowed("web"), 1);
}
