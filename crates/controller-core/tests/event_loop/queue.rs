//! The order of keys, and client-go's contract: a key is in one pass at a time, and duplicates collapse.
//!
//! The cases of client-go v0.36.3, `util/workqueue`, and the tests that cover them:
//!
//! | client-go | here |
//! |---|---|
//! | `TestBasic`, `TestLen` | `queue_props::any_sequence_of_calls_does_what_the_contract_says` |
//! | `TestAddWhileProcessing`, `TestReinsert`, `TestCollapseWhileProcessing` | [`a_key_that_is_enqueued_during_its_pass_is_asked_about_again_after_it`] |
//! | `TestCollapse` | [`wakes_of_a_waiting_key_collapse`] |
//! | `TestQueueDrainage…`, `TestNoQueueDrainage…`, `TestForceQueueShutdown…` | `ends`: a drain ends what has begun and begins nothing |
//! | `TestGarbageCollection` | `held()` is 0 at the end of a test |
//! | `TestSimpleQueue` | `times::a_key_comes_at_its_time_and_once` |
//! | `TestDeduping` | `times::of_two_waits_the_shorter_counts_and_of_two_times_the_later_named` |
//! | `TestAddTwoFireEarly`, `TestCopyShifting` | `times::the_earliest_goes_first_whenever_it_was_added` |
//! | `TestRateLimitingQueue`, `TestItemExponentialFailureRateLimiter`, `…OverFlow` | `retries::a_failed_key_comes_back_later_and_later`, `retries::the_delay_of_a_key_ends_at_1000_s` |
//! | `TestMaxOfRateLimiter` | `retries::keys_that_fail_again_take_no_more_than_their_share` |
//! | `TestItemFastSlowRateLimiter`, `TestWithMaxWaitRateLimiter` | no controller of ours has those limiters |
//! | `TestMetrics`, `TestMetricShutdown` | `numbers::the_metrics_follow_a_key_through_the_queue` |

use std::time::Duration;

use controller_core::controller::{Action, LoopEvent, Queue, Requeue};

use crate::rig::{NOTHING, Rig, Setup};
use crate::scripted::{Scripted, Seen, Text, reads};

/// A pass that ends with the answer to the query of its key.
pub(crate) fn ask_once(seen: &Seen<'_>) -> Action<Scripted> {
    match seen.answer(seen.key) {
        None => reads([seen.key]),
        Some(_) => Action::Done(vec![]),
    }
}

fn done(_: &Seen<'_>) -> Action<Scripted> {
    Action::Done(vec![])
}

#[test]
fn wakes_of_a_waiting_key_collapse() {
    let mut rig = Setup::default().rig(done);
    rig.enqueue("a");
    rig.enqueued("a");
    assert_eq!(rig.asked(), ["a"]);
    rig.turn();
    assert_eq!(rig.asked(), NOTHING);
}

#[test]
fn keys_are_asked_about_in_the_order_in_which_they_were_enqueued() {
    let mut rig = Setup::default().rig(done);
    for key in ["c", "a", "b", "a"] {
        rig.enqueue(key);
    }
    rig.turn();
    assert_eq!(rig.asked(), ["c", "a", "b"]);
}

#[test]
fn a_key_that_is_enqueued_during_its_pass_is_asked_about_again_after_it() {
    let mut rig = Setup::workers(2).rig(ask_once);
    assert_eq!(rig.enqueued("a"), ["a asks a"]);
    rig.enqueue("a");
    assert_eq!(rig.enqueued("a"), NOTHING, "a is in one pass at a time");
    rig.answer("a", "x");
    // The second pass does not see the answer of the first.
    assert_eq!(rig.turn(), ["a asks a"]);
    assert_eq!(rig.answered("a", "x"), NOTHING, "the duplicates have collapsed");
    assert_eq!(rig.event_loop.held(), 0);
}

#[test]
fn a_key_that_was_enqueued_during_its_pass_comes_after_those_that_wait() {
    let mut rig = Setup::default().rig(ask_once);
    rig.enqueued("a");
    rig.enqueue("a");
    rig.enqueue("b");
    assert_eq!(rig.answered("a", "x"), ["b asks b"]);
    assert_eq!(rig.answered("b", "x"), ["a asks a"]);
}

#[test]
fn a_key_may_wake_another_at_the_end_of_its_pass() {
    let mut rig = Setup::default().rig(|seen| match seen.key {
        "a" if seen.knows("once") => Action::Done(vec![("b", Requeue::Now)]),
        "a" => Action::Remember("once"),
        _ => Action::Done(vec![]),
    });
    rig.enqueued("a");
    assert_eq!(rig.asked(), ["a", "a", "b"]);
}

