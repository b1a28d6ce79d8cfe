//! What one operation of the loop's queue costs: `cargo bench -p controller-core --bench micro`.
#![allow(missing_docs, clippy::expect_used, reason = "a bench")]

use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::{
    self, Action, Context, ContextMut, Controller, Description, Limit, Loop, LoopEvent, Now, Object, Queue,
    Request, Requeue, ResultOf,
};
use controller_core::events::Recorder;
use controller_core::meta::ObjectKey;
use controller_core::time::saturating_add;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use jiff::Timestamp;
use parking_lot::Mutex;

/// Pods of a large cluster.
const ENTRIES: usize = 150_000;

/// Wakes what it is told to, and does nothing.
#[derive(Debug, Default)]
struct Idle(Mutex<Vec<(ObjectKey, Requeue)>>);

#[derive(Clone, Debug, PartialEq)]
enum NoWrite {}

impl controller::Write for NoWrite {
    const PLANNED: &'static [&'static str] = &[];

    fn request(&self) -> Request {
        match *self {}
    }

    fn object(&self) -> Object {
        match *self {}
    }

    fn describe(&self) -> Description {
        match *self {}
    }
}

impl Controller for Idle {
    type Stores = ();
    type State = ();
    type Key = ObjectKey;
    type Query = Infallible;
    type Write = NoWrite;
    type StateChange = ();
    type Event = ();

    const NAME: &'static str = "idle";

    fn queues(&self) -> Vec<Queue> {
        vec![Queue::FIFO]
    }

    fn on_event(&self, cx: &mut ContextMut<'_, Self>, _: LoopEvent<'_, Self>) {
        for (key, requeue) in self.0.lock().drain(..) {
            cx.out.requeue(key, requeue);
        }
    }

    fn reconcile(&self, _: &Context<'_, Self>, _: &ObjectKey) -> Action<Self> {
        Action::Done(vec![])
    }

    fn on_result(&self, _: &mut ContextMut<'_, Self>, _: &ObjectKey, _: ResultOf<'_, Self>) {}

    fn record(&self, (): (), _: &dyn Recorder) {}
}

struct Unlimited;

impl Limit for Unlimited {
    fn wait(&self) -> Duration {
        Duration::ZERO
    }

    fn take(&self) {}
}

struct Bench {
    idle: Arc<Idle>,
    event_loop: Loop<Idle>,
    now: Now,
}

impl Bench {
    fn new() -> Self {
        let idle = Arc::new(Idle::default());
        let now = Now {
            wall: Timestamp::UNIX_EPOCH,
            uptime: Duration::ZERO,
        };
        let mut event_loop = Loop::new(Arc::clone(&idle), [None], false);
        event_loop.on_event(LoopEvent::Synced, now);
        event_loop.on_event(LoopEvent::Leading(true), now);
        Self {
            idle,
            event_loop,
            now,
        }
    }

    fn requeue(&mut self, key: ObjectKey, requeue: Requeue) {
        self.idle.0.lock().push((key, requeue));
        let something = LoopEvent::Watching("objects", true);
        self.event_loop.on_event(something, self.now);
    }
}

fn keys(count: usize) -> Vec<ObjectKey> {
    let namespace: Arc<str> = "default".into();
    (0..count)
        .map(|n| ObjectKey::namespaced(namespace.clone(), format!("pod-{n}")))
        .collect()
}

fn later(n: usize) -> Requeue {
    let seconds = Duration::from_secs(3600 + (n as u64 * 7919) % 100_000);
    Requeue::At(saturating_add(Timestamp::UNIX_EPOCH, seconds))
}

/// As client-go's `BenchmarkQueue`: 100 times add, get, done.
fn add_get_done(c: &mut Criterion) {
    let keys = keys(100);
    let mut bench = Bench::new();
    let mut group = c.benchmark_group("queue");
    group.throughput(Throughput::Elements(100));
    group.bench_function("add_get_done_100", |b| {
        b.iter(|| {
            for key in &keys {
                bench.requeue(key.clone(), Requeue::Now);
                black_box(bench.event_loop.poll(bench.now, &Unlimited));
            }
        });
    });
    group.finish();
}

fn times(c: &mut Criterion) {
    let keys = keys(ENTRIES);
    let mut bench = Bench::new();
    for (n, key) in keys.iter().enumerate() {
        bench.requeue(key.clone(), later(n));
    }
    let mut keys = keys.iter().enumerate().cycle();
    c.bench_function("queue/reschedule_at_150000", |b| {
        b.iter(|| {
            if let Some((n, key)) = keys.next() {
                bench.requeue(black_box(key.clone()), later(n + 1));
            }
        });
    });
}

criterion_group!(micro, add_get_done, times);
criterion_main!(micro);
