//! What cannot be computed, and how that ends.

use embedded_apiserver::{Fault, RecordedRequest, RequestVerb};
use rstest::rstest;
use serde_json::{Value, json};

use crate::budget::numbers;
use crate::world::World;

fn reads_a_scale(request: &RecordedRequest) -> bool {
    request.subresource == "scale"
}

fn with_widget() -> World {
    let (world, _) = World::with_widget(3, 3);
    world.pdb("web", "maxUnavailable", &json!(1));
    world
}

#[rstest]
#[case::an_error(Fault::status(500, "InternalError"))]
#[case::no_connection(Fault::DropBefore)]
#[case::no_answer(Fault::NoAnswer { takes_effect: false })]
#[case::nonsense(Fault::Garbage { takes_effect: true })]
#[tokio::test(start_paused = true)]
async fn a_scale_that_cannot_be_read_allows_nothing_until_it_can(#[case] fault: Fault) {
    let world = with_widget();
    let _controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 3, 2, 3));
    world.fail_those(usize::MAX, reads_a_scale, fault);
    world.pass(3).await;
    world.ready("web-0", false);
    world.pass(6).await;
    assert_eq!(world.allowed("web"), 0);
    assert!(
        world
            .condition("web")
            .starts_with("False SyncFailed get */scale of widgets.example.com default/web: "),
        "{}",
        world.condition("web")
    );
    world.pass(600).await;
    world.server.clear_faults();
    world.pass(66).await;
    assert_eq!(world.numbers("web"), numbers(0, 2, 2, 3));
    assert_eq!(world.condition("web"), "False InsufficientPods");
}

/// The Eviction API judges a pod that is not ready by `currentHealthy`.
#[tokio::test(start_paused = true)]
async fn a_budget_that_cannot_be_computed_says_how_many_pods_are_healthy() {
    let world = with_widget();
    let _controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 3, 2, 3));
    world.fail_those(usize::MAX, reads_a_scale, Fault::status(500, "InternalError"));
    world.pass(3).await;
    for pod in ["web-0", "web-1"] {
        world.ready(pod, false);
    }
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(0, 1, 2, 3));
    assert!(world.condition("web").starts_with("False SyncFailed"));
    assert_eq!(world.evict("web-0").await, 429);
    // An eviction that was approved before, and that does not come, ends all the same.
    let entries = json!({ "web-2": world.seconds(0) });
    world.edit_pdb("web", |pdb| pdb["status"]["disruptedPods"] = entries);
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(0, 0, 2, 3));
    world.pass(122).await;
    assert_eq!(world.numbers("web"), numbers(0, 1, 2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_cannot_be_discovered_allows_nothing_until_it_can() {
    let world = with_widget();
    world.fail_those(
        usize::MAX,
        |request| request.resource.is_empty() && request.group == "example.com",
        Fault::status(503, "ServiceUnavailable"),
    );
    let _controller = world.start_and_pass(60).await;
    assert!(
        world
            .condition("web")
            .starts_with("False SyncFailed get discovery of example.com/v1: "),
        "{}",
        world.condition("web")
    );
    world.server.clear_faults();
    world.pass(61).await;
    assert_eq!(world.numbers("web"), numbers(1, 3, 2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_written_once_and_does_not_wake_itself() {
    let world = World::new();
    let gone = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": "web", "uid": "gone" },
    });
    world.pods(5, Some(&gone));
    world.pdb("web", "maxUnavailable", &json!(1));
    let mark = world.server.mark();
    let controller = world.start_and_pass(60).await;
    assert_eq!(
        world.failure("web"),
        "found no controllers for pod \"web-0\" and 4 more"
    );
    assert_eq!(world.status_writes(mark), [Some(200)]);
    assert_eq!(world.scale_reads(mark), 1);
    assert_eq!(world.count_events("CalculateExpectedPodCountFailed"), 1);
    world.delete("web-4");
    world.settle().await;
    assert_eq!(
        world.failure("web"),
        "found no controllers for pod \"web-0\" and 3 more"
    );
    // The same failure: it is reported once.
    assert_eq!(world.count_events("CalculateExpectedPodCountFailed"), 1);
    let mark = world.server.mark();
    // Only an event mends it, or five minutes.
    world.pass(601).await;
    assert_eq!(world.scale_reads(mark), 2);
    assert_eq!(world.status_writes(mark), []);
    assert_eq!(controller.metric("controller_sync_failures_total"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failure_observes_the_generation_so_that_a_drain_says_why() {
    let world = World::new();
    let set =
        world.insert(json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "web" } }));
    world.pods(2, Some(&set));
    world.pdb("web", "minAvailable", &json!(1));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 2, 1, 2));
    world.edit_pdb("web", |pdb| {
        pdb["spec"]["minAvailable"] = Value::Null;
        pdb["spec"]["maxUnavailable"] = json!(1);
    });
    world.settle().await;
    assert_eq!(world.status("web")["observedGeneration"], 2);
    assert_eq!(world.allowed("web"), 0);
    assert_eq!(world.evict("web-0").await, 429);
    // The other numbers stay as they were.
    assert_eq!(world.numbers("web"), numbers(0, 2, 1, 2));
    assert_eq!(
        world.events(),
        [
            "web Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: \
          daemonsets.apps does not implement the scale subresource"
        ]
    );
    world.edit_pdb("web", |pdb| {
        pdb["spec"]["minAvailable"] = json!(1);
        pdb["spec"]["maxUnavailable"] = Value::Null;
    });
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 2, 1, 2));
    assert_eq!(world.condition("web"), "True SufficientPods");
}

