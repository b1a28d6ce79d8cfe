//! Restarts, changes of leader.

use crate::world::{World, made, own, process};

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing_that_is_there_already() {
    let world = World::with_template();
    world.claim("shared");
    let first = world.start();
    world.pod_of("p", &[made("a", "t"), made("b", "t"), own("c", "shared")]);
    world.settle().await;
    world.schedule("p");
    world.allocate("shared", &["p"]);
    world.settle().await;
    first.stop().await;
    let mark = world.server.mark();
    let _second = world.start_and_pass(600).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_ends_between_two_processes_is_given_back_by_the_second() {
    let world = World::with_template();
    let first = world.start();
    for pod in ["done", "deleted"] {
        world.pod(pod);
    }
    world.settle().await;
    for pod in ["done", "deleted"] {
        world.schedule(pod);
    }
    let claim = world.claim_of("deleted");
    first.stop().await;
    world.finish("done");
    world.delete("deleted");
    let _second = world.start_and_settle().await;
    assert_eq!(world.claims(), *std::slice::from_ref(&claim));
    assert!(!world.is_allocated(&claim));
    world.pass(310).await;
    assert!(!world.is_protected(&claim));
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_writes_and_its_successor_goes_on() {
    let world = World::with_template();
    let first = world.start_with(process().elected_as("first"));
    world.pass(10).await;
    let second = world.start_with(process().elected_as("second"));
    world.pass(60).await;
    world.pod("a");
    world.settle().await;
    assert_eq!(second.metric("workqueue_adds_total"), 0);
    assert_eq!(world.claims().len(), 1);
    world.schedule("a");
    world.settle().await;
    first.stop().await;
    // The standby has seen the first pod go, and need not ask. What was recorded of the second it may not have seen.
    let mark = world.server.mark();
    world.delete("a");
    world.pod("b");
    world.pass(5).await;
    assert!(world.claim_of("b").starts_with("b-gpu-"));
    let mut gets = world.calls_since(mark);
    gets.retain(|call| call.starts_with("get"));
    assert_eq!(gets, ["get pods 200"]);
}

#[tokio::test(start_paused = true)]
async fn a_successor_whose_watches_are_behind_makes_no_claim_that_was_made() {
    let world = World::new();
    let first = world.start_with(process().elected_as("first"));
    world.pass(10).await;
    world.lag("pods", 20);
    world.lag("resourceclaims", 20);
    let _second = world.start_with(process().elected_as("second"));
    world.pass(60).await;
    world.pod("p");
    world.pass(3).await;
    world.template("t");
    world.pass(2).await;
    let claims = world.claims();
    assert_eq!(claims.len(), 1);
    first.stop().await;
    let mark = world.server.mark();
    world.pass(60).await;
    // The pod that comes without a status is read before its first claim is made, and so is the claim that was recorded.
    assert_eq!(
        world.calls_since(mark),
        ["get pods 200", "get resourceclaims 200"]
    );
    assert_eq!(world.claims(), claims);
}
