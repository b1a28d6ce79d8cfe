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
use jiff::SignedDuration;

use crate::decide::{Eviction, PendingEviction};
use crate::metrics::Evictions;
use crate::requests::{Write, why};
use crate::view::PodView;

/// Source: `taint_eviction.go`, `emitPodDeletionEvent`.
const REASON: &str = "TaintManagerEviction";
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
    /// A pod cannot be evicted for now, because this write failed (TE-10); once per pod.
    Overdue(Write, CallFailed),
    /// The API server refuses the condition of this pod (TE-9).
    ConditionRefused(ObjectKey, CallFailed),
    /// This node could not be read: the cache decides (TE-8).
    NotRead(Arc<str>, CallFailed),
    /// A toleration of this pod compares numbers, which our gate does not expect.
    Compares(ObjectKey),
    /// Our clock is this far ahead of the API server's.
    Skew(SignedDuration),
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
            Self::Overdue(write, failed) => {
                let what = match write {
                    Write::Mark(..) => "cannot write the pod's DisruptionTarget condition",
                    Write::Delete(_) => "cannot delete the pod",
                };
                let note = format!("cannot be evicted, will be retried: {what}: {failed}");
                let Eviction { pod, uid, .. } = write.eviction();
                let pod = reference_to(pod, uid);
                recorder.publish(Published::warning(pod, "FailedEviction", ACTION, note));
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
            Self::Skew(ahead) => {
                tracing::warn!(
                    "our clock is {ahead:#} ahead of the API server's: evictions wait for the latter"
                );
            }
        }
    }
}

fn reference_to(pod: &ObjectKey, uid: &Uid) -> Reference {
    reference("v1", "Pod", pod, uid)
}
