//! The keys of one declared queue: who is next, who waits for a time, who has failed how often.
//!
//! A value: whoever calls says what time it is. The contract is client-go's (CORE-1): a key is processed once at a
//! time, duplicates collapse, and a key that is added while it is processed is queued again when that ends.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use jiff::Timestamp;

use super::timers::Timers;
use super::{Now, Wake};
use crate::workqueue::{QueueMetrics, TokenBucket};

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

/// When a key whose pass failed comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Retry {
    /// After a delay that doubles with each failure.
    RateLimited(RetryLimit),
    /// When the controller says: [`Controller::next`](super::Controller::next) names the time.
    ByController,
}

/// How soon a failed key comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryLimit {
    /// The delay after the first failure. It doubles with each one.
    pub base_delay: Duration,
    /// The longest delay.
    pub max_delay: Duration,
    /// Retries of all keys together: so many a second, after a burst.
    pub overall: Option<(f64, u32)>,
}

impl RetryLimit {
    /// Source: client-go, `DefaultTypedControllerRateLimiter`.
    pub const DEFAULT: Self = Self {
        base_delay: Duration::from_millis(5),
        max_delay: Duration::from_secs(1000),
        overall: Some((10.0, 100)),
    };

    /// The same up to `max_delay`, whatever becomes of other keys: what refuses a write may be mended at any time.
    pub const fn up_to(max_delay: Duration) -> Self {
        Self {
            max_delay,
            overall: None,
            ..Self::DEFAULT
        }
    }
}

/// `base` · 2^(failures − 1), at most `max`; zero without a failure.
fn exponential(base: Duration, max: Duration, failures: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else {
        return Duration::ZERO;
    };
    let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
    base.saturating_mul(factor).min(max)
}

/// The keys of one queue.
#[derive(Clone, Debug)]
pub(super) struct KeyQueue<K> {
    pub(super) queue: Queue,
    metrics: Option<QueueMetrics>,
    /// Of a fifo queue: keys to be handed out. Not those that are processed.
    ready: VecDeque<K>,
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
    failures: HashMap<K, u32>,
    retries: Option<TokenBucket>,
    next_begin: Duration,
}

impl<K: Clone + Ord + Hash> KeyQueue<K> {
    pub(super) fn new(queue: Queue, metrics: Option<QueueMetrics>) -> Self {
        Self {
            queue,
            metrics,
            ready: VecDeque::new(),
            dirty: HashSet::new(),
            added: HashMap::new(),
            processing: BTreeMap::new(),
            parked: 0,
            timers: Timers::default(),
            delays: Timers::default(),
            after: HashMap::new(),
            failures: HashMap::new(),
            retries: match queue.retry {
                Retry::RateLimited(RetryLimit { overall, .. }) => overall,
                Retry::ByController => None,
            }
            .map(|(qps, burst)| TokenBucket::new(qps, burst)),
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
                self.timers.remove(&key);
                self.delays.remove(&key);
                self.after.remove(&key);
                self.forget(&key);
            }
        }
    }

    fn wake_now(&mut self, key: K, now: Now) {
        if self.queue.order == Order::Fifo {
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
        self.count(&key, now);
        if !self.processing.contains_key(&key) {
            self.ready.push_back(key);
        }
    }

    fn count(&mut self, key: &K, now: Now) {
        if let Some(metrics) = &self.metrics {
            metrics.added();
            self.added.insert(key.clone(), now.uptime);
        }
    }

    fn schedule(&mut self, key: K, at: Timestamp) {
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
    pub(super) fn begin(&mut self, now: Now) -> Option<K> {
        self.add_due(now);
        if now.uptime < self.next_begin || self.busy() >= self.queue.workers {
            return None;
        }
        let key = match self.queue.order {
            Order::Fifo => self.ready.pop_front()?,
            Order::EarliestFirst => {
                let key = self.timers.pop_due(now.wall)?;
                self.count(&key, now);
                key
            }
        };
        self.dirty.remove(&key);
        let waited = self.added.remove(&key).map(|at| now.uptime.saturating_sub(at));
        let run = self.metrics.as_ref().map_or(0, |metrics| metrics.started(waited));
        self.processing.insert(key.clone(), run);
        self.next_begin = now.uptime.saturating_add(self.queue.interval);
        Some(key)
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
            self.ready.push_back(key.clone());
        }
    }

    /// The pass of `key` succeeded.
    pub(super) fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// The pass of `key` failed: it comes back after the delay of `limit`, no sooner than after `wait`.
    pub(super) fn retry(&mut self, key: K, wait: Duration, now: Now) {
        let limit = match self.queue.retry {
            Retry::RateLimited(limit) => limit,
            Retry::ByController => RetryLimit::DEFAULT,
        };
        if let Some(metrics) = &self.metrics {
            metrics.retried();
        }
        let failures = self.failures.entry(key.clone()).or_default();
        *failures = failures.saturating_add(1);
        let delay = exponential(limit.base_delay, limit.max_delay, *failures);
        let overall = self.retries.as_mut().map(|retries| retries.take(now.uptime));
        let overall = overall.unwrap_or_default();
        self.delay(key, delay.max(overall).max(wait), now);
    }

    /// How many keys come back at a time that is named.
    pub(super) fn scheduled(&self) -> usize {
        self.timers.len() + self.after.len()
    }

    /// How often the passes of `key` have failed in a row.
    pub(super) fn num_requeues(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }

    /// A pass begins or ends to do nothing but wait for an answer.
    pub(super) fn park(&mut self, parked: bool) {
        if !self.queue.reads_hold_workers {
            self.parked = if parked {
                self.parked + 1
            } else {
                self.parked.saturating_sub(1)
            };
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
    pub(super) fn next_time(&self, now: Now) -> Option<Duration> {
        if self.busy() >= self.queue.workers {
            return None;
        }
        let until = |at: Timestamp| Duration::try_from(at.duration_since(now.wall)).unwrap_or_default();
        let ready = (!self.ready.is_empty()).then_some(Duration::ZERO);
        let timed = self.timers.first().map(until);
        let delayed = self.delays.first().map(|at| at.saturating_sub(now.uptime));
        let first = [ready, timed, delayed].into_iter().flatten().min()?;
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
