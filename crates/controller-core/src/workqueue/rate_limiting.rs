//! How long a failed key waits. Recording a failure and asking for the delay are two calls, so that
//! asking changes nothing.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::clock::Clock;

/// client-go's `DefaultTypedControllerRateLimiter`.
const BASE_DELAY: Duration = Duration::from_millis(5);
const MAX_DELAY: Duration = Duration::from_secs(1000);
const OVERALL_QPS: f64 = 10.0;
const OVERALL_BURST: u32 = 100;

/// Delays after failures.
pub trait RateLimiter<K>: Send + Sync {
    /// Records one more failure of `key`.
    fn failed(&self, key: &K);
    /// How long `key` should wait now.
    fn delay(&self, key: &K) -> Duration;
    /// Forgets the failures of `key`.
    fn forget(&self, key: &K);
    /// How many failures of `key` are recorded.
    fn num_requeues(&self, key: &K) -> u32;
}

/// `base` · 2^(failures − 1), at most `max`.
#[derive(Debug)]
pub struct ItemExponential<K> {
    base: Duration,
    max: Duration,
    failures: Mutex<HashMap<K, u32>>,
}

/// A token bucket, a value: times are durations since some origin. Each token taken when there is none makes a debt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    /// The time in which one token comes.
    interval: Duration,
    /// The time in which an empty bucket fills up.
    span: Duration,
    /// When the bucket is full, if none is taken until then.
    full_at: Duration,
}

/// A token bucket over all keys. Each token taken when there is none makes a debt, which is the delay.
#[derive(Debug)]
pub struct Bucket {
    clock: Clock,
    origin: Instant,
    tokens: Mutex<TokenBucket>,
}

/// The longer of two delays.
#[derive(Debug)]
pub struct MaxOf<A, B>(pub A, pub B);

/// What controllers use: per key 5 ms doubling to 1000 s, overall 10 a second with a burst of 100.
pub type DefaultRateLimiter<K> = MaxOf<ItemExponential<K>, Bucket>;

impl<K> DefaultRateLimiter<K> {
    /// client-go's settings.
    pub fn new(clock: Clock) -> Self {
        Self(
            ItemExponential::new(BASE_DELAY, MAX_DELAY),
            Bucket::new(clock, OVERALL_QPS, OVERALL_BURST),
        )
    }
}

impl<K> ItemExponential<K> {
    /// No failures yet.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self {
            base,
            max,
            failures: Mutex::default(),
        }
    }
}

impl<K: Clone + Eq + Hash + Send> RateLimiter<K> for ItemExponential<K> {
    fn failed(&self, key: &K) {
        let mut failures = self.failures.lock();
        let count = failures.entry(key.clone()).or_default();
        *count = count.saturating_add(1);
    }

    fn delay(&self, key: &K) -> Duration {
        exponential(self.base, self.max, self.num_requeues(key))
    }

    fn forget(&self, key: &K) {
        self.failures.lock().remove(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.failures.lock().get(key).copied().unwrap_or(0)
    }
}

/// `base` · 2^(failures − 1), at most `max`; zero without a failure.
pub(crate) fn exponential(base: Duration, max: Duration, failures: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else {
        return Duration::ZERO;
    };
    let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
    base.saturating_mul(factor).min(max)
}

impl TokenBucket {
    /// A full bucket: `burst` tokens, refilled with `qps` a second.
    pub fn new(qps: f64, burst: u32) -> Self {
        let interval = Duration::try_from_secs_f64(qps.recip()).unwrap_or(Duration::MAX);
        Self {
            interval,
            span: interval.saturating_mul(burst),
            full_at: Duration::ZERO,
        }
    }

    /// Takes a token at `now` and returns how long to wait until it is there.
    pub fn take(&mut self, now: Duration) -> Duration {
        self.full_at = self.full_at.max(now).saturating_add(self.interval);
        self.debt(now)
    }

    /// Gives back a token that was taken and is not needed.
    pub fn give_back(&mut self) {
        self.full_at = self.full_at.saturating_sub(self.interval);
    }

    /// How long until the tokens that were taken are there.
    fn debt(&self, now: Duration) -> Duration {
        self.full_at.saturating_sub(now.saturating_add(self.span))
    }
}

impl Bucket {
    /// A full bucket: `burst` tokens, refilled with `qps` a second.
    pub fn new(clock: Clock, qps: f64, burst: u32) -> Self {
        Self {
            origin: clock.instant(),
            clock,
            tokens: Mutex::new(TokenBucket::new(qps, burst)),
        }
    }

    /// Takes a token and returns how long to wait until it is there.
    pub fn take(&self) -> Duration {
        self.tokens.lock().take(self.now())
    }

    /// Gives back a token that was taken and is not needed.
    pub fn give_back(&self) {
        self.tokens.lock().give_back();
    }

    fn now(&self) -> Duration {
        self.clock.instant() - self.origin
    }
}

impl<K> RateLimiter<K> for Bucket {
    fn failed(&self, _: &K) {
        self.take();
    }

    fn delay(&self, _: &K) -> Duration {
        self.tokens.lock().debt(self.now())
    }

    fn forget(&self, _: &K) {}

    fn num_requeues(&self, _: &K) -> u32 {
        0
    }
}

impl<K, A: RateLimiter<K>, B: RateLimiter<K>> RateLimiter<K> for MaxOf<A, B> {
    fn failed(&self, key: &K) {
        self.0.failed(key);
        self.1.failed(key);
    }

    fn delay(&self, key: &K) -> Duration {
        self.0.delay(key).max(self.1.delay(key))
    }

    fn forget(&self, key: &K) {
        self.0.forget(key);
        self.1.forget(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.0.num_requeues(key).max(self.1.num_requeues(key))
    }
}
