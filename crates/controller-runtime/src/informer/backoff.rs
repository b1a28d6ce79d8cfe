//! How long to wait after a source has failed.

use std::time::Duration;

use controller_core::cache::{ErrorKind, SourceError};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The shortest wait after a failure (client-go's reflector).
pub const SHORTEST: Duration = Duration::from_millis(800);
/// The longest wait, unless the server asks for more (client-go's reflector).
pub const LONGEST: Duration = Duration::from_secs(30);
/// The longest wait that the server may ask for: an informer that watches nothing for longer is of no use.
pub const LONGEST_ASKED: Duration = Duration::from_mins(1);
/// Wait before a resource that is not served is requested again (CORE-18).
pub const NOT_SERVED: Duration = Duration::from_secs(30);

/// Waits that double from [`SHORTEST`] and stay under [`LONGEST`].
///
/// The n-th wait is drawn from `[base, 2·base)` with `base = min(0.8 s · 2ⁿ, 15 s)`: so every wait is within the
/// limits, and the long ones are spread, too. A server that accepts no connection is tried again after each shortest
/// wait.
#[derive(Debug)]
pub struct Backoff {
    failures: u32,
    /// True if the last failure was a 410.
    expired: bool,
    jitter: StdRng,
}

impl Backoff {
    /// No failure yet. Processes with different seeds wait differently.
    pub fn seeded(seed: u64) -> Self {
        Self {
            failures: 0,
            expired: false,
            jitter: StdRng::seed_from_u64(seed),
        }
    }

    /// The wait after one more failure. A 410 is an answer: it ends the series of other failures.
    pub fn after(&mut self, error: &SourceError) -> Duration {
        let expired = error.kind == ErrorKind::Expired;
        let was_expired = std::mem::replace(&mut self.expired, expired);
        if expired && !was_expired {
            self.reset();
        }
        let own = match error.kind {
            ErrorKind::NotServed => NOT_SERVED,
            // Attempts do not burden a server that is away, and it is missed.
            ErrorKind::Unreachable => self.from(SHORTEST),
            _ => self.next_wait(),
        };
        own.max(error.retry_after.unwrap_or_default().min(LONGEST_ASKED))
    }

    /// The source is healthy again: the next failure is the first.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    fn next_wait(&mut self) -> Duration {
        let base = SHORTEST
            .saturating_mul(2_u32.saturating_pow(self.failures))
            .min(LONGEST / 2);
        self.failures = self.failures.saturating_add(1);
        self.from(base)
    }

    fn from(&mut self, base: Duration) -> Duration {
        base.mul_f64(self.jitter.random_range(1.0..2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ErrorKind, retry_after: Option<u64>) -> SourceError {
        SourceError {
            kind,
            retry_after: retry_after.map(Duration::from_secs),
            message: "expected by this test".to_owned(),
        }
    }

    #[test]
    fn waits_double_from_800_ms_and_stay_within_30_s() {
        let other = error(ErrorKind::Other, None);
        for seed in 0..200 {
            let mut backoff = Backoff::seeded(seed);
            for base_ms in [800, 1_600, 3_200, 6_400, 12_800, 15_000, 15_000] {
                let base = Duration::from_millis(base_ms);
                let wait = backoff.after(&other);
                assert!(
                    base <= wait && wait < base * 2,
                    "{wait:?} is not within 1 to 2 × {base:?}"
                );
            }
        }
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_looked_for_every_second_or_so() {
        let mut backoff = Backoff::seeded(1);
        let short = Duration::from_millis(800)..Duration::from_millis(1_600);
        for _ in 0..1_000 {
            assert!(short.contains(&backoff.after(&error(ErrorKind::Unreachable, None))));
        }
        // Its first answer begins the series.
        assert!(short.contains(&backoff.after(&error(ErrorKind::Other, None))));
        assert!(!short.contains(&backoff.after(&error(ErrorKind::Other, None))));
    }

    #[test]
    fn waits_are_spread() {
        let waits: std::collections::HashSet<_> = (0..100)
            .map(|seed| Backoff::seeded(seed).after(&error(ErrorKind::Other, None)))
            .collect();
        assert!(waits.len() > 50);
    }

    #[test]
    fn a_reset_starts_over() {
        let mut backoff = Backoff::seeded(1);
        for _ in 0..10_000 {
            backoff.after(&error(ErrorKind::Other, None));
        }
        backoff.reset();
        assert!(backoff.after(&error(ErrorKind::Other, None)) < Duration::from_millis(1_600));
    }

    /// As after a restart of the API server, which has forgotten every version.
    #[test]
    fn the_first_410_after_other_failures_says_that_the_server_is_back() {
        let mut backoff = Backoff::seeded(1);
        for _ in 0..10 {
            backoff.after(&error(ErrorKind::Other, None));
        }
        assert!(backoff.after(&error(ErrorKind::Expired, None)) < Duration::from_millis(1_600));
        assert!(backoff.after(&error(ErrorKind::Expired, None)) >= Duration::from_millis(1_600));
    }

    #[test]
    fn the_servers_wish_is_honoured_up_to_a_minute_and_never_shortens_a_wait() {
        let mut backoff = Backoff::seeded(1);
        for (asked, expected) in [(45, 45), (60, 60), (61, 60), (86_400, 60)] {
            let wait = backoff.after(&error(ErrorKind::Throttled, Some(asked)));
            assert_eq!(wait, Duration::from_secs(expected));
        }
        assert!(backoff.after(&error(ErrorKind::Throttled, Some(0))) >= Duration::from_millis(1_600));
    }
}
