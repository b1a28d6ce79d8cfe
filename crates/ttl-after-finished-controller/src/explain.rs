//! `ttl-after-finished-controller explain NAMESPACE/JOB|pod/NAMESPACE/POD`: when the object goes, or why not.

use std::fmt::Write as _;
use std::time::Duration;

use controller_core::app::{Explanation, Prepared};
use controller_core::controller::{Now, Pass, Reply};
use controller_core::meta::ObjectKey;
use jiff::{SignedDuration, Timestamp};

use crate::TtlAfterFinishedController;
use crate::config::Config;
use crate::decide::{JobJudgement, LeaveReason, judge, slower_clock};
use crate::policy::decide::{LeftBecause, Memory, Verdict, applying, judge as judge_by_policy};
use crate::policy::view::{Candidate, NamespaceView};
use crate::policy::{FinishedKind, KEEP, Policies};
use crate::requests::{Answer, Query};
use crate::state::Key;
use crate::view::JobView;

/// Explains one object, once the API server has sent it.
pub fn explain(
    config: &Config,
    pass: &Pass<TtlAfterFinishedController>,
    kind: FinishedKind,
    object: &ObjectKey,
) -> Explanation<TtlAfterFinishedController> {
    let key = Key {
        kind,
        object: object.clone(),
    };
    let query = Query::Object(key);
    let Some(reply) = pass.answer(&query) else {
        return Ok(Prepared::Queries(vec![query]));
    };
    let candidate = match &reply.value {
        Ok(Answer::Object(Some(fresh))) => &fresh.view,
        Ok(_) => return Err(format!("no {kind} {object}").into()),
        Err(failed) => return Err(failed.clone().into()),
    };
    let clock = Clock::of(reply);
    let mut text = match candidate.object.ttl_seconds {
        _ if kind == FinishedKind::Pod => format!("Pod {object}\n{}", clock.ahead()),
        ttl => {
            let seconds = ttl.map(|seconds| format!("{seconds} s"));
            let ttl = seconds.unwrap_or_else(|| "not set".to_owned());
            format!("Job {object}: ttlSecondsAfterFinished {ttl}\n{}", clock.ahead())
        }
    };
    let goes_by_policy = config.has_policies() && candidate.object.ttl_seconds.is_none();
    if !goes_by_policy && kind == FinishedKind::Job {
        let verdict = if config.only_policies {
            "would leave it: a Job with a ttl is left to the cluster's own loop (onlyPolicies)".to_owned()
        } else {
            by_ttl(&candidate.object, clock.now)
        };
        text += &(verdict + "\n");
        return Ok(Prepared::Ready(text));
    }
    let query = Query::Namespace(object.namespace.clone().unwrap_or_default());
    let namespace = match pass.answer(&query).map(|reply| &reply.value) {
        None => return Ok(Prepared::Queries(vec![query])),
        Some(Ok(answer)) => answer.namespace().map(|found| &found.view),
        Some(Err(failed)) => return Err(failed.clone().into()),
    };
    text += &by_policy(&config.compiled(), candidate, namespace, clock.now);
    Ok(Prepared::Ready(text))
}

/// The time that counts.
struct Clock {
    now: Timestamp,
    ahead: SignedDuration,
}

impl Clock {
    fn of(reply: &Reply<Answer>) -> Self {
        // A slow answer says nothing about our clock.
        let ours = reply.asked.wall;
        let now = slower_clock(ours, reply.date);
        let ahead = ours.duration_since(now);
        Self { now, ahead }
    }

    fn ahead(&self) -> String {
        match self.ahead {
            ahead if ahead.is_zero() => String::new(),
            ahead => {
                format!("this machine's clock is {ahead:#} ahead of the API server's, whose time counts\n")
            }
        }
    }
}

fn by_ttl(job: &JobView, now: Timestamp) -> String {
    match judge(job, now) {
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
    }
}

