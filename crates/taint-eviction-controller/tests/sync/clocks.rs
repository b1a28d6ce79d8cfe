//! A clock of ours that is wrong.

use std::time::Duration;

use controller_runtime::clock::Clock;
use embedded_apiserver::{Fault, RequestVerb};
use jiff::SignedDuration;
use rstest::rstest;

use crate::world::{For, World, process};

const HOUR: i64 = 3600;

#[rstest]
#[case::fast(HOUR)]
#[case::a_little_fast(5)]
#[case::right(0)]
#[case::slow(-HOUR)]
#[tokio::test(start_paused = true)]
async fn no_clock_evicts_early_or_late(#[case] ahead: i64) {
    let world = World::with_nodes(["stamped", "unstamped"]);
    world.pod("a", "stamped", For::Seconds(100));
    world.pod("b", "unstamped", For::Seconds(100));
    let _controller = world.start_with_clock_ahead(ahead);
    world.pass(100).await;
    world.taint_added("stamped", 0);
    world.taint("unstamped");
    assert_eq!(world.alive_after(99).await, 2, "{:?}", world.all_writes());
    assert_eq!(world.alive_after(3).await, 0);
}

/// A refusal has the API server's time, too.
#[rstest]
#[case::refused(Fault::status(500, "InternalError"), 0)]
#[case::throttled(Fault::Throttled { retry_after: Duration::from_secs(1) }, 0)]
#[case::no_connection(Fault::DropBefore, 1)]
#[tokio::test(start_paused = true)]
async fn a_fast_clock_evicts_nobody_early_where_no_node_can_be_read(
    #[case] fault: Fault,
    #[case] left: usize,
) {
    let world = World::with_nodes(["n"]);
    world.pod("a", "n", For::Seconds(100));
    world.fail_next(usize::MAX, RequestVerb::Get, "nodes", fault);
    let _controller = world.start_with_clock_ahead(HOUR);
    world.pass(100).await;
    world.taint_added("n", 0);
    assert_eq!(world.alive_after(99).await, 1, "{:?}", world.all_writes());
    assert_eq!(world.alive_after(600).await, left);
    world.server.clear_faults();
    assert_eq!(world.alive_after(10).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_fast_clock_holds_up_nobody_who_tolerates_nothing() {
    let world = World::with_pod(For::No);
    let _controller = world.start_with_clock_ahead(HOUR);
    world.pass(100).await;
    world.taint_added("n", 0);
    world.settle().await;
    assert!(!world.lives("p"));
}

#[tokio::test(start_paused = true)]
async fn a_fast_clock_that_is_set_right_ends_no_toleration_late() {
    let world = World::with_nodes(["stamped", "unstamped"]);
    world.pod("a", "stamped", For::Seconds(100));
    world.pod("b", "unstamped", For::Seconds(100));
    let clock = Clock::starting_at(world.clock.now());
    clock.set_wrong(SignedDuration::from_secs(HOUR));
    let _controller = process().start(world.client(), &clock);
    world.pass(100).await;
    world.taint_added("stamped", 0);
    world.taint("unstamped");
    world.pass(50).await;
    clock.set_wrong(SignedDuration::ZERO);
    assert_eq!(world.alive_after(49).await, 2, "{:?}", world.all_writes());
    assert_eq!(world.alive_after(3).await, 0, "{:?}", world.all_writes());
}

#[tokio::test(start_paused = true)]
async fn a_slow_clock_takes_no_grace_from_what_fell_due_while_nobody_ran() {
    let world = World::with_pod(For::Seconds(100));
    world.taint_added("n", 0);
    world.pass(110).await;
    let _controller = world.start_with_clock_ahead(-25);
    assert!(world.lives_after(29, "p").await);
    assert!(!world.lives_after(2, "p").await);
}

/// A clock that was right, and one that was behind until then.
#[rstest]
#[case::to_the_wrong_time(0, HOUR)]
#[case::to_the_right_time(-HOUR, 0)]
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_ahead_ends_no_toleration_early(#[case] before: i64, #[case] after: i64) {
    let world = World::with_nodes(["stamped", "unstamped"]);
    world.pod("a", "stamped", For::Seconds(100));
    world.pod("b", "unstamped", For::Seconds(100));
    let clock = Clock::starting_at(world.clock.now());
    clock.set_wrong(SignedDuration::from_secs(before));
    let _controller = process().start(world.client(), &clock);
    world.pass(100).await;
    world.taint_added("stamped", 0);
    world.taint("unstamped");
    world.pass(50).await;
    clock.set_wrong(SignedDuration::from_secs(after));
    world.edit_of(&embedded_apiserver::NODES, "unstamped", |node| {
        node["metadata"]["labels"]["a"] = "b".into();
    });
    assert_eq!(world.alive_after(49).await, 2, "{:?}", world.all_writes());
    assert_eq!(world.alive_after(3).await, 0);
}