#[tokio::test(start_paused = true)]
async fn a_reference_to_nothing_that_can_be_asked_for_is_not_asked_for() {
    let world = World::new();
    world.define_widgets(true);
    for (name, api_version, owner) in [
        ("a", "example.com/v1", "../pods/x"),
        ("b", "example.com/v1?", "web"),
    ] {
        let owner = json!({
            "apiVersion": api_version, "kind": "Widget", "metadata": { "name": owner, "uid": name },
        });
        world.pod_of(name, name, Some(&owner));
        let selector = json!({ "matchLabels": { "app": name } });
        world.pdb_of(name, "maxUnavailable", &json!(1), &selector);
    }
    let mark = world.server.mark();
    let _controller = world.start_and_pass(60).await;
    assert_eq!(world.failure("a"), "found no controllers for pod \"a\"");
    assert_eq!(
        world.failure("b"),
        "no matches for kind \"Widget\" in version \"example.com/v1?\""
    );
    assert_eq!(world.scale_reads(mark), 0);
    assert_eq!(world.status_writes(mark), [Some(200), Some(200)]);
}

#[rstest]
#[case::an_error(Fault::status(500, "InternalError"))]
#[case::no_connection(Fault::DropBefore)]
#[case::a_lost_answer(Fault::DropAfterEffect)]
#[case::a_refusal(Fault::status(403, "Forbidden"))]
#[case::throttling(Fault::Throttled { retry_after: std::time::Duration::from_secs(2) })]
#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_written_is_written_when_it_can(#[case] fault: Fault) {
    let world = World::with_budget(3, "minAvailable", &json!(1));
    world.fail_next(5, RequestVerb::Patch, "poddisruptionbudgets", fault);
    let _controller = world.start_and_pass(15).await;
    assert_eq!(world.numbers("web"), numbers(2, 3, 1, 3));
    world.delete("web-0");
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 2, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_the_budget_is_what_the_pods_are() {
    let world = World::with_budget(5, "minAvailable", &json!(2));
    let _controller = world.start_and_settle().await;
    world.server.down();
    world.pass(10).await;
    world.delete("web-0");
    world.ready("web-1", false);
    world.relabel("web-2", "db");
    world.pass(60).await;
    world.server.up();
    world.pass(40).await;
    assert_eq!(world.numbers("web"), numbers(0, 2, 2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_is_tried_again_after_five_minutes() {
    let world = with_widget();
    let forbidden = "widgets.example.com \"web\" is forbidden: User \"u\" cannot get resource";
    world.fail_those(1, reads_a_scale, Fault::status(403, forbidden));
    let mark = world.server.mark();
    let _controller = world.start_and_pass(299).await;
    assert_eq!(world.scale_reads(mark), 1);
    assert_eq!(world.allowed("web"), 0);
    world.pass(2).await;
    assert_eq!(world.numbers("web"), numbers(1, 3, 2, 3));
}

/// What is not seen may have made room for less.
#[tokio::test(start_paused = true)]
async fn nothing_more_is_allowed_while_the_watch_of_pods_is_away() {
    let world = World::with_budget(3, "minAvailable", &json!(3));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.allowed("web"), 0);
    let watches = |request: &RecordedRequest| request.resource == "pods" && !request.verb.is_write();
    let away = Fault::status(503, "ServiceUnavailable");
    world.fail_those(usize::MAX, watches, away);
    world.server.close_watches();
    world.pass(10).await;

    world.edit_pdb("web", |pdb| {
        pdb["spec"]["minAvailable"] = json!(1);
        pdb["metadata"]["generation"] = json!(2);
    });
    world.ready("web-0", false);
    world.pass(60).await;
    assert_eq!(world.allowed("web"), 0, "two pods may be ready, or none");

    world.server.clear_faults();
    world.pass(40).await;
    assert_eq!(world.numbers("web"), numbers(1, 2, 1, 3));
}

/// It may list pods, and not watch them.
#[tokio::test(start_paused = true)]
async fn nothing_is_allowed_while_pods_were_listed_and_never_watched() {
    let world = World::new();
    let forbidden = Fault::status(403, "Forbidden");
    world.fail_next(usize::MAX, RequestVerb::Watch, "pods", forbidden);
    world.pods(3, None);
    world.pdb("web", "minAvailable", &json!(1));
    let _controller = world.start();
    world.pass(60).await;
    assert_eq!(world.allowed("web"), 0);
    world.server.clear_faults();
    world.pass(40).await;
    assert_eq!(world.numbers("web"), numbers(2, 3, 1, 3));
}
