//! Evictions and other writers between a read and a write.

use std::time::Duration;

use embedded_apiserver::{Fault, RequestVerb};
use rstest::rstest;
use serde_json::{Value, json};

use crate::budget::numbers;
use crate::world::{World, process};

#[tokio::test(start_paused = true)]
async fn an_eviction_that_races_a_status_write_is_never_overwritten() {
    let world = World::new();
    for pod in ["moe", "larry", "curly"] {
        world.pod(pod, None);
    }
    world.pdb("web", "minAvailable", &json!(1));
    let _controller = world.start_and_settle().await;
    assert_eq!(world.allowed("web"), 2);
    let mark = world.server.mark();
    let fault = Fault::Delay(Duration::from_millis(500));
    world.fail_next(1, RequestVerb::Patch, "poddisruptionbudgets", fault);
    // Our write of 1 is held back; meanwhile the two others are evicted on the 2 that stands.
    world.delete("moe");
    world.pass_millis(100).await;
    assert_eq!(world.evict("larry").await, 201);
    assert_eq!(world.evict("curly").await, 201);
    world.pass(1).await;
    assert_eq!(world.status_writes(mark)[0], Some(409));
    assert_eq!(world.numbers("web"), numbers(0, 0, 1, 2));
    assert_eq!(world.status("web")["disruptedPods"], json!(null));
}

#[rstest]
#[case::held_back(Fault::Delay(Duration::from_millis(300)))]
#[case::lost_answers(Fault::DropAfterEffect)]
#[tokio::test(start_paused = true)]
async fn two_drains_at_once_never_go_below_the_budget(#[case] fault: Fault) {
    let (world, _) = World::with_set(20, 20);
    world.pdb("web", "minAvailable", &json!("75%"));
    let _controller = world.start_and_settle().await;
    world.fail_next(100, RequestVerb::Patch, "poddisruptionbudgets", fault);
    let mut evicted = 0;
    for round in 0..50 {
        for pod in [round % 20, (round + 7) % 20] {
            let alive = !world.server.list(&embedded_apiserver::PODS).iter().any(|found| {
                found["metadata"]["name"] == format!("web-{pod}")
                    && found["metadata"]["deletionTimestamp"].is_string()
            });
            if alive && world.evict(&format!("web-{pod}")).await == 201 {
                evicted += 1;
            }
        }
        world.pass_millis(70).await;
    }
    world.pass(60).await;
    assert_eq!(evicted, 5);
    assert_eq!(world.numbers("web"), numbers(0, 15, 15, 20));
}

#[tokio::test(start_paused = true)]
async fn the_watch_may_lag_behind_our_own_writes() {
    let world = World::with_budget(5, "minAvailable", &json!(1));
    world.lag("poddisruptionbudgets", 3);
    let _controller = world.start_and_pass(5).await;
    let mark = world.server.mark();
    for pod in 0..4 {
        world.ready(&format!("web-{pod}"), false);
        world.pass_millis(500).await;
        assert_eq!(world.allowed("web"), 3 - pod.min(3));
    }
    world.pass(10).await;
    assert_eq!(world.status_writes(mark), [Some(200); 4]);
    assert_eq!(world.numbers("web"), numbers(0, 1, 1, 5));
}

#[tokio::test(start_paused = true)]
async fn another_writer_that_keeps_undoing_the_status_is_named_and_left_alone() {
    let world = World::with_budget(3, "minAvailable", &json!(1));
    let controller = world.start_and_pass(10).await;
    let mark = world.server.mark();
    for _ in 0..100 {
        world.edit_pdb("web", |pdb| pdb["status"]["disruptionsAllowed"] = json!(1));
        world.pass_millis(200).await;
    }
    assert_eq!(world.status_writes(mark).len(), 2);
    assert_eq!(controller.metric("controller_rival_writes_total"), 3);
    assert_eq!(world.count_events("RivalWriter"), 1);
    world.pass(60).await;
    assert_eq!(world.allowed("web"), 2);
}

