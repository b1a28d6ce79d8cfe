//! Deletes that fail.

use embedded_apiserver::{Fault, RequestVerb};

use crate::world::{For, PENDING, World};

const OVERDUE: &str = "taint_eviction_controller_overdue_evictions";

#[tokio::test(start_paused = true)]
async fn refused_deletes_are_retried_until_they_pass() {
    let world = World::with_pods(200, For::No);
    let controller = world.start_and_pass(10).await;
    world.fail_next(
        usize::MAX,
        RequestVerb::Delete,
        "pods",
        Fault::status(403, "Forbidden"),
    );
    world.taint("n");
    world.pass(1).await;
    assert_eq!(controller.metric(OVERDUE), 200);
    assert_eq!(controller.metric(PENDING), 0);
    assert_eq!(world.alive_after(59).await, 200);
    assert_eq!(controller.metric(OVERDUE), 200);
    world.server.clear_faults();
    assert_eq!(world.alive_after(10).await, 0);
    assert_eq!(controller.metric(OVERDUE), 0);
    // Two of each pod: that it goes, and that it does not.
    let events = world.events_of("n-0007");
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(world.repeated_events(), 0);
    assert_eq!(
        events[1],
        "Warning FailedEviction cannot be evicted, will be retried: cannot delete the pod: delete pods \
         default/n-0007: refused by the test: Forbidden"
    );
}

#[tokio::test(start_paused = true)]
async fn the_condition_is_written_once_however_often_the_delete_fails() {
    let world = World::with_pod(For::No);
    let _controller = world.start();
    world.fail_next(
        20,
        RequestVerb::Delete,
        "pods",
        Fault::status(500, "InternalError"),
    );
    world.taint("n");
    assert!(!world.lives_after(600, "p").await);
    let patches = world
        .server
        .requests()
        .only(|request| request.verb == RequestVerb::Patch);
    assert_eq!(patches.to("pods").len(), 1);
    assert_eq!(world.deletes().len(), 21);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_fails_stops_when_the_taint_goes() {
    let world = World::with_pod(For::No);
    let controller = world.start();
    let fault = Fault::status(500, "InternalError");
    world.fail_next(usize::MAX, RequestVerb::Delete, "pods", fault);
    world.taint("n");
    world.pass(30).await;
    assert_eq!(controller.metric(OVERDUE), 1);
    world.untaint("n");
    world.settle().await;
    assert_eq!(controller.metric(OVERDUE), 0);
    world.server.clear_faults();
    assert!(world.lives_after(3600, "p").await);
}
