//! How many passes there are at once.

use controller_core::controller::{Queue, Step};

use crate::queue::ask_once;
use crate::rig::{NOTHING, Rig, Setup};
use crate::scripted::{Scripted, Seen, reads, writes};

/// Reads, then writes.
fn read_then_write(seen: &Seen<'_>) -> Step<Scripted> {
    let write = match seen.key {
        "a" => "a=1",
        "b" => "b=1",
        _ => "c=1",
    };
    match seen.answer(seen.key) {
        None => reads([seen.key]),
        Some(_) if seen.is_accepted(write) => Step::Done(vec![]),
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
    rig.wake_all(["a", "b", "c", "d"]);
    assert_eq!(rig.turn(), ["a asks a", "b asks b"]);
    assert_eq!(rig.again, None, "nothing happens before an answer comes");
    assert_eq!(rig.answered("b", "x"), ["c asks c"]);
}

#[test]
fn a_read_that_is_out_holds_its_worker() {
    let mut rig = one_worker(true);
    rig.wake("a");
    assert_eq!(rig.woken("b"), ["a asks a"]);
    assert_eq!(rig.turn(), NOTHING);
}

#[test]
fn a_read_that_is_out_holds_no_worker_where_the_queue_says_so() {
    let mut rig = one_worker(false);
    rig.wake_all(["a", "b", "c"]);
    assert_eq!(rig.turn(), ["a asks a", "b asks b", "c asks c"]);
    assert_eq!(rig.answered("b", "x"), ["b writes b=1"]);
}

#[test]
fn a_write_that_is_out_holds_its_worker_in_any_case() {
    let mut rig = one_worker(false);
    rig.woken("a");
    assert_eq!(rig.answered("a", "x"), ["a writes a=1"]);
    assert_eq!(rig.woken("b"), NOTHING);
    assert_eq!(rig.accepted("a=1"), ["b asks b"]);
}

#[test]
fn a_term_that_ends_gives_parked_and_busy_workers_back() {
    let mut rig = one_worker(false);
    rig.wake("a");
    rig.woken("b");
    assert_eq!(rig.answered("b", "x"), ["b writes b=1"]);
    rig.lead(false);
    rig.lead(true);
    assert_eq!(rig.woken("c"), ["b asks b", "c asks c"]);
    assert_eq!(rig.answered("c", "x"), ["c writes c=1"]);
    assert_eq!(rig.woken("b"), NOTHING, "the one worker is busy");
}
