//! Workers between the queue and `sync`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

use std::collections::VecDeque;
use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use controller_core::clock::Clock;
use controller_core::leader::{Leadership, Term};
use controller_core::shutdown;
use controller_core::tasks::TaskSet;
use controller_core::workers::{Advice, Lane, Next, Reconciler, SyncError, SyncFailures, Workers};
use controller_core::workqueue::{DefaultRateLimiter, QueueMetrics, WorkQueue};
use parking_lot::Mutex;
use prometheus::Registry;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
#[error("refused")]
struct Refused(Advice);

impl SyncError for Refused {
    fn reason(&self) -> &'static str {
        "Refused"
    }

    fn advice(&self) -> Advice {
        self.0
    }
}

/// Answers each sync with the next of its script, after a while; then with `Settled`, at once.
struct Scripted {
    clock: Clock,
    begun: Mutex<Vec<Duration>>,
    finished: Mutex<usize>,
    script: Mutex<VecDeque<(Duration, Result<Next, Refused>)>>,
    queue: WorkQueue<&'static str>,
    start: tokio::time::Instant,
}

impl Reconciler for Scripted {
    type Key = &'static str;
    type Error = Refused;

    fn begin(&self) {
        self.queue.add("key");
    }

    fn end(&self) {}

    async fn sync(&self, _: &&'static str, _: &Term) -> Result<Next, Refused> {
        self.begun.lock().push(self.clock.instant() - self.start);
        let step = self.script.lock().pop_front();
        let (takes, result) = step.unwrap_or((Duration::ZERO, Ok(Next::Settled)));
        self.clock.sleep(takes).await;
        *self.finished.lock() += 1;
        result
    }
}

struct World {
    reconciler: Arc<Scripted>,
    workers: Workers,
    registry: Registry,
    stop: shutdown::Trigger,
    shutdown: shutdown::Shutdown,
}

fn world(script: impl IntoIterator<Item = (Duration, Result<Next, Refused>)>) -> World {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let registry = Registry::new();
    let metrics = QueueMetrics::register(&registry, clock.clone(), "test").unwrap();
    let queue = WorkQueue::new(clock.clone(), DefaultRateLimiter::new(clock.clone()), metrics);
    let (stop, shutdown) = shutdown::channel();
    World {
        reconciler: Arc::new(Scripted {
            begun: Mutex::default(),
            finished: Mutex::default(),
            script: Mutex::new(script.into_iter().collect()),
            queue,
            start: clock.instant(),
            clock: clock.clone(),
        }),
        workers: Workers {
            controller: "test",
            concurrent_syncs: 2,
            failures: SyncFailures::register(&registry).unwrap(),
            clock,
        },
        registry,
        stop,
        shutdown,
    }
}

impl World {
    async fn run_for(&self, time: Duration, synced: impl Future<Output = ()>) {
        let leadership = Leadership::always();
        let queue = &self.reconciler.queue;
        let run = self
            .workers
            .run(&*self.reconciler, queue, &leadership, synced, &self.shutdown);
        let _ = tokio::time::timeout(time, run).await;
    }

    fn begun(&self) -> Vec<u128> {
        self.reconciler
            .begun
            .lock()
            .iter()
            .map(Duration::as_millis)
            .collect()
    }

