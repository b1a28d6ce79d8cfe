//! What users see of Jobs and pods: events, log lines and metrics.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-10 | `Event::record` | `tests/sync/stories/expiry.rs::jobs_are_deleted_when_their_ttl_has_passed_and_no_others` |
//! | TAF-18 | `Event::record` | `tests/sync/policies/told.rs::a_deletion_is_reported_with_its_policy` |

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{AnswerClass, CallFailed};
use controller_core::events::{Event as Published, Recorder, Reference, reference};
use controller_core::meta::Uid;
use jiff::SignedDuration;

use crate::decide::{By, Deletion};
use crate::metrics::Deletions;
use crate::policy::FinishedKind;
use crate::state::Key;

/// The `action` of every event.
const ACTION: &str = "Delete";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Remark(Remark),
    /// The config file has changed to this number of policies.
    PoliciesChanged(usize),
    /// An object was deleted this long after its expiry.
    Deleted(Deletion, Duration),
    /// An object cannot be deleted for now.
    NotDeleted(Deletion, CallFailed),
}

/// A remark made once for an object, or once in a while about the clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// The object with this uid has finished, but nothing says when (TAF-8).
    Undated(Key, Uid),
    /// The object's finish lies this far in the future (TAF-7).
    Ahead(Key, SignedDuration),
    /// Our clock was this far ahead of the API server's when this object was judged (TAF-7).
    Skewed(Key, SignedDuration),
    /// The object is due by its policy, but has finalizers.
    Finalizers {
        object: Key,
        uid: Uid,
        policy: Arc<str>,
        finalizers: Box<str>,
    },
    /// The policy has deleted as much as it may in an hour, and this object is due.
    BrakeEngaged {
        policy: Arc<str>,
        max_per_hour: u32,
        object: Key,
        uid: Uid,
    },
}

impl Remark {
    fn record(self, recorder: &dyn Recorder) {
        match self {
            Self::Undated(key, uid) => {
                let note = match key.kind {
                    FinishedKind::Job => {
                        "it has finished, but its condition has no lastTransitionTime: its ttl cannot pass"
                    }
                    FinishedKind::Pod => {
                        "it has finished, but no container and no condition says when: its ttl cannot pass"
                    }
                };
                tracing::warn!(%key, "{note}");
                recorder.publish(Published::warning(
                    reference_to(&key, &uid),
                    "FinishTimeUnknown",
                    ACTION,
                    note,
                ));
            }
            Self::Ahead(key, ahead) => match key.kind {
                FinishedKind::Job => tracing::warn!(
                    %key,
                    "the Job finished {ahead:#} in the future: clocks differ, its deletion waits"
                ),
                FinishedKind::Pod => tracing::warn!(
                    %key,
                    "the pod finished {ahead:#} in the future: clocks differ, its deletion waits"
                ),
            },
            Self::Skewed(key, ahead) => tracing::warn!(
                %key,
                "our clock is {ahead:#} ahead of the API server's: deletions wait for the latter"
            ),
            Self::Finalizers {
                object: key,
                uid,
                policy,
                finalizers,
            } => {
                let note = format!("policy {policy} leaves it: its finalizers ({finalizers}) would hold it");
                tracing::warn!(%key, %policy, "{note}");
                recorder.publish(Published::warning(
                    reference_to(&key, &uid),
                    "HeldByFinalizers",
                    ACTION,
                    note,
                ));
            }
            Self::BrakeEngaged {
                policy,
                max_per_hour,
                object: key,
                uid,
            } => {
                let note = format!(
                    "policy {policy} stops here, as it has reached its maxPerHour ({max_per_hour}); change the \
                     policies or restart the controller to release the brake"
                );
                tracing::error!(%key, %policy, reason = "BrakeEngaged", "{note}");
                recorder.publish(Published::warning(
                    reference_to(&key, &uid),
                    "BrakeEngaged",
                    ACTION,
                    note,
                ));
            }
        }
    }
}

impl Event {
    pub fn record(self, numbers: &Deletions, recorder: &dyn Recorder) {
        match self {
            Self::Remark(remark) => remark.record(recorder),
            Self::PoliciesChanged(policies) => {
                tracing::info!(
                    policies,
                    "took the changed policies, whose grace period begins now"
                );
            }
            Self::Deleted(deletion, lag) => {
                let Deletion {
                    uid,
                    finish,
                    expiry,
                    by,
                    ..
                } = &deletion;
                let lag = lag.as_secs_f64();
                let object = reference_to(&deletion.key(), uid);
                let (reason, note) = match by {
                    By::Ttl => {
                        numbers.deletions.observe(lag);
                        let note =
                            format!("finished at {finish}, expired at {expiry}, deleted {lag:.3} s later");
                        ("TTLExpired", note)
                    }
                    By::Policy { name, failed, .. } => {
                        numbers.by_policy.with_label_values(&[name]).observe(lag);
                        let how = if *failed { "failed" } else { "succeeded" };
                        let note = format!(
                            "policy {name}: {how} at {finish}, its time passed at {expiry}, deleted {lag:.3} s after it was due"
                        );
                        ("DeletedByPolicy", note)
                    }
                };
                recorder.publish(Published::normal(object, reason, ACTION, note));
            }
            Self::NotDeleted(deletion, failed) => {
                let object = reference_to(&deletion.key(), &deletion.uid);
                let whose = match &deletion.by {
                    By::Ttl => "its ttl has passed".to_owned(),
                    By::Policy { name, .. } => {
                        numbers.refused.with_label_values(&[name]).inc();
                        format!("policy {name}: its time has passed")
                    }
                };
                if let AnswerClass::Forbidden(controller_core::api::Denial::ThisObject) = failed.outcome() {
                    let note = format!("{whose}, but it cannot be deleted: {failed}");
                    recorder.publish(Published::warning(object, "FailedDelete", ACTION, note));
                }
            }
        }
    }
}

fn reference_to(key: &Key, uid: &Uid) -> Reference {
    match key.kind {
        FinishedKind::Job => reference("batch/v1", "Job", &key.object, uid),
        FinishedKind::Pod => reference("v1", "Pod", &key.object, uid),
    }
}
