//! What `/metrics` shows.

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn the_metrics() {
    let world = World::new();
    world.finished_job("job", 10, 0);
    let controller = world.start();
    world.pass(20).await;
    insta::assert_snapshot!(controller.families());
    assert_eq!(
        controller.metric("ttl_after_finished_controller_job_deletion_duration_seconds_count"),
        1
    );
}
