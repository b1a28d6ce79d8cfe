//! When a key whose pass failed comes back, and how often those are handed out that fail again and again.

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

/// How soon a failed key comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryLimit {
    /// The delay after the first failure. It doubles with each one.
    pub base_delay: Duration,
    /// The longest delay; of a key that is refused for a long time, an eighth of that time, up to 5 min.
    pub max_delay: Duration,
}

impl Retry {
    /// So many failures in a row are no sign of a key that fails again and again: a controller that times its retries
    /// itself may have the first ones come at once.
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

    /// The same up to `max_delay`: what refuses a write may be mended at any time.
    pub const fn up_to(max_delay: Duration) -> Self {
        Self {
            max_delay,
            ..Self::DEFAULT
        }
    }

    /// The delay of a key that has failed so often; `refused_for` tells for how long, where it is refused.
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

/// How long a key waits at most that has been refused for hours.
const LONGEST_REFUSED: Duration = Duration::from_mins(5);

/// How often keys are handed out whose last pass failed: one token for each request that fails again. Without limit
/// where requests have none.
#[derive(Clone, Debug, Default)]
pub struct RetryShare(Option<TokenBucket>);

impl RetryShare {
    /// So many requests a second, after a burst.
    pub fn new(qps: f64, burst: u32) -> Self {
        Self(Some(TokenBucket::new(qps, burst)))
    }

    /// Takes a token, if there is one.
    pub(super) fn take(&mut self, now: Duration) -> bool {
        self.wait(now).is_zero() && {
            self.owe(1, now);
            true
        }
    }

    /// Takes tokens, whether they are there or not.
    pub(super) fn owe(&mut self, tokens: usize, now: Duration) {
        if let Some(bucket) = &mut self.0 {
            for _ in 0..tokens {
                bucket.take(now);
            }
        }
    }

    /// A key that was handed out has not failed again.
    pub(super) fn give_back(&mut self) {
        if let Some(bucket) = &mut self.0 {
            bucket.give_back();
        }
    }

    /// How long until there is a token.
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
