//! Which passes wait for the client-side limit, and in which order they get a permit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::Action;
use parking_lot::Mutex;

use crate::rig::{MS, NOTHING, Permits, Rig, SECOND, Setup};
use crate::scripted::{Scripted, Seen, Text, reads, writes};

/// The writes that each key wants, in order; a test may change them.
type Wishes = Arc<Mutex<BTreeMap<Text, Vec<Text>>>>;

fn step_of(wishes: &Wishes, seen: &Seen<'_>) -> Action<Scripted> {
    let wishes = wishes.lock();
    let mut open = wishes.get(seen.key).into_iter().flatten();
    match open.find(|write| !seen.is_accepted(write)) {
        None => Action::Done(vec![]),
        Some(write) => writes([*write]),
    }
}

/// One permit a second, a burst of one; the keys are enqueued.
fn one_a_second(wishes: &[(Text, &[Text])]) -> (Rig, Wishes) {
    let writes = wishes.iter().map(|(key, writes)| (*key, writes.to_vec()));
    let shared: Wishes = Arc::new(Mutex::new(writes.collect()));
    let known = Arc::clone(&shared);
    let setup = Setup::workers(9).limit(Permits::new(1.0, 1));
    let mut rig = setup.rig(move |seen| step_of(&known, seen));
    rig.enqueue_all(wishes.iter().map(|(key, _)| *key));
    (rig, shared)
}

#[test]
fn without_a_permit_nothing_is_sent() {
    let (mut rig, _) = one_a_second(&[("a", &["a=1"]), ("b", &["b=1"])]);
    assert_eq!(rig.turn(), ["a writes a=1"]);
    assert_eq!(rig.again, Some(SECOND));
    assert_eq!(rig.after(999 * MS), NOTHING);
    assert_eq!(rig.again, Some(MS));
    assert_eq!(rig.after(MS), ["b writes b=1"]);
}

#[test]
fn a_request_tells_how_long_it_has_waited_for_its_permit_and_not_for_its_object() {
    let (mut rig, _) = one_a_second(&[("a", &["x=1"]), ("b", &["x=2"]), ("c", &["y=1"])]);
    rig.turn();
    rig.after(SECOND);
    assert_eq!(rig.waited(), [("x=1", Duration::ZERO), ("y=1", SECOND)]);
    rig.after(9 * SECOND);
    rig.accept("x=1");
    assert_eq!(rig.turn(), ["b writes x=2"]);
    assert_eq!(rig.waited(), [("y=1", SECOND), ("x=2", Duration::ZERO)]);
}

#[test]
fn what_is_wanted_when_the_permit_comes_is_sent() {
    let (mut rig, wishes) = one_a_second(&[("a", &["a=1"]), ("b", &["b=1"])]);
    rig.turn();
    rig.asked();
    wishes.lock().insert("b", vec!["b=2"]);
    assert_eq!(rig.after(SECOND), ["b writes b=2"]);
    assert_eq!(rig.asked(), ["b"], "reconcile is called once more, and not again");
}

#[test]
fn queries_need_permits_too() {
    let setup = Setup::workers(9).limit(Permits::new(1.0, 1));
    let mut rig = setup.rig(crate::queue::ask_once);
    rig.enqueue_all(["a", "b"]);
    assert_eq!(rig.turn(), ["a asks a"]);
    assert_eq!(rig.after(SECOND), ["b asks b"]);
}

