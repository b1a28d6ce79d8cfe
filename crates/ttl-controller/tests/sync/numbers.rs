//! The metrics that others build dashboards and alerts upon.

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn the_metrics_have_these_names_types_and_texts() {
    let world = World::with_nodes(3, None);
    // With a Lease and a failure, so that every family has a series.
    world.refuse_next_writes(1, 500);
    let controller = world.start_with_election("us");
    world.pass(60).await;
    insta::assert_snapshot!(controller.families());
}

#[tokio::test(start_paused = true)]
async fn the_gauges_tell_what_is_out_of_date() {
    let world = World::with_nodes(120, None);
    let controller = world.start();
    world.pass(60).await;
    assert_eq!(controller.metric("ttl_controller_nodes"), 120);
    assert_eq!(controller.metric("ttl_controller_desired_ttl_seconds"), 15);
    assert_eq!(controller.metric("ttl_controller_nodes_out_of_date"), 0);
    world.refuse_next_writes(usize::MAX, 503);
    world.annotate(1, "7");
    world.annotate(2, "soon");
    world.pass(1).await;
    assert_eq!(controller.metric("ttl_controller_nodes_out_of_date"), 2);
}