fn two_queues(low: Queue) -> Rig {
    let setup = Setup {
        queues: vec![Queue::FIFO, low],
        ..Setup::default()
    };
    setup.rig(ask_once)
}

#[test]
fn an_earlier_queue_goes_first() {
    let mut rig = two_queues(Queue::FIFO);
    rig.enqueue("low a");
    rig.enqueue("b");
    assert_eq!(rig.enqueued("c"), ["b asks b", "low a asks low a"]);
    rig.enqueue("low d");
    rig.answer("b", "x");
    assert_eq!(rig.answered("low a", "x"), ["c asks c", "low d asks low d"]);
}

#[test]
fn a_queue_whose_workers_are_busy_stops_no_later_one() {
    let mut rig = two_queues(Queue::FIFO);
    for key in ["a", "b", "low c"] {
        rig.enqueue(key);
    }
    assert_eq!(rig.turn(), ["a asks a", "low c asks low c"]);
}

#[test]
fn nothing_is_asked_before_the_caches_are_full() {
    let mut rig = Setup::default().unsynced(done);
    rig.lead(true);
    rig.enqueued("a");
    assert_eq!(rig.asked(), NOTHING);
    assert_eq!(rig.again, None);
    rig.event_loop.on_event(LoopEvent::Synced, rig.now);
    rig.turn();
    assert_eq!(rig.asked(), ["a"]);
}

#[test]
fn a_long_queue_is_worked_off_in_several_turns() {
    let mut rig = Setup::default().rig(done);
    let keys: Vec<&'static str> = (0..3_000).map(|key| &*format!("key {key}").leak()).collect();
    rig.enqueue_all(keys.iter().copied());
    let polled = rig.event_loop.poll(rig.now, &rig.limit);
    assert_eq!(rig.asked(), keys[..1_024]);
    assert_eq!(polled.again, Some(Duration::ZERO));
    rig.turn();
    assert_eq!(rig.asked(), keys[1_024..]);
}

#[test]
fn namespaces_take_turns() {
    let mut rig = Setup::default().rig(done);
    rig.enqueue_all(["a/1", "a/2", "a/3", "a/4", "b/1", "c/1", "b/2"]);
    rig.turn();
    assert_eq!(rig.asked(), ["a/1", "b/1", "c/1", "a/2", "b/2", "a/3", "a/4"]);
}

#[test]
fn a_thousand_keys_of_one_namespace_delay_the_key_of_another_by_one_turn() {
    let mut rig = Setup::default().rig(ask_once);
    let keys: Vec<&'static str> = (0..1_000).map(|key| &*format!("a/{key}").leak()).collect();
    rig.enqueue_all(keys.iter().copied());
    rig.turn();
    rig.enqueue("b/1");
    assert_eq!(rig.answered("a/0", "x"), ["a/1 asks a/1"]);
    assert_eq!(rig.answered("a/1", "x"), ["b/1 asks b/1"]);
}

#[test]
fn urgent_keys_go_first_and_idle_ones_last_and_none_waits_for_ever() {
    let mut rig = Setup::default().rig(done);
    let keys = |kind: Text| (0..40).map(move |key| &*format!("{key} {kind}").leak());
    for kind in ["idle", "usual", "urgent"] {
        rig.enqueue_all(keys(kind));
    }
    rig.turn();
    let asked = rig.asked();
    let firsts: Vec<_> = asked[..16]
        .iter()
        .map(|key| key.split(' ').next_back().unwrap())
        .collect();
    let four = ["urgent", "urgent", "urgent", "usual"];
    assert_eq!(firsts[..12], [four, four, four].concat());
    assert_eq!(firsts[12..], ["urgent", "urgent", "urgent", "idle"]);
    let last = |kind: &str| asked.iter().rposition(|key| key.ends_with(kind)).unwrap();
    assert!(last("urgent") < last("usual") && last("usual") < last("idle"));
}

#[test]
fn a_key_that_waits_and_gets_urgent_goes_first() {
    let mut rig = Setup::default().rig(|seen| match seen.key {
        "tells" if !seen.knows("b urgent") => Action::Remember("b urgent"),
        "tells" => Action::Done(vec![("b", Requeue::Now)]),
        _ => Action::Done(vec![]),
    });
    rig.enqueue_all(["tells", "a", "b"]);
    rig.turn();
    assert_eq!(rig.asked(), ["tells", "tells", "b", "a"]);
}
