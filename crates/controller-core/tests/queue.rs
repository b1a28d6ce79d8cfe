//! The work queue, case by case.
//!
//! client-go v0.36.3, `util/workqueue`, and where its cases are covered:
//!
//! | client-go | here |
//! |---|---|
//! | `TestBasic` | `fifty_producers_and_ten_workers_process_every_key` |
//! | `TestAddWhileProcessing` | `a_key_added_while_it_is_processed_is_processed_again`, `fifty_producers_and_ten_workers_process_every_key` |
//! | `TestLen` | `the_length_counts_a_key_once` |
//! | `TestReinsert` | `a_key_added_while_it_is_processed_is_processed_again` |
//! | `TestCollapse` | `adds_of_a_waiting_key_collapse` |
//! | `TestCollapseWhileProcessing` | `adds_of_a_key_being_processed_collapse` |
//! | `TestQueueDrainageUsingShutDownWithDrain` | `a_drain_completes_when_the_last_key_is_done` |
//! | `TestNoQueueDrainageUsingShutDown` | `a_shutdown_does_not_wait_for_what_is_processed` |
//! | `TestForceQueueShutdownUsingShutDown` | `a_shutdown_ends_a_drain` |
//! | `TestQueueDrainageUsingShutDownWithDrainWithDirtyItem` | `a_drain_processes_a_key_that_was_added_while_processed` |
//! | `TestGarbageCollection` | `a_processed_key_is_not_kept` |
//! | `TestSimpleQueue` | `a_delayed_key_comes_at_its_time_and_once` |
//! | `TestDeduping` | `of_two_delays_the_earlier_counts` |
//! | `TestAddTwoFireEarly` | `an_earlier_key_added_later_comes_first` |
//! | `TestCopyShifting` | `keys_come_in_the_order_of_their_times` |
//! | `TestRateLimitingQueue` | `a_failed_key_comes_back_after_its_delay` |
//! | `TestItemExponentialFailureRateLimiter`, `…OverFlow` | `the_delay_of_a_key_doubles_up_to_its_maximum` |
//! | `TestMaxOfRateLimiter` | `the_longer_of_two_delays_counts` |
//! | `TestItemFastSlowRateLimiter`, `TestWithMaxWaitRateLimiter` | not applicable: those limiters are not provided, no controller of ours uses them |
//! | `TestMetrics`, `TestMetricShutdown` | `the_metrics_follow_a_key_through_the_queue`; nothing ticks here, so there is nothing to shut down |
//!
//! Different on purpose: a drain also waits for keys that no worker has taken yet, and `retries_total`
//! counts failures only (`a_planned_delay_is_not_a_retry`).
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use controller_core::clock::Clock;
use controller_core::workqueue::{
    Bucket, DefaultRateLimiter, ItemExponential, MaxOf, Processing, QueueMetrics, RateLimiter, WorkQueue,
};
use futures::FutureExt;
use parking_lot::Mutex;
use prometheus::Registry;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn clock() -> Clock {
    Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap())
}

fn queue<K: Clone + Eq + std::hash::Hash + Send + Sync + 'static>() -> WorkQueue<K> {
    with_metrics(&Registry::new())
}

fn with_metrics<K: Clone + Eq + std::hash::Hash + Send + Sync + 'static>(
    registry: &Registry,
) -> WorkQueue<K> {
    let metrics = QueueMetrics::register(registry, clock(), "test").unwrap();
    WorkQueue::new(clock(), DefaultRateLimiter::new(clock()), metrics)
}

/// The key that is there now, if any.
fn now<K: Clone + Eq + std::hash::Hash + Send + Sync + 'static>(
    queue: &WorkQueue<K>,
) -> Option<Processing<K>> {
    queue.get().now_or_never().flatten()
}

