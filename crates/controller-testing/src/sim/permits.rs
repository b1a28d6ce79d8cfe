//! The limits of a run, on requests and on keys that keep failing.

use std::cell::Cell;
use std::time::Duration;

use controller_core::controller::{Limit, RetryShare};

/// Permits without limit: the limit itself is tested on the loop alone.
pub struct Unlimited;

/// No permits: shows what is done without a request.
pub struct NoPermits;

/// One permit at a time.
pub(super) struct Trickle<'a> {
    pub(super) every: Duration,
    pub(super) now: Duration,
    /// Time of the next permit.
    pub(super) permit: &'a Cell<Duration>,
}

/// Scarce, so that keys that fail wait for a permit.
pub(super) fn retries() -> RetryShare {
    RetryShare::new(1.0, 5)
}

impl Limit for Unlimited {
    fn wait(&self) -> Duration {
        Duration::ZERO
    }

    fn take(&self) {}
}

impl Limit for NoPermits {
    fn wait(&self) -> Duration {
        Duration::MAX
    }

    fn take(&self) {}
}

impl Limit for Trickle<'_> {
    fn wait(&self) -> Duration {
        self.permit.get().saturating_sub(self.now)
    }

    fn take(&self) {
        self.permit.set(self.permit.get().max(self.now) + self.every);
    }
}
