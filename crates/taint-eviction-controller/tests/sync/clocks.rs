//! A clock of ours that is wrong.

use rstest::rstest;

use crate::world::{For, World};

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

#[tokio::test(start_paused = true)]
async fn a_fast_clock_holds_up_nobody_who_tolerates_nothing() {
    let world = World::with_pod(For::No);
    let _controller = world.start_with_clock_ahead(HOUR);
    world.pass(100).await;
    world.taint_added("n", 0);
    world.settle().await;
    assert!(!world.lives("p"));
}
