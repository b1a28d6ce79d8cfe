//! What `/metrics` shows.

use crate::world::{For, World};

#[tokio::test(start_paused = true)]
async fn the_metrics() {
    let world = World::with_nodes(["n"]);
    world.pod("p", "n", For::No);
    let controller = world.start();
    world.taint("n");
    world.pass(20).await;
    insta::assert_snapshot!(controller.families());
    assert_eq!(
        controller.metric("taint_eviction_controller_pod_deletions_total"),
        1
    );
    assert_eq!(
        controller.metric("taint_eviction_controller_pod_deletion_duration_seconds_count"),
        1
    );
}
