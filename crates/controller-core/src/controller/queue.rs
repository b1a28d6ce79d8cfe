//! The keys of one declared queue: who is next, who waits for a time, who has failed how often.
//!
//! A value: whoever calls says what time it is. The contract is client-go's (CORE-1): a key is processed once at a
//! time, duplicates collapse, and a key that is added while it is processed is queued again when that ends.
//!
//! Keys that fail again and again stand in a line of their own, handed out as often as the [`RetryShare`] allows.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use jiff::Timestamp;

use super::pass::PassFailed;
use super::retry::{Failures, Retry, RetryLimit, RetryShare};
use super::timers::Timers;
use super::{Now, Wake};
use crate::workqueue::QueueMetrics;

/// How a queue hands out its keys and how it retries them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// The name in `workqueue_*`, as upstream has it; a queue without one has no such metrics.
    pub name: Option<&'static str>,
    /// Which key is handed out first.
    pub order: Order,
    /// How many of its keys are in a pass at the same time, at most.
    pub workers: usize,
    /// The time between the beginnings of two passes, at least.
    pub interval: Duration,
    /// Whether its keys are handed out only while this process leads.
    pub needs_term: bool,
    /// Whether a pass that only waits for an answer counts as one of `workers`.
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

    /// The same with a name, and with so many workers.
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
    /// The one that was added first.
    Fifo,
    /// The one with the earliest [`Wake::At`].
    EarliestFirst,
}

/// How urgent a key is among those of its queue: one of a higher priority goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// After all others.
    Low,
    /// In its turn.
    #[default]
    Normal,
    /// Before all others.
    High,
}

/// The keys of one queue.
#[derive(Clone, Debug)]
pub(super) struct KeyQueue<K> {
    pub(super) queue: Queue,
    metrics: Option<QueueMetrics>,
    /// Of a fifo queue: keys to be handed out. Not those that are processed.
    ready: VecDeque<K>,
    /// The same of keys whose last pass failed, of any queue. An entry counts as long as its key is dirty and failing.
    failing: VecDeque<K>,
    /// Keys to be processed, also those that are processed now and come back after that.
    dirty: HashSet<K>,
    /// Since when each dirty key is, for the metrics.
    added: HashMap<K, Duration>,
    /// Keys in a pass, each with the number of its run in the metrics.
    processing: BTreeMap<K, u64>,
    /// How many of those only wait for an answer and hold no worker.
    parked: usize,
    timers: Timers<K, Timestamp>,
    delays: Timers<K, Duration>,
    /// Of keys that are processed: what was scheduled meanwhile.
    after: HashMap<K, Timestamp>,
    failures: HashMap<K, Failures>,
    next_begin: Duration,
}

impl<K: Clone + Ord + Hash> KeyQueue<K> {
    pub(super) fn new(queue: Queue, metrics: Option<QueueMetrics>) -> Self {
        Self {
            queue,
            metrics,
            ready: VecDeque::new(),
            failing: VecDeque::new(),
            dirty: HashSet::new(),
            added: HashMap::new(),
            processing: BTreeMap::new(),
            parked: 0,
            timers: Timers::default(),
            delays: Timers::default(),
            after: HashMap::new(),
            failures: HashMap::new(),
            next_begin: Duration::ZERO,
        }
    }

    pub(super) fn wake(&mut self, key: K, wake: Wake, now: Now) {
        match wake {
            Wake::Now => {
                self.add_due(now);
                self.wake_now(key, now);
            }
            Wake::Afresh => {
                self.delays.remove(&key);
                self.forget(&key);
                self.wake(key, Wake::Now, now);
            }
            Wake::Within(wait) => self.delay(key, wait, now),
            Wake::At(at) => self.schedule(key, at),
            Wake::Never => {
                self.leave_line(&key);
                self.timers.remove(&key);
                self.delays.remove(&key);
                self.after.remove(&key);
                self.forget(&key);
            }
        }
    }

    fn wake_now(&mut self, key: K, now: Now) {
        if self.queue.order == Order::Fifo || self.dirty.contains(&key) {
            return self.add(key, now);
        }
        // One that is late already keeps its place.
        let known = self.after.get(&key).copied().or_else(|| self.timers.get(&key));
        let at = known.map_or(now.wall, |known| now.wall.min(known));
        self.schedule(key, at);
    }

