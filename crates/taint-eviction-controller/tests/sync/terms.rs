//! Restarts, changes of leader, dry run.

use embedded_apiserver::{Fault, RequestVerb};
use rstest::rstest;

use crate::world::{For, World, process};

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_deadline() {
    let world = World::with_pod(For::Seconds(20));
    let first = world.start_and_pass(100).await;
    world.taint_added("n", 0);
    world.pass(10).await;
    first.stop().await;
    world.pass(5).await;
    let _second = world.start();
    world.pass_millis(4_500).await;
    assert!(world.lives("p"));
    assert!(!world.lives_after(1, "p").await);
}

#[tokio::test(start_paused = true)]
async fn what_fell_due_while_nobody_ran_waits_for_the_grace() {
    let world = World::with_pod(For::Seconds(300));
    world.pod("short", "n", For::Seconds(5));
    world.taint_added("n", 0);
    world.pass(1000).await;
    let _controller = world.start();
    world.pass_millis(4_500).await;
    assert_eq!(world.alive(), 2);
    assert!(!world.lives_after(1, "short").await);
    assert!(world.lives_after(24, "p").await);
    assert!(!world.lives_after(1, "p").await);
}

#[rstest]
#[case::the_same_name("pod", 20)]
// 15 s until the Lease ends, and 20 s of grace.
#[case::another_name("other", 15 + 15 + 20)]
#[tokio::test(start_paused = true)]
async fn who_follows_a_killed_leader_is_on_time_under_its_name_and_else_after_lease_and_grace(
    #[case] name: &str,
    #[case] due: u64,
) {
    let world = World::with_pod(For::Seconds(20));
    let killed = world.start_with(process().elected_as("pod"));
    world.pass(100).await;
    world.taint_added("n", 0);
    world.pass(10).await;
    drop(killed);
    world.pass(5).await;
    let _next = world.start_with(process().elected_as(name));
    assert!(world.lives_after(due - 16, "p").await);
    assert!(!world.lives_after(2, "p").await);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_plans_anew_when_a_taint_comes_back() {
    let world = World::with_pods(3, For::Seconds(10));
    let controller = world.start_with(process().configured(|config| config.common.dry_run = true));
    world.taint("n");
    world.pass(600).await;
    assert_eq!(controller.metric("controller_planned_writes_total"), 3);
    world.untaint("n");
    world.pass(10).await;
    world.taint("n");
    world.pass(600).await;
    assert_eq!(world.all_writes(), Vec::<String>::new());
    assert_eq!(controller.metric("controller_planned_writes_total"), 6);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_controller_finishes_the_eviction_under_way() {
    let world = World::with_pod(For::No);
    let controller = world.start_and_pass(10).await;
    let fault = Fault::Delay(std::time::Duration::from_secs(5));
    world.fail_those(1, |request| request.verb == RequestVerb::Patch, fault);
    world.taint("n");
    world.pass(1).await;
    controller.stop().await;
    assert!(!world.lives("p"));
}

#[tokio::test(start_paused = true)]
async fn what_was_wrongly_said_to_be_gone_is_deleted_in_the_next_term() {
    let world = World::with_pod(For::No);
    let _controller = world.start_with(process().elected_as("leader"));
    world.pass(10).await;
    world.fail_next(1, RequestVerb::Delete, "pods", Fault::status(404, "NotFound"));
    world.taint("n");
    assert!(world.lives_after(10, "p").await);
    // The Lease cannot be renewed: the term is lost.
    let fault = Fault::status(500, "InternalError");
    world.fail_those(usize::MAX, |request| request.resource == "leases", fault);
    world.pass(30).await;
    world.server.clear_faults();
    assert!(!world.lives_after(30, "p").await);
}
