//! What the controller reads of a pod (labels, readiness, controller), of a `PodDisruptionBudget` (spec and status) and
//! of a workload (its replicas).

mod drained;
mod messages;
mod wire;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use controller_core::cache::View;
use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use jiff::Timestamp;
use serde::Deserialize;

pub use self::drained::{DrainedPod, Hold};
pub use self::wire::{DrainedPodWire, NodeWire, PdbWire, PodWire, WorkloadWire};
use crate::labels::Labels;
use crate::selector::Selector;

/// The condition of a budget that this controller owns.
pub const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";
/// The condition of a pod that is about to be disrupted.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// What the store keeps of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodView {
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.creationTimestamp`, in seconds since 1970; `i64::MIN` if missing.
    pub created: i64,
    /// `metadata.labels`; equal sets share one allocation.
    pub labels: Arc<Labels>,
    /// Its ownerReference with `controller: true`.
    pub controller: Option<Arc<OwnerRef>>,
    /// `spec.nodeName`; `None` until the pod is scheduled.
    pub node: Option<Arc<str>>,
    /// The condition `DisruptionTarget`, while its status is `True`.
    pub target: Option<Arc<DisruptionTarget>>,
    /// The condition `Ready` is `True`.
    pub ready: bool,
    /// The pod has a deletionTimestamp.
    pub deleting: bool,
    /// `status.phase`.
    pub phase: Phase,
}

/// What counts of a pod's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// `Pending`, or not set.
    Pending,
    /// `Running`, or one that we do not know.
    Running,
    Succeeded,
    Failed,
}

/// The condition `DisruptionTarget` of a pod, and what a patch of exactly this state of the pod needs. Kept here, so
/// that the view of a pod without the condition does not change with every version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DisruptionTarget {
    /// `reason`.
    pub reason: Arc<str>,
    /// `lastTransitionTime`; [`Timestamp::MIN`] if missing.
    pub since: Timestamp,
    /// `metadata.resourceVersion` of the pod.
    pub version: Arc<str>,
    /// `metadata.generation` of the pod.
    pub generation: i64,
}

/// What the store keeps of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PdbView {
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: Arc<str>,
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.selector`.
    pub selector: Arc<Selector>,
    /// `spec.minAvailable`.
    pub min_available: Option<Amount>,
    /// `spec.maxUnavailable`.
    pub max_unavailable: Option<Amount>,
    /// `spec.unhealthyPodEvictionPolicy` is `AlwaysAllow`.
    pub always_allow: bool,
    /// The part of `status` that we write.
    pub status: Status,
    /// The field manager that wrote its status last.
    pub written_by: Option<Arc<str>>,
}

/// An `IntOrString`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "serde_json::Value")]
pub enum Amount {
    Int(i64),
    /// A percentage, if it can be read as one.
    Text(Arc<str>),
    /// Neither a number of pods nor a text.
    Other,
}

/// The part of a budget's `status` that we write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status {
    /// `observedGeneration`.
    pub observed_generation: i64,
    /// `disruptionsAllowed`.
    pub disruptions_allowed: i64,
    /// `currentHealthy`.
    pub current_healthy: i64,
    /// `desiredHealthy`.
    pub desired_healthy: i64,
    /// `expectedPods`.
    pub expected_pods: i64,
    /// `disruptedPods`: when the eviction of the pod of this name was approved.
    pub disrupted_pods: BTreeMap<Arc<str>, Timestamp>,
    /// The condition `DisruptionAllowed`, if it is `True` or `False`.
    pub condition: Option<Condition>,
}

/// The condition `DisruptionAllowed` of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    /// The condition's `status` is `True`.
    pub allowed: bool,
    /// `reason`.
    pub reason: Arc<str>,
    /// `message`.
    pub message: Arc<str>,
    /// `observedGeneration`.
    pub observed_generation: i64,
    /// `lastTransitionTime`.
    pub since: Option<Timestamp>,
}

/// What the store keeps of a `ReplicationController`, `ReplicaSet`, `Deployment` or `StatefulSet`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkloadView {
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `spec.replicas`.
    pub replicas: i64,
    /// Its ownerReference with `controller: true`: the Deployment of a `ReplicaSet`.
    pub controller: Option<Arc<OwnerRef>>,
}

/// What the store keeps of a cordoned node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeView {
    pub key: ObjectKey,
}

impl PodView {
    /// True if the pod is ready and not being deleted.
    pub const fn is_healthy(&self) -> bool {
        self.ready && !self.deleting
    }

    /// True if the pod is neither over nor about to be.
    pub const fn is_live(&self) -> bool {
        !self.deleting && !self.is_over()
    }

    /// True if its containers have ended for good.
    pub const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// True if a `DaemonSet` controls it. Source: kubectl `drain/filters.go`, `isControllerRefDaemonSet`.
    pub fn is_of_daemon_set(&self) -> bool {
        let controller = self.controller.as_deref();
        controller.is_some_and(|owner| (&*owner.api_version, &*owner.kind) == ("apps/v1", "DaemonSet"))
    }
}

impl View for PodView {
    type Index = Infallible;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}

impl View for PdbView {
    type Index = Infallible;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}

impl View for NodeView {
    type Index = Infallible;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}

impl View for WorkloadView {
    /// The uid of its controller: the `ReplicaSets` of a Deployment.
    type Index = Uid;

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn index(&self, out: &mut Vec<Uid>) {
        out.extend(self.controller.iter().map(|controller| controller.uid.clone()));
    }
}
