//! `ttl-after-finished-controller explain NAMESPACE/JOB`: when the Job expires, or why not.

use controller_core::app::{Explanation, Prepared};
use controller_core::controller::{Pass, Reply};
use controller_core::meta::ObjectKey;

use crate::TtlAfterFinishedController;
use crate::decide::{JobJudgement, LeaveReason, judge, slower_clock};
use crate::requests::{Answer, Query};
use crate::view::JobView;

/// Explains the Job `key`, once the API server has sent it.
pub fn explain(
    pass: &Pass<TtlAfterFinishedController>,
    key: &ObjectKey,
) -> Explanation<TtlAfterFinishedController> {
    let query = Query::Job(key.clone());
    let Some(reply) = pass.answer(&query) else {
        return Ok(Prepared::Queries(vec![query]));
    };
    match &reply.value {
        Ok(Answer::Job(Some(fresh))) => Ok(Prepared::Ready(explanation(&fresh.view, reply))),
        Ok(Answer::Job(None) | Answer::Time) => Err(format!("no Job {key}").into()),
        Err(failed) => Err(failed.clone().into()),
    }
}

fn explanation(job: &JobView, reply: &Reply<Answer>) -> String {
    // A slow answer says nothing about our clock.
    let ours = reply.asked.wall;
    let now = slower_clock(ours, reply.date);
    let seconds = job.ttl_seconds.map(|seconds| format!("{seconds} s"));
    let ttl = seconds.unwrap_or_else(|| "not set".to_owned());
    let ahead = match ours.duration_since(now) {
        ahead if ahead.is_zero() => String::new(),
        ahead => format!("this machine's clock is {ahead:#} ahead of the API server's, whose time counts\n"),
    };
    let verdict = match judge(job, now) {
        JobJudgement::LeftAlone(LeaveReason::NoTtl) => "would leave it: it has no ttl".to_owned(),
        JobJudgement::LeftAlone(LeaveReason::NotFinished) => {
            "would leave it: it has not finished (no condition Complete or Failed is True)".to_owned()
        }
        JobJudgement::LeftAlone(LeaveReason::BeingDeleted) => {
            "would leave it: it is being deleted, and may wait for finalizers".to_owned()
        }
        JobJudgement::Undated => {
            "would leave it: its finished condition has no lastTransitionTime".to_owned()
        }
        JobJudgement::Waits { finish, expiry } => {
            let left = expiry.duration_since(now);
            format!("finished at {finish}, expires at {expiry}: would delete it in {left:#}")
        }
        JobJudgement::Expired { finish, expiry } => {
            format!("finished at {finish}, expired at {expiry}: would delete it now")
        }
    };
    format!(
        "Job {}: ttlSecondsAfterFinished {ttl}\n{ahead}{verdict}\n",
        job.key
    )
}
