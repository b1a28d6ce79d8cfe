//! What ends with a term, and what does not.

use controller_core::api::{AnswerClass, CallFailed, LeaseLost};
use controller_core::controller::{Action, Queue};

use crate::queue::ask_once;
use crate::rig::{MS, NOTHING, Permits, Rig, SECOND, Setup, call};
use crate::scripted::{Q, Scripted, Seen, reads, writes};

const NO_ANSWER: AnswerClass = AnswerClass::retry(true);

fn write(seen: &Seen<'_>) -> Action<Scripted> {
    if seen.is_accepted(seen.key) {
        Action::Done(vec![])
    } else {
        writes([seen.key])
    }
}

fn lease_lost() -> CallFailed {
    let (call, source) = (call(), LeaseLost);
    CallFailed::LeaseLost { call, source }
}

#[test]
fn no_key_of_a_queue_that_needs_a_term_is_handed_out_outside_one() {
    let setup = Setup {
        leading: false,
        ..Setup::default()
    };
    let mut rig = setup.rig(ask_once);
    assert_eq!(rig.enqueued("a"), NOTHING);
    assert_eq!((rig.asked(), rig.again), (vec![], None));
    rig.lead(true);
    assert_eq!(rig.turn(), ["a asks a"]);
}

#[test]
fn a_queue_that_needs_no_term_goes_on_without_one() {
    let setup = Setup {
        queues: vec![
            Queue::FIFO,
            Queue {
                needs_term: false,
                ..Queue::FIFO
            },
        ],
        leading: false,
        ..Setup::default()
    };
    let mut rig = setup.rig(ask_once);
    rig.enqueue("a");
    assert_eq!(rig.enqueued("low b"), ["low b asks low b"]);
    rig.lead(true);
    rig.lead(false);
    assert_eq!(rig.answered("low b", "x"), NOTHING);
    assert_eq!(
        rig.enqueued("low b"),
        ["low b asks low b"],
        "its pass has run to its end"
    );
}

#[test]
fn a_lost_term_ends_its_passes_at_once_and_also_those_that_wait() {
    let setup = Setup::workers(9).limit(Permits::new(1.0, 1));
    let mut rig = setup.rig(write);
    // One is sent, one waits for its object, two wait for a permit.
    rig.enqueue_all(["x=1", "x=2", "y=1", "z=1"]);
    assert_eq!(rig.turn(), ["x=1 writes x=1"]);
    rig.lead(false);
    rig.asked();
    assert_eq!(rig.turn(), NOTHING);
    assert_eq!(rig.limit.taken.get(), 1);
    rig.fail_with("x=1", lease_lost());
    assert_eq!(rig.after(60 * SECOND), NOTHING);
    assert_eq!(rig.asked(), NOTHING);
    assert_eq!(rig.again, None);
    rig.lead(true);
    assert_eq!(rig.turn(), ["x=1 writes x=1"], "the next term goes on with them");
}

#[test]
fn what_was_on_its_way_when_the_term_ended_is_still_remembered() {
    let mut rig = Setup::workers(9).rig(|seen| match seen.key {
        "reads" => ask_once(seen),
        _ => write(seen),
    });
    rig.enqueue_all(["reads", "x=1", "y=1"]);
    rig.turn();
    rig.lead(false);
    rig.answer("reads", "late");
    rig.accept("x=1");
    rig.fail_with("y=1", lease_lost());
    let result = rig.result();
    assert_eq!(
        result[result.len() - 3..],
        ["reads: late", "x=1: accepted", "y=1: LeaseLost"]
    );
    assert_eq!(rig.turn(), NOTHING);
    // A request dropped with the lost lease does not count as a failure.
    assert_eq!(rig.told()[1..], ["x=1 wrote x=1"]);
    assert_eq!(rig.event_loop.held(), 6, "only the keys wait, for the next term");
}

#[test]
fn events_are_dropped_outside_a_term() {
    let setup = Setup {
        leading: false,
        queues: vec![Queue {
            needs_term: false,
            ..Queue::FIFO
        }],
        ..Setup::default()
    };
    let mut rig = setup.rig(|seen| match seen.state.last().unwrap().as_str() {
        "said" => Action::Done(vec![]),
        _ => Action::Remember("said"),
    });
    rig.enqueued("a");
    assert_eq!(rig.result(), ["Synced", "said"]);
    assert_eq!(rig.told(), NOTHING);
    rig.lead(true);
    rig.enqueued("a");
    assert_eq!(rig.told(), ["Leading(true)", "said"]);
    rig.lead(false);
    assert_eq!(rig.told(), NOTHING);
}

#[test]
fn a_new_term_begins_its_passes_anew() {
    let mut rig = Setup::default().rig(|seen| match seen.answer("p") {
        None => reads(["p"]),
        Some(_) => ask_once(seen),
    });
    rig.enqueued("a");
    assert_eq!(rig.answered("p", "x"), ["a asks a"]);
    rig.lead(false);
    rig.lead(true);
    assert_eq!(rig.enqueued("a"), ["a asks p"]);
}

#[test]
fn a_query_of_the_last_term_is_asked_again_in_the_next_one() {
    let mut rig = Setup::default().rig(ask_once);
    rig.enqueued("a");
    rig.lead(false);
    rig.lead(true);
    assert_eq!(rig.turn(), ["a asks a"]);
    rig.answer("a", "old");
    assert_eq!(rig.turn(), NOTHING);
    assert_eq!(rig.event_loop.shared(&Q("a")), None);
    assert_ne!(rig.event_loop.held(), 0, "the key waits for its term's answer");
    rig.answered("a", "new");
    assert_eq!(rig.event_loop.held(), 0);
}

fn written_in_the_last_term() -> Rig {
    let mut rig = Setup::default().rig(write);
    assert_eq!(rig.enqueued("x=1"), ["x=1 writes x=1"]);
    rig.lead(false);
    rig.lead(true);
    rig.enqueue("x=1");
    // The object is busy until the write of the last term has ended.
    assert_eq!(rig.turn(), NOTHING);
    rig
}

#[test]
fn the_end_of_a_write_of_the_last_term_is_none_of_a_pass_of_this_one() {
    for failure in [lease_lost(), crate::rig::failed(NO_ANSWER)] {
        let mut rig = written_in_the_last_term();
        rig.fail_with("x=1", failure);
        assert_eq!(rig.turn(), ["x=1 writes x=1"]);
        assert_eq!(rig.accepted("x=1"), NOTHING);
        assert_eq!(rig.event_loop.held(), 0);
    }
}

#[test]
fn a_write_of_the_last_term_that_was_accepted_late_is_none_of_a_pass_of_this_one() {
    let mut rig = written_in_the_last_term();
    rig.accept("x=1");
    // The change of the write is already in the store.
    assert_eq!(rig.turn(), ["x=1 writes x=1"]);
}

#[test]
fn failures_are_remembered_across_terms() {
    let mut rig = Setup::default().rig(write);
    rig.enqueue("x=1");
    for wait in [5, 10] {
        rig.turn();
        rig.fail("x=1", NO_ANSWER);
        rig.turn();
        assert_eq!(rig.again, Some(wait * MS));
        rig.lead(false);
        assert_eq!(rig.after(SECOND), NOTHING);
        rig.lead(true);
    }
}
