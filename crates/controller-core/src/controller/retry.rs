//! When a key whose pass failed comes back, and how often keys that keep failing are handed out.

use std::time::Duration;

use crate::workqueue::TokenBucket;

/// When a key whose pass failed comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Retry {
    /// After a delay that doubles with each failure.
    RateLimited(RetryLimit),
    /// When the controller says: [`Controller::reconcile`](super::Controller::reconcile) names the time.
    ByController,
}

/// The delays of failed keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryLimit {
    /// The delay after the first failure. It doubles with each one.
    pub base_delay: Duration,
    /// The longest delay; for a key that has been refused for long, an eighth of that time, up to 5 min, if that is
    /// more.
    pub max_delay: Duration,
}

impl Retry {
    /// Failures in a row that do not yet count as failing again and again: a controller that times its retries itself
    /// may have the first ones come at once.
    pub(super) const fn at_once(self) -> u32 {
        match self {
            Self::RateLimited(_) => 0,
            Self::ByController => 5,
        }
    }
}

impl RetryLimit {
    /// Source: client-go, `DefaultTypedControllerRateLimiter`. Its limit for all keys together is the [`RetryShare`].
    pub const DEFAULT: Self = Self {
        base_delay: Duration::from_millis(5),
        max_delay: Duration::from_secs(1000),
    };

    /// [`DEFAULT`](Self::DEFAULT) up to `max_delay`: what refuses a write may be fixed at any time.
    pub const fn up_to(max_delay: Duration) -> Self {
        Self {
            max_delay,
            ..Self::DEFAULT
        }
    }

    /// The delay after this number of failures; `refused_for`: how long the key has been refused, if it has.
    pub(super) fn delay(self, failures: u32, refused_for: Option<Duration>) -> Duration {
        let refused_for = refused_for.unwrap_or_default();
        let longest = (refused_for / 8).min(LONGEST_REFUSED).max(self.max_delay);
        exponential(self.base_delay, longest, failures)
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

/// Longest wait of a key that has been refused for hours.
const LONGEST_REFUSED: Duration = Duration::from_mins(5);

/// Limits how often keys that keep failing are handed out: one token for each request that fails again. Without limit
/// where requests have none.
#[derive(Clone, Debug, Default)]
pub struct RetryShare(Option<TokenBucket>);

impl RetryShare {
    /// `qps` requests a second, after a burst of `burst`.
    pub fn new(qps: f64, burst: u32) -> Self {
        Self(Some(TokenBucket::new(qps, burst)))
    }

    /// Takes a token, if one is available.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        self.wait(now).is_zero() && {
            self.owe(1, now);
            true
        }
    }

    /// Takes tokens, available or not.
    pub(super) fn owe(&mut self, tokens: usize, now: Duration) {
        if let Some(bucket) = &mut self.0 {
            for _ in 0..tokens {
                bucket.take(now);
            }
        }
    }

    /// Returns the token of a key that has not failed again.
    pub(super) fn give_back(&mut self) {
        if let Some(bucket) = &mut self.0 {
            bucket.give_back();
        }
    }

    /// Time until a token is available.
    pub(super) fn wait(&self, now: Duration) -> Duration {
        self.0.as_ref().map_or(Duration::ZERO, |bucket| bucket.wait(now))
    }
}

/// How often the passes of a key have failed in a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failures {
    pub(super) times: u32,
    pub(super) since: Duration,
}
