//! Nothing goes sooner than the grace period after a policy begins to apply.

use embedded_apiserver::{NAMESPACES, RequestVerb};
use serde_json::json;

use super::support::with;
use crate::world::World;

const HOUR: u32 = 3_600;

#[tokio::test(start_paused = true)]
async fn nothing_goes_within_the_grace_period_of_a_start() {
    let world = World::new();
    world.succeeded("old", -100_000);
    let _controller = world.start_with(with(&json!([{ "name": "p", "ttlAfterSucceeded": "1m" }]), HOUR));
    world.pass(1_800).await;
    world.succeeded("new", 0);
    assert!(world.lives_after(1_799, "old").await && world.lives("new"));
    world.pass(2).await;
    assert_eq!(world.left(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_finishes_later_goes_when_its_ttl_has_passed() {
    let world = World::new();
    let _controller = world.start_with(with(&json!([{ "name": "p", "ttlAfterSucceeded": "1m" }]), HOUR));
    world.pass(4_000).await;
    world.succeeded("new", 0);
    assert!(world.lives_after(59, "new").await);
    assert!(!world.lives_after(2, "new").await);
}

#[tokio::test(start_paused = true)]
async fn a_standby_counts_from_what_it_has_seen_itself() {
    let world = World::new();
    world.succeeded("job", -100_000);
    let policies = json!([{ "name": "p", "ttlAfterSucceeded": "1m" }]);
    let first = world.start_with(with(&policies, HOUR).elected_as("first"));
    world.pass(1_800).await;
    let _second = world.start_with(with(&policies, HOUR).elected_as("second"));
    world.pass(1_700).await;
    first.stop().await;
    assert!(
        world.lives_after(1_880, "job").await,
        "an hour after its own start has not passed"
    );
    assert!(!world.lives_after(30, "job").await);
}

/// In 4,000 s the hour of the start is over.
#[tokio::test(start_paused = true)]
async fn a_changed_label_of_object_or_namespace_begins_the_grace_period_anew() {
    let world = World::new();
    world.succeeded("by-label", -100_000);
    world.succeeded("by-namespace", -100_000);
    world.ended("by-both", "Complete", -100_000, &json!({ "app": "ci" }));
    let policies = json!([
        { "name": "label", "ttlAfterSucceeded": "1m", "selector": { "matchLabels": { "app": "ci" } } },
        { "name": "namespace", "ttlAfterSucceeded": "1m", "namespaceSelector": { "matchLabels": { "team": "a" } } },
    ]);
    let _controller = world.start_with(with(&policies, HOUR));
    world.pass(4_000).await;
    assert_eq!(
        world.left(),
        ["by-label", "by-namespace"],
        "a policy has applied to the third from the start"
    );
    world.edit("by-label", |job| {
        job["metadata"]["labels"] = json!({ "app": "ci" });
    });
    world.pass(1_000).await;
    world.label_namespace(&json!({ "team": "a" }));
    assert!(world.lives_after(2_599, "by-label").await);
    assert!(!world.lives_after(2, "by-label").await);
    assert!(world.lives_after(998, "by-namespace").await);
    assert!(!world.lives_after(2, "by-namespace").await);
}

#[tokio::test(start_paused = true)]
async fn a_label_that_changes_nothing_begins_nothing() {
    let world = World::new();
    world.succeeded("job", -100);
    let _controller = world.start_with(with(&json!([{ "name": "p", "ttlAfterSucceeded": "2h" }]), HOUR));
    world.pass(7_000).await;
    world.edit("job", |job| job["metadata"]["labels"] = json!({ "app": "ci" }));
    world.label_namespace(&json!({ "team": "a" }));
    assert!(!world.lives_after(110, "job").await);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_exemption_begins_the_grace_period_anew() {
    let world = World::new();
    world.succeeded("job", -100_000);
    world.annotate_namespace(&json!({ "ttl-after-finished-controller/keep": "true" }));
    let _controller = world.start_with(with(&json!([{ "name": "p", "ttlAfterSucceeded": "1m" }]), HOUR));
    assert!(world.lives_after(10_000, "job").await);
    world.annotate_namespace(&json!({}));
    assert!(world.lives_after(3_599, "job").await);
    assert!(!world.lives_after(2, "job").await);
}

#[tokio::test(start_paused = true)]
async fn a_clock_of_ours_that_is_an_hour_fast_deletes_nothing_early() {
    let world = World::new();
    world.succeeded("job", 0);
    let ours = controller_runtime::clock::Clock::starting_at(
        world.clock.now() + jiff::SignedDuration::from_secs(3_600),
    );
    let process = with(&json!([{ "name": "p", "ttlAfterSucceeded": "30m" }]), 0);
    let _controller = process.start(world.client(), &ours);
    assert!(world.lives_after(1_798, "job").await);
    assert!(!world.lives_after(4, "job").await);
}

#[tokio::test(start_paused = true)]
async fn a_slow_clock_takes_no_grace_from_what_ended_long_before_it_was_seen() {
    let world = World::new();
    let ours = controller_runtime::clock::Clock::starting_at(
        world.clock.now() - jiff::SignedDuration::from_secs(3_600),
    );
    let process = with(
        &json!([{ "name": "p", "kinds": ["Pod"], "ttlAfterSucceeded": "1m" }]),
        HOUR,
    );
    let _controller = process.start(world.client(), &ours);
    world.pass(4_000).await;
    world.pod("old", "Succeeded", -3_600);
    world.pass(3_598).await;
    assert!(world.pod_lives("old"));
    world.pass(4).await;
    assert!(!world.pod_lives("old"));
}

/// The watch of namespaces shows the annotation half an hour late.
#[tokio::test(start_paused = true)]
async fn a_namespace_is_read_before_an_object_in_it_goes() {
    let world = World::new();
    world.succeeded("job", 0);
    world.lag("namespaces", 1_800);
    let _controller = world.start_with(with(&json!([{ "name": "p", "ttlAfterSucceeded": "1h" }]), 0));
    world.pass(3_590).await;
    world.annotate_namespace(&json!({ "ttl-after-finished-controller/keep": "true" }));
    assert!(world.lives_after(1_000, "job").await);
    let reads = world.server.requests().to("namespaces");
    assert_eq!(
        reads
            .only(|read| read.verb == RequestVerb::List && read.query.contains("metadata.name"))
            .len(),
        1
    );
}

/// It keeps all that is in it, and the watch shows the one before it for half an hour.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_has_been_made_anew_is_not_judged_by_the_one_before() {
    let world = World::new();
    world.lag("namespaces", 1_800);
    let _controller = world.start_with(with(&json!([{ "name": "p", "ttlAfterSucceeded": "1m" }]), 0));
    world.pass(10).await;
    world.server.delete(&NAMESPACES, "", "default").unwrap();
    world.insert(json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "default", "annotations": { "ttl-after-finished-controller/keep": "true" } },
    }));
    world.succeeded("job", 0);
    assert!(world.lives_after(3_600, "job").await);
}
