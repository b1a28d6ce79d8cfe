use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn view<W: Wire>(object: &Value) -> W::View {
    let wire: W = serde_json::from_value(object.clone()).unwrap();
    let metadata = &object["metadata"];
    let of = |field: &str| metadata[field].as_str();
    let (name, uid) = (of("name").unwrap_or_default(), of("uid").unwrap_or_default());
    let identity = Identity::of(of("namespace"), name, uid, of("resourceVersion"));
    wire.into_view(identity).unwrap()
}

fn pod(pod: &Value) -> ClaimantView {
    view::<PodWire>(pod)
}

fn claim(claim: &Value) -> ClaimView {
    view::<ClaimWire>(claim)
}

#[rstest]
#[case::none(json!({ "spec": {} }), false)]
#[case::null(json!({ "spec": { "resourceClaims": null } }), false)]
#[case::an_empty_list(json!({ "spec": { "resourceClaims": [] } }), false)]
#[case::nothing_at_all(json!({}), false)]
#[case::an_entry(json!({ "spec": { "resourceClaims": [{ "name": "a" }] } }), true)]
#[case::extended(json!({ "status": { "extendedResourceClaimStatus": { "resourceClaimName": "x" } } }), true)]
fn pods_without_claims_are_not_kept(#[case] pod: Value, #[case] kept: bool) {
    let wire: PodWire = serde_json::from_value(pod).unwrap();
    assert_eq!(wire.is_kept(), kept);
}

#[test]
fn a_pod_shows_its_entries_and_what_is_recorded_of_them() {
    let view = pod(&json!({
        "metadata": { "namespace": "ns", "name": "p", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z" },
        "spec": {
            "nodeName": "n", "schedulingGroup": { "podGroupName": "g" },
            "resourceClaims": [
                { "name": "a", "resourceClaimName": "shared" },
                { "name": "b", "resourceClaimTemplateName": "t" },
                { "name": "c" },
            ],
        },
        "status": {
            "phase": "Failed",
            "resourceClaimStatuses": [{ "name": "b", "resourceClaimName": "p-b-x" }, { "name": "d" }],
            "extendedResourceClaimStatus": { "resourceClaimName": "x" },
        },
    }));
    let entry = |name: &str, source| Entry {
        name: name.into(),
        source,
    };
    assert_eq!(
        *view.entries,
        [
            entry("a", ClaimSource::Claim("shared".into())),
            entry("b", ClaimSource::Template("t".into())),
            entry("c", ClaimSource::Unknown),
        ]
    );
    let status = |entry: &str, claim: Option<&str>| ClaimStatus {
        entry: entry.into(),
        claim: claim.map(Arc::from),
    };
    assert_eq!(*view.statuses, [status("b", Some("p-b-x")), status("d", None)]);
    assert_eq!(
        view.claims(),
        ["p-b-x".into(), "shared".into(), "x".into()] as [Arc<str>; 3]
    );
    assert_eq!(view.node.as_deref(), Some("n"));
    assert_eq!(view.group.as_deref(), Some("g"));
    assert!(view.over && view.deleting);
}

#[test]
fn equal_lists_of_entries_are_one() {
    let entries = |template: &str| {
        let pod = json!({ "spec": { "resourceClaims": [
            { "name": "a", "resourceClaimTemplateName": template },
        ] } });
        view::<PodWire>(&pod).entries
    };
    assert!(Arc::ptr_eq(&entries("t"), &entries("t")));
    assert!(!Arc::ptr_eq(&entries("t"), &entries("u")));
}

#[test]
fn a_claim_shows_whose_it_is_and_for_whom_it_is_reserved() {
    let view = claim(&json!({
        "metadata": {
            "namespace": "ns", "name": "c", "uid": "u", "resourceVersion": "7",
            "finalizers": ["other/one", "resource.kubernetes.io/delete-protection"],
            "annotations": { "resource.kubernetes.io/pod-claim-name": "a" },
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "Pod", "name": "no", "uid": "1" },
                { "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "2", "controller": true },
            ],
        },
        "spec": { "devices": { "requests": [
            { "name": "r", "firstAvailable": [{ "name": "s" }] },
            { "name": "q", "exactly": { "adminAccess": true } },
        ] } },
        "status": {
            "allocation": {},
            "reservedFor": [
                { "resource": "pods", "name": "p", "uid": "2" },
                { "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "3" },
                { "apiGroup": "x", "resource": "pods", "name": "p", "uid": "4" },
            ],
        },
    }));
    let kinds: Vec<_> = view.reserved.iter().map(|consumer| consumer.kind).collect();
    assert_eq!(
        kinds,
        [ConsumerKind::Pod, ConsumerKind::PodGroup, ConsumerKind::Other]
    );
    assert_eq!(view.owning_pod().unwrap().uid, Uid::from("2"));
    assert_eq!(view.owning_group(), None);
    assert_eq!((view.entry.as_deref(), &*view.version), (Some("a"), "7"));
    assert!(view.finalizer && view.allocated && view.admin_access);
    assert_eq!((view.deleting, view.origin), (None, ClaimOrigin::Template));
}

#[rstest]
#[case::a_time(json!("2026-01-01T00:00:00Z"), true)]
#[case::no_time_at_all(json!("soon"), true)]
#[case::beyond_what_can_be_represented(json!("9999-12-31T23:59:59Z"), true)]
#[case::null(json!(null), false)]
fn whatever_a_deletion_timestamp_says_the_claim_is_being_deleted(#[case] at: Value, #[case] deleting: bool) {
    let view = claim(&json!({ "metadata": { "deletionTimestamp": at } }));
    assert_eq!(view.deleting.is_some(), deleting);
}

#[test]
fn a_template_keeps_its_spec_as_it_is() {
    let json = r#"{ "metadata": { "namespace": "ns", "name": "t" }, "spec": {
        "metadata": { "labels": { "l": "1" }, "annotations": { "a": "2" } },
        "spec": {"devices": {"requests": [{"name":"r","firstAvailable":[{}]}]}, "notYetKnown": 1.50 }
    } }"#;
    let wire: TemplateWire = serde_json::from_str(json).unwrap();
    let identity = Identity::of(Some("ns"), "t", "", None);
    let view = wire.into_view(identity).unwrap();
    assert_eq!(
        view.spec.get(),
        r#"{"devices": {"requests": [{"name":"r","firstAvailable":[{}]}]}, "notYetKnown": 1.50 }"#
    );
    assert_eq!(view.labels["l"], "1");
    assert_eq!(view.annotations["a"], "2");
    assert!(view.prioritized_list && !view.admin_access);
}