    /// Keys whose time has come stand before those that are woken from now on.
    fn add_due(&mut self, now: Now) {
        while let Some(key) = self.delays.pop_due(now.uptime) {
            self.wake_now(key, now);
        }
        while self.queue.order == Order::Fifo
            && let Some(key) = self.timers.pop_due(now.wall)
        {
            self.add(key, now);
        }
    }

    fn add(&mut self, key: K, now: Now) {
        if !self.dirty.insert(key.clone()) {
            return;
        }
        if self.queue.order == Order::Fifo {
            self.count(&key, now);
        }
        if !self.processing.contains_key(&key) {
            self.line_up(key);
        }
    }

    fn line_up(&mut self, key: K) {
        let line = if self.is_failing(&key) {
            &mut self.failing
        } else {
            &mut self.ready
        };
        line.push_back(key);
    }

    /// A key whose time has come, and that waits for its turn because it has failed, gets another time.
    fn leave_line(&mut self, key: &K) {
        if self.queue.order == Order::EarliestFirst {
            self.dirty.remove(key);
        }
    }

    fn count(&mut self, key: &K, now: Now) {
        if let Some(metrics) = &self.metrics {
            metrics.added();
            self.added.insert(key.clone(), now.uptime);
        }
    }

    fn schedule(&mut self, key: K, at: Timestamp) {
        self.leave_line(&key);
        if self.processing.contains_key(&key) {
            self.timers.remove(&key);
            self.after.insert(key, at);
        } else {
            self.timers.set(key, at);
        }
    }

    /// The earliest time counts.
    fn delay(&mut self, key: K, wait: Duration, now: Now) {
        // Too far to be represented is never.
        let Some(at) = now.uptime.checked_add(wait) else {
            return;
        };
        if self.delays.get(&key).is_none_or(|known| at < known) {
            self.delays.set(key, at);
        }
    }

    /// Takes the next key that may begin a pass now.
    pub(super) fn begin(&mut self, now: Now, share: &mut RetryShare) -> Option<K> {
        self.add_due(now);
        if now.uptime < self.next_begin || self.busy() >= self.queue.workers {
            return None;
        }
        let key = match self.next_failing(now, share) {
            Some(key) => key,
            None => self.next_ready(now, share)?,
        };
        if self.queue.order == Order::EarliestFirst {
            self.count(&key, now);
        }
        self.dirty.remove(&key);
        let waited = self.added.remove(&key).map(|at| now.uptime.saturating_sub(at));
        let run = self.metrics.as_ref().map_or(0, |metrics| metrics.started(waited));
        self.processing.insert(key.clone(), run);
        self.next_begin = now.uptime.saturating_add(self.queue.interval);
        Some(key)
    }

    fn next_failing(&mut self, now: Now, share: &mut RetryShare) -> Option<K> {
        while self.failing.front().is_some_and(|key| !self.waits_failing(key)) {
            self.failing.pop_front();
        }
        (!self.failing.is_empty() && share.take(now.uptime)).then(|| self.failing.pop_front())?
    }

    fn next_ready(&mut self, now: Now, share: &mut RetryShare) -> Option<K> {
        loop {
            while let Some(key) = self.ready.pop_front() {
                if self.waits(&key) {
                    return Some(key);
                }
            }
            if self.queue.order == Order::Fifo {
                return None;
            }
            let key = self.timers.pop_due(now.wall)?;
            self.add(key, now);
            if let Some(key) = self.next_failing(now, share) {
                return Some(key);
            }
        }
    }

    /// Whether an entry of a line still counts.
    fn waits(&self, key: &K) -> bool {
        self.dirty.contains(key) && !self.processing.contains_key(key)
    }

    fn waits_failing(&self, key: &K) -> bool {
        self.waits(key) && self.is_failing(key)
    }

    /// The pass of `key` is over.
    pub(super) fn done(&mut self, key: &K) {
        if let (Some(run), Some(metrics)) = (self.processing.remove(key), &self.metrics) {
            metrics.finished(run);
        }
        if let Some(at) = self.after.remove(key) {
            self.timers.set(key.clone(), at);
        }
        if self.dirty.contains(key) {
            self.line_up(key.clone());
        }
    }

    /// The pass of `key` succeeded.
    pub(super) fn forget(&mut self, key: &K) {
        let waits = self.waits_failing(key);
        self.failures.remove(key);
        if waits {
            self.ready.push_back(key.clone());
        }
    }

