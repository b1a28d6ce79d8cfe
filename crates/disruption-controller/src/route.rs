//! Which changes enqueue which budgets, and how soon.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-12 | `counts_alike`, `pdb_wakes` | `tests/route_table.rs::only_what_a_rule_reads_of_a_pod_wakes`, `tests/route_table.rs::only_what_a_rule_reads_of_a_budget_wakes` |
//! | DIS-14 | `urgency` | `tests/route_table.rs::less_than_what_was_written_does_not_wait` |

use std::time::Duration;

use crate::decide::{INSUFFICIENT_PODS, StatusPatch};
use crate::view::{PdbView, PodView, Status};

/// How long changes are collected that do not lower what is allowed.
pub const COALESCE: Duration = Duration::from_millis(100);

/// How long changes are collected that do lower it, so that a burst is one write. The API server takes longer to show
/// each.
pub const COALESCE_URGENT: Duration = Duration::from_millis(10);

/// True if two states of a pod are the same to every budget.
pub fn counts_alike(old: &PodView, new: &PodView) -> bool {
    old.uid == new.uid
        && old.labels == new.labels
        && old.controller == new.controller
        && old.ready == new.ready
        && old.deleting == new.deleting
        && old.is_over() == new.is_over()
}

/// True if a change of a budget concerns a rule. Our own write does not: `old` is the budget after that write.
pub fn pdb_wakes(old: &PdbView, new: &PdbView) -> bool {
    old.uid != new.uid
        || old.generation != new.generation
        || old.selector != new.selector
        || old.min_available != new.min_available
        || old.max_unavailable != new.max_unavailable
        || old.status != new.status
}

/// True if `allowed` cannot wait, because the API server may believe in `promised`.
pub const fn urgency(allowed: i64, promised: i64) -> bool {
    allowed < promised
}

/// True if a writer other than the Eviction API has undone `ours`, the status that we wrote.
///
/// An approved eviction adds an entry and lowers the allowed number by one; the last one makes the condition
/// `InsufficientPods`. Source: `checkAndDecrement` in `pkg/registry/core/pod/storage/eviction.go`.
pub fn undoes(ours: &Status, now: &Status) -> bool {
    let entries = now.disrupted_pods.iter();
    let is_lowered = ours.disruptions_allowed > now.disruptions_allowed;
    let is_evicted = is_lowered && { entries }.any(|(pod, at)| ours.disrupted_pods.get(pod) != Some(at));
    let used_up = (false, INSUFFICIENT_PODS, "");
    pods_of(ours) != pods_of(now)
        || ours.disruptions_allowed != now.disruptions_allowed && !is_evicted
        || said(ours) != said(now)
            && !(is_evicted && now.disruptions_allowed == 0 && said(now) == Some(used_up))
}

/// What the condition of a status says.
fn said(status: &Status) -> Option<(bool, &str, &str)> {
    let condition = status.condition.as_ref();
    condition.map(|condition| (condition.allowed, &*condition.reason, &*condition.message))
}

/// True if `write` repeats `ours`, the status that we wrote.
pub fn repeats(ours: &Status, write: &StatusPatch) -> bool {
    let then = write.applied_to(&write.pdb, None).status;
    let same_pods = write.numbers.is_none() || pods_of(ours) == pods_of(&then);
    ours.disruptions_allowed == then.disruptions_allowed && same_pods
}

/// What a status says of the pods.
const fn pods_of(status: &Status) -> [i64; 3] {
    [
        status.expected_pods,
        status.desired_healthy,
        status.current_healthy,
    ]
}
