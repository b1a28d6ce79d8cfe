//! Refused writes, parallel writes, and passes that make no progress.

use controller_core::api::{AnswerClass, Denial};
use controller_core::controller::Action;

use crate::rig::{MS, NOTHING, Setup};
use crate::scripted::{Scripted, Seen, Text, reads, writes};

const REFUSED: AnswerClass = AnswerClass::Forbidden(Denial::ThisObject);

/// Wants all of these writes accepted in one pass.
fn write_all(all: &'static [Text]) -> impl Fn(&Seen<'_>) -> Action<Scripted> {
    move |seen| {
        let open = all.iter().filter(|write| !seen.is_accepted(write));
        let open: Vec<_> = open.copied().collect();
        if open.is_empty() {
            Action::Done(vec![])
        } else {
            writes(open)
        }
    }
}

#[test]
fn writes_that_do_not_depend_on_each_other_go_side_by_side() {
    let mut rig = Setup::default().rig(write_all(&["x=1", "y=1", "z=1"]));
    assert_eq!(
        rig.enqueued("a"),
        ["a writes x=1", "a writes y=1", "a writes z=1"]
    );
    assert_eq!(rig.accepted("y=1"), NOTHING, "nothing is sent twice");
    rig.accept("x=1");
    assert_eq!(rig.accepted("z=1"), NOTHING);
    assert_eq!(rig.told()[1..], ["a wrote y=1", "a wrote x=1", "a wrote z=1"]);
    assert_eq!(rig.event_loop.held(), 0);
}

#[test]
fn writes_to_one_object_go_one_after_the_other() {
    let mut rig = Setup::default().rig(write_all(&["x=1", "x=2", "y=1"]));
    assert_eq!(rig.enqueued("a"), ["a writes x=1", "a writes y=1"]);
    assert_eq!(rig.accepted("x=1"), ["a writes x=2"]);
}

#[test]
fn a_refused_write_is_not_sent_again_in_its_pass_and_does_not_stop_the_others() {
    let mut rig = Setup::default().rig(|seen| {
        if seen.is_accepted("y=1") {
            writes(["x=1", "z=1"])
        } else {
            writes(["x=1", "y=1"])
        }
    });
    assert_eq!(rig.enqueued("a"), ["a writes x=1", "a writes y=1"]);
    rig.fail("x=1", REFUSED);
    rig.change();
    assert_eq!(rig.turn(), NOTHING);
    assert_eq!(rig.accepted("y=1"), ["a writes z=1"]);
    assert_eq!(rig.accepted("z=1"), NOTHING);
    // The next pass tries all writes again.
    assert_eq!(rig.after(5 * MS), ["a writes x=1", "a writes y=1"]);
    assert_eq!(
        rig.told()[1..],
        ["a failed: Forbidden", "a wrote y=1", "a wrote z=1"]
    );
}

#[test]
fn a_write_to_an_object_that_is_gone_fails_no_pass_and_is_not_sent_again_in_it() {
    let mut rig = Setup::default().rig(write_all(&["x=1", "y=1"]));
    rig.enqueued("a");
    rig.fail("x=1", AnswerClass::Gone);
    assert_eq!(rig.turn(), NOTHING);
    assert_eq!(rig.accepted("y=1"), NOTHING);
    assert_eq!(rig.event_loop.held(), 0, "the watch will show and enqueue it");
    assert_eq!(rig.told()[1..], ["a wrote y=1"]);
}

#[test]
fn an_accepted_write_that_is_wanted_again_in_its_pass_is_no_progress() {
    let mut rig = Setup::default().rig(|_| writes(["x=1"]));
    rig.enqueue("a");
    for wait in [5, 10, 20] {
        assert_eq!(rig.turn(), ["a writes x=1"]);
        rig.accept("x=1");
        rig.change();
        assert_eq!(rig.turn(), NOTHING);
        assert_eq!(rig.told().last().unwrap(), "a makes no progress");
        assert_eq!(rig.again, Some(wait * MS));
        rig.now.uptime += wait * MS;
    }
}

#[test]
fn a_note_is_remembered_and_the_key_is_asked_about_again_at_once() {
    let mut rig = Setup::default().rig(|seen| match seen.state.last().unwrap().as_str() {
        "first" => Action::Remember("second"),
        "second" => writes(["x=1"]),
        _ => Action::Remember("first"),
    });
    assert_eq!(rig.enqueued("a"), ["a writes x=1"]);
    assert_eq!(rig.result()[2..], ["first", "second", "writes x=1"]);
    assert_eq!(rig.asked(), ["a", "a", "a"]);
}

#[test]
fn notes_without_end_are_no_progress() {
    let mut rig = Setup::default().rig(|_| Action::Remember("again"));
    assert_eq!(rig.enqueued("a"), NOTHING);
    assert_eq!(rig.asked().len(), 1_001);
    assert_eq!(rig.told().last().unwrap(), "a makes no progress");
    assert_eq!(rig.again, Some(5 * MS));
}

#[test]
fn a_step_of_nothing_is_no_progress() {
    for step in [reads([]), writes([])] {
        let mut rig = Setup::default().rig(move |_| step.clone());
        assert_eq!(rig.enqueued("a"), NOTHING);
        assert_eq!(rig.told().last().unwrap(), "a makes no progress");
    }
}

#[test]
fn an_object_that_is_busy_stops_no_independent_write_of_the_same_step() {
    let mut rig = Setup::workers(2).rig(|seen| match seen.key {
        "holder" => write_all(&["x=1"])(seen),
        _ => write_all(&["x=2", "y=2"])(seen),
    });
    rig.enqueue("holder");
    assert_eq!(rig.enqueued("a"), ["holder writes x=1", "a writes y=2"]);
    assert_eq!(rig.accepted("y=2"), NOTHING);
    assert_eq!(rig.accepted("x=1"), ["a writes x=2"]);
}