    /// The pass of `key` failed, and the controller says when it comes back. Since when it fails.
    pub(super) fn fail(&mut self, key: &K, now: Now) -> Duration {
        let (times, since) = (0, now.uptime);
        let failures = self.failures.entry(key.clone());
        let failures = failures.or_insert(Failures { times, since });
        failures.times = failures.times.saturating_add(1);
        failures.since
    }

    /// The pass of `key` failed: it comes back after the delay of its queue, no sooner than after `failed.wait`.
    pub(super) fn retry(&mut self, key: K, failed: PassFailed, now: Now) {
        let limit = match self.queue.retry {
            Retry::RateLimited(limit) => limit,
            Retry::ByController => RetryLimit::DEFAULT,
        };
        if let Some(metrics) = &self.metrics {
            metrics.retried();
        }
        let since = self.fail(&key, now);
        let refused_for = failed.refused.then(|| now.uptime.saturating_sub(since));
        let delay = limit.delay(self.num_requeues(&key), refused_for);
        self.delay(key, delay.max(failed.wait), now);
    }

    /// How many keys come back at a time that is named.
    pub(super) fn scheduled(&self) -> usize {
        let lined_up = match self.queue.order {
            Order::Fifo => 0,
            Order::EarliestFirst => self.dirty.len(),
        };
        self.timers.len() + self.after.len() + lined_up
    }

    /// How often the passes of `key` have failed in a row.
    pub(super) fn num_requeues(&self, key: &K) -> u32 {
        self.failures.get(key).map_or(0, |failures| failures.times)
    }

    /// Whether `key` fails again and again, and so stands in the line of those that do.
    pub(super) fn is_failing(&self, key: &K) -> bool {
        self.num_requeues(key) > self.queue.retry.at_once()
    }

    /// The pass of the key has been looked at; so many more passes do nothing but wait for an answer.
    pub(super) fn goes_on(&mut self, key: &K, parked: isize) {
        if !self.queue.reads_hold_workers {
            self.parked = self.parked.saturating_add_signed(parked);
        }
        if let (Some(run), Some(metrics)) = (self.processing.get(key), &self.metrics) {
            metrics.goes_on(*run);
        }
    }

    /// Whether it hands out keys.
    pub(super) const fn is_open(&self, leading: bool) -> bool {
        leading || !self.queue.needs_term
    }

    fn busy(&self) -> usize {
        self.processing.len().saturating_sub(self.parked)
    }

    /// When [`begin`](Self::begin) is worth asking again; `None`: not before something happens.
    pub(super) fn next_time(&self, now: Now, share: &RetryShare) -> Option<Duration> {
        if self.busy() >= self.queue.workers {
            return None;
        }
        let until = |at: Timestamp| Duration::try_from(at.duration_since(now.wall)).unwrap_or_default();
        let ready = (!self.ready.is_empty()).then_some(Duration::ZERO);
        let failing = (!self.failing.is_empty()).then(|| share.wait(now.uptime));
        let timed = self.timers.first().map(until);
        let delayed = self.delays.first().map(|at| at.saturating_sub(now.uptime));
        let first = [ready, failing, timed, delayed].into_iter().flatten().min()?;
        Some(first.max(self.next_begin.saturating_sub(now.uptime)))
    }

    /// How many keys it holds in all its maps, for tests: 0 when everything is settled.
    pub(super) fn held(&self) -> usize {
        self.ready.len()
            + self.dirty.len()
            + self.added.len()
            + self.processing.len()
            + self.timers.len()
            + self.delays.len()
            + self.after.len()
            + self.failures.len()
    }

    /// Whether `key` is handed out without further ado.
    pub(super) fn is_woken(&self, key: &K, now: Now) -> bool {
        let due = self.timers.get(key).is_some_and(|at| at <= now.wall);
        due || self.dirty.contains(key)
    }

    pub(super) fn ready_keys(&self) -> impl Iterator<Item = &K> {
        self.ready.iter()
    }

    /// Whether `key` comes back after a wait.
    pub(super) fn is_waiting(&self, key: &K) -> bool {
        self.delays.get(key).is_some()
    }

    /// When `key` comes back by itself, by wall time; for tests of what a pass promised.
    pub(super) fn scheduled_at(&self, key: &K) -> Option<Timestamp> {
        self.timers.get(key)
    }
}
