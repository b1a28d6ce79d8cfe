//! Keys that are requeued at a set time, and the pace of passes.

use std::time::Duration;

use controller_core::controller::{Action, Order, Queue, Requeue};
use controller_core::time::saturating_add;
use controller_testing::sim::START;
use jiff::Timestamp;

use crate::queue::ask_once;
use crate::rig::{MS, NOTHING, Rig, SECOND, Setup};
use crate::scripted::{Scripted, Seen};

fn at(seconds: u64) -> Requeue {
    Requeue::At(wall(seconds))
}

fn wall(seconds: u64) -> Timestamp {
    saturating_add(START, Duration::from_secs(seconds))
}

fn done(_: &Seen<'_>) -> Action<Scripted> {
    Action::Done(vec![])
}

fn fifo() -> Rig {
    Setup::default().rig(done)
}

fn earliest_first(next: impl Fn(&Seen<'_>) -> Action<Scripted> + Send + Sync + 'static) -> Rig {
    with_workers(1, Order::EarliestFirst).rig(next)
}

fn with_workers(workers: usize, order: Order) -> Setup {
    Setup {
        queues: vec![Queue {
            order,
            workers,
            ..Queue::FIFO
        }],
        ..Setup::default()
    }
}

#[test]
fn a_key_comes_at_its_time_and_once() {
    let mut rig = fifo();
    rig.requeue_at("a", at(5));
    rig.turn();
    assert_eq!(rig.again, Some(5 * SECOND));
    rig.after(4_999 * MS);
    assert_eq!(rig.asked(), NOTHING);
    rig.after(MS);
    assert_eq!(rig.asked(), ["a"]);
    rig.after(60 * SECOND);
    assert_eq!(rig.asked(), NOTHING);
    assert_eq!((rig.event_loop.held(), rig.again), (0, None));
}

#[test]
fn of_two_waits_the_shorter_counts_and_of_two_times_the_later_named() {
    let mut rig = fifo();
    rig.requeue_at("waits", Requeue::After(5 * SECOND));
    rig.requeue_at("waits", Requeue::After(7 * SECOND));
    rig.requeue_at("timed", at(5));
    rig.requeue_at("timed", at(7));
    rig.after(6 * SECOND);
    assert_eq!(rig.asked(), ["waits"]);
    rig.requeue_at("timed", at(6));
    rig.turn();
    assert_eq!(rig.asked(), ["timed"]);
    rig.after(60 * SECOND);
    assert_eq!(rig.asked(), NOTHING);
}

#[test]
fn a_key_that_is_to_come_never_does_not_come() {
    for mut rig in [fifo(), earliest_first(done)] {
        rig.requeue_at("a", at(5));
        rig.requeue_at("a", Requeue::After(5 * SECOND));
        rig.requeue_at("a", Requeue::Cancel);
        rig.after(60 * SECOND);
        assert_eq!(rig.asked(), NOTHING);
        assert_eq!(rig.event_loop.held(), 0);
    }
}

#[test]
fn the_end_of_a_pass_names_the_time_at_which_its_key_comes_back() {
    for mut rig in [
        Setup::default().rig(|seen| {
            Action::Done(vec![(
                seen.key,
                Requeue::At(saturating_add(seen.now.wall, 9 * SECOND)),
            )])
        }),
        earliest_first(|seen| {
            Action::Done(vec![(
                seen.key,
                Requeue::At(saturating_add(seen.now.wall, 9 * SECOND)),
            )])
        }),
    ] {
        rig.requeue_at("a", at(20));
        rig.enqueued("a");
        assert_eq!(rig.asked(), ["a"]);
        // The 9 s replace the 20 s.
        assert_eq!(rig.event_loop.scheduled_at(&"a"), Some(wall(9)));
        rig.after(9 * SECOND);
        assert_eq!(rig.asked(), ["a"]);
    }
}

#[test]
fn the_earliest_goes_first_whenever_it_was_added() {
    let mut rig = earliest_first(ask_once);
    rig.requeue_at("c", at(3));
    rig.requeue_at("a", at(1));
    rig.requeue_at("b", at(2));
    assert_eq!(rig.after(10 * SECOND), ["a asks a"]);
    assert_eq!(rig.answered("a", "x"), ["b asks b"]);
    assert_eq!(rig.answered("b", "x"), ["c asks c"]);
}

#[test]
fn a_time_that_was_moved_counts() {
    let mut rig = earliest_first(done);
    rig.requeue_at("a", at(1));
    rig.requeue_at("b", at(2));
    rig.requeue_at("c", at(3));
    rig.requeue_at("a", at(4));
    rig.requeue_at("c", at(0));
    rig.after(3 * SECOND);
    assert_eq!(rig.asked(), ["c", "b"]);
    rig.after(SECOND);
    assert_eq!(rig.asked(), ["a"]);
}

#[test]
fn a_key_that_is_overdue_keeps_its_place_when_it_is_woken() {
    let mut rig = earliest_first(ask_once);
    rig.enqueued("busy");
    rig.requeue_at("a", at(1));
    rig.requeue_at("b", at(2));
    rig.now.wall = wall(10);
    rig.turn();
    rig.enqueue("a");
    assert_eq!(rig.answered("busy", "x"), ["a asks a"]);
}

#[test]
fn a_time_that_is_moved_during_the_pass_of_its_key_counts_after_it() {
    for order in [Order::Fifo, Order::EarliestFirst] {
        let mut rig = with_workers(2, order).rig(ask_once);
        rig.requeue_at("a", at(2));
        assert_eq!(rig.enqueued("a"), ["a asks a"]);
        rig.requeue_at("a", at(8));
        rig.after(4 * SECOND);
        assert_eq!(rig.answered("a", "x"), NOTHING, "the 2 s no longer count");
        assert_eq!(rig.event_loop.scheduled_at(&"a"), Some(wall(8)));
        assert_eq!(rig.after(4 * SECOND), ["a asks a"]);
    }
}

#[test]
fn what_is_cancelled_during_the_pass_of_its_key_does_not_come_after_it() {
    for mut rig in [Setup::default().rig(ask_once), earliest_first(ask_once)] {
        rig.enqueued("a");
        rig.requeue_at("a", at(2));
        rig.requeue_at("a", Requeue::Cancel);
        rig.answer("a", "x");
        assert_eq!(rig.after(60 * SECOND), NOTHING);
        assert_eq!(rig.event_loop.held(), 0);
    }
}

#[test]
fn passes_begin_no_faster_than_the_pace() {
    let mut rig = Setup::queue(Queue {
        workers: 10,
        interval: 100 * MS,
        ..Queue::FIFO
    })
    .rig(done);
    rig.enqueue_all(["a", "b", "c"]);
    rig.turn();
    assert_eq!((rig.asked(), rig.again), (vec!["a"], Some(100 * MS)));
    rig.after(99 * MS);
    assert_eq!(rig.asked(), NOTHING);
    rig.after(MS);
    assert_eq!(rig.asked(), ["b"]);
    rig.after(SECOND);
    assert_eq!(rig.asked(), ["c"], "unused passes are not saved up");
    rig.enqueued("d");
    assert_eq!(rig.asked(), NOTHING);
    rig.after(100 * MS);
    assert_eq!(rig.asked(), ["d"]);
}

#[test]
fn a_wall_clock_that_is_set_is_noticed_within_ten_seconds() {
    let mut rig = fifo();
    rig.requeue_at("a", at(3600));
    rig.turn();
    assert_eq!(rig.again, Some(10 * SECOND));
    rig.now.wall = wall(3600);
    rig.after(10 * SECOND);
    assert_eq!(rig.asked(), ["a"]);
}

/// A key that is scheduled by the wall clock would come an hour late.
#[test]
fn a_leader_whose_wall_clock_jumps_back_looks_at_everything_again() {
    for (leading, back, looks) in [(true, 2, 1), (true, 1, 0), (false, 2, 0)] {
        let mut rig = Setup {
            leading,
            ..Setup::default()
        }
        .rig(done);
        rig.turn();
        rig.now.wall = rig.now.wall.checked_sub(back * SECOND).unwrap();
        rig.turn();
        rig.turn();
        let resyncs = rig.event_loop.state().iter().filter(|event| *event == "Resync");
        assert_eq!(resyncs.count(), looks, "{leading} {back}");
        // Ahead, or slowly back.
        rig.now.wall = saturating_add(rig.now.wall, 3600 * SECOND);
        for _ in 0..10 {
            rig.now.wall = rig.now.wall.checked_sub(SECOND).unwrap();
            rig.turn();
        }
        let resyncs = rig.event_loop.state().iter().filter(|event| *event == "Resync");
        assert_eq!(resyncs.count(), looks);
    }
}

#[test]
fn a_wait_of_ages_and_a_time_at_the_end_of_the_calendar_are_harmless() {
    for order in [Order::Fifo, Order::EarliestFirst] {
        let mut rig = with_workers(1, order).rig(done);
        rig.requeue_at("a", Requeue::After(Duration::MAX));
        rig.requeue_at("b", Requeue::At(Timestamp::MAX));
        rig.requeue_at("c", Requeue::At(Timestamp::MIN));
        rig.after(Duration::from_hours(24));
        assert_eq!(rig.asked(), ["c"]);
    }
}

#[test]
fn a_key_that_is_scheduled_again_and_again_is_held_once() {
    let mut rig = fifo();
    for second in (1_000..2_000).chain((1..1_000).rev()) {
        rig.requeue_at("a", at(second));
        rig.requeue_at("a", Requeue::After(Duration::from_secs(second)));
    }
    rig.turn();
    assert_eq!(rig.event_loop.held(), 2, "a time and a delay");
}