#[test]
fn a_write_that_waits_for_long_is_based_on_new_answers() {
    let asks_then_writes = |seen: &Seen<'_>| match (seen.key, seen.answer("q")) {
        ("b", None) => reads(["q"]),
        ("b", Some(_)) if !seen.is_accepted("x=2") => writes(["x=2"]),
        ("a", _) if !seen.is_accepted("x=1") => writes(["x=1"]),
        _ => Action::Done(vec![]),
    };
    for (waits, then) in [(5 * SECOND, "b writes x=2"), (5 * SECOND + MS, "b asks q")] {
        // For the object.
        let mut rig = Setup::workers(9).rig(asks_then_writes);
        assert_eq!(rig.enqueued("a"), ["a writes x=1"]);
        rig.enqueued("b");
        assert_eq!(rig.answered("q", "0"), NOTHING);
        rig.after(waits);
        assert_eq!(rig.accepted("x=1"), [then]);
        // For a permit.
        let seconds = 1.0 / waits.as_secs_f64();
        let setup = Setup::workers(9).limit(Permits::new(seconds, 1));
        let mut rig = setup.rig(asks_then_writes);
        assert_eq!(rig.enqueued("b"), ["b asks q"]);
        assert_eq!(rig.answered("q", "0"), NOTHING);
        assert_eq!(rig.after(waits), [then]);
        if then == "b asks q" {
            // It goes before others, and asks only once.
            assert_eq!(rig.enqueued("a"), NOTHING);
            assert_eq!(rig.answered("q", "1"), NOTHING);
            assert_eq!(rig.after(waits), ["b writes x=2"]);
        }
    }
}

#[test]
fn passes_that_wait_go_in_the_order_in_which_they_came() {
    let (mut rig, _) = one_a_second(&[("c", &["c=1"]), ("a", &["a=1"]), ("b", &["b=1"])]);
    assert_eq!(rig.turn(), ["c writes c=1"]);
    rig.enqueue("d");
    assert_eq!(rig.after(SECOND), ["a writes a=1"]);
    assert_eq!(rig.after(SECOND), ["b writes b=1"]);
}

#[test]
fn permits_that_have_come_together_are_used_together() {
    let setup = Setup::workers(9).limit(Permits::new(1.0, 2));
    let mut rig = setup.rig(|seen| writes([seen.key]));
    rig.enqueue_all(["a=1", "b=1"]);
    rig.turn();
    rig.enqueue_all(["c=1", "d=1"]);
    assert_eq!(rig.after(2 * SECOND), ["c=1 writes c=1", "d=1 writes d=1"]);
}

#[test]
fn a_pass_that_has_written_goes_before_those_that_have_not() {
    let (mut rig, _) = one_a_second(&[("a", &["a=1", "a=2"]), ("b", &["b=1"]), ("c", &["c=1"])]);
    assert_eq!(rig.turn(), ["a writes a=1"]);
    rig.after(500 * MS);
    assert_eq!(rig.accepted("a=1"), NOTHING);
    assert_eq!(rig.after(500 * MS), ["a writes a=2"]);
    assert_eq!(rig.after(SECOND), ["b writes b=1"]);
    assert_eq!(rig.after(SECOND), ["c writes c=1"]);
}

#[test]
fn a_permit_that_its_key_does_not_need_any_more_serves_the_next() {
    let (mut rig, wishes) = one_a_second(&[("a", &["a=1"]), ("b", &["b=1"]), ("c", &["c=1"])]);
    rig.turn();
    wishes.lock().remove("b");
    assert_eq!(rig.after(SECOND), ["c writes c=1"]);
    assert_eq!(rig.limit.taken.get(), 2);
}

#[test]
fn a_permit_that_nobody_needs_any_more_is_not_taken() {
    let (mut rig, wishes) = one_a_second(&[("a", &["a=1"]), ("b", &["b=1"])]);
    rig.turn();
    wishes.lock().remove("b");
    assert_eq!(rig.after(SECOND), NOTHING);
    assert_eq!(rig.limit.taken.get(), 1);
    wishes.lock().insert("d", vec!["d=1"]);
    assert_eq!(
        rig.enqueued("d"),
        ["d writes d=1"],
        "the next key gets the permit"
    );
}

