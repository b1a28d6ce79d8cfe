//! The keys of one declared queue: which is next, which wait for a time, how often each has failed.
//!
//! A value: the caller passes the time. The contract is client-go's (CORE-1): a key is processed once at a time,
//! duplicates collapse, and a key that is added while it is processed is queued again when that ends.
//!
//! Keys wait in levels: those that keep failing in a level of their own, the others by their
//! [`Priority`](super::Priority). In each level namespaces take turns. The [`RetryShare`] limits how often the failing
//! level is served, and at most a quarter of the workers (at least one) serve it, so that slow failures keep no other
//! key waiting.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use jiff::Timestamp;

use super::levels::{Level, Levels, Seat, Seats};
use super::pass::PassFailed;
use super::queue::{Order, Queue};
use super::retry::{Failures, Retry, RetryLimit, RetryShare};
use super::timers::Timers;
use super::workers::{Suspend, Workers};
use super::{Now, Requeue};
use crate::fingerprint::Fingerprint;
use crate::workqueue::QueueMetrics;

/// The keys of one queue.
#[derive(Clone)]
pub(super) struct KeyQueue<K> {
    pub(super) queue: Queue,
    metrics: Option<QueueMetrics>,
    /// Keys to be handed out, without those that are processed.
    levels: Levels<K>,
    /// Keys to be processed, including those that are processed now and come back after that.
    dirty: HashMap<K, Dirty>,
    workers: Workers<K>,
    /// True if the last key that was handed out keeps failing.
    was_failing: bool,
    timers: Timers<K, Timestamp>,
    delays: Timers<K, Duration>,
    /// Times that were scheduled for keys while they are processed.
    after: HashMap<K, Timestamp>,
    failures: HashMap<K, Failures>,
    next_begin: Duration,
}

#[derive(Clone, Debug, Default)]
struct Dirty {
    /// For the metrics.
    since: Option<Duration>,
    /// None while the key is processed.
    seat: Option<Seat>,
}

impl<K: Clone + Ord + Hash> KeyQueue<K> {
    pub(super) fn new(queue: Queue, metrics: Option<QueueMetrics>) -> Self {
        Self {
            queue,
            metrics,
            levels: Levels::default(),
            dirty: HashMap::new(),
            workers: Workers::default(),
            was_failing: false,
            timers: Timers::default(),
            delays: Timers::default(),
            after: HashMap::new(),
            failures: HashMap::new(),
            next_begin: Duration::ZERO,
        }
    }

    pub(super) fn requeue(&mut self, key: K, requeue: Requeue, now: Now, seats: &impl Seats<K>) {
        match requeue {
            Requeue::Now => {
                self.add_due(now, seats);
                self.enqueue(key, now, seats);
            }
            Requeue::Reset => {
                self.delays.remove(&key);
                self.forget(&key, seats);
                self.requeue(key, Requeue::Now, now, seats);
            }
            Requeue::After(wait) => self.delay(key, wait, now),
            Requeue::At(at) => self.schedule(key, at),
            Requeue::Cancel => {
                self.leave_level(&key);
                self.timers.remove(&key);
                self.delays.remove(&key);
                self.after.remove(&key);
                self.forget(&key, seats);
            }
        }
    }

    fn enqueue(&mut self, key: K, now: Now, seats: &impl Seats<K>) {
        if self.queue.order == Order::Fifo || self.dirty.contains_key(&key) {
            return self.add(&key, now, seats);
        }
        // A key that is already late keeps its place.
        let known = self.after.get(&key).copied().or_else(|| self.timers.get(&key));
        let at = known.map_or(now.wall, |known| now.wall.min(known));
        self.schedule(key, at);
    }

    /// Adds keys whose time has come, ahead of those that are enqueued from now on.
    fn add_due(&mut self, now: Now, seats: &impl Seats<K>) {
        while let Some(key) = self.delays.pop_due(now.uptime) {
            self.enqueue(key, now, seats);
        }
        while self.queue.order == Order::Fifo
            && let Some(key) = self.timers.pop_due(now.wall)
        {
            self.add(&key, now, seats);
        }
    }

    fn add(&mut self, key: &K, now: Now, seats: &impl Seats<K>) {
        if !self.dirty.contains_key(key) {
            self.dirty.insert(key.clone(), Dirty::default());
            if self.queue.order == Order::Fifo {
                self.count(key, now);
            }
        }
        if !self.workers.has(key) {
            self.line_up(key, seats);
        }
    }

