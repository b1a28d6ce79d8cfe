//! `workqueue_*`: the metrics follow a key through the queue.

use std::time::Duration;

use controller_core::api::AnswerClass;
use controller_core::controller::{Action, Order, Queue, Requeue};
use controller_core::workqueue::QueueMetrics;
use prometheus::Registry;

use crate::queue::ask_once;
use crate::rig::{MS, Rig, SECOND, Setup};
use crate::scripted::{Scripted, Seen};

fn counted(
    queue: Queue,
    next: impl Fn(&Seen<'_>) -> Action<Scripted> + Send + Sync + 'static,
) -> (Rig, Registry) {
    let registry = Registry::new();
    let metrics = QueueMetrics::register(&registry, || Duration::ZERO, "test").unwrap();
    let setup = Setup {
        queues: vec![queue],
        metrics: vec![Some(metrics)],
        ..Setup::default()
    };
    (setup.rig(next), registry)
}

/// A metric of the queue; waits are whole seconds here.
fn value(registry: &Registry, name: &str) -> i64 {
    let text = prometheus::TextEncoder::new()
        .encode_to_string(&registry.gather())
        .unwrap();
    let series = format!("{name}{{name=\"test\"}} ");
    let mut values = text.lines().filter_map(|line| line.strip_prefix(&series));
    values.next().unwrap().parse().unwrap()
}

#[track_caller]
fn assert_counts(registry: &Registry, adds: i64, depth: i64, begun: i64, ended: i64, retries: i64) {
    let counts = [
        "workqueue_adds_total",
        "workqueue_depth",
        "workqueue_queue_duration_seconds_count",
        "workqueue_work_duration_seconds_count",
        "workqueue_retries_total",
    ];
    let values = counts.map(|name| value(registry, name));
    assert_eq!(values, [adds, depth, begun, ended, retries]);
}

#[test]
fn the_metrics_follow_a_key_through_the_queue() {
    let (mut rig, registry) = counted(Queue::FIFO, ask_once);
    rig.enqueue("a");
    rig.enqueue("a");
    rig.enqueue("b");
    assert_counts(&registry, 2, 2, 0, 0, 0);
    rig.turn();
    assert_counts(&registry, 2, 1, 1, 0, 0);
    rig.enqueue("a");
    assert_counts(&registry, 3, 2, 1, 0, 0);
    rig.answered("a", "x");
    assert_counts(&registry, 3, 1, 2, 1, 0);
    rig.fail("b", AnswerClass::retry(false));
    rig.turn();
    assert_counts(&registry, 3, 0, 3, 2, 1);
    rig.answered("a", "x");
    assert_counts(&registry, 3, 0, 3, 3, 1);
    rig.after(5 * MS);
    assert_counts(&registry, 4, 0, 4, 3, 1);
}

#[test]
fn a_wait_that_was_asked_for_is_no_retry() {
    let (mut rig, registry) = counted(Queue::FIFO, |seen| {
        Action::Done(vec![(seen.key, Requeue::After(SECOND))])
    });
    rig.enqueued("a");
    rig.after(SECOND);
    assert_counts(&registry, 2, 0, 2, 2, 0);
}

#[test]
fn the_wait_in_the_queue_is_measured() {
    let (mut rig, registry) = counted(Queue::FIFO, ask_once);
    rig.enqueued("a");
    rig.enqueue("b");
    rig.after(3 * SECOND);
    rig.answered("a", "x");
    assert_eq!(value(&registry, "workqueue_queue_duration_seconds_sum"), 3);
}

#[test]
fn a_key_that_is_handed_out_at_its_time_is_counted_like_any_other() {
    let earliest_first = Queue {
        order: Order::EarliestFirst,
        ..Queue::FIFO
    };
    let (mut rig, registry) = counted(earliest_first, ask_once);
    rig.enqueued("a");
    assert_counts(&registry, 1, 0, 1, 0, 0);
    rig.answered("a", "x");
    assert_counts(&registry, 1, 0, 1, 1, 0);
}

#[test]
fn a_pass_that_ends_with_its_term_has_ended() {
    let (mut rig, registry) = counted(Queue::FIFO, ask_once);
    rig.enqueued("a");
    rig.lead(false);
    // The key waits for the next term.
    assert_counts(&registry, 2, 1, 1, 1, 0);
}

#[test]
fn keys_that_come_back_while_all_workers_are_busy_are_in_the_queue() {
    let (mut rig, registry) = counted(Queue::FIFO, ask_once);
    rig.enqueued("busy");
    rig.requeue_at("a", Requeue::After(100 * MS));
    rig.after(200 * MS);
    rig.enqueue("b");
    assert_counts(&registry, 3, 2, 1, 0, 0);
    rig.after(100 * MS);
    assert_eq!(rig.answered("busy", "x"), ["a asks a"], "a's time came first");
}
