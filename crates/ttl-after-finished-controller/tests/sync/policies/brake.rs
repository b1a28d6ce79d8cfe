//! `maxPerHour`: a policy that would delete more stops, and waits for a person.

use std::time::Duration;

use embedded_apiserver::{Fault, RequestVerb};
use serde_json::json;

use super::support::with;
use crate::world::World;

const BRAKE: &str = "ttl_after_finished_controller_brake_engaged";

#[tokio::test(start_paused = true)]
async fn a_policy_that_would_delete_more_than_its_maximum_stops_and_says_so_once() {
    let world = World::new();
    for number in 0..20 {
        world.ended(
            &format!("braked-{number}"),
            "Complete",
            -60,
            &json!({ "app": "a" }),
        );
        world.succeeded(&format!("other-{number}"), -60);
    }
    let policies = json!([
        { "name": "braked", "ttlAfterSucceeded": "1s", "maxPerHour": 7, "selector": { "matchLabels": { "app": "a" } } },
        { "name": "other", "ttlAfterSucceeded": "1s", "maxPerHour": 20 },
    ]);
    let controller = world.start_with(with(&policies, 0));
    world.pass(60).await;
    assert_eq!(world.alive(), 13);
    assert_eq!(controller.metric(BRAKE), 1);
    assert!(
        controller
            .scrape()
            .contains(&format!("{BRAKE}{{policy=\"braked\"}} 1"))
    );
    // Also when the hour is over: only a person releases it.
    assert_eq!(world.alive_after(10_000).await, 13);
    assert_eq!(world.count_events("BrakeEngaged"), 1);
    let events = world.events();
    let told = events
        .iter()
        .find(|event| event.contains("BrakeEngaged"))
        .unwrap();
    assert!(
        told.ends_with(
            "Warning BrakeEngaged policy braked stops here, as it has reached its maxPerHour (7); change the policies \
             or restart the controller to release the brake"
        ),
        "{told}"
    );
    // What the policy has nothing to do with goes on.
    world.succeeded("later", 0);
    assert!(!world.lives_after(5, "later").await);
}

