//! Changes of leader, restarts.

use crate::world::{World, process};

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_time() {
    let world = World::with_finished_job("job", 100, 0);
    let first = world.start_and_pass(50).await;
    first.stop().await;
    let _second = world.start_and_pass(48).await;
    assert!(world.lives("job"));
    assert!(!world.lives_after(3, "job").await);
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_deletes_and_its_successor_goes_on() {
    let world = World::with_finished_job("early", 60, 0);
    world.finished_job("late", 120, 0);
    let first = world.start_with(process().elected_as("first"));
    world.pass(10).await;
    let second = world.start_with(process().elected_as("second"));
    assert!(!world.lives_after(60, "early").await);
    assert_eq!(second.metric("ttl_after_finished_controller_jobs_pending"), 0);
    first.stop().await;
    world.pass(5).await;
    assert_eq!(second.metric("ttl_after_finished_controller_jobs_pending"), 1);
    assert!(!world.lives_after(60, "late").await);
}
