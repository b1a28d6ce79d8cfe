//! Changes of leader.

use crate::world::{World, process};

#[tokio::test(start_paused = true)]
async fn a_change_of_leader_inside_the_overlap_writes_nothing() {
    let world = World::with_nodes(120, None);
    let first = world.start_with(process().elected_as("first"));
    world.pass(20).await;
    world.remove(95..120);
    assert_eq!(world.carried_after(20).await, [("15".to_owned(), 95)].into());
    let written = world.writes().len();

    // Started at 95 nodes: its own count alone would say step 0.
    let _second = world.start_with(process().elected_as("second"));
    world.pass(20).await;
    first.stop().await;
    world.pass(60).await;
    assert_eq!(world.lease_holder().as_deref(), Some("second"));
    assert_eq!(world.writes().len(), written);
}

#[tokio::test(start_paused = true)]
async fn a_stolen_lease_stops_the_writes_of_a_roll_out() {
    let world = World::with_nodes(1000, None);
    let _controller = world.start_with(process().elected_as("us"));
    world.until_writes(150).await;
    world.steal_lease("thief");
    // The next renewal notices, after 2.2 s at most. 50 writes a second would be 650 by then.
    world.pass(10).await;
    let written = world.writes().len();
    assert!(
        written < 150 + 150,
        "{written} writes, although the lease was stolen"
    );
    // The thief never renews: after its lease has expired we go on, and finish.
    assert_eq!(world.carried_after(120).await, [("30".to_owned(), 1000)].into());
}
