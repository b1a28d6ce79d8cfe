//! What the controller reads of a Job: its ttl, when it finished, and whether it is being deleted.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-1 | `ends_the_job` | `src/view.rs::a_job_is_finished_by_a_condition` |
//! | TAF-11 | `is_kept` | `src/view.rs::only_jobs_that_may_be_deleted_are_kept` |

use std::convert::Infallible;
use std::sync::Arc;

use controller_core::cache::protobuf::{CONDITIONS, FieldKind, METADATA, Message};
use controller_core::cache::{DecodeError, Identity, View, Wire, time};
use controller_core::meta::{ObjectKey, Uid};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What the store keeps of a Job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobView {
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion` of the state that is judged.
    pub version: Arc<str>,
    /// `spec.ttlSecondsAfterFinished`, in seconds.
    pub ttl_seconds: Option<i32>,
    /// `None` until the Job has finished.
    pub finish: Option<Finish>,
    /// The Job has a deletionTimestamp.
    pub deleting: bool,
}

/// When a Job finished, by its condition `Complete` or `Failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    /// The condition's `lastTransitionTime`.
    At(Timestamp),
    /// The condition has no `lastTransitionTime`.
    Undated,
}

/// `batch/v1.Job`.
const JOB: Message = &[
    METADATA,
    (
        2,
        "spec",
        FieldKind::Message(&[(8, "ttlSecondsAfterFinished", FieldKind::Int)]),
    ),
    (3, "status", FieldKind::Message(&[(1, "conditions", CONDITIONS)])),
];

/// The decoded part of a Job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobWire {
    metadata: Metadata,
    spec: Spec,
    status: Conditions,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    pub(crate) ttl_seconds_after_finished: Option<i32>,
}

/// The status of a Job, as far as it is read.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Conditions {
    conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(deserialize_with = "time")]
    last_transition_time: Option<Timestamp>,
}

impl Condition {
    fn ends_the_job(&self) -> bool {
        matches!(self.kind.as_str(), "Complete" | "Failed") && self.status == "True"
    }

    fn finish(&self) -> Finish {
        self.last_transition_time.map_or(Finish::Undated, Finish::At)
    }
}

impl Conditions {
    /// When the Job finished, and whether it failed.
    pub(crate) fn finish(&self) -> (Option<Finish>, bool) {
        let mut conditions = self.conditions.iter().flatten();
        let finished = conditions.find(|condition| condition.ends_the_job());
        let failed = finished.is_some_and(|condition| condition.kind == "Failed");
        (finished.map(Condition::finish), failed)
    }
}

impl JobView {
    pub(crate) fn of(
        object: Identity,
        ttl_seconds: Option<i32>,
        finish: Option<Finish>,
        deleting: bool,
    ) -> Self {
        Self {
            key: object.key,
            uid: object.uid,
            // Every object from the API server has a version.
            version: object.version.unwrap_or_default(),
            ttl_seconds,
            finish,
            deleting,
        }
    }
}

impl View for JobView {
    type Index = Infallible;

    fn key(&self) -> &ObjectKey {
        &self.key
    }
}

impl Wire for JobWire {
    type View = JobView;

    const MESSAGE: Option<Message> = Some(JOB);

    /// Jobs without a ttl are not stored (TAF-11); Jobs that are being deleted need nothing more (TAF-2).
    fn is_kept(&self) -> bool {
        self.spec.ttl_seconds_after_finished.is_some() && self.metadata.deletion_timestamp.is_none()
    }

    fn into_view(self, job: Identity) -> Result<JobView, DecodeError> {
        let (finish, _) = self.status.finish();
        let deleting = self.metadata.deletion_timestamp.is_some();
        Ok(JobView::of(
            job,
            self.spec.ttl_seconds_after_finished,
            finish,
            deleting,
        ))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn decoded(job: &Value) -> JobWire {
        serde_json::from_value(job.clone()).unwrap()
    }

    fn finish(conditions: &Value) -> Option<Finish> {
        let job = json!({ "metadata": {}, "status": { "conditions": conditions } });
        let identity = Identity {
            key: ObjectKey::namespaced("ns", "j"),
            uid: Uid::default(),
            version: None,
        };
        decoded(&job).into_view(identity).unwrap().finish
    }

    #[rstest]
    #[case::none_yet(json!([]), None)]
    #[case::null(json!(null), None)]
    #[case::complete(
        json!([{ "type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }]),
        Some(Finish::At("2026-01-01T00:00:00Z".parse().unwrap()))
    )]
    #[case::failed(
        json!([{ "type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }]),
        Some(Finish::At("2026-01-01T00:00:00Z".parse().unwrap()))
    )]
    #[case::not_true(
        json!([{ "type": "Complete", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z" }]),
        None
    )]
    #[case::on_the_way_to_it(
        json!([{ "type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }]),
        None
    )]
    #[case::the_first_that_is_true_counts(
        json!([
            { "type": "Suspended", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" },
            { "type": "Failed", "status": "True", "lastTransitionTime": "2026-01-02T00:00:00Z" },
            { "type": "Complete", "status": "True", "lastTransitionTime": "2026-01-03T00:00:00Z" },
        ]),
        Some(Finish::At("2026-01-02T00:00:00Z".parse().unwrap()))
    )]
    #[case::without_a_time(json!([{ "type": "Complete", "status": "True" }]), Some(Finish::Undated))]
    #[case::with_null_for_a_time(
        json!([{ "type": "Complete", "status": "True", "lastTransitionTime": null }]),
        Some(Finish::Undated)
    )]
    #[case::with_gos_zero_time(
        json!([{ "type": "Complete", "status": "True", "lastTransitionTime": "0001-01-01T00:00:00Z" }]),
        Some(Finish::Undated)
    )]
    fn a_job_is_finished_by_a_condition(#[case] conditions: Value, #[case] expected: Option<Finish>) {
        assert_eq!(finish(&conditions), expected);
    }

    #[rstest]
    #[case::with_a_ttl(json!({ "metadata": {}, "spec": { "ttlSecondsAfterFinished": 0 } }), true)]
    #[case::without(json!({ "metadata": {}, "spec": {} }), false)]
    #[case::null(json!({ "metadata": {}, "spec": { "ttlSecondsAfterFinished": null } }), false)]
    #[case::being_deleted(
        json!({
            "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "ttlSecondsAfterFinished": 0 },
        }),
        false
    )]
    #[case::being_deleted_at_a_time_that_cannot_be_represented(
        json!({
            "metadata": { "deletionTimestamp": "99999-01-01T00:00:00Z" },
            "spec": { "ttlSecondsAfterFinished": 0 },
        }),
        false
    )]
    fn only_jobs_that_may_be_deleted_are_kept(#[case] job: Value, #[case] kept: bool) {
        assert_eq!(decoded(&job).is_kept(), kept);
    }
}
