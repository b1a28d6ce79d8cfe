//! Standbys, changes of leader, dry run.

use std::time::Duration;

use embedded_apiserver::Fault;

use crate::world::{World, process, writes_of};

controller_testing::shows_planned!(["annotate", "remove"]);

#[tokio::test(start_paused = true)]
async fn a_standby_writes_nothing_until_it_leads() {
    let world = World::with_nodes(3, None);
    world.lease_held_by("somebody-else");
    let standby = world.start_with(process().elected_as("us"));
    world.pass(10).await;
    assert_eq!(world.writes(), Vec::<String>::new());
    assert_eq!(standby.metric("informer_objects"), 3);
    assert_eq!(world.carried_after(60).await, [("0".to_owned(), 3)].into());
    assert_eq!(world.writes().len(), 3);
}

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

#[tokio::test(start_paused = true)]
async fn a_dry_run_writes_nothing_at_all() {
    let world = World::with_nodes(120, None);
    let controller = world.start_with(process().configured(|config| config.common.dry_run = true));
    world.pass(600).await;
    world.annotate(1, "soon");
    world.pass(600).await;
    assert_eq!(world.all_writes(), Vec::<String>::new());
    assert!(controller.metric("controller_planned_writes_total") >= 121);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_controller_finishes_the_write_under_way() {
    let world = World::with_nodes(3, Some("0"));
    let controller = world.start_and_pass(10).await;
    world.fail_writes(1, Fault::Delay(Duration::from_secs(5)));
    world.annotate(1, "7");
    world.pass(1).await;
    controller.stop().await;
    assert_eq!(world.carried(), [("0".to_owned(), 3)].into());
    assert_eq!(world.writes(), writes_of(1, "0"));
}
