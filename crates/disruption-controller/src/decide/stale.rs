//! Pods that should have gone, and stayed.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-15 | `stale` | `tests/decide_table.rs::a_disruption_that_does_not_come_is_stale_after_two_minutes`, `tests/sync/stale.rs::a_stale_condition_is_reset_after_two_minutes` |

use std::time::Duration;

use controller_core::time::saturating_add;
use jiff::Timestamp;

use crate::view::PodView;

/// Source: `disruption.go`, `stalePodDisruptionTimeout`.
pub const STALE_POD_DISRUPTION_TIMEOUT: Duration = Duration::from_mins(2);
/// The kubelet may take as long as it wants between its condition and the deletion. Source: `core/v1`,
/// `PodReasonTerminationByKubelet`.
const TERMINATION_BY_KUBELET: &str = "TerminationByKubelet";

/// When the condition `DisruptionTarget` of `pod` becomes stale, by wall time; `None` if it cannot.
pub fn stale(pod: &PodView) -> Option<Timestamp> {
    let target = pod.target.as_ref()?;
    let may_be = pod.is_live() && *target.reason != *TERMINATION_BY_KUBELET;
    may_be.then(|| saturating_add(target.since, STALE_POD_DISRUPTION_TIMEOUT))
}
