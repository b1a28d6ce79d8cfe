//! What users see of Jobs: events, log lines and metrics.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-10 | `Event::record` | `tests/sync/expiry.rs::a_deletion_is_told_in_an_event_with_its_finish_and_lag` |

use std::time::Duration;

use controller_core::api::CallFailed;
use controller_core::events::{Event as Published, Recorder, Reference, reference};
use controller_core::meta::{ObjectKey, Uid};
use jiff::SignedDuration;
use prometheus::Histogram;

use crate::decide::Deletion;

/// The `action` of every event.
const ACTION: &str = "Delete";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Remark(Remark),
    /// A Job was deleted this long after its expiry.
    Deleted(Deletion, Duration),
    /// A Job cannot be deleted for now.
    NotDeleted(Deletion, CallFailed),
}

/// A remark made once for a Job, or once in a while about the clocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remark {
    /// The Job with this uid has finished, but its condition does not say when (TAF-8).
    Undated(ObjectKey, Uid),
    /// The Job's finish lies this far in the future (TAF-7).
    Ahead(ObjectKey, SignedDuration),
    /// Our clock was this far ahead of the API server's when this Job was read (TAF-7).
    Skewed(ObjectKey, SignedDuration),
}

impl Event {
    pub fn record(self, deletions: &Histogram, recorder: &dyn Recorder) {
        match self {
            Self::Remark(Remark::Undated(job, uid)) => {
                let note =
                    "it has finished, but its condition has no lastTransitionTime: its ttl cannot pass";
                tracing::warn!(key = %job, "{note}");
                let job = reference_to(&job, &uid);
                recorder.publish(Published::warning(job, "FinishTimeUnknown", ACTION, note));
            }
            Self::Remark(Remark::Ahead(job, ahead)) => tracing::warn!(
                key = %job,
                "the Job finished {ahead:#} in the future: clocks differ, its deletion waits"
            ),
            Self::Remark(Remark::Skewed(job, ahead)) => tracing::warn!(
                key = %job,
                "our clock is {ahead:#} ahead of the API server's: deletions wait for the latter"
            ),
            Self::Deleted(
                Deletion {
                    job,
                    uid,
                    finish,
                    expiry,
                    ..
                },
                lag,
            ) => {
                let lag = lag.as_secs_f64();
                deletions.observe(lag);
                let note = format!("finished at {finish}, expired at {expiry}, deleted {lag:.3} s later");
                let job = reference_to(&job, &uid);
                recorder.publish(Published::normal(job, "TTLExpired", ACTION, note));
            }
            Self::NotDeleted(Deletion { job, uid, .. }, failed) => {
                let note = format!("its ttl has passed, but it cannot be deleted: {failed}");
                let job = reference_to(&job, &uid);
                recorder.publish(Published::warning(job, "FailedDelete", ACTION, note));
            }
        }
    }
}

fn reference_to(job: &ObjectKey, uid: &Uid) -> Reference {
    reference("batch/v1", "Job", job, uid)
}