fn by_policy(
    policies: &Policies,
    object: &Candidate,
    namespace: Option<&NamespaceView>,
    now: Timestamp,
) -> String {
    let applied = applying(policies, object, namespace);
    let (verdict, index) = match applied {
        Err(reason) => (Verdict::Left(reason), policy_of(reason)),
        Ok(index) => {
            let memory = Memory {
                since: Duration::ZERO,
                counts_from: Duration::ZERO,
                is_last_failed: false,
                is_braked: false,
            };
            // As if the policies had applied for ever.
            let for_ever = Now {
                wall: now,
                uptime: Duration::MAX,
            };
            (
                judge_by_policy(policies, index, object, memory, for_ever),
                Some(index),
            )
        }
    };
    let mut text = String::new();
    if let Some(policy) = index.and_then(|index| Some((index, policies.list.get(index)?))) {
        let (index, policy) = policy;
        _ = writeln!(
            text,
            "policy {} (number {index}) is the first that selects it",
            policy.name
        );
        if object.failed && policy.keep_last_failed > 0 {
            _ = writeln!(
                text,
                "the last {} that failed {} stay longer",
                policy.keep_last_failed,
                if object.owner.is_some() {
                    "of its owner"
                } else {
                    "in its namespace"
                }
            );
        }
    }
    let grace = SignedDuration::try_from(policies.grace).unwrap_or(SignedDuration::MAX);
    let grace =
        format!("but not before the policy has applied to it for {grace:#} in the process that leads");
    let verdict = match verdict {
        Verdict::Left(reason) => format!("would leave it: {}", words(reason)),
        Verdict::Undated(_) => "would leave it: nothing says when it finished".to_owned(),
        Verdict::Waits { finish, due, .. } => {
            let left = due.duration_since(now);
            format!("finished at {finish}, due at {due}: would delete it in {left:#}, {grace}")
        }
        Verdict::InGrace { finish, due, .. } | Verdict::Due { finish, due, .. } => {
            format!("finished at {finish}, due at {due}: would delete it now, {grace}")
        }
    };
    text + &verdict + "\n"
}

/// The policy that a reason names.
pub(crate) const fn policy_of(reason: LeftBecause) -> Option<usize> {
    match reason {
        LeftBecause::Owned(index)
        | LeftBecause::NotFinished(index)
        | LeftBecause::Never(index)
        | LeftBecause::LastFailed(index)
        | LeftBecause::Finalizers(index)
        | LeftBecause::Braked(index) => Some(index),
        LeftBecause::BeingDeleted
        | LeftBecause::OwnTtl
        | LeftBecause::Mirror
        | LeftBecause::Kept
        | LeftBecause::NamespaceKept
        | LeftBecause::NamespaceUnknown
        | LeftBecause::NoPolicy => None,
    }
}

/// Why an object stays, in words.
pub(crate) fn words(reason: LeftBecause) -> String {
    let text = match reason {
        LeftBecause::BeingDeleted => "it is being deleted, and may wait for finalizers",
        LeftBecause::OwnTtl => "its own ttl counts",
        LeftBecause::Mirror => "a kubelet made it of a file, and would make it again",
        LeftBecause::Kept => return format!("it is annotated {KEEP}: \"true\""),
        LeftBecause::NamespaceKept => return format!("its namespace is annotated {KEEP}: \"true\""),
        LeftBecause::NamespaceUnknown => "its namespace is not known",
        LeftBecause::NoPolicy => "no policy selects it",
        LeftBecause::Owned(_) => "it has a controller, and the policy does not say includeOwned",
        LeftBecause::NotFinished(_) => "it has not finished",
        LeftBecause::Never(_) => "the policy says never",
        LeftBecause::LastFailed(_) => "it is among the last that failed (keepLastFailed)",
        LeftBecause::Finalizers(_) => "its finalizers would hold it",
        LeftBecause::Braked(_) => "the brake of the policy is engaged (maxPerHour)",
    };
    text.to_owned()
}
