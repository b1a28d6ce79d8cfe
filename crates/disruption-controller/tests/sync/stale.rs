//! Conditions of pods that stayed.

use controller_runtime::clock::Clock;
use embedded_apiserver::{Fault, PODS, RequestVerb};
use jiff::SignedDuration;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{World, process};

fn condition(world: &World, pod: &str) -> Value {
    let pod = world.get_of(&PODS, pod);
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let target = conditions
        .iter()
        .find(|condition| condition["type"] == "DisruptionTarget");
    target.cloned().unwrap_or_default()
}

/// Wanted to go `seconds` from now.
fn target(world: &World, pod: &str, seconds: i64, reason: &str) {
    let since = world.seconds(seconds);
    world.edit(pod, |pod| {
        pod["status"]["conditions"] = json!([
            { "type": "Ready", "status": "True" },
            { "type": "DisruptionTarget", "status": "True", "reason": reason, "message": "evicting",
              "lastTransitionTime": since },
        ]);
    });
}

#[tokio::test(start_paused = true)]
async fn a_stale_condition_is_reset_after_two_minutes() {
    let world = World::new();
    world.pod("p", None);
    let controller = world.start_and_pass(10).await;
    target(&world, "p", 0, "EvictionByEvictionAPI");
    let pod = world.get_of(&PODS, "p");
    let mark = world.server.mark();
    world.pass(119).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
    world.pass(2).await;
    let patch = json!({
        "metadata": { "resourceVersion": pod["metadata"]["resourceVersion"], "uid": pod["metadata"]["uid"] },
        "status": { "conditions": [{
            "lastTransitionTime": "2026-01-01T00:02:10Z",
            "message": null,
            "observedGeneration": 1,
            "reason": null,
            "status": "False",
            "type": "DisruptionTarget",
        }] },
    });
    assert_eq!(world.sent_since(mark).writes().len(), 1);
    assert_eq!(
        world.requests_since(mark).last(),
        Some(&format!("patch default/pods/p/status {patch}"))
    );
    assert_eq!(
        condition(&world, "p"),
        json!({
            "type": "DisruptionTarget", "status": "False", "observedGeneration": 1, "lastProbeTime": null,
            "lastTransitionTime": "2026-01-01T00:02:10Z",
        })
    );
    world.pass(600).await;
    assert_eq!(world.requests_since(mark).len(), 1);
    assert_eq!(controller.metric("controller_sync_failures_total"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_fast_clock_that_is_set_right_makes_no_reset_late() {
    let world = World::new();
    world.pod("p", None);
    let clock = Clock::starting_at(world.clock.now());
    clock.set_wrong(SignedDuration::from_hours(1));
    let _controller = process().start(world.client(), &clock);
    world.pass(10).await;
    target(&world, "p", 0, "EvictionByEvictionAPI");
    world.pass(60).await;
    clock.set_wrong(SignedDuration::ZERO);
    world.pass(59).await;
    assert_eq!(condition(&world, "p")["status"], "True");
    world.pass(3).await;
    assert_eq!(condition(&world, "p")["status"], "False");
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_is_old_at_the_start_is_reset_at_once() {
    let world = World::new();
    world.pod("p", None);
    target(&world, "p", -121, "EvictionByEvictionAPI");
    let _controller = world.start_and_settle().await;
    assert_eq!(condition(&world, "p")["status"], "False");
}

#[rstest]
#[case::of_the_kubelet("TerminationByKubelet", |_: &World| {})]
#[case::of_a_pod_that_failed("EvictionByEvictionAPI", |world: &World| {
    world.edit("p", |pod| pod["status"]["phase"] = json!("Failed"));
})]
#[case::of_a_pod_that_is_being_deleted("EvictionByEvictionAPI", |world: &World| world.terminate("p"))]
#[tokio::test(start_paused = true)]
async fn a_condition_that_is_not_stale_stays(#[case] reason: &str, #[case] more: fn(&World)) {
    let world = World::new();
    world.pod("p", None);
    let _controller = world.start();
    target(&world, "p", 0, reason);
    world.pass(60).await;
    more(&world);
    let mark = world.server.mark();
    world.pass(600).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
    assert_eq!(condition(&world, "p")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_is_renewed_has_two_minutes_more() {
    let world = World::new();
    world.pod("p", None);
    let _controller = world.start();
    target(&world, "p", 0, "PreemptionByScheduler");
    world.pass(100).await;
    target(&world, "p", 0, "EvictionByEvictionAPI");
    world.pass(100).await;
    assert_eq!(condition(&world, "p")["status"], "True");
    world.pass(21).await;
    assert_eq!(condition(&world, "p")["status"], "False");
}

#[tokio::test(start_paused = true)]
async fn a_reset_that_fails_is_tried_again() {
    let world = World::new();
    world.pod("p", None);
    let _controller = world.start();
    world.fail_next(3, RequestVerb::Patch, "pods", Fault::status(500, "InternalError"));
    target(&world, "p", 0, "EvictionByEvictionAPI");
    world.pass(125).await;
    assert_eq!(condition(&world, "p")["status"], "False");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_while_it_is_reset_is_looked_at_again() {
    let world = World::new();
    world.pod("p", None);
    let _controller = world.start();
    target(&world, "p", 0, "EvictionByEvictionAPI");
    let fault = Fault::Delay(std::time::Duration::from_secs(3));
    world.fail_next(1, RequestVerb::Patch, "pods", fault);
    world.pass(121).await;
    // The drain comes back to it while our patch is on its way.
    target(&world, "p", 0, "EvictionByEvictionAPI");
    world.pass(100).await;
    assert_eq!(condition(&world, "p")["status"], "True");
    world.pass(30).await;
    assert_eq!(condition(&world, "p")["status"], "False");
}

/// Two clocks that are an hour apart: ours is ahead, or behind.
#[rstest]
#[case::ahead(3_600, 122)]
#[case::behind(-3_600, 3_722)]
#[tokio::test(start_paused = true)]
async fn a_condition_is_stale_after_two_minutes_by_the_clock_of_the_api_server(
    #[case] ahead: i64,
    #[case] reset_after: u64,
) {
    let world = World::new();
    world.pod("p", None);
    let _controller = world.start_with_clock_ahead(ahead);
    world.settle().await;
    target(&world, "p", 0, "EvictionByEvictionAPI");
    let mark = world.server.mark();
    world.pass(119).await;
    assert_eq!(condition(&world, "p")["status"], "True");
    world.pass(reset_after - 119).await;
    assert_eq!(condition(&world, "p")["status"], "False");
    let reads = world.sent_since(mark).to("pods");
    let reads = reads.only(|request| request.verb == RequestVerb::List).len();
    assert!(reads <= 2, "{reads} reads");
}

#[tokio::test(start_paused = true)]
async fn a_condition_whose_pod_cannot_be_read_stays_until_it_can() {
    let world = World::new();
    world.pod("p", None);
    let _controller = world.start_and_settle().await;
    target(&world, "p", 0, "EvictionByEvictionAPI");
    world.fail_next(
        usize::MAX,
        RequestVerb::List,
        "pods",
        Fault::status(500, "InternalError"),
    );
    let mark = world.server.mark();
    world.pass(299).await;
    assert_eq!(condition(&world, "p")["status"], "True");
    let reads = world.sent_since(mark).to("pods").len();
    assert!(reads < 20, "{reads} reads");
    world.server.clear_faults();
    world.pass(61).await;
    assert_eq!(condition(&world, "p")["status"], "False");
}
