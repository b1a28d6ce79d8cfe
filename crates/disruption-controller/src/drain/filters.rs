//! What `kubectl drain` and autoscalers refuse or wait for, apart from budgets.
//!
//! Source: kubectl `pkg/drain/filters.go`.

use std::sync::Arc;

use jiff::Timestamp;

use crate::view::DrainedPod;

/// The flags of `kubectl drain` that let more pods go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--force`.
    pub force: bool,
    /// `--delete-emptydir-data`.
    pub delete_emptydir_data: bool,
}

/// What holds a pod, apart from budgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The pod is being deleted, its grace period ended then, and these finalizers are left.
    Terminating(Timestamp, Vec<Arc<str>>),
    /// No controller makes the pod again.
    NoController,
    /// The pod has an `emptyDir`.
    EmptyDir,
    /// Karpenter does not disrupt the pod.
    DoNotDisrupt,
    /// The cluster-autoscaler does not remove its node.
    NotSafeToEvict,
}

/// What a drain passes over: `DaemonSet` pods that are not over, and mirror pods.
pub fn is_left_out(pod: &DrainedPod) -> bool {
    pod.mirror || pod.pod.is_of_daemon_set() && !pod.pod.is_over()
}

/// What holds the pod at `now`, the worst first.
pub fn refusals(pod: &DrainedPod, flags: Flags, now: Timestamp) -> Vec<Obstacle> {
    let (over, deleting) = (pod.pod.is_over(), pod.pod.deleting);
    let hold = pod.hold.as_deref();
    let overdue = hold.and_then(|hold| Some((hold.ends.filter(|ends| *ends < now)?, hold)));
    let stuck = overdue.map(|(ends, hold)| Obstacle::Terminating(ends, hold.finalizers.clone()));
    let stays = hold.filter(|_| !over && !deleting);
    let of = |holds: bool, obstacle: Obstacle| holds.then_some(obstacle);
    let unmanaged = pod.pod.controller.is_none() && !over && !flags.force;
    [
        stuck,
        of(unmanaged, Obstacle::NoController),
        of(
            pod.empty_dir && !over && !flags.delete_emptydir_data,
            Obstacle::EmptyDir,
        ),
        of(
            stays.is_some_and(|hold| hold.do_not_disrupt),
            Obstacle::DoNotDisrupt,
        ),
        of(
            stays.is_some_and(|hold| hold.not_safe_to_evict),
            Obstacle::NotSafeToEvict,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Obstacle {
    /// As JSON and metrics have it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Terminating(..) => "Terminating",
            Self::NoController => "NoController",
            Self::EmptyDir => "EmptyDir",
            Self::DoNotDisrupt => "DoNotDisrupt",
            Self::NotSafeToEvict => "NotSafeToEvict",
        }
    }
}
