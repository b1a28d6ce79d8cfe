//! An API server that is away.

use crate::world::{For, World};

#[tokio::test(start_paused = true)]
async fn after_an_outage_the_pods_of_nodes_that_stay_away_go_after_the_grace() {
    let world = World::with_nodes(["n"]);
    world.pod("finite", "n", For::Seconds(20));
    world.pod("intolerant", "n", For::No);
    let _controller = world.start_and_pass(100).await;
    world.server.down();
    world.taint_added("n", 0);
    assert_eq!(world.alive_after(60).await, 2);
    world.server.up();
    // The watch comes back within the backoff, at most 30 s; from then on it is 20 s for the one and none for the other.
    assert!(world.lives_after(15, "finite").await);
    assert_eq!(world.alive_after(45).await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_for_a_moment_loses_nothing() {
    let world = World::with_pods(10, For::Seconds(10));
    let _controller = world.start_and_pass(100).await;
    world.taint("n");
    world.pass_millis(9_990).await;
    world.server.down();
    world.pass_millis(100).await;
    world.server.up();
    assert_eq!(world.alive_after(60).await, 0);
}
