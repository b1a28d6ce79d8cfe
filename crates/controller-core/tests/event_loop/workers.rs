//! The number of passes that run at once.

use controller_core::api::AnswerClass;
use controller_core::controller::{Action, Queue};

use crate::queue::ask_once;
use crate::rig::{MS, NOTHING, Permits, Rig, SECOND, Setup};
use crate::scripted::{Scripted, Seen, Text, reads, writes};

fn read_then_write(seen: &Seen<'_>) -> Action<Scripted> {
    let write = match seen.key {
        "a" => "a=1",
        "b" => "b=1",
        _ => "c=1",
    };
    match seen.answer(seen.key) {
        None => reads([seen.key]),
        Some(_) if seen.is_accepted(write) => Action::Done(vec![]),
        Some(_) => writes([write]),
    }
}

fn one_worker(reads_hold_workers: bool) -> Rig {
    Setup::queue(Queue {
        reads_hold_workers,
        ..Queue::FIFO
    })
    .rig(read_then_write)
}

#[test]
fn as_many_keys_are_in_a_pass_as_there_are_workers() {
    let mut rig = Setup::workers(2).rig(ask_once);
    rig.enqueue_all(["a", "b", "c", "d"]);
    assert_eq!(rig.turn(), ["a asks a", "b asks b"]);
    assert_eq!(rig.answered("b", "x"), ["c asks c"]);
}

#[test]
fn a_request_is_not_slow_because_its_pass_has_waited_for_a_permit() {
    let setup = Setup::workers(1).limit(Permits::new(0.5, 1));
    let mut rig = setup.rig(|seen| {
        if seen.is_accepted(seen.key) {
            Action::Done(vec![])
        } else {
            writes([seen.key])
        }
    });
    rig.enqueue_all(["a=1", "b=1", "c=1"]);
    assert_eq!(rig.turn(), ["a=1 writes a=1"]);
    assert_eq!(rig.accepted("a=1"), NOTHING);
    assert_eq!(rig.after(2 * SECOND), ["b=1 writes b=1"]);
    rig.asked();
    rig.after(999 * MS);
    assert_eq!(rig.asked(), Vec::<Text>::new(), "the only worker is busy");
    rig.after(MS);
    assert_eq!(rig.asked(), ["c=1"]);
}

/// Removes the ended request; returns the number in flight.
fn out(sent: &mut Vec<String>, ended: &str) -> usize {
    sent.retain(|text| !text.ends_with(ended));
    sent.len()
}

#[test]
fn keys_that_fail_again_and_again_hold_a_quarter_of_the_workers() {
    let failing: Vec<Text> = (0..12).map(|key| &*format!("f{key}=1").leak()).collect();
    for (workers, at_most) in [(1, 1), (3, 1), (5, 1), (8, 2)] {
        let mut rig = Setup::workers(workers).rig(|seen| match seen.outcome(seen.key) {
            None => writes([seen.key]),
            Some(_) => Action::Done(vec![]),
        });
        for key in &failing {
            rig.fail_once(key, key, AnswerClass::Invalid);
        }
        // Each request takes half a second, and fails.
        let mut sent = rig.after(SECOND);
        for round in 0..40 {
            assert!(sent.len() <= at_most, "{sent:?}");
            rig.now.uptime += 500 * MS;
            let fails = sent[0].split(' ').next().unwrap().to_owned();
            rig.fail(
                failing.iter().find(|key| **key == fails).unwrap(),
                AnswerClass::Invalid,
            );
            out(&mut sent, &fails);
            let fresh: Text = format!("fresh {round}=1").leak();
            let begun = rig.enqueued(fresh);
            assert!(begun.contains(&format!("{fresh} writes {fresh}")), "{begun:?}");
            let now = rig.accepted(fresh);
            sent.extend(begun.into_iter().chain(now));
            out(&mut sent, fresh);
            if sent.is_empty() {
                sent = rig.after(300 * SECOND);
            }
        }
    }
}

#[test]
fn a_request_that_takes_longer_than_a_second_holds_no_worker() {
    let mut rig = one_worker(true);
    rig.enqueued("a");
    rig.answered("a", "x");
    for key in ["b", "c"] {
        assert_eq!(rig.enqueued(key), NOTHING);
    }
    assert_eq!(rig.after(999 * MS), NOTHING);
    assert_eq!(rig.after(MS), ["b asks b"]);
    assert_eq!(rig.after(SECOND), ["c asks c"]);
    // A slow pass continues at once when its answer comes.
    assert_eq!(rig.answered("b", "x"), ["b writes b=1"]);
    rig.accept("a=1");
    assert_eq!(rig.accepted("b=1"), NOTHING);
}

#[test]
fn a_read_that_is_out_holds_its_worker() {
    let mut rig = one_worker(true);
    rig.enqueue("a");
    assert_eq!(rig.enqueued("b"), ["a asks a"]);
    assert_eq!(rig.turn(), NOTHING);
}

#[test]
fn a_read_that_is_out_holds_no_worker_where_the_queue_says_so() {
    let mut rig = one_worker(false);
    rig.enqueue_all(["a", "b", "c"]);
    assert_eq!(rig.turn(), ["a asks a", "b asks b", "c asks c"]);
    assert_eq!(rig.answered("b", "x"), ["b writes b=1"]);
}

#[test]
fn a_write_that_is_out_holds_its_worker_in_any_case() {
    let mut rig = one_worker(false);
    rig.enqueued("a");
    assert_eq!(rig.answered("a", "x"), ["a writes a=1"]);
    assert_eq!(rig.enqueued("b"), NOTHING);
    assert_eq!(rig.accepted("a=1"), ["b asks b"]);
}

#[test]
fn a_term_that_ends_gives_parked_and_busy_workers_back() {
    let mut rig = one_worker(false);
    rig.enqueue("a");
    rig.enqueued("b");
    assert_eq!(rig.answered("b", "x"), ["b writes b=1"]);
    rig.lead(false);
    rig.lead(true);
    assert_eq!(rig.enqueued("c"), ["a asks a", "b asks b", "c asks c"]);
    assert_eq!(rig.answered("c", "x"), ["c writes c=1"]);
    assert_eq!(rig.enqueued("b"), NOTHING, "the one worker is busy");
}

#[test]
fn a_namespace_whose_requests_take_long_has_no_more_of_them_than_workers_and_a_quarter() {
    let many: Vec<Text> = (0..400).map(|key| &*format!("a/{key}=1").leak()).collect();
    let mut rig = Setup::workers(8).rig(|seen| {
        if seen.outcome(seen.key).is_some() {
            Action::Done(vec![])
        } else {
            writes([seen.key])
        }
    });
    rig.enqueue_all(many.iter().copied());
    let mut out = rig.turn();
    for _ in 0..9 {
        out.extend(rig.after(SECOND));
    }
    assert_eq!(out.len(), 8, "all are slow, and no other begins");
    assert_eq!(rig.enqueued("b/1=1"), ["b/1=1 writes b/1=1"]);
    assert_eq!(rig.accepted("b/1=1"), NOTHING);
    // With slow passes in less than a quarter of the workers, the next passes begin.
    for key in &many[..6] {
        assert_eq!(rig.accepted(key), NOTHING);
    }
    assert_eq!(rig.accepted(many[6]).len(), 8);
}
