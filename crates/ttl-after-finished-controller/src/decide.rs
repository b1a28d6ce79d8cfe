//! The rules: when a finished Job has expired, and by whose clock.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-2 | `judge` | `tests/decide_table.rs::a_job_is_judged_by_its_ttl_and_its_finish` |
//! | TAF-3 | `judge` | `tests/decide_table.rs::a_job_is_judged_by_its_ttl_and_its_finish` |
//! | TAF-4 | `plan` | `tests/sync/faults.rs::a_ttl_raised_before_the_delete_arrives_saves_the_job` |
//! | TAF-5 | `plan` | `tests/decide_table.rs::a_delete_is_of_just_the_state_that_was_judged` |
//! | TAF-6 | `judge` | `tests/sync/expiry.rs::the_pending_time_moves_with_the_ttl`, `tests/sync/faults.rs::a_ttl_raised_before_the_delete_arrives_saves_the_job` |
//! | TAF-7 | `slower_clock` | `tests/decide_table.rs::the_slower_clock_counts_when_it_is_more_than_a_second_behind` |
//! | TAF-8 | `judge` | `tests/decide_table.rs::a_job_is_judged_by_its_ttl_and_its_finish` |
//! | TAF-12 | `expiry` | `tests/decide_table.rs::extremes_saturate` |

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::CLOCK_TOLERANCE;
use controller_core::meta::{ObjectKey, Uid};
use jiff::{SignedDuration, Timestamp};

use crate::policy::FinishedKind;
use crate::state::Key;
use crate::view::{Finish, JobView};

/// What the state of a Job means at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobJudgement {
    /// Nothing to do (TAF-2).
    LeftAlone(LeaveReason),
    /// The Job has finished, but its condition does not say when (TAF-8).
    Undated,
    /// The Job expires later (TAF-3).
    Waits {
        /// May lie in the future where clocks differ (TAF-7).
        finish: Timestamp,
        expiry: Timestamp,
    },
    /// The Job must be deleted (TAF-3).
    Expired { finish: Timestamp, expiry: Timestamp },
}

/// Why a Job is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveReason {
    /// `spec.ttlSecondsAfterFinished` is not set.
    NoTtl,
    /// Neither `Complete` nor `Failed` is `True`.
    NotFinished,
    /// The Job has a deletionTimestamp.
    BeingDeleted,
}

/// What to do with a Job whose ttl has passed by our clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpiryPlan {
    /// Nothing until the Job changes.
    Leave,
    /// Our clock is ahead of the API server's: judge the Job again.
    LookAgain {
        after: Duration,
    },
    Delete(Deletion),
}

/// A delete of exactly this state of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    pub kind: FinishedKind,
    pub object: ObjectKey,
    pub uid: Uid,
    pub version: Arc<str>,
    pub finish: Timestamp,
    pub expiry: Timestamp,
    pub by: By,
}

/// What wants an object deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// The Job's own ttl.
    Ttl,
    Policy {
        name: Arc<str>,
        /// The object failed, rather than succeeded.
        failed: bool,
        /// When its grace period was over, in uptime.
        allowed: Duration,
    },
}

impl Deletion {
    pub fn key(&self) -> Key {
        Key {
            kind: self.kind,
            object: self.object.clone(),
        }
    }
}

/// When a Job that finished at `finish` expires.
pub fn expiry(finish: Timestamp, ttl_seconds: i32) -> Timestamp {
    let ttl = SignedDuration::from_secs(ttl_seconds.into());
    let extreme = if ttl.is_negative() {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    finish.checked_add(ttl).unwrap_or(extreme)
}

pub fn judge(job: &JobView, now: Timestamp) -> JobJudgement {
    if job.deleting {
        return JobJudgement::LeftAlone(LeaveReason::BeingDeleted);
    }
    let Some(ttl_seconds) = job.ttl_seconds else {
        return JobJudgement::LeftAlone(LeaveReason::NoTtl);
    };
    match job.finish {
        None => JobJudgement::LeftAlone(LeaveReason::NotFinished),
        Some(Finish::Undated) => JobJudgement::Undated,
        Some(Finish::At(finish)) => {
            let expiry = expiry(finish, ttl_seconds);
            if now < expiry {
                JobJudgement::Waits { finish, expiry }
            } else {
                JobJudgement::Expired { finish, expiry }
            }
        }
    }
}

/// The clock for the last check: the API server's if it is more than [`CLOCK_TOLERANCE`] behind ours, so that a fast
/// clock of ours deletes nothing early.
pub fn slower_clock(ours: Timestamp, servers: Option<Timestamp>) -> Timestamp {
    servers
        .filter(|servers| ours.duration_since(*servers) > CLOCK_TOLERANCE)
        .unwrap_or(ours)
}

/// What to do with a Job at `now`, a time of the slower clock.
pub fn plan(job: &JobView, now: Timestamp) -> ExpiryPlan {
    match judge(job, now) {
        JobJudgement::LeftAlone(_) | JobJudgement::Undated => ExpiryPlan::Leave,
        JobJudgement::Waits { expiry, .. } => ExpiryPlan::LookAgain {
            after: Duration::try_from(expiry.duration_since(now)).unwrap_or(Duration::ZERO),
        },
        JobJudgement::Expired { finish, expiry } => ExpiryPlan::Delete(Deletion {
            kind: FinishedKind::Job,
            object: job.key.clone(),
            uid: job.uid.clone(),
            version: Arc::clone(&job.version),
            finish,
            expiry,
            by: By::Ttl,
        }),
    }
}
