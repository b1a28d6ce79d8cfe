use super::*;

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
async fn a_404_of_a_proxy_does_not_make_a_deployment_gone() {
    let world = World::new();
    world.lag("deployments", 20);
    world.fail_those(
        usize::MAX,
        |request| request.subresource == "scale",
        Fault::NoSuchPage,
    );
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = world.start_and_pass(5).await;
    let deployment = world.workload("Deployment", "web", 4);
    let set = world.replica_set("web-1", 2, Some(&deployment));
    world.pods(2, Some(&set));
    world.pass(10).await;
    let failure = world.failure("web");
    assert!(failure.contains("404 page not found"), "{failure}");
    assert_eq!(world.allowed("web"), 0);
    world.pass(60).await;
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
