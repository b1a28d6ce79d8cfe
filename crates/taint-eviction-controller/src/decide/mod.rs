//! The rules: which pod is evicted from which node, and when.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-10 | `retry_wait` | `tests/decide_table.rs::failures_are_retried_fast_then_ever_more_slowly` |

mod brake;
mod deadlines;
mod moment;
mod taints;
mod through;
mod tolerations;

use std::time::Duration;

pub use self::brake::{
    Because, BrakeDecision, BrakeLimit, BrakeRules, BrakeSituation, LONGEST_OFF, LeaseNotes, PodsAndNodes,
    TaintSelector, off_until,
};
pub use self::deadlines::{
    Eviction, Judgement, JudgementTime, KeepReason, PendingEviction, Rules, Sight, Tolerated, Verdict,
    by_least_held, clock_ahead, first_sight_counts, judge,
};
pub use self::moment::{Moment, after_jump, bound, since};
pub use self::taints::{TAINTS_OF_A_FAILED_NODE, TaintMemory, TaintStay, confirmed, seen};
pub use self::through::{TRIES_A_SECOND, TRIES_AGAIN, ThroughBudgets, tries_again_after, waits_until};
pub use self::tolerations::used_tolerations;

/// Tries that follow a failed one at short intervals. Source: `taint_eviction.go`, `retries`.
pub const RETRIES: u32 = 5;
/// The interval of these tries. Source: `taint_eviction.go`, `deletePodHandler`.
pub const RETRY_PERIOD: Duration = Duration::from_millis(10);
/// The wait after the last of these tries; doubles with each further failure.
pub const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// Up to here the wait doubles; from then on it is an eighth of the time since the first failure, so that the end of an
/// outage is noticed within an eighth of its length.
pub const STEADY_BACKOFF: Duration = Duration::from_secs(5);
pub const MAX_BACKOFF: Duration = Duration::from_mins(5);

/// How long to wait after failure number `failures` (from 1) of an eviction whose first failure was `failing_for` ago
/// (TE-10).
pub fn retry_wait(failures: u32, failing_for: Duration) -> Duration {
    let Some(backoffs) = failures.checked_sub(RETRIES + 1) else {
        return RETRY_PERIOD;
    };
    let factor = 2_u32.checked_pow(backoffs).unwrap_or(u32::MAX);
    let slower = (failing_for / 8).clamp(STEADY_BACKOFF, MAX_BACKOFF);
    FIRST_BACKOFF.saturating_mul(factor).min(slower)
}

/// True if an eviction with this number of failures is overdue, for the metric and the warning (TE-10).
pub const fn is_overdue(failures: u32) -> bool {
    failures > RETRIES
}
