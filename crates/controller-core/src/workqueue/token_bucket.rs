//! A limit on how often something happens.

use std::time::Duration;

/// A token bucket as a value: times are durations since some origin. Taking a token from an empty bucket makes a debt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    /// Time in which one token is added.
    interval: Duration,
    /// Time in which an empty bucket fills up.
    span: Duration,
    /// When the bucket is full, if no token is taken until then.
    full_at: Duration,
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

    /// Takes a token at `now` and returns how long to wait for it.
    pub fn take(&mut self, now: Duration) -> Duration {
        self.full_at = self.full_at.max(now).saturating_add(self.interval);
        self.debt(now)
    }

    /// How long a token taken at `now` would have to be waited for.
    pub fn wait(&self, now: Duration) -> Duration {
        self.clone().take(now)
    }

    /// Returns a token that was taken and not needed.
    pub fn give_back(&mut self) {
        self.full_at = self.full_at.saturating_sub(self.interval);
    }

    /// Time until the tokens already taken have been added.
    fn debt(&self, now: Duration) -> Duration {
        self.full_at.saturating_sub(now.saturating_add(self.span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_lets_a_burst_through_and_then_its_rate() {
        let mut bucket = TokenBucket::new(10.0, 3);
        let mut take = |now: u64| bucket.take(Duration::from_millis(now)).as_millis();
        assert_eq!([0; 6].map(&mut take), [0, 0, 0, 100, 200, 300]);
        assert_eq!(take(1_300), 0);
        // However long the rest, the bucket holds no more than the burst.
        assert_eq!([3_600_000; 4].map(take), [0, 0, 0, 100]);
    }
}
