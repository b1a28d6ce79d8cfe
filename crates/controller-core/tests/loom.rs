//! Every interleaving of two producers and two workers on the innermost queue.
//!
//! `cargo test -p controller-core --features loom --test loom`; the feature swaps the queue's
//! lock, nothing else. Preemptions are bounded at two, which is known to show nearly all bugs, and keeps the
//! model at seconds.
#![cfg(feature = "loom")]
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::sync::atomic::Ordering::SeqCst;

use controller_core::workqueue::fifo::Fifo;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize};
use loom::thread;

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// Two keys: how often each was processed, and whether it is being processed.
#[derive(Default)]
struct Work {
    processed: [AtomicUsize; 2],
    busy: [AtomicBool; 2],
}

impl Work {
    fn process(&self, key: usize) {
        assert!(
            !self.busy[key].swap(true, SeqCst),
            "key {key} is processed twice at once"
        );
        self.processed[key].fetch_add(1, SeqCst);
        self.busy[key].store(false, SeqCst);
    }
}

fn worker(queue: &Fifo<usize>, work: &Work) {
    while let Some(key) = loom::future::block_on(queue.get()) {
        work.process(key);
        queue.done(&key);
    }
}

#[test]
fn two_producers_and_two_workers_lose_nothing_and_never_share_a_key() {
    explore(|| {
        let queue = Arc::new(Fifo::new());
        let work = Arc::new(Work::default());
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let (queue, work) = (Arc::clone(&queue), Arc::clone(&work));
                thread::spawn(move || worker(&queue, &work))
            })
            .collect();
        let producer = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                queue.add(0);
            })
        };
        // The second producer is this thread: loom allows four in all.
        queue.add(0);
        queue.add(1);
        producer.join().unwrap();
        queue.shut_down();
        for worker in workers {
            worker.join().unwrap();
        }
        assert!(
            (1..=2).contains(&work.processed[0].load(SeqCst)),
            "key 0 was lost, or processed too often"
        );
        assert_eq!(work.processed[1].load(SeqCst), 1);
        assert!(queue.is_empty());
    });
}

#[test]
fn an_add_during_the_processing_is_never_lost() {
    explore(|| {
        let queue = Arc::new(Fifo::new());
        queue.add(0);
        let seen = Arc::new(AtomicUsize::new(0));
        let value = Arc::new(AtomicUsize::new(0));
        let consumer = {
            let (queue, seen, value) = (Arc::clone(&queue), Arc::clone(&seen), Arc::clone(&value));
            thread::spawn(move || {
                while let Some(key) = loom::future::block_on(queue.get()) {
                    seen.store(value.load(SeqCst), SeqCst);
                    queue.done(&key);
                }
            })
        };
        // What was written before the add must be seen by a run after it.
        value.store(1, SeqCst);
        queue.add(0);
        queue.shut_down();
        consumer.join().unwrap();
        assert_eq!(seen.load(SeqCst), 1, "the change was never looked at");
    });
}

#[test]
fn a_drain_ends_after_the_last_key_and_not_before() {
    explore(|| {
        let queue = Arc::new(Fifo::new());
        let work = Arc::new(Work::default());
        queue.add(0);
        let consumer = {
            let (queue, work) = (Arc::clone(&queue), Arc::clone(&work));
            thread::spawn(move || worker(&queue, &work))
        };
        queue.add(1);
        loom::future::block_on(queue.shut_down_with_drain());
        assert_eq!(work.processed[0].load(SeqCst) + work.processed[1].load(SeqCst), 2);
        consumer.join().unwrap();
    });
}
