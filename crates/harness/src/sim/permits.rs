//! How many requests a run may make, and how many of those that fail again.

use std::cell::Cell;
use std::time::Duration;

use controller_core::controller::{Limit, RetryShare};

/// As many permits as are wanted: what the limit is worth is tried on the loop alone.
pub struct Unlimited;

/// No permit ever: for what is to be done without a request.
pub struct NoPermits;

/// One permit after the other.
pub(super) struct Trickle<'a> {
    pub(super) every: Duration,
    pub(super) now: Duration,
    /// When there is a permit again.
    pub(super) permit: &'a Cell<Duration>,
}

/// Scarce, so that keys that fail wait for their turn.
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
