//! What policies read of objects, in either encoding.

use controller_core::cache::{Identity, Wire};
use controller_core::meta::{ObjectKey, Uid};
use controller_testing::encodings::assert_the_same_views;
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};
use ttl_after_finished_controller::policy::view::{Candidate, JobCandidateWire, NamespaceWire, PodWire};
use ttl_after_finished_controller::view::Finish;

use super::support::at;

fn metadata() -> Value {
    json!({
        "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": { "app": "ci", "b": "" },
        "annotations": { "other": "x", "ttl-after-finished-controller/keep": "true" },
        "ownerReferences": [
            { "apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "owner", "controller": true },
        ],
        "finalizers": ["example.com/a", "example.com/b"],
    })
}

fn pod(status: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata(), "status": status })
}

fn ended(at: &str) -> Value {
    json!({ "name": "c", "ready": false, "state": { "terminated": { "exitCode": 0, "finishedAt": at } } })
}

#[test]
fn json_and_protobuf_give_the_same_views() {
    assert_the_same_views::<JobCandidateWire>(&json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(),
        "spec": { "ttlSecondsAfterFinished": 0, "parallelism": 2 },
        "status": { "conditions": [
            { "type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z" },
        ] },
    }));
    assert_the_same_views::<PodWire>(&pod(&json!({
        "phase": "Failed", "reason": "Evicted",
        "conditions": [{ "type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T10:00:00Z" }],
        "containerStatuses": [ended("2026-01-01T10:00:05Z")],
        "initContainerStatuses": [ended("2026-01-01T09:00:00Z")],
    })));
    assert_the_same_views::<NamespaceWire>(&json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "n", "uid": "u", "resourceVersion": "7", "labels": { "team": "a" },
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": { "ttl-after-finished-controller/keep": "true" } },
    }));
}

fn read<W: Wire<View = Candidate>>(object: &Value) -> (bool, Candidate) {
    let wire: W = serde_json::from_value(object.clone()).unwrap();
    let identity = Identity {
        key: ObjectKey::namespaced("ns", "n"),
        uid: Uid::from("u"),
        version: Some("7".into()),
    };
    (wire.is_kept(), wire.into_view(identity).unwrap())
}

#[test]
fn a_candidate_has_what_the_rules_read() {
    let (_, read) = read::<PodWire>(&pod(&json!({ "phase": "Succeeded" })));
    assert_eq!(read.owner, Some("owner".into()));
    assert_eq!(read.finalizers.as_deref(), Some("example.com/a, example.com/b"));
    assert_eq!(read.labels.iter().collect::<Vec<_>>(), [("app", "ci"), ("b", "")]);
    assert_eq!((read.keep, read.mirror, read.failed), (true, false, false));
}

#[rstest]
#[case::true_("true", true)]
#[case::true_with_a_capital("True", false)]
#[case::yes("yes", false)]
#[case::nothing("", false)]
fn only_true_keeps(#[case] value: &str, #[case] keep: bool) {
    let mut object = pod(&json!({ "phase": "Succeeded" }));
    object["metadata"]["annotations"]["ttl-after-finished-controller/keep"] = json!(value);
    assert_eq!(read::<PodWire>(&object).1.keep, keep);
}

fn at_10(second: &str) -> Finish {
    Finish::At(at(&format!("10:00:{second}")))
}

#[rstest]
#[case::it_runs(json!({ "phase": "Running", "containerStatuses": [ended("2026-01-01T10:00:05Z")] }), None)]
#[case::it_is_unknown(json!({ "phase": "Unknown" }), None)]
#[case::its_last_container_counts(
    json!({ "phase": "Succeeded", "containerStatuses": [ended("2026-01-01T10:00:05Z"), ended("2026-01-01T10:00:09Z")] }),
    Some(at_10("09"))
)]
#[case::a_later_change_of_a_condition_counts(
    json!({
        "phase": "Failed", "containerStatuses": [ended("2026-01-01T10:00:05Z")],
        "conditions": [{ "type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-01-01T10:00:07Z" }],
    }),
    Some(at_10("07"))
)]
#[case::an_init_container_that_failed(
    json!({ "phase": "Failed", "initContainerStatuses": [ended("2026-01-01T10:00:03Z")] }), Some(at_10("03"))
)]
#[case::evicted_before_it_ran(
    json!({
        "phase": "Failed", "reason": "Evicted",
        "conditions": [{ "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T10:00:01Z" }],
    }),
    Some(at_10("01"))
)]
#[case::nothing_says_when(json!({ "phase": "Failed", "reason": "Evicted" }), Some(Finish::Undated))]
fn a_pod_has_finished_when_the_last_of_it_ended(#[case] status: Value, #[case] expected: Option<Finish>) {
    let (kept, read) = read::<PodWire>(&pod(&status));
    assert_eq!((kept, read.object.finish), (expected.is_some(), expected));
}

#[test]
fn what_is_being_deleted_is_not_kept() {
    let mut object = pod(&json!({ "phase": "Succeeded" }));
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T10:00:00Z");
    assert!(!read::<PodWire>(&object).0);
    let job = json!({ "metadata": object["metadata"], "spec": {}, "status": {} });
    assert!(!read::<JobCandidateWire>(&job).0);
    assert!(
        read::<JobCandidateWire>(&json!({ "metadata": {}, "spec": {}, "status": {} })).0,
        "one that runs is"
    );
}

#[test]
fn a_time_beyond_any_calendar_is_none() {
    let status = json!({ "phase": "Succeeded", "containerStatuses": [ended("99999-01-01T00:00:00Z")] });
    assert_eq!(
        read::<PodWire>(&pod(&status)).1.object.finish,
        Some(Finish::Undated)
    );
    assert!("99999-01-01T00:00:00Z".parse::<Timestamp>().is_err());
}
