//! Pods of the same name.

use std::time::Duration;

use embedded_apiserver::{Fault, RequestVerb};

use crate::world::{For, World};

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_same_name_is_judged_on_its_own() {
    let world = World::with_nodes(["n", "untainted"]);
    world.pod("elsewhere", "n", For::Seconds(20));
    world.pod("again", "n", For::Seconds(20));
    world.pod("patient", "n", For::Seconds(20));
    let _controller = world.start_and_pass(10).await;
    world.taint("n");
    world.pass(10).await;
    for name in ["elsewhere", "again", "patient"] {
        world.delete(name);
    }
    world.pod("elsewhere", "untainted", For::No);
    world.pod("again", "n", For::Seconds(20));
    world.pod("patient", "n", For::Ever);
    assert_eq!(world.alive_after(19).await, 3);
    assert!(!world.lives_after(2, "again").await);
    assert_eq!(world.alive_after(1000).await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_takes_the_name_of_one_that_is_being_evicted_lives() {
    for verb in [RequestVerb::Patch, RequestVerb::Delete] {
        let world = World::with_pod(For::No);
        let _controller = world.start_and_pass(10).await;
        world.fail_those(
            1,
            move |request| request.verb == verb && request.resource == "pods",
            Fault::Delay(Duration::from_secs(5)),
        );
        world.taint("n");
        world.pass(1).await;
        world.delete("p");
        world.pod("p", "n", For::Ever);
        world.pass(1000).await;
        assert!(world.lives("p"), "{verb}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_replaced_while_the_watch_was_away_is_not_killed_for_the_old_one() {
    let world = World::with_pod(For::Seconds(100));
    let _controller = world.start();
    world.taint("n");
    world.pass(10).await;
    world.server.down();
    world.delete("p");
    world.pod("p", "n", For::Seconds(100));
    world.server.compact();
    world.pass(5).await;
    world.server.up();
    // The old one was due at 100 s, the new one is at 110 s.
    assert!(world.lives_after(93, "p").await);
    assert!(!world.lives_after(5, "p").await);
}
