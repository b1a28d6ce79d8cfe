//! What the API server can do to us, and what must come of it.

use embedded_apiserver::{Fault, RecordedRequest, RequestVerb};
use rstest::rstest;

use crate::world::{TTL, World, name, process};

#[rstest]
#[case::that_a_watch_tells(false)]
#[case::that_only_a_list_tells(true)]
#[tokio::test(start_paused = true)]
async fn what_is_deleted_while_the_server_is_away_is_found_afterwards(#[case] compacted: bool) {
    let world = World::with_nodes(120, Some("15"));
    let _controller = world.start_and_pass(10).await;
    world.server.down();
    world.pass(30).await;
    world.remove(80..120);
    world.pass(30).await;
    if compacted {
        world.server.compact();
    }
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
async fn nothing_is_written_from_a_state_that_no_longer_exists() {
    let world = World::with_nodes(3, Some("15"));
    let refusal = Fault::status(500, "InternalError");
    world.fail_next(usize::MAX, RequestVerb::Patch, "nodes", refusal);
    let _controller = world.start_with(process().elected_as("leader"));
    world.pass(10).await;
    let backup = world.server.version();
    world.pass(60).await;
    world.server.clear_faults();
    let unanswered = Fault::NoAnswer { takes_effect: false };
    world.fail_those(usize::MAX, RecordedRequest::lists, unanswered);
    assert!(world.server.set_back(backup));
    world.server.up();
    // Until then the leader has looked at the Lease.
    world.pass(3).await;
    let before = world.writes().len();
    world.pass(600).await;
    assert_eq!(world.writes().len(), before);
    world.server.clear_faults();
    assert_eq!(world.carried_after(120).await, [("0".to_owned(), 3)].into());
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
