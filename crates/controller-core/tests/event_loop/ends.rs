//! Drain and dry run.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use controller_core::api::AnswerClass;
use controller_core::controller::{Action, LoopEvent, Requeue};
use parking_lot::Mutex;

use crate::queue::ask_once;
use crate::rig::{MS, NOTHING, Permits, Rig, SECOND, Setup};
use crate::scripted::{Scripted, Seen, reads, writes};

#[test]
fn a_drain_takes_no_new_keys_and_lets_passes_run_to_their_end() {
    let mut rig = Setup::workers(2)
        .limit(Permits::new(1.0, 1))
        .rig(|seen| match seen.answer("q") {
            None => reads(["q"]),
            Some(_) if seen.is_accepted(seen.key) => Action::Done(vec![(seen.key, Requeue::Now)]),
            Some(_) => writes([seen.key]),
        });
    rig.enqueue_all(["x=1", "y=1", "z=1"]);
    assert_eq!(rig.turn(), ["x=1 asks q"]);
    assert!(!rig.event_loop.is_drained(), "no drain has begun");
    rig.event_loop.drain();
    assert_eq!(rig.answered("q", "x"), NOTHING);
    assert_eq!(rig.after(SECOND), ["x=1 writes x=1"]);
    rig.accept("x=1");
    assert_eq!(rig.after(SECOND), ["y=1 writes y=1"]);
    assert!(!rig.event_loop.is_drained());
    rig.fail("y=1", AnswerClass::Conflict);
    assert_eq!(rig.turn(), NOTHING);
    assert!(rig.event_loop.is_drained());
    assert_eq!(rig.after(60 * SECOND), NOTHING);
    assert_eq!(rig.again, None);
}

#[test]
fn a_drain_of_a_loop_without_passes_is_over_at_once() {
    for mut rig in [
        Setup::default().rig(ask_once),
        Setup::default().unsynced(ask_once),
    ] {
        rig.enqueue("a");
        rig.event_loop.drain();
        assert!(rig.event_loop.is_drained());
        assert_eq!(rig.turn(), NOTHING);
    }
}

#[test]
fn caches_that_are_full_after_a_drain_has_begun_start_nothing() {
    let mut rig = Setup::default().unsynced(ask_once);
    rig.lead(true);
    rig.enqueue("a");
    rig.event_loop.drain();
    rig.event_loop.on_event(LoopEvent::Synced, rig.now);
    assert_eq!(rig.turn(), NOTHING);
    assert!(rig.event_loop.is_drained());
}

#[test]
fn a_lost_term_ends_a_drain() {
    let mut rig = Setup::default().rig(ask_once);
    rig.enqueued("a");
    rig.event_loop.drain();
    rig.lead(false);
    assert!(rig.event_loop.is_drained());
}

const MINUTE: Duration = Duration::from_mins(1);

