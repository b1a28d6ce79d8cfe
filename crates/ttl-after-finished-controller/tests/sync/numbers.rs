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

#[tokio::test(start_paused = true)]
async fn the_metrics_with_policies() {
    let world = World::new();
    world.failed("failed", -60);
    world.finished_job("by-ttl", 10, 0);
    world.fail_next(1, RequestVerb::Delete, "jobs", Fault::status(403, "Forbidden"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        file.path(),
        "policyGracePeriod: 0s\npolicies: [{name: p, ttlAfterFailed: 1s, maxPerHour: 3}]",
    )
    .unwrap();
    // With a Lease, so that every family has a series.
    let controller = world.start_with(process().config_file(file.path()).elected_as("us"));
    world.pass(60).await;
    insta::assert_snapshot!(controller.families());
}