#[tokio::test(start_paused = true)]
async fn as_many_as_allowed_each_hour_engage_nothing() {
    let world = World::new();
    let policies = json!([{ "name": "p", "ttlAfterSucceeded": "1s", "maxPerHour": 5 }]);
    let controller = world.start_with(with(&policies, 0));
    for hour in 0..4 {
        for number in 0..5 {
            world.succeeded(&format!("job-{hour}-{number}"), 0);
        }
        world.pass(3_700).await;
        assert_eq!(world.alive(), 0);
    }
    assert_eq!(controller.metric(BRAKE), 0);
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_refuses_does_not_count() {
    let world = World::new();
    for number in 0..5 {
        world.succeeded(&format!("job-{number}"), -60);
    }
    world.fail_next(4, RequestVerb::Delete, "jobs", Fault::status(403, "Forbidden"));
    let policies = json!([{ "name": "p", "ttlAfterSucceeded": "1s", "maxPerHour": 5 }]);
    let controller = world.start_with(with(&policies, 0));
    world.pass(60).await;
    assert_eq!((world.alive(), controller.metric(BRAKE)), (0, 0));
}

/// The later one is sent before the other is refused, and counts for an hour of its own.
#[tokio::test(start_paused = true)]
async fn a_delete_that_is_refused_takes_nothing_from_a_later_one() {
    let world = World::new();
    let policies = json!([{ "name": "p", "ttlAfterSucceeded": "1s", "maxPerHour": 2 }]);
    let controller = world.start_with(with(&policies, 0));
    world.pass(27).await;
    world.fail_next(
        2,
        RequestVerb::Delete,
        "jobs",
        Fault::Delay(Duration::from_secs(29)),
    );
    world.succeeded("refused", 0);
    world.pass(12).await;
    // A namespace may have to wait for its own deletes.
    world.succeeded_in("other", "late");
    world.pass(2).await;
    // Its version is another by then.
    let keep = json!({ "ttl-after-finished-controller/keep": "true" });
    world.edit("refused", |job| job["metadata"]["annotations"] = keep);
    world.pass(45).await;
    assert_eq!(world.alive(), 1);
    world.succeeded("after-it", 0);
    world.pass(3_573).await;
    assert_eq!((world.alive(), controller.metric(BRAKE)), (1, 0));
    world.succeeded("one-too-many", 0);
    world.pass(3).await;
    assert_eq!((world.alive(), controller.metric(BRAKE)), (2, 1));
}

/// What a dry run plans again counts once, as the object would be gone.
#[tokio::test(start_paused = true)]
async fn a_dry_run_stops_where_the_controller_would() {
    let world = World::new();
    for number in 0..5 {
        world.succeeded(&format!("job-{number}"), -60);
    }
    let policies = json!([{ "name": "p", "ttlAfterSucceeded": "1s", "maxPerHour": 5 }]);
    let dry_run = with(&policies, 0).configured(|config| config.common.dry_run = true);
    let controller = world.start_with(dry_run);
    world.pass(10_000).await;
    let planned = |number| vec![("delete".to_owned(), number)];
    assert_eq!((controller.planned(), controller.metric(BRAKE)), (planned(5), 0));

    // An hour later, as many may go again.
    for number in 5..11 {
        world.succeeded(&format!("job-{number}"), -60);
    }
    world.pass(10_000).await;
    assert_eq!((controller.planned(), controller.metric(BRAKE)), (planned(10), 1));
    // Those that it has planned would be gone.
    assert_eq!(controller.metric("controller_planned_writes_undone"), 10);
    assert_eq!((world.alive(), world.count_events("BrakeEngaged")), (11, 0));
}

#[tokio::test(start_paused = true)]
async fn a_restart_releases_the_brake() {
    let world = World::new();
    for number in 0..8 {
        world.succeeded(&format!("job-{number}"), -60);
    }
    let policies = json!([{ "name": "p", "ttlAfterSucceeded": "1s", "maxPerHour": 5 }]);
    let first = world.start_with(with(&policies, 0));
    world.pass(60).await;
    assert_eq!(world.alive(), 3);
    first.stop().await;
    let _second = world.start_with(with(&policies, 0));
    assert_eq!(world.alive_after(60).await, 0);
}

/// Two rates of a policy within one hour would be one too many.
#[tokio::test(start_paused = true)]
async fn a_standby_that_takes_over_waits_until_the_last_leaders_deletes_count_no_more() {
    let world = World::new();
    for number in 0..12 {
        world.ended(
            &format!("braked-{number}"),
            "Complete",
            -60,
            &json!({ "app": "a" }),
        );
    }
    let policies = json!([
        { "name": "braked", "ttlAfterSucceeded": "1s", "maxPerHour": 5, "selector": { "matchLabels": { "app": "a" } } },
        { "name": "other", "ttlAfterSucceeded": "1s" },
    ]);
    let first = world.start_with(with(&policies, 0).elected_as("first"));
    let second = world.start_with(with(&policies, 0).elected_as("second"));
    world.pass(120).await;
    assert_eq!((world.alive(), first.metric(BRAKE)), (7, 1));
    first.stop().await;
    world.succeeded("other", 0);
    assert!(!world.lives_after(5, "other").await);
    assert_eq!(world.alive_after(3_600).await, 7);
    assert_eq!((world.alive_after(90).await, second.metric(BRAKE)), (2, 1));
}

/// A webhook that is away answers each with 500: whether it was carried out is not known.
#[tokio::test(start_paused = true)]
async fn a_delete_that_is_tried_again_and_again_counts_once() {
    let world = World::new();
    let policies = json!([{ "name": "p", "ttlAfterSucceeded": "1s", "maxPerHour": 2 }]);
    let controller = world.start_with(with(&policies, 0));
    let error = Fault::status(500, "InternalError");
    world.fail_next(100, RequestVerb::Delete, "jobs", error);
    world.succeeded("stuck", 0);
    world.pass(120).await;
    world.server.clear_faults();
    world.succeeded("other", 0);
    assert_eq!((world.alive_after(10).await, controller.metric(BRAKE)), (0, 0));
    world.succeeded("third", 0);
    assert_eq!((world.alive_after(10).await, controller.metric(BRAKE)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_try_in_a_later_hour_counts_anew() {
    let world = World::new();
    let policies = json!([{ "name": "p", "ttlAfterSucceeded": "1s", "maxPerHour": 2 }]);
    let controller = world.start_with(with(&policies, 0));
    let error = Fault::status(500, "InternalError");
    world.fail_next(usize::MAX, RequestVerb::Delete, "jobs", error);
    world.succeeded("stuck", 0);
    world.pass(10).await;
    let keep = json!({ "ttl-after-finished-controller/keep": "true" });
    world.edit("stuck", |job| job["metadata"]["annotations"] = keep);
    world.pass(4_000).await;
    world.server.clear_faults();
    for job in ["a", "b"] {
        world.succeeded(job, 0);
    }
    assert_eq!((world.alive_after(10).await, controller.metric(BRAKE)), (1, 0));
    world.edit("stuck", |job| job["metadata"]["annotations"] = json!({}));
    assert_eq!((world.alive_after(30).await, controller.metric(BRAKE)), (1, 1));
}

/// Its answer was lost, and the next one finds no object.
#[tokio::test(start_paused = true)]
async fn a_delete_that_was_carried_out_without_an_answer_counts() {
    let world = World::new();
    let policies = json!([{ "name": "p", "ttlAfterSucceeded": "1s", "maxPerHour": 2 }]);
    let controller = world.start_with(with(&policies, 0));
    world.fail_next(2, RequestVerb::Delete, "jobs", Fault::DropAfterEffect);
    for job in ["a", "b"] {
        world.succeeded(job, 0);
    }
    assert_eq!((world.alive_after(30).await, controller.metric(BRAKE)), (0, 0));
    world.succeeded("third", 0);
    assert_eq!((world.alive_after(10).await, controller.metric(BRAKE)), (1, 1));
}

/// Two of another namespace are in flight, and are refused.
#[tokio::test(start_paused = true)]
async fn deletes_in_flight_that_are_refused_engage_nothing() {
    let world = World::new();
    for (name, namespace) in [("a", "other"), ("b", "third")] {
        world.succeeded_in(namespace, name);
    }
    world.fail_next(
        2,
        RequestVerb::Delete,
        "jobs",
        Fault::Delay(Duration::from_secs(20)),
    );
    let policies = json!([{ "name": "p", "ttlAfterSucceeded": "1s", "maxPerHour": 2 }]);
    let controller = world.start_with(with(&policies, 0));
    world.pass(5).await;
    let keep = json!({ "ttl-after-finished-controller/keep": "true" });
    for (name, namespace) in [("a", "other"), ("b", "third")] {
        let kept = |job: &mut serde_json::Value| job["metadata"]["annotations"] = keep.clone();
        world
            .server
            .edit(&embedded_apiserver::JOBS, namespace, name, kept)
            .unwrap();
    }
    world.succeeded("job", 0);
    assert_eq!((world.alive_after(10).await, controller.metric(BRAKE)), (3, 0));
    assert_eq!((world.alive_after(20).await, controller.metric(BRAKE)), (2, 0));
}

/// The other has started just before, so its grace period began before the last deletes.
#[tokio::test(start_paused = true)]
async fn a_process_that_takes_over_soon_after_its_start_counts_what_was_deleted_by_then() {
    let world = World::new();
    for number in 0..12 {
        world.succeeded(&format!("job-{number}"), -60);
    }
    let policies = json!([{ "name": "p", "ttlAfterSucceeded": "1s", "maxPerHour": 5 }]);
    let first = world.start_with(with(&policies, 3_600).elected_as("first"));
    world.pass(3_640).await;
    let _second = world.start_with(with(&policies, 3_600).elected_as("second"));
    world.pass(40).await;
    assert_eq!(world.alive(), 7);
    first.stop().await;
    assert_eq!(world.alive_after(3_600).await, 7);
    assert_eq!(world.alive_after(90).await, 2);
}
