//! The server's time: a wall clock supplied by the test, and tokio's (possibly paused) timers.

use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Wall time for what clients see, monotonic time for the rest.
#[derive(Clone)]
pub(super) struct Clock {
    wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    wrong: Arc<Mutex<Wrong>>,
}

/// Errors of the clock.
#[derive(Clone, Copy, Default)]
struct Wrong {
    wall: SignedDuration,
    /// Added to `wall` in the `Date` header.
    date: SignedDuration,
}

impl Clock {
    pub(super) fn new(wall: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self {
            wall: Arc::new(wall),
            wrong: Arc::default(),
        }
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

    pub(super) fn timestamp(&self) -> Timestamp {
        self.wall(|wrong| wrong.wall)
    }

    /// Sets the clock wrong by `offset`.
    pub(super) fn offset(&self, offset: SignedDuration) {
        self.wrong.lock().wall = offset;
    }

    /// Sets the `Date` header wrong by `offset`, in addition.
    pub(super) fn offset_date(&self, offset: SignedDuration) {
        self.wrong.lock().date = offset;
    }

    fn wall(&self, offset: impl FnOnce(Wrong) -> SignedDuration) -> Timestamp {
        let offset = offset(*self.wrong.lock());
        (self.wall)().saturating_add(offset).unwrap_or(Timestamp::MAX)
    }

    /// Wall time in the form of `metav1.Time`, e.g. `2026-01-01T00:00:00Z`.
    pub(super) fn now(&self) -> String {
        rfc3339(self.timestamp())
    }

    /// Wall time in the form of the `Date` header.
    pub(super) fn date(&self) -> String {
        self.wall(|wrong| wrong.wall.saturating_add(wrong.date))
            .strftime("%a, %d %b %Y %H:%M:%S GMT")
            .to_string()
    }
}

/// A time in the form of `metav1.Time`.
pub(super) fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").finish_non_exhaustive()
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads tokio's clock")]
fn instant() -> Instant {
    Instant::now()
}
