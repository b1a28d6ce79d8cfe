//! The only clock: wall time and timers from one source, so that a test that moves one moves both.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use controller_core::time::saturating_add;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, Sleep};

/// Wall time (`now`) and monotonic time (`instant`, `sleep`, `timeout`).
///
/// Cheap to clone; all clones of a test clock share its origin.
#[derive(Clone, Debug)]
pub struct Clock {
    wall: Wall,
}

#[derive(Clone, Debug)]
enum Wall {
    /// The machine's wall clock, which may step.
    System,
    /// Wall time that follows tokio's (possibly paused) clock from a fixed origin, but for an error.
    FromTokio {
        origin: Instant,
        wall: Timestamp,
        wrong: Arc<Mutex<SignedDuration>>,
    },
}

impl Clock {
    /// The machine's clock, for binaries.
    pub const fn system() -> Self {
        Self { wall: Wall::System }
    }

    /// A clock that starts at `wall` now and advances only with tokio's time, for tests under
    /// `tokio::time::pause`.
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that reads tokio's clock for a test"
    )]
    pub fn starting_at(wall: Timestamp) -> Self {
        Self {
            wall: Wall::FromTokio {
                origin: Instant::now(),
                wall,
                wrong: Arc::default(),
            },
        }
    }

    /// Makes the wall time of a test's clock, and of its clones, jump to this error; positive: ahead. The machine's
    /// clock is left alone.
    pub fn set_wrong(&self, by: SignedDuration) {
        if let Wall::FromTokio { wrong, .. } = &self.wall {
            *wrong.lock() = by;
        }
    }

    /// Wall time, which may jump: never measure a duration with it.
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that reads the wall clock"
    )]
    pub fn now(&self) -> Timestamp {
        match &self.wall {
            Wall::System => Timestamp::now(),
            Wall::FromTokio { origin, wall, wrong } => {
                let right = saturating_add(*wall, Instant::now().duration_since(*origin));
                right.saturating_add(*wrong.lock()).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// Monotonic time, for durations and deadlines.
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that reads the monotonic clock"
    )]
    pub fn instant(&self) -> Instant {
        Instant::now()
    }

    /// Completes after `duration`.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Completes at the monotonic time to which it is [reset](Sleep::reset); until it is reset, at once.
    pub fn timer(&self) -> Sleep {
        tokio::time::sleep(Duration::ZERO)
    }

    /// Completes at monotonic time `deadline`.
    pub async fn sleep_until(&self, deadline: Instant) {
        tokio::time::sleep_until(deadline).await;
    }

    /// Runs `future` for at most `duration`.
    pub async fn timeout<F: Future>(&self, duration: Duration, future: F) -> Result<F::Output, Elapsed> {
        tokio::time::timeout(duration, future).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_test_clock_moves_wall_time_with_the_timers() {
        let clock = Clock::starting_at(at("2026-01-01T00:00:00Z"));
        clock.sleep(Duration::from_hours(1)).await;
        assert_eq!(clock.now(), at("2026-01-01T01:00:00Z"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_wrong_clock_is_wrong_in_all_its_clones_and_goes_on() {
        let clock = Clock::starting_at(at("2026-01-01T00:00:00Z"));
        clock.clone().set_wrong(SignedDuration::from_secs(-60));
        clock.sleep(Duration::from_mins(2)).await;
        assert_eq!(clock.now(), at("2026-01-01T00:01:00Z"));
    }
}
