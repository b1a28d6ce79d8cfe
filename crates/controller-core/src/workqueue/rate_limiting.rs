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

/// A token bucket over all keys. Each token taken when there is none makes a debt, which is the delay.
#[derive(Debug)]
pub struct Bucket {
    clock: Clock,
    qps: f64,
    burst: f64,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    tokens: f64,
    at: Instant,
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
        match self.num_requeues(key) {
            0 => Duration::ZERO,
            failures => {
                let factor = 2_u32.checked_pow(failures - 1).unwrap_or(u32::MAX);
                self.base.saturating_mul(factor).min(self.max)
            }
        }
    }

    fn forget(&self, key: &K) {
        self.failures.lock().remove(key);
    }

    fn num_requeues(&self, key: &K) -> u32 {
        self.failures.lock().get(key).copied().unwrap_or(0)
    }
}

impl Bucket {
    /// A full bucket: `burst` tokens, refilled with `qps` a second.
    pub fn new(clock: Clock, qps: f64, burst: u32) -> Self {
        let level = Level {
            tokens: f64::from(burst),
            at: clock.instant(),
        };
        Self {
            clock,
            qps,
            burst: f64::from(burst),
            level: Mutex::new(level),
        }
    }

    /// Takes a token and returns how long to wait until it is there.
    pub fn take(&self) -> Duration {
        let mut level = self.level.lock();
        self.refill(&mut level);
        level.tokens -= 1.0;
        self.debt(&level)
    }

    fn refill(&self, level: &mut Level) {
        let now = self.clock.instant();
        let passed = now.saturating_duration_since(level.at).as_secs_f64();
        level.tokens = passed.mul_add(self.qps, level.tokens).min(self.burst);
        level.at = now;
    }

    fn debt(&self, level: &Level) -> Duration {
        Duration::try_from_secs_f64((-level.tokens / self.qps).max(0.0)).unwrap_or(Duration::MAX)
    }
}

impl<K> RateLimiter<K> for Bucket {
    fn failed(&self, _: &K) {
        self.take();
    }

    fn delay(&self, _: &K) -> Duration {
        let mut level = self.level.lock();
        self.refill(&mut level);
        self.debt(&level)
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
