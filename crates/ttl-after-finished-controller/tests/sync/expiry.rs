//! When Jobs go, and what a changed ttl does to that.

use embedded_apiserver::{JOBS, RequestVerb};

use crate::world::{World, process};

const PENDING: &str = "ttl_after_finished_controller_jobs_pending";

#[tokio::test(start_paused = true)]
async fn each_job_takes_one_delete_of_just_the_state_that_was_judged() {
    let world = World::with_finished_job("job", 10, -60);
    let uid = world.uid("job");
    let version = world.server.version();
    let _controller = world.start_and_settle().await;
    let ours = world.server.requests().to("jobs");
    assert_eq!(ours.only(|request| request.verb == RequestVerb::Get).len(), 0);
    assert_eq!(
        ours.writes().lines(),
        [format!(
            "delete default/jobs/job {{\"preconditions\":{{\"resourceVersion\":\"{version}\",\"uid\":\"{uid}\"}},\
             \"propagationPolicy\":\"Foreground\"}}"
        )]
    );
}

#[tokio::test(start_paused = true)]
async fn jobs_without_a_ttl_unfinished_ones_and_those_being_deleted_are_left_alone() {
    let world = World::new();
    world.job("no-ttl", None);
    world.finish("no-ttl", -3600);
    world.job("unfinished", 0);
    world.finished_job("held", 0, -3600);
    world.edit("held", |job| {
        job["metadata"]["finalizers"] = serde_json::json!(["example.com/hold"]);
    });
    world.delete_of(&JOBS, "held");
    let controller = world.start_and_pass(3600).await;
    assert!(world.lives("no-ttl") && world.lives("unfinished"));
    assert_eq!(world.reads_of(&JOBS).len(), 0);
    assert_eq!(world.all_writes(), Vec::<String>::new());
    assert_eq!(
        controller.metric("informer_objects"),
        1,
        "only the unfinished one is kept"
    );
}

#[tokio::test(start_paused = true)]
async fn the_pending_time_moves_with_the_ttl() {
    let world = World::new();
    for name in ["raised", "lowered", "removed", "given", "kept"] {
        world.finished_job(name, 100, 0);
    }
    world.set_ttl("given", None);
    let _controller = world.start_and_pass(50).await;
    world.set_ttl("raised", 200);
    world.set_ttl("lowered", 60);
    world.set_ttl("removed", None);
    world.set_ttl("given", 80);
    let alive = |names: &[&str]| names.iter().all(|name| world.lives(name));
    world.pass(9).await;
    assert!(alive(&["raised", "lowered", "removed", "given", "kept"]));
    world.pass(2).await;
    assert!(alive(&["raised", "removed", "given", "kept"]) && !world.lives("lowered"));
    world.pass(20).await;
    assert!(alive(&["raised", "removed", "kept"]) && !world.lives("given"));
    world.pass(20).await;
    assert!(alive(&["raised", "removed"]) && !world.lives("kept"));
    world.pass(97).await;
    assert!(alive(&["raised", "removed"]));
    world.pass(3).await;
    assert!(alive(&["removed"]) && !world.lives("raised"));
    world.pass(3600).await;
    assert!(alive(&["removed"]));
}

#[tokio::test(start_paused = true)]
async fn a_job_made_again_under_the_name_is_judged_on_its_own() {
    let world = World::with_finished_job("job", 100, 0);
    let _controller = world.start_and_pass(50).await;
    world.delete_of(&JOBS, "job");
    world.finished_job("job", 100, 0);
    world.pass(60).await;
    assert!(world.lives("job"), "the old one would have gone by now");
    assert!(!world.lives_after(41, "job").await);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_job_leaves_nothing_behind() {
    let world = World::new();
    for number in 0..100 {
        world.finished_job(&format!("job-{number}"), 1_000_000, 0);
    }
    let controller = world.start_and_pass(1).await;
    assert_eq!(controller.metric(PENDING), 100);
    for number in 0..100 {
        world
            .server
            .delete(&JOBS, "default", &format!("job-{number}"))
            .unwrap();
    }
    world.pass(1).await;
    assert_eq!(controller.metric(PENDING), 0);
    assert_eq!(controller.metric("informer_objects"), 0);
    assert_eq!(controller.metric("workqueue_depth"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_finish_without_a_time_gets_one_warning_and_no_retries() {
    let world = World::new();
    world.job("job", 0);
    world.edit("job", |job| {
        job["status"]["conditions"] = serde_json::json!([{ "type": "Failed", "status": "True" }]);
    });
    let controller = world.start_and_pass(3600).await;
    world.set_ttl("job", 5);
    assert!(world.lives_after(3600, "job").await);
    let events = world.events();
    let reasons: Vec<_> = events
        .iter()
        .filter_map(|event| event.split(' ').nth(2))
        .collect();
    assert_eq!(reasons, ["FinishTimeUnknown"]);
    assert_eq!(controller.metric("workqueue_retries_total"), 0);
    world.finish("job", 0);
    assert!(!world.lives_after(6, "job").await);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_pending_jobs_go_each_at_its_time() {
    let world = World::new();
    for number in 0..10_000 {
        world.finished_job(&format!("job-{number}"), 100 + number % 100, 0);
    }
    let controller = world.start_with(process().limits(0.0, 0));
    world.pass(99).await;
    assert_eq!(controller.metric(PENDING), 10_000);
    world.pass(51).await;
    world.settle().await;
    let left = (0..10_000)
        .filter(|number| world.lives(&format!("job-{number}")))
        .count();
    assert_eq!(left, 4_900);
}
