//! What one operation of the queue and of the timed workers costs:
//! `cargo bench -p controller-core --bench micro`.
#![allow(missing_docs, clippy::expect_used, reason = "a bench")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use controller_core::clock::{Clock, saturating_add};
use controller_core::meta::ObjectKey;
use controller_core::timed_workers::TimedWorkers;
use controller_core::workqueue::{DefaultRateLimiter, QueueMetrics, WorkQueue};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use futures::FutureExt;
use prometheus::Registry;

/// Pods of a large cluster.
const ENTRIES: usize = 150_000;

fn keys(count: usize) -> Vec<ObjectKey> {
    let namespace: Arc<str> = "default".into();
    (0..count)
        .map(|n| ObjectKey::namespaced(namespace.clone(), format!("pod-{n}")))
        .collect()
}

fn queue() -> WorkQueue<ObjectKey> {
    let clock = Clock::system();
    let metrics =
        QueueMetrics::register(&Registry::new(), clock.clone(), "bench").expect("the metrics are valid");
    WorkQueue::new(clock.clone(), DefaultRateLimiter::new(clock), metrics)
}

/// As client-go's `BenchmarkQueue`: 100 times add, get, done.
fn add_get_done(c: &mut Criterion) {
    let keys = keys(100);
    let queue = queue();
    let mut group = c.benchmark_group("queue");
    group.throughput(Throughput::Elements(100));
    group.bench_function("add_get_done_100", |b| {
        b.iter(|| {
            for key in &keys {
                queue.add(key.clone());
                drop(black_box(queue.get().now_or_never()));
            }
        });
    });
    group.finish();
}

/// Each round gives one of the delayed keys an earlier time, somewhere among those of the others.
fn add_after(c: &mut Criterion) {
    let keys = keys(ENTRIES);
    let queue = queue();
    let mut round = 0;
    let mut add_next = || {
        let earlier = Duration::from_hours((round / ENTRIES) as u64);
        let spread = Duration::from_millis((round * 7919 % ENTRIES) as u64);
        let delay = Duration::from_hours(24 * 365).saturating_sub(earlier) + spread;
        queue.add_after(black_box(keys[round % ENTRIES].clone()), delay);
        round += 1;
    };
    (0..ENTRIES).for_each(|_| add_next());
    c.bench_function("queue/add_after_at_150000", |b| b.iter(&mut add_next));
}

fn timed_workers(c: &mut Criterion) {
    let keys = keys(ENTRIES);
    let clock = Clock::system();
    let later = |n: usize| {
        saturating_add(
            clock.now(),
            Duration::from_secs(3600 + (n as u64 * 7919) % 100_000),
        )
    };
    let workers = TimedWorkers::new(clock.clone());
    for (n, key) in keys.iter().enumerate() {
        workers.schedule(key.clone(), later(n));
    }

    let mut group = c.benchmark_group("timed_workers");
    let mut keys = keys.iter().enumerate().cycle();
    group.bench_function("reschedule_at_150000", |b| {
        b.iter(|| {
            if let Some((n, key)) = keys.next() {
                workers.schedule(black_box(key.clone()), later(n + 1));
            }
        });
    });
    group.bench_function("cancel_and_schedule_at_150000", |b| {
        b.iter(|| {
            if let Some((n, key)) = keys.next() {
                black_box(workers.cancel(key));
                workers.schedule(key.clone(), later(n));
            }
        });
    });
    let due = ObjectKey::namespaced("default", "due");
    group.bench_function("schedule_run_done_at_150000", |b| {
        b.iter(|| {
            workers.schedule(due.clone(), clock.now());
            drop(black_box(workers.next_due().now_or_never()));
        });
    });
    group.finish();
}

criterion_group!(micro, add_get_done, add_after, timed_workers);
criterion_main!(micro);