    /// Gives the key a place, or a better one than it has.
    fn line_up(&mut self, key: &K, seats: &impl Seats<K>) {
        let level = if self.is_failing(key) {
            Level::Failing
        } else {
            seats.priority(key).into()
        };
        let Some(dirty) = self.dirty.get_mut(key) else {
            return;
        };
        if let Some(seat) = &dirty.seat {
            let is_worse = level < seat.level && seat.level != Level::Failing;
            if level == seat.level || is_worse {
                return;
            }
            self.levels.remove(seat);
        }
        dirty.seat = Some(self.levels.push(level, seats.namespace(key), key.clone()));
    }

    /// In a queue by time, takes a due key out of its level: the key gets another time.
    fn leave_level(&mut self, key: &K) {
        if self.queue.order == Order::EarliestFirst
            && let Some(Dirty { seat: Some(seat), .. }) = self.dirty.remove(key)
        {
            self.levels.remove(&seat);
        }
    }

    fn count(&mut self, key: &K, now: Now) {
        if let (Some(metrics), Some(dirty)) = (&self.metrics, self.dirty.get_mut(key)) {
            metrics.added();
            dirty.since = Some(now.uptime);
        }
    }

    fn schedule(&mut self, key: K, at: Timestamp) {
        self.leave_level(&key);
        if self.workers.has(&key) {
            self.timers.remove(&key);
            self.after.insert(key, at);
        } else {
            self.timers.set(key, at);
        }
    }

    /// Brings the key back after `wait`, unless it comes back sooner.
    fn delay(&mut self, key: K, wait: Duration, now: Now) {
        // A time too far to be represented is never.
        let Some(at) = now.uptime.checked_add(wait) else {
            return;
        };
        if self.delays.get(&key).is_none_or(|known| at < known) {
            self.delays.set(key, at);
        }
    }

    /// Takes the next key that may begin a pass now. After a key that keeps failing comes one that does not, if any
    /// waits.
    pub(super) fn begin(&mut self, now: Now, share: &mut RetryShare, seats: &impl Seats<K>) -> Option<K> {
        self.add_due(now, seats);
        if now.uptime < self.next_begin || !self.workers.are_free(self.queue.workers) {
            return None;
        }
        let failing = if self.was_failing {
            None
        } else {
            self.next_failing(now, share)
        };
        let key = failing
            .or_else(|| self.next_ready(now, seats))
            .or_else(|| self.next_failing(now, share))?;
        if self.queue.order == Order::EarliestFirst {
            self.count(&key, now);
        }
        let dirty = self.dirty.remove(&key).unwrap_or_default();
        let waited = dirty.since.map(|at| now.uptime.saturating_sub(at));
        let run = self.metrics.as_ref().map_or(0, |metrics| metrics.started(waited));
        self.was_failing = self.is_failing(&key);
        self.workers.begin(&key, run, self.was_failing);
        self.next_begin = now.uptime.saturating_add(self.queue.interval);
        Some(key)
    }

    fn may_fail(&self) -> bool {
        self.levels.has_failing() && self.workers.may_fail(self.queue.workers)
    }

    fn next_failing(&mut self, now: Now, share: &mut RetryShare) -> Option<K> {
        (self.may_fail() && share.take(now.uptime)).then(|| self.levels.pop_failing())?
    }

    /// In a queue by time, namespaces take turns among due keys, too; within a namespace the earliest key goes first.
    fn next_ready(&mut self, now: Now, seats: &impl Seats<K>) -> Option<K> {
        while self.queue.order == Order::EarliestFirst
            && let Some(key) = self.timers.pop_due(now.wall)
        {
            self.add(&key, now, seats);
        }
        self.levels.pop_ready()
    }

    /// Ends the pass of `key`.
    pub(super) fn done(&mut self, key: &K, seats: &impl Seats<K>) {
        self.park(key, false, false, seats);
        if let (Some(run), Some(metrics)) = (self.workers.end(key), &self.metrics) {
            metrics.finished(run);
        }
        if let Some(at) = self.after.remove(key) {
            self.timers.set(key.clone(), at);
        }
        if self.dirty.contains_key(key) {
            self.line_up(key, seats);
        }
    }

