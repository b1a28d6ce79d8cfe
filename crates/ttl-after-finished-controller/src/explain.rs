//! `ttl-after-finished-controller explain NAMESPACE/JOB`: when the Job expires, or why not.

use std::fmt;

use controller_core::api::CallFailed;
use controller_core::api::dated::Dated;
use controller_core::clock::Clock;
use controller_core::meta::ObjectKey;
use jiff::{SignedDuration, Timestamp};

use crate::decide::{Because, Judgement, judge, slower_clock};
use crate::live::LiveJobs;
use crate::view::FreshJob;

/// The answer, ready to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    job: ObjectKey,
    ttl_seconds: Option<i32>,
    judgement: Judgement,
    now: Timestamp,
    /// How far our clock is ahead of the API server's, where that counts.
    ahead: SignedDuration,
}

/// Reads a Job and explains it; `None` when there is none of that name.
pub async fn read_and_explain(
    jobs: &LiveJobs,
    key: &ObjectKey,
    clock: &Clock,
) -> Result<Option<Explanation>, CallFailed> {
    // Before the question: an answer that is long in coming says nothing about our clock.
    let ours = clock.now();
    let fresh = jobs.one(key).await?;
    Ok(fresh.map(|fresh| explain(&fresh, ours)))
}

/// Explains a Job whose read was begun when our clock said `ours`.
pub fn explain(fresh: &Dated<FreshJob>, ours: Timestamp) -> Explanation {
    let job = &fresh.object.view;
    let now = slower_clock(ours, fresh.date);
    Explanation {
        job: job.key.clone(),
        ttl_seconds: job.ttl_seconds,
        judgement: judge(job, now),
        now,
        ahead: ours.duration_since(now),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ttl = match self.ttl_seconds {
            Some(seconds) => format!("{seconds} s"),
            None => "not set".to_owned(),
        };
        writeln!(f, "Job {}: ttlSecondsAfterFinished {ttl}", self.job)?;
        if !self.ahead.is_zero() {
            writeln!(
                f,
                "this machine's clock is {:#} ahead of the API server's, whose time counts",
                self.ahead
            )?;
        }
        match self.judgement {
            Judgement::LeftAlone(Because::NoTtl) => writeln!(f, "would leave it: it has no ttl"),
            Judgement::LeftAlone(Because::NotFinished) => {
                writeln!(
                    f,
                    "would leave it: it has not finished (no condition Complete or Failed is True)"
                )
            }
            Judgement::LeftAlone(Because::BeingDeleted) => {
                writeln!(
                    f,
                    "would leave it: it is being deleted, and may wait for finalizers"
                )
            }
            Judgement::Undated => {
                writeln!(
                    f,
                    "would leave it: its finished condition has no lastTransitionTime"
                )
            }
            Judgement::Waits { finish, expiry } => {
                let left = expiry.duration_since(self.now);
                writeln!(
                    f,
                    "finished at {finish}, expires at {expiry}: would delete it in {left:#}"
                )
            }
            Judgement::Expired { finish, expiry } => {
                writeln!(
                    f,
                    "finished at {finish}, expired at {expiry}: would delete it now"
                )
            }
        }
    }
}
