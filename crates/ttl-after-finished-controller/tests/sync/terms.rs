//! Standbys, changes of leader, restarts, dry run.

use harness::Start;
use ttl_after_finished_controller::TtlAfterFinishedController;
use ttl_after_finished_controller::config::Config;

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_the_time() {
    let world = World::new();
    world.finished_job("job", 100, 0);
    let first = world.start();
    world.pass(50).await;
    first.stop().await;
    let _second = world.start();
    world.pass(48).await;
    assert!(world.lives("job"));
    world.pass(3).await;
    assert!(!world.lives("job"));
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_deletes_and_its_successor_goes_on() {
    let world = World::new();
    world.finished_job("early", 60, 0);
    world.finished_job("late", 120, 0);
    let elected = |identity: &str| Start::of::<TtlAfterFinishedController>().elected_as(identity);
    let first = world.start_with(elected("first"));
    world.pass(10).await;
    let second = world.start_with(elected("second"));
    world.pass(60).await;
    assert!(!world.lives("early"));
    assert_eq!(second.metric("ttl_after_finished_controller_jobs_pending"), 0);
    first.stop().await;
    world.pass(5).await;
    assert_eq!(second.metric("ttl_after_finished_controller_jobs_pending"), 1);
    world.pass(60).await;
    assert!(!world.lives("late"));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_writes_nothing_at_all() {
    let world = World::new();
    world.finished_job("job", 10, 0);
    world.job("undated", 0);
    world.edit("undated", |job| {
        job["status"]["conditions"] = serde_json::json!([{ "type": "Failed", "status": "True" }]);
    });
    let mut config = Config::default();
    config.common.dry_run = true;
    let controller = world.start_with(Start::of::<TtlAfterFinishedController>().config(config));
    world.pass(600).await;
    assert!(world.lives("job"));
    assert_eq!(world.all_writes(), Vec::<String>::new());
    assert_eq!(controller.metric("controller_planned_writes_total"), 1);
}
