use controller_core::cache::Versioned;
use controller_core::meta::Uid;
use rstest::rstest;
use serde_json::json;

use super::*;

fn decoded<W: Wire>(object: &Value) -> W::View {
    let mut object = object.clone();
    object["metadata"]["name"] = json!("n");
    let found = Versioned::read::<W>(object.to_string().as_bytes());
    found.unwrap().unwrap().view
}

fn pod(pod: &Value) -> PodView {
    decoded::<PodWire>(pod)
}

fn pdb(pdb: &Value) -> PdbView {
    decoded::<PdbWire>(pdb)
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[rstest]
#[case::one_of_several(json!([{ "type": "Ready", "status": "False" }, { "type": "Ready", "status": "True" }]), false)]
#[case::ready(json!([{ "type": "Ready", "status": "True" }]), true)]
#[case::not_ready(json!([{ "type": "Ready", "status": "False" }]), false)]
#[case::unknown(json!([{ "type": "Ready", "status": "Unknown" }]), false)]
#[case::ready_in_part(json!([{ "type": "ContainersReady", "status": "True" }]), false)]
#[case::without_conditions(json!(null), false)]
fn a_pod_is_ready_by_its_condition(#[case] conditions: Value, #[case] ready: bool) {
    assert_eq!(
        pod(&json!({ "status": { "conditions": conditions } })).ready,
        ready
    );
}

#[test]
fn only_the_owner_that_controls_a_pod_counts() {
    let owners = json!([
        { "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1" },
        { "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "2", "controller": false },
        { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "3", "controller": true },
    ]);
    let controller = pod(&json!({ "metadata": { "ownerReferences": owners } })).controller;
    let controller = controller.unwrap();
    assert_eq!(
        (&*controller.kind, &controller.uid),
        ("ReplicaSet", &Uid::from("3"))
    );
    assert_eq!(pod(&json!({})).controller, None);
}

#[rstest]
#[case::one_that_is_true("True", Some("2026-01-01T00:00:00Z"), Some(at("2026-01-01T00:00:00Z")))]
#[case::one_without_a_time("True", None, Some(Timestamp::MIN))]
#[case::one_of_the_year_1("True", Some("0001-01-01T00:00:00Z"), Some(Timestamp::MIN))]
#[case::one_that_is_false("False", Some("2026-01-01T00:00:00Z"), None)]
fn a_disruption_is_kept_while_it_is_true(
    #[case] status: &str,
    #[case] time: Option<&str>,
    #[case] since: Option<Timestamp>,
) {
    let view = pod(&json!({
        "metadata": { "generation": 3, "resourceVersion": "7" },
        "status": { "conditions": [{
            "type": "DisruptionTarget", "status": status, "reason": "r", "lastTransitionTime": time,
        }] },
    }));
    let target = view
        .target
        .map(|target| (target.since, target.generation, target.version.to_string()));
    assert_eq!(target, since.map(|since| (since, 3, "7".to_owned())));
}

#[test]
fn the_version_of_a_pod_matters_only_while_somebody_wants_it_to_go() {
    let versions = ["1", "2"].map(|version| pod(&json!({ "metadata": { "resourceVersion": version } })));
    assert_eq!(versions[0], versions[1]);
}

#[test]
fn equal_sets_of_labels_and_equal_controllers_are_one() {
    let decoded = |name: &str| {
        let wire: PodWire = serde_json::from_value(json!({ "metadata": {
            "name": name, "labels": { "app": "web", "tier": "front" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": true }],
        } }))
        .unwrap();
        let identity = Identity::of(None, name, "", None);
        wire.into_view(identity).unwrap()
    };
    let (a, b) = (decoded("a"), decoded("b"));
    assert!(Arc::ptr_eq(&a.labels, &b.labels));
    assert!(Arc::ptr_eq(&a.controller.unwrap(), &b.controller.unwrap()));
}

#[rstest]
#[case::a_number(json!(3), Some(Amount::Int(3)))]
#[case::a_negative_one(json!(-3), Some(Amount::Int(-3)))]
#[case::a_percentage(json!("30%"), Some(Amount::Text("30%".into())))]
#[case::a_fraction(json!(1.5), Some(Amount::Other))]
#[case::beyond_all_numbers(json!(u64::MAX), Some(Amount::Other))]
#[case::an_object(json!({}), Some(Amount::Other))]
#[case::null(json!(null), None)]
fn no_amount_fails_a_budget(#[case] amount: Value, #[case] expected: Option<Amount>) {
    let view = pdb(&json!({ "spec": { "minAvailable": amount } }));
    assert_eq!(view.min_available, expected);
    assert_eq!(view.max_unavailable, None);
}

#[test]
fn a_status_is_read_as_far_as_it_is_ours() {
    let view = pdb(&json!({
        "metadata": { "managedFields": [
            { "manager": "kubectl", "time": "2026-01-01T00:00:09Z" },
            { "manager": "a", "subresource": "status", "time": "2026-01-01T00:00:01Z" },
            { "manager": "b", "subresource": "status", "time": "2026-01-01T00:00:02Z" },
        ] },
        "status": {
            "observedGeneration": 1, "disruptionsAllowed": 2, "currentHealthy": 3, "desiredHealthy": 4,
            "expectedPods": 5,
            "disruptedPods": {
                "a": "2026-01-01T00:00:00Z", "b": null, "c": "0001-01-01T00:00:00Z", "d": "9999-12-31T23:59:59Z",
            },
            "conditions": [
                { "type": "Foreign", "status": "True" },
                { "type": "DisruptionAllowed", "status": "True", "reason": "r", "message": "m",
                  "observedGeneration": 6, "lastTransitionTime": "2026-01-01T00:00:00Z" },
            ],
        },
    }));
    let disrupted = [
        ("a", at("2026-01-01T00:00:00Z")),
        ("b", Timestamp::MIN),
        ("c", at("0001-01-01T00:00:00Z")),
        // Not expected to stay: the pod may be on its way for ever.
        ("d", Timestamp::MAX),
    ];
    assert_eq!(
        view.status,
        Status {
            observed_generation: 1,
            disruptions_allowed: 2,
            current_healthy: 3,
            desired_healthy: 4,
            expected_pods: 5,
            disrupted_pods: disrupted.map(|(name, since)| (name.into(), since)).into(),
            condition: Some(Condition {
                allowed: true,
                reason: "r".into(),
                message: "m".into(),
                observed_generation: 6,
                since: Some(at("2026-01-01T00:00:00Z")),
            }),
        }
    );
    assert_eq!(view.written_by.as_deref(), Some("b"));
    assert_eq!(
        pdb(&json!({ "status": { "conditions": null } })).status,
        Status::default()
    );
}

#[test]
fn a_condition_that_says_neither_is_none_of_ours() {
    let condition = json!([{ "type": "DisruptionAllowed", "status": "Unknown" }]);
    let view = pdb(&json!({ "status": { "conditions": condition } }));
    assert_eq!(view.status.condition, None);
}

#[test]
fn a_workload_that_says_nothing_wants_one_pod() {
    let replicas = |spec: Value| decoded::<WorkloadWire>(&json!({ "spec": spec })).replicas;
    assert_eq!(replicas(json!({})), 1);
    assert_eq!(replicas(json!({ "replicas": 0 })), 0);
}
