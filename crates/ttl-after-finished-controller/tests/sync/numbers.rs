//! What `/metrics` shows.

use harness::Start;
use testkit::embedded::{Fault, Verb};
use ttl_after_finished_controller::TtlAfterFinishedController;

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn the_metrics() {
    let world = World::new();
    world.finished_job("job", 10, 0);
    // With a Lease and a failure, so that every family has a series.
    let fault = Fault::status(500, "InternalError");
    world
        .server
        .fail_next(1, |request| request.verb == Verb::Delete, fault);
    let start = Start::of::<TtlAfterFinishedController>().elected_as("us");
    let controller = world.start_with(start);
    world.pass(20).await;
    insta::assert_snapshot!(controller.families());
    assert_eq!(
        controller.metric("ttl_after_finished_controller_job_deletion_duration_seconds_count"),
        1
    );
}
