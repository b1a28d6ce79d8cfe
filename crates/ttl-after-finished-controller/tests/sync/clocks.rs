//! Clocks that differ: ours, the API server's, and that of who wrote the finish.

use std::time::Duration;

use controller_core::config::Encoding;
use controller_core::meta::ObjectKey;
use controller_runtime::clock::Clock;
use controller_runtime::driver;
use controller_runtime::sender::{Caller, Sender};
use controller_testing::seeded_bugs::answered_late;
use embedded_apiserver::{Fault, RecordedRequest, RequestVerb};
use jiff::SignedDuration;
use ttl_after_finished_controller::config::Config;
use ttl_after_finished_controller::explain::explain;
use ttl_after_finished_controller::policy::FinishedKind;

use crate::world::{World, process};

#[tokio::test(start_paused = true)]
async fn a_clock_of_ours_that_is_an_hour_fast_deletes_nothing_early() {
    let world = World::with_finished_job("job", 100, 0);
    let _controller = world.start_with_clock_ahead(3600);
    assert!(world.lives_after(98, "job").await);
    assert!(!world.lives_after(4, "job").await);
    assert_eq!(
        clock_reads(&world),
        2,
        "at first, and when it is due by the API server's clock"
    );
}

fn clock_reads(world: &World) -> usize {
    let reads = world.server.requests();
    reads
        .only(|read| {
            read.resource == "jobs" && read.verb == RequestVerb::List && read.query.contains("limit=1")
        })
        .len()
}

#[tokio::test(start_paused = true)]
async fn the_clock_is_asked_once_a_minute() {
    let world = World::new();
    for number in 0..180 {
        world.finished_job(&format!("job-{number}"), number, 0);
    }
    let _controller = world.start_and_pass(200).await;
    assert!((0..180).all(|number| !world.lives(&format!("job-{number}"))));
    assert_eq!(clock_reads(&world), 3);
}

/// A list is never gone.
#[tokio::test(start_paused = true)]
async fn a_404_to_the_read_of_the_clock_is_tried_again() {
    let world = World::with_finished_job("job", 10, 0);
    let is_clock = |request: &RecordedRequest| request.query.contains("limit=1");
    world.fail_those(1, is_clock, Fault::status(404, "NotFound"));
    let _controller = world.start_and_pass(60).await;
    assert!(!world.lives("job"));
}

/// Nobody knows what time it is for the API server: nothing is deleted.
#[tokio::test(start_paused = true)]
async fn no_job_is_deleted_while_the_clock_cannot_be_read() {
    let world = World::with_finished_job("job", 10, 0);
    let is_clock =
        |request: &RecordedRequest| request.resource == "jobs" && request.verb == RequestVerb::List;
    world.fail_those(usize::MAX, is_clock, Fault::status(500, "InternalError"));
    let _controller = world.start_and_pass(60).await;
    assert!(world.lives("job"));
    world.server.clear_faults();
    assert!(!world.lives_after(10, "job").await);
}

/// The API server says what time it is when it answers, which may be long after it was asked.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_about_the_clock_lets_no_job_go_early() {
    let world = World::new();
    let _controller = world.start_with_clock_ahead(3_600);
    world.pass(100).await;
    let is_clock =
        |request: &RecordedRequest| request.resource == "jobs" && request.verb == RequestVerb::List;
    world.fail_those(1, is_clock, Fault::Delay(Duration::from_secs(3)));
    // It expires in 5 s.
    world.finished_job("job", 60, -55);
    assert!(world.lives_after(4, "job").await);
    assert!(!world.lives_after(2, "job").await);
}

#[tokio::test(start_paused = true)]
async fn a_clock_of_ours_that_is_slow_deletes_late_but_not_early() {
    let world = World::with_finished_job("job", 100, 0);
    let _controller = world.start_with_clock_ahead(-60);
    assert!(world.lives_after(158, "job").await);
    assert!(!world.lives_after(4, "job").await);
}

#[tokio::test(start_paused = true)]
async fn a_finish_in_the_future_defers_the_deletion() {
    let world = World::with_finished_job("job", 10, 600);
    let _controller = world.start_and_pass(608).await;
    assert!(world.lives("job"));
    assert!(!world.lives_after(4, "job").await);
}

#[tokio::test(start_paused = true)]
async fn extreme_times_and_ttls_neither_delete_nor_panic() {
    let world = World::with_finished_job("for-68-years", i64::from(i32::MAX), 0);
    world.job("in-9999", i64::from(i32::MAX));
    world.edit("in-9999", |job| {
        job["status"]["conditions"] = serde_json::json!([
            { "type": "Complete", "status": "True", "lastTransitionTime": "9999-12-30T00:00:00Z" }
        ]);
    });
    world.job("in-the-year-1", 0);
    world.edit("in-the-year-1", |job| {
        job["status"]["conditions"] = serde_json::json!([
            { "type": "Complete", "status": "True", "lastTransitionTime": "0001-01-01T00:00:00Z" }
        ]);
    });
    world.finished_job("ordinary", 10, 0);
    let _controller = world.start_and_pass(100_000).await;
    assert!(world.lives("for-68-years") && world.lives("in-9999") && world.lives("in-the-year-1"));
    assert!(!world.lives("ordinary"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_long_in_coming_says_nothing_about_our_clock() {
    let world = World::with_finished_job("job", 10, 0);
    // It expires while the answer is on its way.
    world.pass(8).await;
    let client = answered_late(
        world.server.client(),
        &world.clock,
        Duration::from_secs(3),
        |_| true,
    );
    let sender = Sender::new(client, Caller::new(world.clock.clone()), Encoding::default());
    let job = ObjectKey::namespaced("default", "job");
    let explanation = driver::explain(sender, |pass, _| {
        explain(&Config::default(), pass, FinishedKind::Job, &job)
    })
    .await;
    assert_eq!(
        explanation.unwrap(),
        "Job default/job: ttlSecondsAfterFinished 10 s\n\
         finished at 2026-01-01T00:00:00Z, expires at 2026-01-01T00:00:10Z: would delete it in 2s\n"
    );
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_back_makes_no_job_late() {
    let world = World::with_finished_job("job", 100, 0);
    let clock = Clock::starting_at(world.clock.now());
    clock.set_wrong(SignedDuration::from_hours(1));
    let _controller = process().start(world.client(), &clock);
    world.pass(50).await;
    clock.set_wrong(SignedDuration::ZERO);
    assert!(world.lives_after(49, "job").await);
    assert!(!world.lives_after(12, "job").await);
}
