//! The server's time: a wall clock given by the test, and tokio's (possibly paused) timers.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Wall time for what clients see, monotonic time for the rest.
#[derive(Clone)]
pub(super) struct Clock {
    wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Clock {
    pub(super) fn new(wall: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self { wall: Arc::new(wall) }
    }

    /// Starts at `wall` and advances with tokio's time.
    pub(super) fn starting_at(wall: Timestamp) -> Self {
        let origin = instant();
        Self::new(move || {
            let passed =
                SignedDuration::try_from(instant().duration_since(origin)).unwrap_or(SignedDuration::MAX);
            wall.checked_add(passed).unwrap_or(Timestamp::MAX)
        })
    }

    #[allow(clippy::unused_self, reason = "time is asked of the clock")]
    pub(super) fn instant(&self) -> Instant {
        instant()
    }

    /// Wall time.
    pub(super) fn timestamp(&self) -> Timestamp {
        (self.wall)()
    }

    /// Wall time as `metav1.Time` has it, e.g. `2026-01-01T00:00:00Z`.
    pub(super) fn now(&self) -> String {
        rfc3339(self.timestamp())
    }

    /// Wall time as the `Date` header has it.
    pub(super) fn date(&self) -> String {
        (self.wall)().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }
}

/// A time as `metav1.Time` has it.
pub(super) fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

/// A time as `metav1.Time` has it.
pub(super) fn in_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads tokio's clock")]
fn instant() -> Instant {
    Instant::now()
}