#[test]
fn a_permit_is_taken_when_it_is_used() {
    let (mut rig, wishes) = one_a_second(&[("a", &["a=1"]), ("b", &["b=1"]), ("c", &["c=1"])]);
    rig.turn();
    for _ in 0..5 {
        rig.change();
        rig.after(10 * MS);
        assert_eq!(rig.limit.taken.get(), 1);
    }
    wishes.lock().insert("d", vec!["d=1"]);
    rig.enqueued("d");
    assert_eq!(rig.limit.taken.get(), 1);
}

#[test]
fn an_object_that_is_busy_lets_others_pass_and_costs_no_permit() {
    let (mut rig, _) = one_a_second(&[("a", &["x=1"]), ("b", &["x=2"]), ("c", &["y=1"])]);
    assert_eq!(rig.turn(), ["a writes x=1"]);
    assert_eq!(rig.after(SECOND), ["c writes y=1"]);
    rig.after(SECOND);
    assert_eq!(rig.limit.taken.get(), 2, "one for a, one for c");
    assert_eq!(rig.accepted("x=1"), ["b writes x=2"]);
}

#[test]
fn an_object_that_gets_busy_gives_the_permit_to_the_next() {
    let (mut rig, wishes) = one_a_second(&[("a", &["a=1", "x=1"]), ("b", &["x=2"]), ("c", &["y=1"])]);
    rig.turn();
    rig.accept("a=1");
    // Key a has already written, so it goes first.
    assert_eq!(rig.after(SECOND), ["a writes x=1"]);
    assert_eq!(rig.after(SECOND), ["c writes y=1"], "b waits for x");
    wishes.lock().remove("b");
    assert_eq!(rig.accepted("x=1"), NOTHING);
    assert_eq!(rig.limit.taken.get(), 3);
}

#[test]
fn of_those_that_wait_for_an_object_one_is_asked_when_it_is_free() {
    let keys: Vec<Text> = (0..1_000).map(|key| &*format!("k{key}").leak()).collect();
    let mut rig = Setup::workers(2_000).rig(|seen| {
        if seen.pass.outcomes().next().is_some() {
            Action::Done(vec![])
        } else {
            writes(["x=1"])
        }
    });
    rig.enqueue_all(keys.iter().copied());
    rig.turn();
    for key in &keys[1..] {
        rig.asked();
        assert_eq!(rig.accepted("x=1"), [format!("{key} writes x=1")]);
        assert_eq!(rig.asked().len(), 2, "the key that wrote, and the next one");
    }
    rig.accepted("x=1");
    assert_eq!(rig.event_loop.held(), 0);
}

#[test]
fn what_has_begun_and_what_has_not_take_turns() {
    let all = ["a=1", "a=2", "a=3", "a=4"];
    let (mut rig, _) = one_a_second(&[("a", &all), ("b", &["b=1"]), ("c", &["c=1"]), ("d", &["d=1"])]);
    rig.turn();
    let mut sent = Vec::new();
    for write in all {
        rig.accept(write);
        sent.extend((0..2).flat_map(|_| rig.after(SECOND)));
    }
    let expected = [
        "a writes a=2",
        "b writes b=1",
        "a writes a=3",
        "c writes c=1",
        "a writes a=4",
        "d writes d=1",
    ];
    assert_eq!(sent, expected);
}

#[test]
fn writes_that_go_side_by_side_take_a_permit_each() {
    let setup = Setup::workers(9).limit(Permits::new(1.0, 2));
    let mut rig = setup.rig(|seen| match seen.key {
        "a" => writes(["x=1", "y=1", "z=1"]),
        _ => writes(["b=1"]),
    });
    rig.enqueue("a");
    assert_eq!(rig.enqueued("b"), ["a writes x=1", "a writes y=1"]);
    assert_eq!(rig.after(SECOND), ["a writes z=1"]);
    assert_eq!(rig.after(SECOND), ["b writes b=1"]);
}

