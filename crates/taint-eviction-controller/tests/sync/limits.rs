//! Evictions that wait for the client-side limits.

use controller_runtime::clock::Clock;
use embedded_apiserver::{Fault, RecordedRequest, RequestVerb};

use crate::world::{For, World, process};

/// With the limits of the command line, and 600 pods that are to go at once: the permits decide who goes when.
fn start(world: &World, clock: &Clock) -> controller_testing::Running {
    process().limits(50.0, 100).start(world.client(), clock)
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_has_begun_goes_before_those_that_have_not() {
    let world = World::with_pods(600, For::No);
    let _controller = start(&world, &world.clock);
    world.pass(10).await;
    world.taint("n");
    world.pass(4).await;
    let gone = 600 - world.alive();
    let patches =
        |request: &RecordedRequest| request.verb == RequestVerb::Patch && request.resource == "pods";
    let marked = world.server.requests().only(patches).len();
    assert!(gone > 40, "{gone} gone");
    assert!(marked - gone <= 3, "{marked} marked, {gone} gone");
    assert_eq!(world.alive_after(60).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_waits_for_a_slow_api_server_does_not_hold_up_the_others() {
    let world = World::with_pods(100, For::No);
    let _controller = start(&world, &world.clock);
    world.pass(10).await;
    let slow = Fault::Delay(std::time::Duration::from_secs(20));
    world.fail_next(1, RequestVerb::Delete, "pods", slow);
    world.taint("n");
    assert_eq!(world.alive_after(10).await, 1);
    assert_eq!(world.alive_after(20).await, 0);
}
