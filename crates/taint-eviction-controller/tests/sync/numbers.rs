//! What `/metrics` shows.

use embedded_apiserver::{Fault, RequestVerb};

use crate::world::{DELETIONS, For, World, process};

#[tokio::test(start_paused = true)]
async fn the_metrics() {
    let world = World::with_pod(For::No);
    // With a Lease and a failure, so that every family has a series.
    let fault = Fault::status(500, "InternalError");
    world.fail_those(1, |request| request.verb == RequestVerb::Delete, fault);
    let limited = process().configured(|config| {
        config.eviction_brake_pods = Some("5".to_owned());
        config.eviction_brake_nodes = Some("5".to_owned());
    });
    let controller = world.start_with(limited.elected_as("us"));
    world.taint("n");
    world.pass(20).await;
    insta::assert_snapshot!(controller.families());
    assert_eq!(controller.metric(DELETIONS), 1);
    assert_eq!(
        controller.metric("taint_eviction_controller_pod_deletion_duration_seconds_count"),
        1
    );
}