    fn metrics(&self) -> String {
        prometheus::TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn no_key_is_processed_before_the_caches_are_full() {
    let world = world([]);
    world.run_for(SECOND * 3600, pending()).await;
    assert_eq!(world.begun(), Vec::<u128>::new());
    world.run_for(SECOND, ready(())).await;
    assert_eq!(world.begun().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_settled_key_is_left_alone() {
    let world = world([]);
    world.run_for(SECOND * 3600, ready(())).await;
    assert_eq!(world.begun(), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_asks_for_it_comes_back_and_counts_as_no_retry() {
    let world = world([(Duration::ZERO, Ok(Next::After(7 * SECOND)))]);
    world.run_for(SECOND * 3600, ready(())).await;
    assert_eq!(world.begun(), [0, 7000]);
    assert!(
        world
            .metrics()
            .contains("workqueue_retries_total{name=\"test\"} 0")
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_key_comes_back_later_and_later_and_is_counted_by_reason() {
    let fail = || (Duration::ZERO, Err(Refused(Advice::Backoff)));
    let world = world([fail(), fail(), fail()]);
    world.run_for(SECOND * 3600, ready(())).await;
    assert_eq!(world.begun(), [0, 5, 15, 35]);
    assert!(
        world
            .metrics()
            .contains("controller_sync_failures_total{reason=\"Refused\"} 3")
    );
    assert_eq!(
        world.reconciler.queue.num_requeues(&"key"),
        0,
        "a success forgets the failures"
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_is_not_retried_sooner_than_the_server_asks() {
    let world = world([(Duration::ZERO, Err(Refused(Advice::NotBefore(7 * SECOND))))]);
    world.run_for(SECOND * 3600, ready(())).await;
    assert_eq!(world.begun(), [0, 7000]);
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_takes_too_long_is_cut_off_and_retried() {
    let world = world([(SECOND * 3600, Ok(Next::Settled))]);
    world.run_for(SECOND * 3000, ready(())).await;
    assert_eq!(world.begun(), [0, 60_005]);
    assert_eq!(*world.reconciler.finished.lock(), 1);
    assert!(
        world
            .metrics()
            .contains("controller_sync_failures_total{reason=\"TimedOut\"} 1")
    );
    assert_eq!(world.reconciler.queue.longest_running(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_the_sync_under_way_finish() {
    let world = world([(5 * SECOND, Ok(Next::Settled))]);
    let start = world.reconciler.start;
    let stop = async {
        tokio::time::sleep(SECOND).await;
        world.reconciler.queue.add("another");
        world.stop.advance();
    };
    // The second worker takes `another` only if it looks at the queue before the shutdown.
    let ((), ()) = futures::join!(world.run_for(SECOND * 60, ready(())), stop);
    assert_eq!(world.reconciler.clock.instant() - start, 5 * SECOND);
    assert_eq!(*world.reconciler.finished.lock(), 1);
    assert_eq!(world.begun(), [0]);
}

/// Counts its syncs, which never wait for anything.
struct Hasty {
    queue: WorkQueue<u32>,
    syncs: Arc<AtomicU32>,
}

impl Reconciler for Hasty {
    type Key = u32;
    type Error = Refused;

    fn begin(&self) {
        (0..100_000).for_each(|key| self.queue.add(key));
    }

    fn end(&self) {}

    async fn sync(&self, _: &u32, _: &Term) -> Result<Next, Refused> {
        self.syncs.fetch_add(1, SeqCst);
        Ok(Next::Settled)
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_queue_of_keys_that_need_nothing_keeps_nobody_waiting() {
    let world = world([]);
    let metrics = QueueMetrics::register(&world.registry, world.workers.clock.clone(), "hasty").unwrap();
    let clock = world.workers.clock.clone();
    let queue = WorkQueue::new(clock.clone(), DefaultRateLimiter::new(clock), metrics);
    let syncs = Arc::new(AtomicU32::new(0));
    let hasty = Hasty {
        queue: queue.clone(),
        syncs: Arc::clone(&syncs),
    };
    let mut tasks = TaskSet::new();
    let (tell, first_look) = tokio::sync::oneshot::channel();
    tasks.spawn("somebody else", async move {
        let _ = tell.send(syncs.load(SeqCst));
        pending::<()>().await;
    });
    let leadership = Leadership::always();
    let run = world
        .workers
        .run(&hasty, &queue, &leadership, ready(()), &world.shutdown);
    let _ = tokio::time::timeout(SECOND, run).await;
    assert_eq!(hasty.syncs.load(SeqCst), 100_000);
    let seen = first_look.await.unwrap();
    assert!(seen < 1000, "somebody else had to wait for {seen} syncs");
}

/// Writes down what it is given; the first key of all adds one more to the first queue.
struct Recording {
    queues: [WorkQueue<&'static str>; 2],
    order: Mutex<Vec<&'static str>>,
}

impl Reconciler for Recording {
    type Key = &'static str;
    type Error = Refused;

    fn begin(&self) {
        self.queues[1].add("pod 1");
        self.queues[1].add("pod 2");
        self.queues[0].add("node 1");
    }

    fn end(&self) {}

    async fn sync(&self, key: &&'static str, _: &Term) -> Result<Next, Refused> {
        if *key == "pod 1" {
            self.queues[0].add("node 2");
        }
        self.order.lock().push(key);
        Ok(Next::Settled)
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_empties_its_first_queue_before_it_takes_a_key_of_its_second() {
    let world = world([]);
    let clock = world.reconciler.clock.clone();
    let queue = || {
        let metrics = QueueMetrics::register(&Registry::new(), clock.clone(), "test").unwrap();
        WorkQueue::new(clock.clone(), DefaultRateLimiter::new(clock.clone()), metrics)
    };
    let queues = [queue(), queue()];
    let recording = Recording {
        queues: queues.clone(),
        order: Mutex::default(),
    };
    let lanes = [Lane(queues.to_vec())];
    let leadership = Leadership::always();
    let running = world
        .workers
        .run_lanes(&recording, &lanes, &leadership, ready(()), &world.shutdown);
    tokio::time::timeout(SECOND, running).await.unwrap_err();
    assert_eq!(*recording.order.lock(), ["node 1", "pod 1", "node 2", "pod 2"]);
}
