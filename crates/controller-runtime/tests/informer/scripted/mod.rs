//! Store, handlers, sync and backoff, event by event.

mod waits;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use controller_core::cache::{
    DecodeError, ErrorKind, Removed, Skipped, SourceError, SourceEvent, Versioned, WriteEffect,
};
use controller_core::meta::Uid;
use controller_runtime::informer::Source;
use controller_testing::scripted::{Script, ScriptedSource, scripted};
use rstest::rstest;

use crate::thing::{By, Running, Thing, clock, key, on_node, thing};

fn start() -> (Script<Thing>, Running) {
    let (script, source) = scripted();
    (script, Running::start(source, clock()))
}

/// Plays a script and counts requests to list again.
struct Counted(ScriptedSource<Thing>, Arc<AtomicUsize>);

impl Source for Counted {
    type View = Thing;

    async fn next(&mut self) -> SourceEvent<Thing> {
        self.0.next().await
    }

    fn list_again(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

fn observed(name: &str, version: &str) -> Versioned<Thing> {
    Versioned {
        view: thing(name, 1),
        uid: Uid::from(name),
        version: Some(version.into()),
    }
}

/// A write whose version is older than one known when it was sent proves that etcd was rolled back.
#[rstest]
#[case::a_change_that_is_new("a", 9, "", 0)]
#[case::a_change_that_changes_nothing("a", 5, "", 0)]
#[case::a_change_that_is_older_than_the_object("a", 4, "", 1)]
#[case::a_new_object_that_is_new("new", 9, "new", 0)]
#[case::a_new_object_that_is_as_old_as_what_was_told("new", 8, "new", 1)]
#[case::an_answer_without_a_version("a", 0, "", 0)]
#[tokio::test(start_paused = true)]
async fn an_etcd_that_was_set_back_is_listed_again(
    #[case] name: &str,
    #[case] version: u64,
    #[case] makes: &str,
    #[case] lists: usize,
) {
    let (script, source) = scripted();
    let count = Arc::new(AtomicUsize::new(0));
    let running = Running::start(Counted(source, Arc::clone(&count)), clock());
    script.list([]);
    script.send(SourceEvent::Applied(observed("a", "5")));
    script.send(SourceEvent::Applied(observed("b", "8")));
    running.settle().await;
    running.store().begin_write(&key(name));
    let effect = if makes.is_empty() {
        WriteEffect::Patch(Arc::new(Thing::clone))
    } else {
        WriteEffect::Object(thing(makes, 1))
    };
    let version = Some(version).filter(|version| *version != 0);
    drop(
        running
            .store()
            .accepted(&key(name), &Uid::from(name), version, 1, effect),
    );
    running.settle().await;
    assert_eq!(count.load(Ordering::Relaxed), lists);
}

/// An informer that holds `a` = 1 (uid `A`) and `b` = 2 (uid `B`).
async fn synced() -> (Script<Thing>, Running) {
    let (script, running) = start();
    script.list([(thing("a", 1), "A"), (thing("b", 2), "B")]);
    assert_eq!(running.told().await, ["+ns/a=1", "+ns/b=2", "synced"]);
    (script, running)
}

fn undecodable(name: &str, uid: Option<&str>) -> SourceEvent<Thing> {
    SourceEvent::Skipped(Skipped {
        key: Some(key(name)),
        uid: uid.map(Uid::from),
        version: Some("7".into()),
        error: DecodeError::Unnamed,
    })
}

#[tokio::test(start_paused = true)]
async fn sync_waits_for_the_whole_list_and_for_the_handlers() {
    let (script, running) = start();
    script.send(SourceEvent::Init);
    for name in ["b", "a"] {
        script.send(SourceEvent::InitItem(Versioned {
            view: thing(name, 1),
            uid: Uid::from(name),
            version: Some("5".into()),
        }));
    }
    assert_eq!(running.told().await, [""; 0]);
    assert!(running.store().is_empty(), "half a list is no content");
    assert!(!running.state.borrow().synced);
    assert!(!running.state.borrow().synced);
    let waits = running.clock.timeout(Duration::from_hours(1), running.synced());
    assert!(waits.await.is_err());

    script.send(SourceEvent::InitDone {
        version: Some("5".into()),
    });
    running.synced().await;
    assert_eq!(running.told.take(), ["+ns/a=1", "+ns/b=1", "synced"]);
    assert!(running.state.borrow().synced);
    assert!(running.state.borrow().synced);
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_syncs_too() {
    let (script, running) = start();
    script.list([]);
    running.synced().await;
    assert_eq!(running.told.take(), ["synced"]);
}

#[tokio::test(start_paused = true)]
async fn the_store_tells_added_from_modified() {
    let (script, running) = synced().await;
    script.applied(thing("c", 3), "C");
    script.applied(thing("a", 10), "A");
    script.deleted(thing("b", 2), "B");
    assert_eq!(running.told().await, ["+ns/c=3", "~ns/a=1>10", "-ns/b=2"]);
    assert_eq!(running.held(), ["a=10", "c=3"]);
    assert_eq!(running.store().get(&key("a")).unwrap().value, 10);
    assert!(running.store().get(&key("b")).is_none());
}

#[tokio::test(start_paused = true)]
async fn an_update_that_changes_nothing_wakes_nothing_and_replaces_nothing() {
    let (script, running) = synced().await;
    let before = running.store().get(&key("a")).unwrap();
    script.applied(thing("a", 1), "A");
    script.list([(thing("b", 2), "B"), (thing("a", 1), "A")]);
    assert_eq!(running.told().await, [""; 0]);
    assert!(Arc::ptr_eq(&before, &running.store().get(&key("a")).unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_relist_yields_the_differences_deletions_first() {
    let (script, running) = synced().await;
    script.list([(thing("d", 4), "D"), (thing("c", 3), "C"), (thing("b", 20), "B")]);
    assert_eq!(
        running.told().await,
        ["-ns/a=1", "~ns/b=2>20", "+ns/c=3", "+ns/d=4"],
        "synced is told once"
    );
    assert_eq!(running.held(), ["b=20", "c=3", "d=4"]);
}

#[tokio::test(start_paused = true)]
async fn a_relist_is_not_seen_before_it_is_complete_and_a_broken_one_never() {
    let (script, running) = synced().await;
    script.send(SourceEvent::Init);
    script.send(SourceEvent::InitItem(Versioned {
        view: thing("z", 1),
        uid: Uid::from("Z"),
        version: None,
    }));
    script.failed(ErrorKind::Other, "reset");
    assert_eq!(running.told().await, [""; 0]);
    assert_eq!(running.held(), ["a=1", "b=2"]);
    script.list([(thing("a", 1), "A"), (thing("b", 2), "B")]);
    running.clock.sleep(Duration::from_mins(1)).await;
    assert_eq!(running.told.take(), [""; 0], "z was void");
}

#[tokio::test(start_paused = true)]
async fn a_list_without_a_beginning_deletes_nothing() {
    let (script, running) = synced().await;
    script.send(SourceEvent::InitDone { version: None });
    assert_eq!(running.told().await, [""; 0]);
    assert_eq!(running.held(), ["a=1", "b=2"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_made_again_under_its_name_is_deleted_then_added() {
    let (script, running) = synced().await;
    script.applied(thing("a", 1), "A2");
    assert_eq!(running.told().await, ["-ns/a=1", "+ns/a=1"], "seen by watch");
    script.list([(thing("a", 1), "A3"), (thing("b", 2), "B")]);
    assert_eq!(running.told().await, ["-ns/a=1", "+ns/a=1"], "seen by relist");
    assert_eq!(running.names_by(&By::Value(1)), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_hands_over_the_last_state_of_that_very_object() {
    let (script, running) = synced().await;
    script.deleted(thing("a", 9), "A");
    // The final state is newer than the store's.
    assert_eq!(running.told().await, ["-ns/a=9"]);
    script.deleted(thing("b", 9), "another");
    // The final state is of another object.
    assert_eq!(running.told().await, ["-ns/b=2"]);
    script.deleted(thing("b", 2), "B");
    assert_eq!(running.told().await, [""; 0], "a deletion is told once");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_object_cannot_be_decoded_still_deletes() {
    let (script, running) = synced().await;
    script.send(SourceEvent::Deleted(Removed {
        key: key("a"),
        uid: Uid::from("A"),
        view: None,
        version: None,
    }));
    assert_eq!(running.told().await, ["-ns/a=1"]);
    assert_eq!(running.held(), ["b=2"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_becomes_undecodable_keeps_its_last_known_view() {
    let (script, running) = synced().await;
    script.send(undecodable("a", Some("A")));
    script.send(undecodable("b", None));
    assert_eq!(running.told().await, [""; 0], "by watch");
    script.send(SourceEvent::Init);
    script.send(undecodable("a", Some("A")));
    script.send(undecodable("b", None));
    script.send(SourceEvent::InitDone { version: None });
    assert_eq!(running.told().await, [""; 0], "by relist");
    assert_eq!(running.held(), ["a=1", "b=2"]);
    assert_eq!(running.metric("decode_errors_total"), 4);
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_with_another_uid_says_that_ours_is_gone() {
    let (script, running) = synced().await;
    script.send(undecodable("a", Some("A2")));
    assert_eq!(running.told().await, ["-ns/a=1"], "by watch");
    script.send(SourceEvent::Init);
    script.send(undecodable("b", Some("B2")));
    script.send(SourceEvent::InitDone { version: None });
    assert_eq!(running.told().await, ["-ns/b=2"], "by relist");
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_object_that_we_never_knew_is_not_there() {
    let (script, running) = synced().await;
    script.send(undecodable("c", Some("C")));
    script.send(SourceEvent::Skipped(Skipped {
        key: None,
        uid: None,
        version: None,
        error: DecodeError::Unnamed,
    }));
    assert_eq!(running.told().await, [""; 0]);
    assert_eq!(running.held(), ["a=1", "b=2"]);
}

#[tokio::test(start_paused = true)]
async fn indexes_follow_every_change() {
    let (script, running) = synced().await;
    let (n1, n2) = (By::Node("n1".into()), By::Node("n2".into()));
    assert_eq!(running.names_by(&n1), ["a", "b"]);
    script.applied(on_node("a", "n2", 1), "A");
    running.settle().await;
    assert_eq!(
        (running.names_by(&n1), running.names_by(&n2)),
        (vec!["b".to_owned()], vec!["a".to_owned()])
    );
    script.list([(on_node("c", "n2", 2), "C"), (on_node("a", "n2", 2), "A")]);
    running.settle().await;
    assert_eq!(running.names_by(&n1), [""; 0]);
    assert_eq!(running.names_by(&n2), ["a", "c"]);
    assert_eq!(running.names_by(&By::Value(2)), ["a", "c"]);
    script.deleted(on_node("a", "n2", 2), "A");
    running.settle().await;
    assert_eq!(running.names_by(&n2), ["c"]);
    assert_eq!(running.store().by_index(&By::Value(2))[0].value, 2);
}

#[tokio::test(start_paused = true)]
async fn metrics_count_objects_watch_events_relists_and_decode_errors() {
    let (script, running) = synced().await;
    script.applied(thing("c", 3), "C");
    script.applied(thing("c", 3), "C");
    script.deleted(thing("a", 1), "A");
    script.send(undecodable("b", None));
    script.list([(thing("b", 2), "B")]);
    running.settle().await;
    assert_eq!(running.metric("objects"), 1);
    assert_eq!(running.metric("events_total"), 4);
    assert_eq!(running.metric("relists_total"), 1, "the first list is no relist");
    assert_eq!(running.metric("decode_errors_total"), 1);
}
