//! Evictions that were approved.

use embedded_apiserver::{Fault, RequestVerb};
use serde_json::json;

use crate::budget::numbers;
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn an_eviction_is_counted_from_its_approval_to_the_end_of_its_pod() {
    let (world, set) = World::with_set(3, 3);
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.evict("web-0").await, 201);
    assert_eq!(world.evict("web-1").await, 429);
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(0, 2, 2, 3));
    // It has a deletionTimestamp: the entry has had its effect.
    assert_eq!(world.status("web")["disruptedPods"], json!(null));
    world.delete("web-0");
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(0, 2, 2, 3));
    world.pod("web-3", Some(&set));
    world.settle().await;
    assert_eq!(world.numbers("web"), numbers(1, 3, 2, 3));
}

#[tokio::test(start_paused = true)]
async fn an_entry_is_not_about_the_next_pod_of_its_name() {
    let world = World::with_budget(3, "minAvailable", &json!(1));
    let _controller = world.start_and_settle().await;
    // The entry cannot be dropped before the name is taken again.
    let fault = Fault::status(500, "InternalError");
    world.fail_next(usize::MAX, RequestVerb::Patch, "poddisruptionbudgets", fault);
    let entries = json!({ "web-0": world.seconds(0) });
    world.edit_pdb("web", |pdb| pdb["status"]["disruptedPods"] = entries);
    world.settle().await;
    world.delete("web-0");
    world.pass(1).await;
    world.pod("web-0", None);
    world.settle().await;
    world.server.clear_faults();
    world.pass(5).await;
    assert_eq!(world.numbers("web"), numbers(2, 3, 1, 3));
    assert_eq!(world.status("web")["disruptedPods"], json!(null));
    assert_eq!(world.count_events("NotDeleted"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_entry_is_about_the_next_pod_of_its_name_if_only_the_watch_is_behind() {
    let world = World::with_budget(3, "minAvailable", &json!(1));
    world.lag("pods", 3);
    let _controller = world.start_and_pass(5).await;
    world.delete("web-0");
    world.pod("web-0", None);
    world.pass(1).await;
    // The eviction of the second is approved while the watch still shows the first.
    let entries = json!({ "web-0": world.seconds(0) });
    world.edit_pdb("web", |pdb| pdb["status"]["disruptedPods"] = entries);
    world.pass(10).await;
    assert_eq!(world.numbers("web"), numbers(1, 2, 1, 3));
}

#[tokio::test(start_paused = true)]
async fn an_entry_whose_pod_has_gone_unseen_stays() {
    let world = World::with_budget(3, "minAvailable", &json!(1));
    world.lag("pods", 600);
    let _controller = world.start_and_settle().await;
    let entries = json!({ "web-0": world.seconds(0) });
    world.edit_pdb("web", |pdb| pdb["status"]["disruptedPods"] = entries);
    world.pass(60).await;
    world.delete("web-0");
    let mark = world.server.mark();
    world.pass(180).await;
    // The cache shows a healthy pod, whose time is over; it must not count again.
    assert_eq!(world.numbers("web"), numbers(1, 2, 1, 3));
    assert_eq!(world.status_writes(mark), []);
    // Read when its time is over, and every ten seconds from then on.
    assert_eq!(world.server.requests_since(mark).to("pods").len(), 13);
    world.pass(600).await;
    assert_eq!(world.numbers("web"), numbers(1, 2, 1, 2));
    assert_eq!(world.status("web")["disruptedPods"], json!(null));
    assert_eq!(world.count_events("NotDeleted"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_entry_whose_pod_cannot_be_read_stays_until_it_can() {
    let world = World::with_budget(3, "minAvailable", &json!(1));
    let _controller = world.start_and_settle().await;
    let entries = json!({ "web-0": world.seconds(0) });
    world.edit_pdb("web", |pdb| pdb["status"]["disruptedPods"] = entries);
    let fault = Fault::status(500, "InternalError");
    world.fail_next(usize::MAX, RequestVerb::List, "pods", fault);
    world.pass(300).await;
    assert_eq!(world.numbers("web"), numbers(1, 2, 1, 3));
    world.server.clear_faults();
    world.pass(11).await;
    assert_eq!(world.numbers("web"), numbers(2, 3, 1, 3));
    assert_eq!(world.count_events("NotDeleted"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_entry_lasts_two_minutes_by_the_clock_of_the_api_server() {
    let world = World::with_budget(3, "minAvailable", &json!(1));
    let _controller = world.start_with_clock_ahead(3600);
    world.settle().await;
    let entries = json!({ "web-0": world.seconds(0) });
    world.edit_pdb("web", |pdb| pdb["status"]["disruptedPods"] = entries);
    let mark = world.server.mark();
    world.pass(119).await;
    assert_eq!(world.numbers("web"), numbers(1, 2, 1, 3));
    world.pass(3).await;
    assert_eq!(world.numbers("web"), numbers(2, 3, 1, 3));
    // Once too early, once when its time was over.
    assert_eq!(world.server.requests_since(mark).to("pods").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn entries_whose_time_is_over_go_a_few_at_a_time() {
    let world = World::with_budget(150, "minAvailable", &json!(1));
    let entries: serde_json::Map<_, _> = (0..150)
        .map(|pod| (format!("web-{pod}"), json!(world.seconds(-180))))
        .collect();
    world.edit_pdb("web", |pdb| pdb["status"]["disruptedPods"] = json!(entries));
    let _controller = world.start();
    let mark = world.server.mark();
    world.pass(5).await;
    assert_eq!(world.numbers("web"), numbers(149, 150, 1, 150));
    assert_eq!(world.status_writes(mark).len(), 3);
    assert_eq!(world.count_events("NotDeleted"), 150);
}
