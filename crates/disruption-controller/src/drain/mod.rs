//! What blocks a drain: for each pod whether the Eviction API takes it now, takes it later, or never.
//!
//! | module | answers |
//! |---|---|
//! | [`mod@filters`] | what do `kubectl drain` and autoscalers refuse or wait for, apart from budgets? |
//! | [`mod@words`] | the reason and the fix in words |
//! | [`mod@world`] | the pods and budgets, read from the API server |
//! | [`mod@simulate`] | how many rounds does a drain of several nodes take? |
//! | [`mod@blockers`], [`mod@print`] | the subcommand |
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-17 | `judge`, `evicts`, `outlook` | `src/drain/tests/table.rs::each_pod_has_its_verdict`, `src/drain/tests/props.rs::no_state_lets_a_pod_go_that_never_goes` |
//! | DIS-18 | `refusals` | `src/drain/tests/table.rs::what_drain_refuses_apart_from_budgets` |

pub mod blockers;
pub mod filters;
pub mod print;
pub mod simulate;
#[cfg(test)]
mod tests;
pub mod words;
pub mod world;

use std::cell::OnceCell;
use std::sync::Arc;

use controller_core::meta::OwnerRef;
use jiff::Timestamp;

pub use self::filters::{Flags, Obstacle, refusals};
use crate::decide::{
    Decision, Live, Never, Numbers, Outlook, Refusal, Scales, Situation, Verdict, decide, evicts, outlook,
};
use crate::view::{DrainedPod, PdbView};

/// A budget and its pods, judged.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    pub situation: Situation,
    pub scales: Scales,
    /// Its pods, by name.
    pub pods: Vec<&'a DrainedPod>,
    pub decision: Decision,
    pub outlook: Outlook,
    renewed: OnceCell<PdbView>,
    awaited: OnceCell<Awaited>,
}

/// What the pods of a budget wait for.
#[derive(Clone, Debug)]
struct Awaited {
    message: String,
    /// A pod that could be ready is not.
    has_ill: bool,
}

/// What is said of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub verdict: Verdict,
    pub reason: Reason,
    /// The reason in words, without a full stop.
    pub message: String,
    /// What to do; empty if nothing blocks, or only time helps.
    pub fix: String,
}

/// Why a pod has its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing blocks the pod.
    Evictable,
    /// `kubectl drain` or an autoscaler refuses the pod, or waits for it. The first counts.
    Held(Obstacle),
    /// Several budgets select the pod.
    SeveralBudgets,
    /// No state of its pods makes its budget allow a disruption.
    Never(Never),
    /// Its budget has too few healthy pods.
    NotEnoughHealthy,
    /// The status of its budget is not that of its pods.
    StatusOutdated,
    /// Too many evictions were approved, and their pods still exist.
    TooManyEvictions,
    /// Its budget cannot be computed.
    NotComputable,
}

impl Reason {
    /// As JSON and metrics have it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Evictable => "Evictable",
            Self::Held(obstacle) => obstacle.as_str(),
            Self::SeveralBudgets => "SeveralBudgets",
            Self::Never(never) => never.as_str(),
            Self::NotEnoughHealthy => "NotEnoughHealthy",
            Self::StatusOutdated => "StatusOutdated",
            Self::TooManyEvictions => "TooManyEvictions",
            Self::NotComputable => "NotComputable",
        }
    }
}

impl Finding {
    /// True if the pod does not simply go.
    pub fn blocks(&self) -> bool {
        self.reason != Reason::Evictable
    }
}

impl<'a> Judged<'a> {
    /// Judges a budget with these pods. `others` is the number of live pods of a controller that the budget does not
    /// select; `smallest_pod` is that of [`decide`].
    pub fn new(
        situation: Situation,
        scales: Scales,
        pods: Vec<&'a DrainedPod>,
        others: impl Fn(&OwnerRef, i64) -> i64,
        smallest_pod: impl Fn(&[&OwnerRef]) -> Option<Arc<str>>,
        now: Timestamp,
    ) -> Self {
        let (pdb, counts) = (&situation.pdb, &situation.counts);
        let live = Live::of(counts, others);
        let outlook = outlook(pdb, counts, &live, &scales, &smallest_pod);
        let decision = decide(&situation, &scales, &smallest_pod, now);
        Self {
            situation,
            scales,
            pods,
            decision,
            outlook,
            renewed: OnceCell::new(),
            awaited: OnceCell::new(),
        }
    }

    /// The budget as it is in the cluster.
    pub fn pdb(&self) -> &PdbView {
        &self.situation.pdb
    }

    /// The budget with the status that its pods make.
    fn renewed(&self) -> &PdbView {
        let Some(plan) = &self.decision.plan else {
            return self.pdb();
        };
        self.renewed.get_or_init(|| plan.applied_to(self.pdb(), None))
    }

    fn awaited(&self) -> &Awaited {
        self.awaited.get_or_init(|| words::awaited(self))
    }

    /// The numbers that its status says.
    pub fn said(&self) -> Said {
        let status = &self.situation.pdb.status;
        Said {
            allowed: status.disruptions_allowed,
            healthy: status.current_healthy,
            desired: status.desired_healthy,
            expected: status.expected_pods,
        }
    }

    /// The number that its pods allow, if it differs from what the status says.
    fn differs(&self) -> Option<i64> {
        let allowed = self.decision.result.as_ref().map_or(0, |numbers| numbers.allowed);
        let allowed = i64::from(allowed);
        (allowed != self.said().allowed).then_some(allowed)
    }
}

/// The numbers of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    pub allowed: i64,
    pub healthy: i64,
    pub desired: i64,
    pub expected: i64,
}

impl From<Numbers> for Said {
    fn from(numbers: Numbers) -> Self {
        Self {
            allowed: numbers.allowed.into(),
            healthy: numbers.current.into(),
            desired: numbers.desired.into(),
            expected: numbers.expected.into(),
        }
    }
}

/// Judges a pod that these budgets select, for a drain with these flags.
pub fn judge(pod: &DrainedPod, budgets: &[&Judged<'_>], flags: Flags, now: Timestamp) -> Finding {
    let held = refusals(pod, flags, now);
    let pdbs: Vec<_> = budgets.iter().map(|budget| budget.pdb()).collect();
    let (refusal, budget) = match (evicts(&pod.pod, &pdbs), budgets) {
        (Ok(()), _) | (Err(_), []) => return words::goes(pod, budgets, &held),
        (Err(refusal), [budget, ..]) => (refusal, budget),
    };
    let (verdict, reason) = match (refusal, &budget.outlook) {
        (Refusal::SeveralBudgets, _) => (Verdict::Never, Reason::SeveralBudgets),
        (_, Outlook::Never(never, _)) => (Verdict::Never, Reason::Never(never.clone())),
        (_, Outlook::Unknown(_)) => (Verdict::Waits, Reason::NotComputable),
        (Refusal::TooManyEvictions, _) => (Verdict::Waits, Reason::TooManyEvictions),
        _ if evicts(&pod.pod, &[budget.renewed()]).is_ok() => (Verdict::Waits, Reason::StatusOutdated),
        _ if budget.decision.result.is_err() => (Verdict::Waits, Reason::NotComputable),
        _ => (Verdict::Waits, Reason::NotEnoughHealthy),
    };
    Finding {
        verdict,
        message: words::refused(&reason, budgets, budget, &held),
        fix: words::fix(&reason, budgets, budget, &held),
        reason,
    }
}
