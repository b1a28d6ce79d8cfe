//! What the Eviction API answers, by the statuses of the budgets.
//!
//! Source: `pkg/registry/core/pod/storage/eviction.go`, `Create`, `canIgnorePDB`, `checkAndDecrement`.

use crate::view::{PdbView, Phase, PodView};

/// A budget with more entries of `disruptedPods` refuses every eviction. Source: `eviction.go`, `MaxDisruptedPodSize`.
const MAX_DISRUPTED_PODS: usize = 2_000;

/// When a pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// No state of its pods lets the pod go.
    Never,
    /// The Eviction API refuses the pod now, and takes it once the pods of its budget are healthy.
    Waits,
    /// The Eviction API takes the pod.
    Now,
}

/// Why the Eviction API refuses a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// More than one budget selects the pod.
    SeveralBudgets,
    /// The status was computed from an older spec.
    StatusBehind,
    /// `disruptionsAllowed` is below zero.
    NegativeAllowed,
    /// `disruptedPods` has too many entries.
    TooManyEvictions,
    /// `disruptionsAllowed` is zero.
    NothingAllowed,
}

impl Verdict {
    /// As JSON and metrics have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Waits => "waits",
            Self::Now => "now",
        }
    }
}

/// An error if the Eviction API refuses the pod, which these budgets select.
pub fn evicts(pod: &PodView, budgets: &[&PdbView]) -> Result<(), Refusal> {
    if asks_no_budget(pod) {
        return Ok(());
    }
    let budget = match budgets {
        [] => return Ok(()),
        [budget] => budget,
        _ => return Err(Refusal::SeveralBudgets),
    };
    let status = &budget.status;
    let has_enough = status.current_healthy >= status.desired_healthy && status.desired_healthy > 0;
    if !pod.ready && (budget.always_allow || has_enough) {
        return Ok(());
    }
    if status.observed_generation < budget.generation {
        Err(Refusal::StatusBehind)
    } else if status.disruptions_allowed < 0 {
        Err(Refusal::NegativeAllowed)
    } else if status.disrupted_pods.len() > MAX_DISRUPTED_PODS {
        Err(Refusal::TooManyEvictions)
    } else if status.disruptions_allowed == 0 {
        Err(Refusal::NothingAllowed)
    } else {
        Ok(())
    }
}

/// True if the pod disrupts nothing by its end.
pub fn asks_no_budget(pod: &PodView) -> bool {
    pod.phase == Phase::Pending || !pod.is_live()
}