#[test]
fn an_answer_that_comes_while_its_pass_waits_costs_no_second_permit() {
    let setup = Setup::workers(9).limit(Permits::new(1.0, 1));
    let mut rig = setup.rig(|seen| {
        let open = ["p", "q"]
            .into_iter()
            .filter(|query| seen.answer(query).is_none());
        let open: Vec<_> = open.collect();
        if open.is_empty() {
            Action::Done(vec![])
        } else {
            reads(open)
        }
    });
    assert_eq!(rig.enqueued("a"), ["a asks p"]);
    assert_eq!(rig.answered("p", "x"), NOTHING);
    assert_eq!(rig.after(SECOND), ["a asks q"]);
    assert_eq!(rig.limit.taken.get(), 2);
}

#[test]
fn a_pass_whose_answer_it_shares_takes_no_permit() {
    let setup = Setup::workers(9).limit(Permits::new(1.0, 1));
    let mut rig = setup.rig(|seen| match (seen.key, seen.answer("q")) {
        ("first", _) => writes(["x=1"]),
        (_, None) => reads(["q"]),
        (_, Some(_)) => Action::Done(vec![]),
    });
    rig.enqueue_all(["first", "a", "b"]);
    assert_eq!(rig.turn(), ["first writes x=1"]);
    assert_eq!(rig.after(SECOND), ["a asks q"]);
    assert_eq!(rig.after(SECOND), NOTHING);
    // Key b waits for the answer to the query that a sent.
    assert_eq!(rig.limit.taken.get(), 2);
}

#[test]
fn a_pass_that_waits_for_long_keeps_its_place_and_is_not_asked_again() {
    let setup = Setup::workers(9).limit(Permits::new(0.001, 1));
    let mut rig = setup.rig(|seen| writes([seen.key]));
    rig.enqueue_all(["a=1", "b=1", "c=1"]);
    rig.turn();
    rig.asked();
    for _ in 0..99 {
        assert_eq!(rig.after(10 * SECOND), NOTHING);
        rig.enqueue("c=1");
    }
    assert_eq!(rig.asked(), NOTHING);
    assert_eq!(rig.after(10 * SECOND), ["b=1 writes b=1"]);
}

#[test]
fn without_a_limit_every_pass_goes_at_once() {
    let mut rig = Setup::workers(2_000).rig(|seen| writes([seen.key]));
    let keys: Vec<Text> = (0..2_000).map(|key| &*format!("object {key}").leak()).collect();
    rig.enqueue_all(keys.iter().copied());
    assert_eq!(rig.turn().len(), 2_000);
}

#[test]
fn a_read_is_not_kept_waiting_by_writes_without_end() {
    let setup = Setup::workers(200).limit(Permits::new(1.0, 1));
    let mut rig = setup.rig(|seen| match (seen.key, seen.reply("q")) {
        ("asks", None) => reads(["q"]),
        ("asks", Some(_)) => Action::Done(vec![]),
        (key, _) => writes([key]),
    });
    rig.enqueue_all((0..100).map(|number| &*format!("w{number}=1").leak()));
    rig.enqueued("asks");
    let sent: Vec<_> = (0..4).flat_map(|_| rig.after(SECOND)).collect();
    assert!(sent.contains(&"asks asks q".to_owned()), "{sent:?}");
}

#[test]
fn namespaces_take_turns_for_permits() {
    let many: Vec<Text> = (0..100).map(|key| &*format!("a/{key}=1").leak()).collect();
    let setup = Setup::workers(200).limit(Permits::new(1.0, 1));
    let mut rig = setup.rig(|seen| writes([seen.key]));
    rig.enqueue_all(many.iter().copied());
    rig.turn();
    rig.enqueue_all(["b/1=1", "b/2=1"]);
    rig.turn();
    let sent: Vec<_> = (0..4).flat_map(|_| rig.after(SECOND)).collect();
    assert_eq!(
        sent,
        [
            "a/1=1 writes a/1=1",
            "b/1=1 writes b/1=1",
            "a/2=1 writes a/2=1",
            "b/2=1 writes b/2=1"
        ]
    );
}
