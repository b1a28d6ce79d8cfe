//! How a queue hands out its keys and how it retries them.

use std::time::Duration;

use super::retry::{Retry, RetryLimit};

/// How a queue hands out its keys and how it retries them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// The name in `workqueue_*`, as upstream has it; without a name the queue has no such metrics.
    pub name: Option<&'static str>,
    /// Which key is handed out first.
    pub order: Order,
    /// How many of its keys may be in a pass at the same time; one whose request takes longer than a second does not
    /// count. A quarter of them, at least one, may be keys that keep failing.
    pub workers: usize,
    /// Minimum time between the starts of two passes.
    pub interval: Duration,
    /// Hands out keys only while this process leads.
    pub needs_term: bool,
    /// Counts a pass that only waits for an answer as one of `workers`.
    pub reads_hold_workers: bool,
    /// When a key whose pass failed comes back.
    pub retry: Retry,
}

impl Queue {
    /// First in, first out, one worker, in a term, retried by client-go's rate limiter.
    pub const FIFO: Self = Self {
        name: None,
        order: Order::Fifo,
        workers: 1,
        interval: Duration::ZERO,
        needs_term: true,
        reads_hold_workers: true,
        retry: Retry::RateLimited(RetryLimit::DEFAULT),
    };

    /// [`FIFO`](Self::FIFO) with a name and a number of workers.
    pub const fn fifo(name: &'static str, workers: usize) -> Self {
        Self {
            name: Some(name),
            workers,
            ..Self::FIFO
        }
    }
}

/// Which key of a queue is handed out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The key that was added first.
    Fifo,
    /// The key with the earliest [`Requeue::At`](super::Requeue::At).
    EarliestFirst,
}

/// How urgent a key is among those of its queue: a higher priority goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// After the others, except for one key in 16.
    Low,
    /// In its turn.
    #[default]
    Normal,
    /// Before the others, except for one key in 4.
    High,
}
