//! When a key is retried after a failed pass. Delays per key double from 5 ms as in client-go, or follow the queue. All
//! keys that keep failing share a part of the limit.

use std::time::Duration;

use controller_core::api::{AnswerClass, Denial};
use controller_core::controller::{
    Accepted, Action, Completed, Failed, Order, Queue, RequestOf, Requeue, Retry, RetryLimit, RetryShare,
};

use crate::rig::{MS, NOTHING, Rig, SECOND, Setup, failed};
use crate::scripted::{Scripted, Seen, Text, reads, writes};

const REFUSED: AnswerClass = AnswerClass::Forbidden(Denial::ThisObject);

/// Sends one write until it is accepted in this pass.
fn write(seen: &Seen<'_>) -> Action<Scripted> {
    if seen.is_accepted(seen.key) {
        Action::Done(vec![])
    } else {
        writes([seen.key])
    }
}

fn refuse(_: &RequestOf<Scripted>) -> Completed<Text> {
    Completed::Wrote(Err(failed(REFUSED)))
}

fn times(timeline: &[(u128, String)]) -> Vec<u128> {
    timeline.iter().map(|(at, _)| *at).collect()
}

#[test]
fn a_failed_key_comes_back_later_and_later() {
    let mut rig = Setup::default().rig(write);
    rig.enqueue("a=1");
    let timeline = rig.timeline(SECOND, refuse);
    assert_eq!(times(&timeline), [0, 5, 15, 35, 75, 155, 315, 635]);
    assert!(timeline.iter().all(|(_, sent)| sent == "a=1 writes a=1"));
}

#[test]
fn the_delay_of_a_key_ends_at_1000_s() {
    let mut rig = Setup::default().rig(write);
    rig.enqueue("a=1");
    let timeline = times(&rig.timeline(Duration::from_hours(2), refuse));
    let waits = timeline.windows(2).map(|pair| pair[1] - pair[0]);
    let waits: Vec<_> = waits.skip(16).take(4).collect();
    assert_eq!(waits, [327_680, 655_360, 1_000_000, 1_000_000]);
}

#[test]
fn a_success_forgets_the_failures() {
    let mut rig = Setup::default().rig(write);
    rig.enqueue("a=1");
    for wait in [5, 10, 20] {
        rig.turn();
        rig.fail("a=1", REFUSED);
        assert_eq!(rig.turn(), NOTHING);
        assert_eq!(rig.again, Some(wait * MS));
        rig.after(wait * MS);
    }
    rig.accepted("a=1");
    assert_eq!(rig.event_loop.held(), 0);
    rig.fail_once("a=1", "a=1", REFUSED);
    assert_eq!(rig.again, Some(5 * MS));
}

#[test]
fn a_key_that_is_given_up_leaves_nothing_behind() {
    let mut rig = Setup::default().rig(write);
    rig.fail_once("a=1", "a=1", REFUSED);
    rig.requeue_at("a=1", Requeue::Cancel);
    assert_eq!(rig.turn(), NOTHING);
    assert_eq!(rig.event_loop.held(), 0);
}

#[test]
fn a_key_is_not_retried_sooner_than_the_server_asks() {
    let (fate_unknown, wait) = (false, 7 * SECOND);
    for outcome in [
        AnswerClass::Throttled(wait),
        AnswerClass::Retry { fate_unknown, wait },
    ] {
        let mut rig = Setup::default().rig(write);
        rig.fail_once("a=1", "a=1", outcome);
        assert_eq!(rig.after(6_999 * MS), NOTHING);
        assert_eq!(rig.after(MS), ["a=1 writes a=1"]);
    }
}

#[test]
fn of_two_failures_of_a_pass_the_one_counts_that_asks_for_the_longer_wait() {
    for order in [["a=1", "b=1"], ["b=1", "a=1"]] {
        let mut rig = Setup::default().rig(|_| writes(["a=1", "b=1"]));
        rig.enqueue("key");
        assert_eq!(rig.turn().len(), 2);
        for write in order {
            let throttled = write == "a=1";
            let outcome = if throttled {
                AnswerClass::Throttled(7 * SECOND)
            } else {
                REFUSED
            };
            rig.fail(write, outcome);
        }
        rig.turn();
        assert_eq!(rig.after(6_999 * MS), NOTHING);
        assert_eq!(rig.after(MS).len(), 2);
    }
}

#[test]
fn a_key_whose_object_is_gone_is_not_retried() {
    let mut rig = Setup::default().rig(write);
    rig.enqueued("a=1");
    rig.fail("a=1", AnswerClass::Gone);
    assert_eq!(rig.after(60 * SECOND), NOTHING);
    assert_eq!(rig.told(), ["Leading(true)"]);
    assert_eq!(rig.event_loop.held(), 0);
}

