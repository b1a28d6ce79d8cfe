//! What users see of evictions: events, log lines and metrics.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-11 | `Event::record` | `tests/sync/saved.rs::events_tell_who_was_to_go_and_who_stays` |

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::CallFailed;
use controller_core::events::{Event as Published, Recorder, Reference, reference};
use controller_core::meta::{ObjectKey, Uid};
use jiff::{SignedDuration, Timestamp};

use crate::decide::{Because, Eviction, PendingEviction, PodsAndNodes};
use crate::metrics::Evictions;
use crate::requests::{OFF_UNTIL, why};
use crate::view::PodView;

/// Source: `taint_eviction.go`, `emitPodDeletionEvent`.
const REASON: &str = "TaintManagerEviction";
const LEASE_VERSION: &str = "coordination.k8s.io/v1";
/// The `action` of every event.
const ACTION: &str = "Evict";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A pod will be evicted (TE-11).
    Announced(Eviction),
    /// The eviction of a pod for this reason is cancelled (TE-11).
    Kept(Arc<PodView>, PendingEviction),
    /// A pod was deleted this long after its deadline.
    Deleted(Duration),
    /// A pod cannot be evicted for now, because its condition (`true`) or its delete failed (TE-10); once per pod.
    Overdue(Eviction, bool, CallFailed),
    /// A budget refuses this eviction, which waits until this time; once per pod.
    Refused(Eviction, Timestamp, CallFailed),
    /// The API server refuses the condition of this pod (TE-9).
    ConditionRefused(ObjectKey, CallFailed),
    /// This node could not be read: the cache decides (TE-8).
    NotRead(Arc<str>, CallFailed),
    /// A toleration of this pod compares numbers, which our gate does not expect.
    Compares(ObjectKey),
    /// Our clock is this far ahead of the API server's.
    Skew(SignedDuration),
    /// The brake holds pods back.
    Held(HeldBack),
    /// The brake lets them go, with the Lease and its uid.
    Released(Because, OnLease),
    /// The annotation that switches the brake off does not count; why not.
    OffRefused(String, OnLease),
    /// Until this time nobody knows what another leader has evicted.
    WindowUnknown(Timestamp),
}

/// The Lease and its uid; `None` without leader election, or if it is not meant.
pub type OnLease = Option<(ObjectKey, Uid)>;

/// Pods that the brake holds back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    pub demand: PodsAndNodes,
    pub limits: PodsAndNodes,
    pub window: Duration,
    /// The nodes that have no event about it yet.
    pub nodes: Vec<Arc<str>>,
    /// True if it has just begun.
    pub begins: bool,
    pub lease: OnLease,
}

