//! What `/metrics` shows.

use embedded_apiserver::{Fault, RequestVerb};

use crate::world::{World, process};

#[tokio::test(start_paused = true)]
async fn the_metrics() {
    let world = World::with_finished_job("job", 10, 0);
    // With a Lease and a failure, so that every family has a series.
    let fault = Fault::status(500, "InternalError");
    world.fail_those(1, |request| request.verb == RequestVerb::Delete, fault);
    let controller = world.start_with(process().elected_as("us"));
    world.pass(20).await;
    insta::assert_snapshot!(controller.families());
    assert_eq!(
        controller.metric("ttl_after_finished_controller_job_deletion_duration_seconds_count"),
        1
    );
}
