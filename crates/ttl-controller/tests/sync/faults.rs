//! What the API server can do to us, and what must come of it.

use std::time::Duration;

use embedded_apiserver::{Fault, RequestVerb};

use crate::world::{TTL, World, name, process, writes_of};

#[tokio::test(start_paused = true)]
async fn an_outage_of_a_minute_in_a_roll_out_loses_nothing_and_writes_nothing_twice() {
    let world = World::with_nodes(101, None);
    // So that a roll-out takes its time.
    let _controller = world.start_with(process().limits(10.0, 1));
    world.until_writes(20).await;
    world.server.down();
    world.pass(60).await;
    world.server.up();
    assert_eq!(world.carried_after(120).await, [("15".to_owned(), 101)].into());
    assert_eq!(world.accepted_writes(), 101);
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_the_server_is_away_is_found_afterwards() {
    let world = World::with_nodes(120, Some("15"));
    let _controller = world.start_and_pass(10).await;
    world.server.down();
    world.pass(30).await;
    world.remove(80..120);
    world.pass(30).await;
    world.server.up();
    assert_eq!(world.carried_after(120).await, [("0".to_owned(), 80)].into());
    assert_eq!(world.accepted_writes(), 80);
}

#[tokio::test(start_paused = true)]
async fn closed_watches_are_opened_again_without_a_relist() {
    let world = World::with_nodes(3, Some("0"));
    let _controller = world.start_and_pass(10).await;
    for _ in 0..5 {
        world.server.close_watches();
        world.annotate(1, "7");
        world.pass(60).await;
        world.remove([1]);
        world.add([1], Some("0"));
        world.pass(60).await;
    }
    assert_eq!(world.carried(), [("0".to_owned(), 3)].into());
    assert_eq!(world.accepted_writes(), 5);
    assert_eq!(
        world.reads_of_nodes().iter().filter(|read| read.lists()).count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_compaction_leads_to_a_relist_and_nothing_is_missed() {
    let world = World::with_nodes(120, Some("15"));
    let _controller = world.start_and_pass(10).await;
    world.server.down();
    world.pass(10).await;
    world.remove(80..120);
    world.server.compact();
    world.server.up();
    assert_eq!(world.carried_after(120).await, [("0".to_owned(), 80)].into());
    assert_eq!(world.accepted_writes(), 80);
}

#[tokio::test(start_paused = true)]
async fn an_etcd_that_is_set_back_is_noticed_although_nothing_is_to_be_written() {
    let world = World::with_nodes(3, Some("15"));
    let _standby = world.start_with(process().elected_as("standby"));
    let controller = world.start_with(process().elected_as("leader"));
    let backup = world.server.version() + 1;
    assert_eq!(world.carried_after(60).await, [("0".to_owned(), 3)].into());
    assert!(world.server.set_back(backup));
    world.server.up();
    assert_eq!(world.carried(), [("15".to_owned(), 3)].into());
    assert_eq!(world.carried_after(30).await, [("0".to_owned(), 3)].into());
    assert_eq!(world.accepted_writes(), 6);
    drop(controller);
}

#[tokio::test(start_paused = true)]
async fn a_429_is_waited_out_as_long_as_it_says() {
    let world = World::with_nodes(3, Some("0"));
    let _controller = world.start_and_pass(10).await;
    let retry_after = Duration::from_secs(20);
    let status = Fault::Status {
        code: 429,
        reason: "TooManyRequests".into(),
        retry_after: Some(retry_after),
    };
    world.fail_writes(1, status);
    // As API Priority and Fairness answers it.
    world.fail_writes(1, Fault::Throttled { retry_after });
    world.annotate(1, "7");
    let start = world.clock.instant();
    world.until_writes(3).await;
    let waited = world.clock.instant() - start;
    assert!(
        waited >= Duration::from_secs(40) && waited < Duration::from_secs(42),
        "waited {waited:?}"
    );
    assert_eq!(world.accepted_writes(), 1);
    assert_eq!(world.carried(), [("0".to_owned(), 3)].into());
}

#[tokio::test(start_paused = true)]
async fn a_5xx_is_retried_and_nothing_is_forgotten() {
    let world = World::with_nodes(50, None);
    world.fail_writes(120, Fault::status(500, "InternalError"));
    let _controller = world.start_and_pass(3600).await;
    assert_eq!(world.carried(), [("0".to_owned(), 50)].into());
    assert_eq!(world.accepted_writes(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_is_read_before_it_is_repeated() {
    let world = World::with_nodes(3, Some("0"));
    let _controller = world.start_and_pass(10).await;
    world.fail_writes(1, Fault::DropAfterEffect);
    world.annotate(1, "7");
    assert_eq!(world.carried_after(600).await, [("0".to_owned(), 3)].into());
    assert_eq!(world.writes(), writes_of(1, "0"));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_never_arrived_is_made_again() {
    let world = World::with_nodes(3, Some("0"));
    let _controller = world.start_and_pass(10).await;
    world.fail_writes(1, Fault::DropBefore);
    world.annotate(1, "7");
    assert_eq!(world.carried_after(600).await, [("0".to_owned(), 3)].into());
    assert_eq!(world.accepted_writes(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rival_gets_three_writes_and_then_ever_longer_peace() {
    let world = World::with_nodes(3, Some("0"));
    let controller = world.start_and_pass(10).await;
    let mut per_ten_minutes = Vec::new();
    for _ in 0..6 {
        let before = world.writes().len();
        for _ in 0..600 {
            if world.get(&name(1))["metadata"]["annotations"][TTL] == "0" {
                world.annotate(1, "7");
            }
            world.pass(1).await;
        }
        per_ten_minutes.push(world.writes().len() - before);
    }
    // Three at once, then 1, 2, 4, 8, … minutes apart.
    assert_eq!(per_ten_minutes, [6, 1, 0, 1, 0, 0]);
    assert_eq!(world.events().len(), 1);
    assert!(
        world
            .writes()
            .iter()
            .all(|write| !write.contains("node-0000") && !write.contains("node-0002"))
    );
    assert!(controller.metric("controller_rival_writes_total") >= 3);
}

#[tokio::test(start_paused = true)]
async fn what_was_wrongly_said_to_be_gone_is_written_within_the_hour() {
    let world = World::with_nodes(3, None);
    world.fail_next(1, RequestVerb::Patch, "nodes", Fault::status(404, "NotFound"));
    let _controller = world.start_and_pass(3700).await;
    assert_eq!(world.carried(), [("0".to_owned(), 3)].into());
}

#[tokio::test(start_paused = true)]
async fn a_tenth_of_a_request_a_second_is_slow_and_never_stuck() {
    let world = World::with_nodes(30, None);
    let controller = world.start_with(process().limits(0.1, 1));
    assert_eq!(world.carried_after(310).await, [("0".to_owned(), 30)].into());
    assert_eq!(world.accepted_writes(), 30);
    assert_eq!(controller.metric("controller_sync_failures_total"), 0);
}
