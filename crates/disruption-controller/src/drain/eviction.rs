//! What the Eviction API answers, by the statuses of the budgets.
//!
//! Source: `pkg/registry/core/pod/storage/eviction.go`, `Create`, `canIgnorePDB`, `checkAndDecrement`.

use crate::view::{DrainedPod, PdbView};

/// A budget with more entries of `disruptedPods` refuses every eviction. Source: `eviction.go`, `MaxDisruptedPodSize`.
const MAX_DISRUPTED_PODS: usize = 2_000;

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

/// An error if the Eviction API refuses the pod, which these budgets select.
pub fn evicts(pod: &DrainedPod, budgets: &[&PdbView]) -> Result<(), Refusal> {
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
    if !pod.pod.ready && (budget.always_allow || has_enough) {
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
pub fn asks_no_budget(pod: &DrainedPod) -> bool {
    pod.pending || pod.pod.over || pod.pod.deleting
}