fn dry(next: impl Fn(&Seen<'_>) -> Action<Scripted> + Send + Sync + 'static) -> Rig {
    let setup = Setup {
        dry_run: true,
        // A dry run sends nothing, so it needs no permit.
        limit: Permits::new(0.001, 1),
        ..Setup::default()
    };
    setup.rig(next)
}

/// The notifications, except those of the term.
fn planned(rig: &mut Rig) -> Vec<String> {
    let told = rig.told().into_iter();
    told.filter(|told| !told.starts_with("Leading")).collect()
}

#[test]
fn a_dry_run_sends_nothing_and_goes_on_as_if_it_had() {
    let mut rig = dry(|seen| match seen.outcome("step=1") {
        None => writes(["step=1", "x=1"]),
        Some(_) => writes(["x=1", "y=1"]),
    });
    assert_eq!(rig.enqueued("a"), NOTHING);
    assert_eq!(rig.limit.taken.get(), 0);
    assert_eq!(
        rig.result()[2..],
        ["step=1: planned", "x=1: planned", "y=1: planned"]
    );
    // A step towards another write does not count.
    assert_eq!(planned(&mut rig), ["a would write x=1", "a would write y=1"]);
    rig.asked();
    rig.after(4 * MINUTE);
    assert_eq!(rig.asked(), NOTHING, "the pass has not failed");
}

#[test]
fn a_planned_write_is_counted_once_until_the_plan_changes() {
    let mut rig = dry(|seen| {
        let changed = seen.knows("Leading(false)");
        writes(if changed { ["x=1", "y=2"] } else { ["x=1", "y=1"] })
    });
    rig.enqueued("a");
    assert_eq!(planned(&mut rig), ["a would write x=1", "a would write y=1"]);
    rig.enqueued("a");
    assert_eq!(planned(&mut rig), NOTHING);
    rig.enqueued("b");
    // Each key has its own plan.
    assert_eq!(planned(&mut rig), ["b would write x=1", "b would write y=1"]);
    rig.lead(false);
    rig.lead(true);
    rig.enqueued("a");
    assert_eq!(planned(&mut rig), ["a would write y=2"]);
}

#[test]
fn a_plan_that_was_given_up_is_counted_when_it_comes_back() {
    let is_wanted = Arc::new(AtomicBool::new(true));
    let wanted = Arc::clone(&is_wanted);
    let mut rig = dry(move |_| {
        if wanted.load(SeqCst) {
            writes(["x=1"])
        } else {
            Action::Done(vec![])
        }
    });
    for (wanted, counted) in [
        (true, &["a would write x=1"][..]),
        (false, &[]),
        (true, &["a would write x=1"]),
    ] {
        is_wanted.store(wanted, SeqCst);
        rig.enqueued("a");
        assert_eq!(planned(&mut rig), counted);
    }
}

#[test]
fn a_plan_that_nobody_makes_for_five_minutes_is_undone() {
    let wanted = Arc::new(Mutex::new(vec!["x=1"]));
    let of_a = Arc::clone(&wanted);
    let mut rig = dry(move |_| match &of_a.lock()[..] {
        [] => Action::Done(vec![]),
        planned => writes(planned.iter().copied()),
    });
    // Minutes that pass, the wanted writes, the plans reported then, and the number of keys left undone.
    for (minutes, planned, undone) in [
        (0, &["x=1"][..], 0),
        (4, &["x=2"], 0),
        // Another plan for the same key does not restart the five minutes.
        (1, &["x=2"], 1),
        // Another writer has made the write.
        (1, &[], 0),
        (1, &["x=3"], 0),
        (4, &["x=3"], 0),
        (1, &["x=3"], 1),
        (0, &[], 0),
        // A step towards another write does not count.
        (1, &["step=1"], 0),
        (9, &["step=1"], 0),
        (0, &["step=1", "x=4"], 1),
    ] {
        rig.after(minutes * MINUTE);
        *wanted.lock() = planned.to_vec();
        rig.enqueue("a");
        rig.turn();
        assert_eq!(
            rig.event_loop.undone(),
            undone,
            "{planned:?} at {:?}",
            rig.now.uptime
        );
    }
}

#[test]
fn a_key_with_a_plan_is_asked_again_every_five_minutes() {
    let is_wanted = Arc::new(AtomicBool::new(true));
    let wanted = Arc::clone(&is_wanted);
    let mut rig = dry(move |seen| {
        if seen.key == "a" && wanted.load(SeqCst) {
            writes(["x=1"])
        } else {
            Action::Done(vec![])
        }
    });
    rig.enqueue_all(["a", "b"]);
    rig.turn();
    rig.asked();
    let mut minute = || {
        rig.after(MINUTE);
        (
            rig.asked().contains(&"a"),
            rig.event_loop.undone(),
            rig.event_loop.held(),
        )
    };
    let minutes: Vec<_> = (1..=10).map(|_| minute()).collect();
    assert_eq!(minutes[..4], [(false, 0, 1); 4]);
    assert_eq!(
        minutes[4..9],
        [[(true, 1, 1)].as_slice(), &[(false, 1, 1); 4]].concat()
    );
    assert_eq!(minutes[9], (true, 1, 1));
    // The object is deleted, which enqueues no key.
    is_wanted.store(false, SeqCst);
    let minutes: Vec<_> = (1..=10).map(|_| minute()).collect();
    assert_eq!(minutes[..4], [(false, 1, 1); 4]);
    assert_eq!(
        minutes[4..],
        [[(true, 0, 0)].as_slice(), &[(false, 0, 0); 5]].concat()
    );
    assert_eq!(planned(&mut rig), ["a would write x=1"]);
}

fn read_then_plan(seen: &Seen<'_>) -> Action<Scripted> {
    match seen.reply("q") {
        None => reads(["q"]),
        Some(reply) if reply.value.is_err() => Action::Done(vec![]),
        Some(_) => writes(["x=1"]),
    }
}

fn planned_once(rig: &mut Rig) {
    rig.limit = Permits::default();
    assert_eq!(rig.enqueued("a"), ["a asks q"]);
    rig.answered("q", "x");
    assert_eq!(planned(rig), ["a would write x=1"]);
    assert_eq!(rig.enqueued("a"), ["a asks q"]);
}

#[test]
fn a_plan_that_could_not_be_made_has_not_changed() {
    let mut rig = dry(read_then_plan);
    planned_once(&mut rig);
    rig.fail("q", AnswerClass::retry(false));
    rig.turn();
    assert_eq!(rig.after(5 * MS), ["a asks q"]);
    rig.answered("q", "x");
    assert_eq!(planned(&mut rig), ["a failed: Failed"]);
}

#[test]
fn a_plan_that_the_end_of_a_term_has_cut_off_has_not_changed() {
    let mut rig = dry(read_then_plan);
    planned_once(&mut rig);
    rig.lead(false);
    rig.lead(true);
    rig.enqueue("a");
    assert_eq!(rig.answered("q", "x"), ["a asks q"]);
    rig.answered("q", "x");
    assert_eq!(planned(&mut rig), NOTHING);
}

#[test]
fn a_write_that_is_planned_again_in_one_pass_is_counted_once() {
    let mut rig = dry(|seen| match (seen.outcome("x=1"), seen.reply("q")) {
        (Some(_), None) => reads(["q"]),
        _ => writes(["x=1"]),
    });
    rig.limit = Permits::default();
    assert_eq!(rig.enqueued("a"), ["a asks q"]);
    rig.answer("q", "x");
    rig.change();
    rig.turn();
    assert_eq!(planned(&mut rig), ["a would write x=1"]);
}