    /// Forgets the failures of `key`.
    pub(super) fn forget(&mut self, key: &K, seats: &impl Seats<K>) {
        let was_failing = self.is_failing(key);
        self.failures.remove(key);
        if was_failing && self.dirty.get(key).is_some_and(|dirty| dirty.seat.is_some()) {
            self.line_up(key, seats);
        }
    }

    /// Counts a failed pass of `key` and schedules nothing; returns since when the key has been failing.
    pub(super) fn fail(&mut self, key: &K, now: Now) -> Duration {
        let (times, since) = (0, now.uptime);
        let failures = self.failures.entry(key.clone());
        let failures = failures.or_insert(Failures { times, since });
        failures.times = failures.times.saturating_add(1);
        failures.since
    }

    /// Counts a failed pass of `key`, which comes back after the delay of its queue, no sooner than after
    /// `failed.wait`.
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

    /// How many keys come back at a set time.
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

    /// Returns whether `key` keeps failing, and so waits in the failing level.
    pub(super) fn is_failing(&self, key: &K) -> bool {
        self.num_requeues(key) > self.queue.retry.at_once()
    }

    /// Sets whether the pass of the key is parked or slow; in either case it holds no worker. A namespace with too many
    /// slow passes begins no other.
    pub(super) fn park(&mut self, key: &K, is_parked: bool, is_slow: bool, seats: &impl Seats<K>) {
        let (namespace, workers) = (seats.namespace(key), self.queue.workers);
        let suspend = self.workers.park(key, is_parked, is_slow, namespace, workers);
        if let (Some(suspend), Some(namespace)) = (suspend, namespace) {
            self.levels.suspend(namespace, matches!(suspend, Suspend::Yes));
        }
    }

    /// Reports the pass of the key as not stuck: it has been advanced, or waits for its turn.
    pub(super) fn goes_on(&self, key: &K) {
        if let (Some(run), Some(metrics)) = (self.workers.run(key), &self.metrics) {
            metrics.goes_on(run);
        }
    }

    /// Returns whether it hands out keys.
    pub(super) const fn is_open(&self, leading: bool) -> bool {
        leading || !self.queue.needs_term
    }

    /// Time until [`begin`](Self::begin) is worthwhile; `None`: not before something happens.
    pub(super) fn next_time(&self, now: Now, share: &RetryShare) -> Option<Duration> {
        if !self.workers.are_free(self.queue.workers) {
            return None;
        }
        let until = |at: Timestamp| Duration::try_from(at.duration_since(now.wall)).unwrap_or_default();
        let ready = self.levels.has_ready().then_some(Duration::ZERO);
        let failing = self.may_fail().then(|| share.wait(now.uptime));
        let timed = self.timers.first().map(until);
        let delayed = self.delays.first().map(|at| at.saturating_sub(now.uptime));
        let first = [ready, failing, timed, delayed].into_iter().flatten().min()?;
        Some(first.max(self.next_begin.saturating_sub(now.uptime)))
    }

    /// The number of entries in all its maps, for tests: 0 when everything is settled.
    pub(super) fn held(&self) -> usize {
        self.levels.len()
            + self.dirty.len()
            + self.workers.len()
            + self.timers.len()
            + self.delays.len()
            + self.after.len()
            + self.failures.len()
    }

    /// Adds everything that decides which keys are handed out, and when; for tests.
    pub(super) fn fingerprint(&self, out: &mut Fingerprint)
    where
        K: Debug,
    {
        let dirty = self.dirty.iter();
        out.add_all(dirty.map(|(key, dirty)| (key, dirty.seat.as_ref().map(|seat| seat.level))));
        out.add(&(&self.levels, &self.workers, self.was_failing));
        out.add(&(&self.timers, &self.delays, self.next_begin));
        out.add_all(&self.after);
        out.add_all(&self.failures);
    }

    /// Returns whether `key` is due or queued.
    pub(super) fn is_queued(&self, key: &K, now: Now) -> bool {
        let due = self.timers.get(key).is_some_and(|at| at <= now.wall);
        due || self.dirty.contains_key(key)
    }

    pub(super) fn ready_keys(&self) -> impl Iterator<Item = K> {
        self.levels.ready_keys()
    }

    /// Returns whether `key` comes back after a delay.
    pub(super) fn is_waiting(&self, key: &K) -> bool {
        self.delays.get(key).is_some()
    }

    /// The wall time at which `key` comes back by itself; for tests of what a pass promised.
    pub(super) fn scheduled_at(&self, key: &K) -> Option<Timestamp> {
        self.timers.get(key)
    }
}
