//! The metrics that others build dashboards and alerts upon.

use embedded_apiserver::Fault;

use crate::world::{World, process};

#[tokio::test(start_paused = true)]
async fn the_metrics_have_these_names_types_and_texts() {
    let world = World::with_nodes(3, None);
    // With a Lease and a failure, so that every family has a series.
    world.fail_writes(1, Fault::status(500, "InternalError"));
    let controller = world.start_with(process().elected_as("us"));
    world.pass(60).await;
    insta::assert_snapshot!(controller.families());
}

#[tokio::test(start_paused = true)]
async fn the_gauges_tell_what_is_out_of_date() {
    let world = World::with_nodes(120, None);
    let controller = world.start_and_pass(60).await;
    assert_eq!(controller.metric("ttl_controller_nodes"), 120);
    assert_eq!(controller.metric("ttl_controller_desired_ttl_seconds"), 15);
    assert_eq!(controller.metric("ttl_controller_nodes_out_of_date"), 0);
    world.fail_writes(usize::MAX, Fault::status(503, "InternalError"));
    world.annotate(1, "7");
    world.annotate(2, "soon");
    world.pass(1).await;
    assert_eq!(controller.metric("ttl_controller_nodes_out_of_date"), 2);
}