impl Event {
    pub fn record(self, evictions: &Evictions, recorder: &dyn Recorder) {
        match self {
            Self::Announced(eviction) => {
                let note = format!(
                    "Marking for deletion Pod {}: {}",
                    eviction.pod,
                    why(&eviction.taint, &eviction.node, eviction.deadline)
                );
                let pod = reference_to(&eviction.pod, &eviction.uid);
                recorder.publish(Published::normal(pod, REASON, ACTION, note));
            }
            Self::Kept(pod, pending) => {
                evictions.cancelled();
                let because = why(&pending.taint, &pod.node, pending.deadline);
                tracing::info!(key = %pod.key, action = "spare", "eviction called off: {because}");
                let note = format!("Cancelling deletion of Pod {}: {because}", pod.key);
                let pod = reference_to(&pod.key, &pod.uid);
                recorder.publish(Published::normal(pod, REASON, ACTION, note));
            }
            Self::Deleted(lag) => evictions.deleted(lag),
            Self::Overdue(Eviction { pod, uid, .. }, is_mark, failed) => {
                let what = if is_mark {
                    "cannot write the pod's DisruptionTarget condition"
                } else {
                    "cannot delete the pod"
                };
                let note = format!("cannot be evicted, will be retried: {what}: {failed}");
                let pod = reference_to(&pod, &uid);
                recorder.publish(Published::warning(pod, "FailedEviction", ACTION, note));
            }
            Self::Refused(Eviction { pod, uid, .. }, until, failed) => {
                let until = if until == Timestamp::MAX {
                    "as long as it does".to_owned()
                } else {
                    format!("until {until:.0} at most, then it is deleted")
                };
                let note = format!("waits for a budget that refuses its eviction, {until}: {failed}");
                let pod = reference_to(&pod, &uid);
                recorder.publish(Published::normal(pod, "EvictionWaits", ACTION, note));
            }
            Self::ConditionRefused(pod, failed) => {
                tracing::warn!(%pod, "condition refused, the pod is deleted without it: {failed}");
            }
            Self::Compares(pod) => tracing::warn!(
                %pod,
                "a toleration has the operator Lt or Gt: it counts, although the feature gate \
                 TaintTolerationComparisonOperators is off here"
            ),
            Self::NotRead(node, failed) => tracing::warn!(node = &*node, "the cache decides: {failed}"),
            Self::Held(held) => held.record(recorder),
            Self::Released(because, lease) => {
                let because = match because {
                    Because::WithinLimits => "what is due is within the limits again".to_owned(),
                    Because::Off(until) => {
                        format!("the annotation {OFF_UNTIL} switches the brake off until {until}")
                    }
                    Because::HeldLongEnough => {
                        "they were held back for as long as --eviction-brake-release-after says".to_owned()
                    }
                };
                let note = format!("The brake lets evictions go: {because}");
                tracing::warn!("{note}");
                let lease = lease.map(|(lease, uid)| reference(LEASE_VERSION, "Lease", &lease, &uid));
                let event = |lease| Published::normal(lease, "BrakeReleased", ACTION, note);
                lease
                    .map(event)
                    .into_iter()
                    .for_each(|event| recorder.publish(event));
            }
            Self::OffRefused(problem, lease) => {
                let note = format!("The annotation {OFF_UNTIL} does not count: {problem}");
                tracing::warn!("{note}");
                let lease = lease.map(|(lease, uid)| reference(LEASE_VERSION, "Lease", &lease, &uid));
                let event = |lease| Published::warning(lease, "BrakeAnnotationRefused", ACTION, note);
                lease
                    .map(event)
                    .into_iter()
                    .for_each(|event| recorder.publish(event));
            }
            Self::WindowUnknown(until) => tracing::warn!(
                "evictions wait until {until:.0}: another leader evicted pods within the brake's window, and nobody \
                 knows how many"
            ),
            Self::Skew(ahead) => {
                tracing::warn!(
                    "our clock is {ahead:#} ahead of the API server's: evictions wait for the latter"
                );
            }
        }
    }
}

impl HeldBack {
    fn record(self, recorder: &dyn Recorder) {
        let Self { demand, window, .. } = self;
        let limit = |limit: usize, what: &str| (limit != usize::MAX).then(|| format!("{limit} {what}"));
        let limits = [limit(self.limits.pods, "pods"), limit(self.limits.nodes, "nodes")];
        let limits: Vec<_> = limits.into_iter().flatten().collect();
        let window = SignedDuration::try_from(window).unwrap_or(SignedDuration::MAX);
        let note = format!(
            "The brake holds evictions back: {demand} are due or were evicted within {window:#}, and the limit is {}",
            limits.join(" and ")
        );
        if self.begins {
            tracing::error!("{note}");
        }
        let lease = self
            .lease
            .map(|(lease, uid)| reference(LEASE_VERSION, "Lease", &lease, &uid));
        // A node's events have its name as their uid, as the kubelet writes them.
        let nodes = self.nodes.iter().map(|node| {
            reference(
                "v1",
                "Node",
                &ObjectKey::cluster(Arc::clone(node)),
                &Uid::from(&**node),
            )
        });
        for object in lease.into_iter().chain(nodes) {
            recorder.publish(Published::warning(object, "BrakeEngaged", ACTION, note.clone()));
        }
    }
}

fn reference_to(pod: &ObjectKey, uid: &Uid) -> Reference {
    reference("v1", "Pod", pod, uid)
}