#[test]
fn a_failed_read_is_retried_too() {
    let mut rig = Setup::default().rig(|seen| match seen.reply("q") {
        None => reads(["q"]),
        Some(_) => Action::Done(vec![]),
    });
    rig.fail_once("a", "q", AnswerClass::retry(false));
    assert_eq!(rig.after(5 * MS), ["a asks q"]);
    assert_eq!(rig.told().last().unwrap(), "a failed: Failed");
}

#[test]
fn a_failed_pass_that_ends_with_never_is_retried_all_the_same() {
    let mut rig = Setup::default().rig(|seen| match seen.outcome("a=1") {
        None => writes(["a=1"]),
        Some(_) => Action::Done(vec![("a", Requeue::Cancel)]),
    });
    rig.fail_once("a", "a=1", REFUSED);
    assert_eq!(rig.after(5 * MS), ["a writes a=1"]);
}

fn by_controller(next: impl Fn(&Seen<'_>) -> Action<Scripted> + Send + Sync + 'static) -> Rig {
    Setup::queue(Queue {
        retry: Retry::ByController,
        ..Queue::FIFO
    })
    .rig(next)
}

#[test]
fn the_controller_names_the_time_of_a_retry_where_the_queue_leaves_it_to_it() {
    let mut rig = by_controller(|seen| match seen.outcome("a=1") {
        None => writes(["a=1"]),
        Some(_) => Action::Done(vec![(seen.key, Requeue::After(3 * SECOND))]),
    });
    rig.fail_once("a", "a=1", REFUSED);
    assert_eq!(rig.after(2_999 * MS), NOTHING);
    assert_eq!(rig.after(MS), ["a writes a=1"]);
}

#[test]
fn a_key_whose_controller_names_no_time_and_wants_the_same_again_is_not_lost() {
    let mut rig = by_controller(write);
    rig.fail_once("a=1", "a=1", REFUSED);
    assert_eq!(rig.after(5 * MS), ["a=1 writes a=1"]);
}

#[test]
fn a_failed_key_that_is_woken_does_not_wait_and_its_next_delay_is_longer_all_the_same() {
    let mut rig = Setup::default().rig(write);
    rig.fail_once("a=1", "a=1", REFUSED);
    assert_eq!(rig.enqueued("a=1"), ["a=1 writes a=1"]);
    rig.after(5 * MS);
    rig.accept("a=1");
    // The retry was already scheduled, as in client-go.
    assert_eq!(rig.turn(), ["a=1 writes a=1"]);
}

/// One FIFO queue that retries failed keys within 8 s.
fn up_to_8_s(workers: usize, next: impl Fn(&Seen<'_>) -> Action<Scripted> + Send + Sync + 'static) -> Rig {
    let queue = Queue {
        workers,
        retry: Retry::RateLimited(RetryLimit::up_to(8 * SECOND)),
        ..Queue::FIFO
    };
    let setup = Setup {
        queues: vec![queue],
        ..Setup::default()
    };
    setup.rig(next)
}

#[test]
fn the_longest_delay_is_that_of_the_queue() {
    let mut rig = up_to_8_s(1, write);
    rig.enqueue("a=1");
    let timeline = times(&rig.timeline(40 * SECOND, refuse));
    let waits = timeline.windows(2).map(|pair| pair[1] - pair[0]);
    assert_eq!(waits.skip(10).collect::<Vec<_>>(), [5_120, 8_000, 8_000, 8_000]);
}

#[test]
fn a_key_that_is_refused_for_long_waits_an_eighth_of_that_and_at_most_five_minutes() {
    let mut rig = up_to_8_s(1, write);
    rig.enqueue("a=1");
    let timeline = times(&rig.timeline(Duration::from_hours(4), refuse));
    let wait_after = |uptime: u128| {
        let next = timeline.iter().position(|at| *at >= uptime).unwrap();
        timeline[next + 1] - timeline[next]
    };
    assert_eq!(wait_after(40_000), 8_000);
    assert_eq!(wait_after(800_000) / 1_000, 110);
    assert_eq!(wait_after(3_600_000), 300_000);
}

#[test]
fn a_key_whose_server_is_away_for_long_waits_no_longer_than_the_queue_says() {
    let mut rig = up_to_8_s(1, write);
    rig.enqueue("a=1");
    let away = |_: &RequestOf<Scripted>| Completed::Wrote(Err(failed(AnswerClass::retry(false))));
    let timeline = times(&rig.timeline(Duration::from_mins(30), away));
    let waits = timeline.windows(2).map(|pair| pair[1] - pair[0]);
    assert_eq!(waits.max(), Some(8_000));
}

/// 100 keys, each refused once, and 101 workers. Failing keys may send four requests a second.
fn refused_once() -> (Rig, Vec<Text>) {
    let keys: Vec<Text> = (0..100).map(|key| &*format!("object {key}").leak()).collect();
    let setup = Setup {
        retries: RetryShare::new(4.0, 2),
        ..Setup::workers(101)
    };
    let mut rig = setup.rig(write);
    rig.enqueue_all(keys.iter().copied());
    assert_eq!(rig.turn().len(), 100, "none has failed yet");
    for key in &keys {
        rig.fail(key, REFUSED);
    }
    assert_eq!(rig.turn(), NOTHING);
    (rig, keys)
}

#[test]
fn keys_that_fail_again_take_no_more_than_their_share() {
    let (mut rig, _) = refused_once();
    let sent = times(&rig.timeline(10 * SECOND, refuse));
    assert_eq!(sent[..6], [5, 5, 255, 505, 755, 1_005]);
    assert_eq!(sent.len(), 41);
}

#[test]
fn a_key_that_has_not_failed_does_not_wait_behind_those_that_have() {
    let (mut rig, _) = refused_once();
    rig.timeline(SECOND, refuse);
    assert_eq!(rig.enqueued("good"), ["good writes good"]);
}

#[test]
fn once_what_refused_them_is_mended_all_are_retried_at_once() {
    let (mut rig, keys) = refused_once();
    rig.timeline(SECOND, refuse);
    let accepted = rig.timeline(SECOND, |_| Completed::Wrote(Ok(Accepted::default())));
    assert_eq!(accepted.len(), keys.len());
    assert_eq!(rig.event_loop.held(), 0);
}

#[test]
fn a_key_that_waits_for_its_turn_and_is_woken_afresh_does_not_wait() {
    let (mut rig, keys) = refused_once();
    rig.timeline(SECOND, refuse);
    let last = *keys.last().unwrap();
    rig.requeue_at(last, Requeue::Reset);
    assert_eq!(rig.turn(), [format!("{last} writes {last}")]);
}

/// As with evictions: earliest first, each retried when the controller says so, most of them refused.
#[test]
fn a_key_whose_time_has_come_does_not_wait_behind_those_that_fail_in_a_queue_by_time() {
    let keys: Vec<Text> = (0..100).map(|key| &*format!("object {key}").leak()).collect();
    let setup = Setup {
        queues: vec![Queue {
            order: Order::EarliestFirst,
            workers: 1,
            retry: Retry::ByController,
            ..Queue::FIFO
        }],
        retries: RetryShare::new(4.0, 1),
        ..Setup::default()
    };
    let mut rig = setup.rig(|seen| match seen.outcome(seen.key) {
        None => writes([seen.key]),
        Some(_) => Action::Done(vec![(seen.key, Requeue::After(SECOND))]),
    });
    rig.enqueue_all(keys);
    assert_eq!(
        rig.timeline(6 * SECOND, refuse).len(),
        601,
        "each six times, and one again"
    );
    let sent = times(&rig.timeline(10 * SECOND, refuse));
    assert_eq!(sent.len(), 40);
    assert_eq!(rig.enqueued("good"), ["good writes good"]);
}

#[test]
fn a_key_that_is_woken_afresh_has_never_failed() {
    let mut rig = Setup::default().rig(write);
    rig.enqueue("a=1");
    for wait in [5, 10] {
        rig.turn();
        rig.fail("a=1", REFUSED);
        rig.turn();
        assert_eq!(rig.again, Some(wait * MS));
        rig.after(wait * MS);
    }
    rig.fail("a=1", REFUSED);
    rig.turn();
    rig.requeue_at("a=1", Requeue::Reset);
    assert_eq!(rig.turn(), ["a=1 writes a=1"]);
    rig.fail("a=1", REFUSED);
    rig.turn();
    assert_eq!(rig.again, Some(5 * MS), "the earlier delay is gone, too");
}

/// A pass that fails without a request and enqueues another key.
fn fail(not_before: Duration) -> impl Fn(&Seen<'_>) -> Action<Scripted> {
    move |seen| match seen.key {
        "a" => Action::Fail(Failed {
            reason: "Taken",
            text: "the name is taken".to_owned(),
            not_before,
            requeues: vec![("b", Requeue::Now), ("a", Requeue::Cancel)],
        }),
        _ => Action::Done(vec![]),
    }
}

#[test]
fn a_pass_may_fail_without_a_request_that_has() {
    let mut rig = Setup::default().rig(fail(Duration::ZERO));
    rig.enqueued("a");
    assert_eq!(
        rig.told(),
        ["Leading(true)", "a failed: Taken: the name is taken"]
    );
    assert_eq!(rig.asked(), ["a", "b"]);
    assert_eq!(rig.again, Some(5 * MS));
    rig.after(5 * MS);
    assert_eq!(rig.again, Some(10 * MS));
}

#[test]
fn a_pass_that_fails_names_the_soonest_retry() {
    let mut rig = Setup::default().rig(fail(7 * SECOND));
    rig.enqueued("a");
    assert_eq!(rig.again, Some(7 * SECOND));
}
