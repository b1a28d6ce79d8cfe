//! What the API server can do to us, and what must come of it.

use std::time::Duration;

use embedded_apiserver::{Fault, RecordedRequest, RequestVerb};

use crate::world::World;

fn deletes(request: &RecordedRequest) -> bool {
    request.resource == "jobs" && request.verb == RequestVerb::Delete
}

#[tokio::test(start_paused = true)]
async fn a_ttl_raised_before_the_delete_arrives_saves_the_job() {
    let world = World::with_finished_job("job", 10, 0);
    let _controller = world.start();
    world.fail_next(
        1,
        RequestVerb::Delete,
        "jobs",
        Fault::Delay(Duration::from_secs(5)),
    );
    world.pass(12).await;
    let mark = world.server.mark();
    world.set_ttl("job", 100);
    assert!(world.lives_after(60, "job").await);
    assert_eq!(
        world.requests_since(mark),
        Vec::<String>::new(),
        "the refused delete is not repeated"
    );
    assert!(!world.lives_after(30, "job").await);
}

#[tokio::test(start_paused = true)]
async fn a_job_replaced_before_the_delete_arrives_lives() {
    let world = World::with_finished_job("job", 10, 0);
    let _controller = world.start();
    world.fail_next(
        1,
        RequestVerb::Delete,
        "jobs",
        Fault::Delay(Duration::from_secs(5)),
    );
    world.pass(12).await;
    world.delete_of(&embedded_apiserver::JOBS, "job");
    world.job("job", 10);
    assert!(world.lives_after(600, "job").await);
}

#[tokio::test(start_paused = true)]
async fn deletes_that_are_refused_for_a_minute_are_made_up_for_within_ten_seconds() {
    let world = World::new();
    for number in 0..20 {
        world.finished_job(&format!("job-{number}"), 10, 0);
    }
    let fault = Fault::status(500, "InternalError");
    world.fail_next(usize::MAX, RequestVerb::Delete, "jobs", fault);
    let _controller = world.start_and_pass(70).await;
    assert!((0..20).all(|number| world.lives(&format!("job-{number}"))));
    world.server.clear_faults();
    world.pass(10).await;
    assert!((0..20).all(|number| !world.lives(&format!("job-{number}"))));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_a_proxy_turns_into_a_page_with_200_is_no_success() {
    let world = World::with_finished_job("job", 10, 0);
    let _controller = world.start_and_pass(5).await;
    let away = Fault::status(500, "InternalError");
    world.fail_next(usize::MAX, RequestVerb::Watch, "jobs", away);
    world.server.close_watches();
    // The controller's version of the Job is an old one from here on, so its delete is refused.
    world.edit("job", |job| {
        job["metadata"]["labels"] = serde_json::json!({"a": "b"});
    });
    world.fail_next(
        1,
        RequestVerb::Delete,
        "jobs",
        Fault::Garbage { takes_effect: true },
    );
    assert!(world.lives_after(20, "job").await);
    world.server.clear_faults();
    assert!(!world.lives_after(60, "job").await);
}

#[tokio::test(start_paused = true)]
async fn what_expires_or_is_saved_while_the_server_is_away_is_found_afterwards() {
    let world = World::with_finished_job("expires", 30, 0);
    world.finished_job("is-saved", 30, 0);
    let _controller = world.start_and_pass(10).await;
    world.server.down();
    world.pass(60).await;
    world.set_ttl("is-saved", None);
    world.server.compact();
    world.server.up();
    assert!(!world.lives_after(60, "expires").await);
    assert!(world.lives("is-saved"));
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_the_job_for_as_long_as_it_wants() {
    let world = World::with_finished_job("job", 10, 0);
    world.edit("job", |job| {
        job["metadata"]["finalizers"] = serde_json::json!(["example.com/hold"]);
    });
    let _controller = world.start_and_pass(3600).await;
    assert!(!world.lives("job"));
    assert!(
        world
            .server
            .get(&embedded_apiserver::JOBS, "default", "job")
            .is_some()
    );
    assert_eq!(world.server.requests().only(deletes).len(), 1);
}

/// Admission refuses 400 Jobs for good. They are tried again and again, within a quarter of the default limit.
#[tokio::test(start_paused = true)]
async fn jobs_that_are_refused_keep_no_other_job_waiting() {
    let world = World::new();
    for number in 0..400 {
        world.finished_job(&format!("kept-{number}"), 10, 0);
    }
    let refused = |request: &RecordedRequest| deletes(request) && request.name.starts_with("kept");
    let forbidden = Fault::status(403, "Forbidden");
    world.fail_those(usize::MAX, refused, forbidden);
    let _controller = world.start_and_pass(60).await;
    for round in 0..5 {
        let name = format!("good-{round}");
        world.finished_job(&name, 5, 0);
        world.pass(7).await;
        assert!(!world.lives(&name), "{name} is late");
    }
    let mark = world.server.mark();
    world.pass(100).await;
    let asked = world.sent_since(mark).to("jobs").len();
    assert!((500..=1_300).contains(&asked), "{asked} requests in 100 s");
}