#[tokio::test(start_paused = true)]
async fn another_that_says_the_same_in_other_words_is_named_and_left_alone() {
    let world = World::new();
    let gone = world.replica_set("gone", 2, None);
    world.remove(&gone);
    world.pods(2, Some(&gone));
    world.pdb("web", "maxUnavailable", &json!(1));
    let controller = world.start_and_pass(10).await;
    let mark = world.server.mark();
    for _ in 0..100 {
        world.edit_pdb("web", |pdb| {
            pdb["status"]["conditions"][0]["message"] = json!("found no controllers for pod \"web-1\"");
        });
        world.pass_millis(200).await;
    }
    assert_eq!(world.status_writes(mark).len(), 2);
    assert_eq!(controller.metric("controller_rival_writes_total"), 3);
    assert_eq!(world.count_events("RivalWriter"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_allows_less_is_written_whatever_another_keeps_undoing() {
    let world = World::with_budget(3, "minAvailable", &json!(1));
    let controller = world.start_and_pass(10).await;
    for allowed in 3..103 {
        world.edit_pdb("web", |pdb| pdb["status"]["disruptionsAllowed"] = json!(allowed));
        world.pass_millis(200).await;
        assert_eq!(world.allowed("web"), 2);
    }
    assert_eq!(controller.metric("controller_rival_writes_total"), 100);
    assert_eq!(world.count_events("RivalWriter"), 1);
}

#[tokio::test(start_paused = true)]
async fn evictions_are_no_rivals() {
    let world = World::with_budget(40, "minAvailable", &json!(1));
    let controller = world.start_and_settle().await;
    for pod in 0..30 {
        assert_eq!(world.evict(&format!("web-{pod}")).await, 201);
        world.pass_millis(50).await;
    }
    world.settle().await;
    assert_eq!(controller.metric("controller_rival_writes_total"), 0);
    assert_eq!(world.numbers("web"), numbers(9, 10, 1, 40));
}

/// Lets writes wait for ten seconds or more, and returns what the budget `web` then was written to allow: first what
/// `raise` makes it, then, while that waits, what `lower` does.
async fn written_while(world: &World, raise: impl FnOnce(), lower: impl FnOnce()) -> Vec<Value> {
    let _controller = world.start_with(process().limits(1.0, 8));
    world.pass(30).await;
    let mark = world.server.mark();
    for number in 0..12 {
        let selector = json!({ "matchLabels": { "app": number.to_string() } });
        world.pdb_of(&format!("other-{number}"), "minAvailable", &json!(1), &selector);
    }
    world.pass_millis(1).await;
    raise();
    world.pass(1).await;
    lower();
    world.pass(60).await;
    let writes = world
        .server
        .requests_since(mark)
        .to("poddisruptionbudgets")
        .writes();
    let ours = writes.iter().filter(|request| request.name == "web");
    ours.map(|request| request.body["status"]["disruptionsAllowed"].clone())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_its_turn_does_not_allow_what_the_pods_do_not_allow_any_more() {
    let world = World::new();
    world.pods(3, None);
    for number in 0..3 {
        world.ready(&format!("web-{number}"), false);
    }
    world.pdb("web", "minAvailable", &json!(0));
    let raise = || (0..3).for_each(|number| world.ready(&format!("web-{number}"), true));
    let allowed = written_while(&world, raise, || world.ready("web-0", false)).await;
    assert_eq!(allowed, [2]);
    assert_eq!(world.numbers("web"), numbers(2, 2, 0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_its_turn_does_not_allow_what_the_scale_does_not_allow_any_more() {
    let (world, set) = World::with_set(3, 3);
    world.ready("web-0", false);
    world.pdb("web", "maxUnavailable", &json!(1));
    let raise = || world.ready("web-0", true);
    let allowed = written_while(&world, raise, || world.scale(&set, 4)).await;
    assert_eq!(allowed, [0]);
    assert_eq!(world.numbers("web"), numbers(0, 3, 3, 4));
}
