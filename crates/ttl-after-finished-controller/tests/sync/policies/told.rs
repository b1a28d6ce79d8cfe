//! What users see.

use embedded_apiserver::{Fault, RequestVerb};
use serde_json::json;

use super::support::with;
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn a_deletion_is_reported_with_its_policy() {
    let world = World::new();
    world.failed("job", 0);
    let controller = world.start_with(with(&json!([{ "name": "p", "ttlAfterFailed": "1m" }]), 10));
    world.pass(100).await;
    assert_eq!(
        world.events(),
        [
            "job Normal DeletedByPolicy policy p: failed at 2026-01-01T00:00:00Z, its time passed at \
          2026-01-01T00:01:00Z, deleted 0.000 s after it was due"
        ]
    );
    let count = controller.metric("ttl_after_finished_controller_policy_deletion_duration_seconds_count");
    assert_eq!(count, 1);
    assert_eq!(
        controller.metric("ttl_after_finished_controller_job_deletion_duration_seconds_count"),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn the_lag_counts_from_the_end_of_the_grace_period() {
    let world = World::new();
    world.failed("job", -100_000);
    let _controller = world.start_with(with(&json!([{ "name": "p", "ttlAfterFailed": "1m" }]), 3_600));
    world.pass(3_700).await;
    assert!(
        world.events()[0].ends_with("deleted 0.000 s after it was due"),
        "{:?}",
        world.events()
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_delete_is_reported_and_counted_by_policy() {
    let world = World::new();
    world.failed("job", -60);
    world.fail_next(1, RequestVerb::Delete, "jobs", Fault::status(403, "Forbidden"));
    let controller = world.start_with(with(&json!([{ "name": "p", "ttlAfterFailed": "1s" }]), 0));
    world.pass(60).await;
    assert!(!world.lives("job"));
    let refused = "ttl_after_finished_controller_policy_refused_total{policy=\"p\"} 1";
    assert!(controller.scrape().contains(refused), "{}", controller.scrape());
}