#[tokio::test(start_paused = true)]
async fn fifty_producers_and_ten_workers_process_every_key() {
    let queue = queue();
    let processed = Mutex::new(BTreeMap::<u32, usize>::new());
    let busy = Mutex::new(BTreeSet::new());
    let produce = async {
        for round in 0..10 {
            for key in 0..50 {
                queue.add(key);
                tokio::time::sleep(Duration::from_micros(round)).await;
            }
        }
        queue.shut_down();
    };
    let work = || async {
        while let Some(key) = queue.get().await {
            assert!(
                busy.lock().insert(*key),
                "key {} is processed twice at once",
                *key
            );
            tokio::time::sleep(Duration::from_micros(37)).await;
            *processed.lock().entry(*key).or_default() += 1;
            busy.lock().remove(key.key());
        }
    };
    futures::join!(produce, futures::future::join_all((0..10).map(|_| work())));
    let processed = processed.into_inner();
    assert_eq!(processed.len(), 50);
    assert!(
        processed.values().all(|times| (1..=10).contains(times)),
        "{processed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_added_while_it_is_processed_is_processed_again() {
    let queue = queue();
    queue.add("foo");
    let first = now(&queue).unwrap();
    queue.add("foo");
    assert!(now(&queue).is_none(), "foo is processed twice at once");
    drop(first);
    let second = now(&queue).unwrap();
    assert_eq!(*second, "foo");
    drop(second);
    assert!(now(&queue).is_none());
}

#[tokio::test(start_paused = true)]
async fn the_length_counts_a_key_once() {
    let queue = queue();
    queue.add("foo");
    assert_eq!(queue.len(), 1);
    queue.add("bar");
    assert_eq!(queue.len(), 2);
    queue.add("foo");
    assert_eq!(queue.len(), 2);
    assert!(!queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn adds_of_a_waiting_key_collapse() {
    let queue = queue();
    queue.add("bar");
    queue.add("bar");
    drop(now(&queue).unwrap());
    assert!(now(&queue).is_none());
}

#[tokio::test(start_paused = true)]
async fn adds_of_a_key_being_processed_collapse() {
    let queue = queue();
    queue.add("bar");
    let first = now(&queue).unwrap();
    queue.add("bar");
    queue.add("bar");
    assert_eq!(queue.len(), 0);
    drop(first);
    assert_eq!(queue.len(), 1);
    drop(now(&queue).unwrap());
    assert!(now(&queue).is_none());
}

#[tokio::test(start_paused = true)]
async fn keys_come_in_the_order_they_were_added() {
    let queue = queue();
    for key in [3, 1, 2, 1] {
        queue.add(key);
    }
    let order: Vec<i32> = std::iter::from_fn(|| now(&queue).map(|key| *key)).collect();
    assert_eq!(order, [3, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_completes_when_the_last_key_is_done() {
    let queue = queue();
    queue.add("foo");
    queue.add("bar");
    let (first, second) = (now(&queue).unwrap(), now(&queue).unwrap());
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!((&mut drain).now_or_never().is_none());
    drop(first);
    assert!((&mut drain).now_or_never().is_none());
    drop(second);
    assert!(drain.now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_keys_that_nobody_has_taken_yet() {
    let queue = queue();
    queue.add("foo");
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!((&mut drain).now_or_never().is_none());
    drop(now(&queue).unwrap());
    assert!(drain.now_or_never().is_some());
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_drain_processes_a_key_that_was_added_while_processed() {
    let queue = queue();
    queue.add("foo");
    let first = now(&queue).unwrap();
    queue.add("foo");
    let mut drain = Box::pin(queue.shut_down_with_drain());
    drop(first);
    assert!((&mut drain).now_or_never().is_none());
    drop(now(&queue).unwrap());
    assert!(drain.now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_what_is_processed() {
    let queue = queue();
    queue.add("foo");
    let first = now(&queue).unwrap();
    queue.shut_down();
    assert!(queue.is_shutting_down());
    assert!(queue.get().await.is_none());
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_drain() {
    let queue = queue();
    queue.add("foo");
    let first = now(&queue).unwrap();
    let mut drain = Box::pin(queue.shut_down_with_drain());
    assert!((&mut drain).now_or_never().is_none());
    queue.shut_down();
    assert!(drain.now_or_never().is_some());
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_hands_out_what_waits_and_takes_no_more() {
    let queue = queue();
    queue.add("foo");
    queue.add_after("later", SECOND);
    queue.shut_down();
    queue.add("bar");
    queue.add_after("baz", SECOND);
    assert_eq!(*queue.get().await.unwrap(), "foo");
    tokio::time::sleep(10 * SECOND).await;
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_wakes_every_waiting_worker() {
    let queue = queue::<&str>();
    let workers = futures::future::join_all((0..5).map(|_| queue.get()));
    let stop = async {
        tokio::time::sleep(SECOND).await;
        queue.shut_down();
    };
    let (ended, ()) = futures::join!(workers, stop);
    assert!(ended.iter().all(Option::is_none));
}

#[derive(Clone)]
struct Tracked(Arc<()>);

impl PartialEq for Tracked {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Tracked {}

impl std::hash::Hash for Tracked {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_processed_key_is_not_kept() {
    let queue = queue();
    let key = Tracked(Arc::new(()));
    let weak: Weak<()> = Arc::downgrade(&key.0);
    queue.add(key.clone());
    queue.add_rate_limited(key.clone());
    drop(now(&queue).unwrap());
    tokio::time::sleep(SECOND).await;
    drop(now(&queue).unwrap());
    queue.forget(&key);
    drop(key);
    assert_eq!(weak.strong_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_dropped_while_waiting_passes_its_wake_up_on() {
    let queue = queue();
    let mut first = Box::pin(queue.get());
    let mut second = Box::pin(queue.get());
    assert!((&mut first).now_or_never().is_none());
    assert!((&mut second).now_or_never().is_none());
    let mut second = tokio_test_task(second);
    // Wakes the first, which is dropped before it looks.
    queue.add("foo");
    drop(first);
    assert!(second.woken(), "the key waits, and so does the worker");
}

/// A future and whether its waker was called since it was last polled.
struct Task<F> {
    future: std::pin::Pin<Box<F>>,
    woken: Arc<std::sync::atomic::AtomicBool>,
}

struct Flag(Arc<std::sync::atomic::AtomicBool>);

impl std::task::Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

fn tokio_test_task<F: Future>(mut future: std::pin::Pin<Box<F>>) -> Task<F> {
    let woken = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let waker = std::task::Waker::from(Arc::new(Flag(Arc::clone(&woken))));
    assert!(
        future
            .as_mut()
            .poll(&mut std::task::Context::from_waker(&waker))
            .is_pending()
    );
    Task { future, woken }
}

impl<F: Future> Task<F> {
    fn woken(&mut self) -> bool {
        let _ = &self.future;
        self.woken.load(std::sync::atomic::Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_worker_panics_is_not_stranded() {
    let queue = queue();
    queue.add("foo");
    let taken = now(&queue).unwrap();
    queue.add("foo");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _taken = taken;
        panic!("expected by this test");
    }));
    assert!(result.is_err());
    assert_eq!(*now(&queue).unwrap(), "foo");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_comes_at_its_time_and_once() {
    let queue = queue();
    let start = clock().instant();
    queue.add_after("foo", Duration::from_millis(50));
    assert_eq!(queue.len(), 0);
    assert_eq!(*queue.get().await.unwrap(), "foo");
    assert_eq!(clock().instant() - start, Duration::from_millis(50));
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn of_two_delays_the_earlier_counts() {
    let queue = queue();
    let start = clock().instant();
    queue.add_after("foo", 5 * SECOND);
    queue.add_after("foo", 7 * SECOND);
    drop(queue.get().await.unwrap());
    assert_eq!(clock().instant() - start, 5 * SECOND);
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(queue.len(), 0);

    let start = clock().instant();
    queue.add_after("foo", 5 * SECOND);
    queue.add_after("foo", SECOND);
    drop(queue.get().await.unwrap());
    assert_eq!(clock().instant() - start, SECOND);
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_key_added_later_comes_first() {
    let queue = queue();
    let start = clock().instant();
    queue.add_after("late", 30 * SECOND);
    let sooner = async {
        tokio::time::sleep(SECOND).await;
        queue.add_after("soon", SECOND);
    };
    let (key, ()) = futures::join!(queue.get(), sooner);
    assert_eq!(*key.unwrap(), "soon");
    assert_eq!(clock().instant() - start, 2 * SECOND);
    assert_eq!(*queue.get().await.unwrap(), "late");
    assert_eq!(clock().instant() - start, 30 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn keys_come_in_the_order_of_their_times() {
    let queue = queue();
    queue.add_after("foo", SECOND);
    queue.add_after("bar", SECOND / 2);
    queue.add_after("baz", SECOND / 4);
    queue.add_after("at the same time", SECOND / 4);
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push(*queue.get().await.unwrap());
    }
    assert_eq!(order, ["baz", "at the same time", "bar", "foo"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_delayed_anew_does_not_take_the_place_that_it_once_had() {
    let queue = queue();
    queue.add_after("foo", 6 * SECOND);
    queue.add_after("foo", 4 * SECOND);
    drop(queue.get().await.unwrap());
    // Both for the sixth second, for which foo had been meant before.
    queue.add_after("bar", 2 * SECOND);
    queue.add_after("foo", 2 * SECOND);
    assert_eq!(*queue.get().await.unwrap(), "bar");
    assert_eq!(*queue.get().await.unwrap(), "foo");
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_nothing_is_an_add_and_one_of_ages_is_harmless() {
    let queue = queue();
    queue.add_after("now", Duration::ZERO);
    queue.add_after("never", Duration::MAX);
    assert_eq!(*now(&queue).unwrap(), "now");
    tokio::time::sleep(Duration::from_hours(24)).await;
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_key_comes_back_after_its_delay() {
    let queue = queue();
    let start = clock().instant();
    for (failure, total) in [(1, 5), (2, 15), (3, 35)] {
        queue.add_rate_limited("one");
        assert_eq!(queue.num_requeues(&"one"), failure);
        drop(queue.get().await.unwrap());
        assert_eq!(clock().instant() - start, Duration::from_millis(total));
    }
    assert_eq!(queue.num_requeues(&"two"), 0);
    queue.forget(&"one");
    assert_eq!(queue.num_requeues(&"one"), 0);
    queue.add_rate_limited("one");
    drop(queue.get().await.unwrap());
    assert_eq!(clock().instant() - start, Duration::from_millis(40));
}

#[tokio::test(start_paused = true)]
async fn a_failed_key_waits_at_least_as_long_as_the_server_asks() {
    let queue = queue();
    let start = clock().instant();
    queue.add_rate_limited_not_before("one", 7 * SECOND);
    drop(queue.get().await.unwrap());
    assert_eq!(clock().instant() - start, 7 * SECOND);
    assert_eq!(queue.num_requeues(&"one"), 1);
}

#[test]
fn the_delay_of_a_key_doubles_up_to_its_maximum() {
    let limiter = ItemExponential::new(Duration::from_millis(1), SECOND);
    assert_eq!(limiter.delay(&"one"), Duration::ZERO);
    for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000] {
        limiter.failed(&"one");
        assert_eq!(limiter.delay(&"one"), Duration::from_millis(expected));
        assert_eq!(
            limiter.delay(&"one"),
            Duration::from_millis(expected),
            "asking changed the delay"
        );
    }
    limiter.failed(&"two");
    assert_eq!(limiter.delay(&"two"), Duration::from_millis(1));
    limiter.forget(&"one");
    assert_eq!(limiter.num_requeues(&"one"), 0);
    for _ in 0..10_000 {
        limiter.failed(&"one");
    }
    assert_eq!(limiter.delay(&"one"), SECOND);
    let huge = ItemExponential::new(Duration::from_hours(1), Duration::MAX);
    (0..200).for_each(|_| huge.failed(&"one"));
    assert!(huge.delay(&"one") > Duration::from_secs(u64::from(u32::MAX)));
}

#[tokio::test(start_paused = true)]
async fn the_bucket_lets_a_burst_through_and_then_its_rate() {
    let bucket = Bucket::new(clock(), 10.0, 3);
    let waits: Vec<u128> = (0..6).map(|_| bucket.take().as_millis()).collect();
    assert_eq!(waits, [0, 0, 0, 100, 200, 300]);
    tokio::time::sleep(SECOND).await;
    assert_eq!(bucket.take(), Duration::ZERO);
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(
        (0..4).filter(|_| bucket.take().is_zero()).count(),
        3,
        "a long rest fills no more than the burst"
    );
}

#[tokio::test(start_paused = true)]
async fn the_longer_of_two_delays_counts() {
    let limiter = MaxOf(
        ItemExponential::new(Duration::from_millis(1), SECOND),
        Bucket::new(clock(), 10.0, 2),
    );
    let mut delays = Vec::new();
    for _ in 0..4 {
        limiter.failed(&"one");
        delays.push(limiter.delay(&"one").as_millis());
    }
    assert_eq!(delays, [1, 2, 100, 200]);
    assert_eq!(limiter.num_requeues(&"one"), 4);
}

fn series(registry: &Registry, name: &str) -> f64 {
    let text = prometheus::TextEncoder::new()
        .encode_to_string(&registry.gather())
        .unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name}{{name=\"test\"}}")));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}"))
        .rsplit(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_metrics_follow_a_key_through_the_queue() {
    let registry = Registry::new();
    let queue = with_metrics(&registry);
    let is = |name: &str, expected: f64| {
        let found = series(&registry, name);
        assert!(
            (found - expected).abs() < 1e-9,
            "{name} is {found}, not {expected}"
        );
    };
    queue.add("foo");
    queue.add("foo");
    is("workqueue_adds_total", 1.0);
    is("workqueue_depth", 1.0);
    tokio::time::sleep(SECOND / 2).await;
    let foo = queue.get().await.unwrap();
    is("workqueue_depth", 0.0);
    is("workqueue_queue_duration_seconds_count", 1.0);
    is("workqueue_queue_duration_seconds_sum", 0.5);
    queue.add("bar");
    let bar = queue.get().await.unwrap();
    tokio::time::sleep(SECOND).await;
    is("workqueue_unfinished_work_seconds", 2.0);
    is("workqueue_longest_running_processor_seconds", 1.0);
    assert_eq!(queue.longest_running(), SECOND);
    // An add while it is processed counts, and waits from then on.
    queue.add("foo");
    is("workqueue_adds_total", 3.0);
    is("workqueue_depth", 1.0);
    tokio::time::sleep(SECOND).await;
    drop(foo);
    drop(bar);
    is("workqueue_work_duration_seconds_count", 2.0);
    is("workqueue_work_duration_seconds_sum", 4.0);
    is("workqueue_unfinished_work_seconds", 0.0);
    is("workqueue_depth", 1.0);
    drop(queue.get().await.unwrap());
    is("workqueue_queue_duration_seconds_sum", 1.5);
}

#[tokio::test(start_paused = true)]
async fn a_planned_delay_is_not_a_retry() {
    let registry = Registry::new();
    let queue = with_metrics(&registry);
    queue.add_after("foo", SECOND);
    assert!(series(&registry, "workqueue_retries_total").abs() < 1e-9);
    queue.add_rate_limited("foo");
    assert!((series(&registry, "workqueue_retries_total") - 1.0).abs() < 1e-9);
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8),
    AddAfter(u8, u64),
    Get,
    Done(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..5_u8).prop_map(Step::Add),
        (0..5_u8, 1..10_u64).prop_map(|(key, after)| Step::AddAfter(key, after)),
        Just(Step::Get),
        (0..5_usize).prop_map(Step::Done),
        (1..5_u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..200)
}

/// The contract in its plainest form.
#[derive(Default)]
struct Model {
    now: u64,
    queue: VecDeque<u8>,
    dirty: BTreeSet<u8>,
    processing: Vec<u8>,
    /// By time and order of arrival.
    delayed: BTreeMap<(u64, u64), u8>,
    arrivals: u64,
}

impl Model {
    fn add(&mut self, key: u8) {
        if self.dirty.insert(key) && !self.processing.contains(&key) {
            self.queue.push_back(key);
        }
    }

    fn add_after(&mut self, key: u8, after: u64) {
        let at = self.now + after;
        let known = self
            .delayed
            .iter()
            .find(|(_, delayed)| **delayed == key)
            .map(|(time, _)| *time);
        if known.is_none_or(|(known, _)| at < known) {
            known.map(|time| self.delayed.remove(&time));
            self.arrivals += 1;
            self.delayed.insert((at, self.arrivals), key);
        }
    }

    fn add_due(&mut self) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let key = entry.remove();
            self.add(key);
        }
    }

    fn get(&mut self) -> Option<u8> {
        let key = self.queue.pop_front()?;
        self.dirty.remove(&key);
        self.processing.push(key);
        Some(key)
    }

    fn done(&mut self, index: usize) {
        let key = self.processing.remove(index);
        if self.dirty.contains(&key) {
            self.queue.push_back(key);
        }
    }
}

proptest! {
    #[test]
    fn any_sequence_of_calls_does_what_the_contract_says(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = queue();
            let mut model = Model::default();
            let mut taken: Vec<Processing<u8>> = Vec::new();
            for step in steps {
                match step {
                    Step::Add(key) => { queue.add(key); model.add(key); }
                    Step::AddAfter(key, after) => {
                        queue.add_after(key, Duration::from_secs(after));
                        model.add_after(key, after);
                    }
                    Step::Get => {
                        let got = now(&queue);
                        prop_assert_eq!(got.as_deref().copied(), model.get());
                        taken.extend(got);
                    }
                    Step::Done(index) if index < taken.len() => { drop(taken.remove(index)); model.done(index); }
                    Step::Done(_) => {}
                    Step::Pass(seconds) => {
                        // Second by second, so that the order of additions is the model's.
                        for _ in 0..seconds {
                            tokio::time::advance(SECOND).await;
                            model.now += 1;
                            model.add_due();
                            let _ = queue.len();
                        }
                    }
                }
                prop_assert_eq!(queue.len(), model.queue.len());
            }
            Ok(())
        })?;
    }
}
