//! What is decoded straight from the wire, and how it becomes a view.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::informer::protobuf::Message;
use controller_core::informer::{DecodeError, Identity, Interner, OwnerWire, Wire, time};
use controller_core::meta::OwnerRef;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::messages::{PDB, POD, WORKLOAD};
use super::{
    Amount, Condition, DISRUPTION_ALLOWED, DISRUPTION_TARGET, DisruptionTarget, PdbView, PodView, Status,
    WorkloadView,
};
use crate::selector::{Labels, Selector};

/// What the API server fills in for `spec.replicas`.
const DEFAULT_REPLICAS: i64 = 1;

/// What is decoded of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodWire {
    metadata: Metadata,
    status: PodStatusWire,
}

/// What is decoded of a budget.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PdbWire {
    metadata: Metadata,
    spec: PdbSpecWire,
    status: PdbStatusWire,
}

/// What is decoded of a workload.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WorkloadWire {
    metadata: Metadata,
    spec: WorkloadSpecWire,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerWire>>,
    #[serde(deserialize_with = "time")]
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<IgnoredAny>,
    managed_fields: Option<Vec<ManagerWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ManagerWire {
    manager: Option<String>,
    subresource: Option<String>,
    #[serde(deserialize_with = "time")]
    time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct PodStatusWire {
    phase: Option<String>,
    conditions: Option<Vec<ConditionWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConditionWire {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
    observed_generation: Option<i64>,
    #[serde(deserialize_with = "time")]
    last_transition_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PdbSpecWire {
    selector: Option<LabelSelector>,
    min_available: Option<Amount>,
    max_unavailable: Option<Amount>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PdbStatusWire {
    observed_generation: Option<i64>,
    disruptions_allowed: Option<i64>,
    current_healthy: Option<i64>,
    desired_healthy: Option<i64>,
    expected_pods: Option<i64>,
    disrupted_pods: Option<BTreeMap<String, Option<String>>>,
    conditions: Option<Vec<ConditionWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct WorkloadSpecWire {
    replicas: Option<i64>,
}

impl Metadata {
    fn controller(&self, interner: &Interner) -> Option<Arc<OwnerRef>> {
        let owners = self.owner_references.as_deref();
        OwnerWire::controller(owners?, interner).map(|owner| interner.share(owner))
    }

    fn status_writer(&self, interner: &Interner) -> Option<Arc<str>> {
        let managers = self.managed_fields.iter().flatten();
        let of_status = managers.filter(|entry| entry.subresource.as_deref() == Some("status"));
        let last = of_status.max_by_key(|entry| entry.time)?;
        let manager = last.manager.as_deref().filter(|manager| !manager.is_empty());
        manager.map(|manager| interner.intern(manager))
    }
}

impl Wire for PodWire {
    type View = PodView;

    const MESSAGE: Option<Message> = Some(POD);

    fn into_view(self, pod: Identity, interner: &Interner) -> Result<PodView, DecodeError> {
        let metadata = self.metadata;
        let conditions = self.status.conditions.unwrap_or_default();
        // The first of a type counts, as upstream has it.
        let true_one = |kind: &str| {
            let first = conditions.iter().find(|condition| condition.kind == kind);
            first.filter(|condition| condition.status == "True")
        };
        let target = true_one(DISRUPTION_TARGET).map(|condition| {
            Arc::new(DisruptionTarget {
                reason: interner.intern(condition.reason.as_deref().unwrap_or_default()),
                since: condition.last_transition_time.unwrap_or(Timestamp::MIN),
                version: pod.version.clone().unwrap_or_default(),
                generation: metadata.generation.unwrap_or_default(),
            })
        });
        let labels = metadata
            .labels
            .as_ref()
            .map(|labels| Labels::new(labels, interner));
        Ok(PodView {
            created: metadata.creation_timestamp.map_or(i64::MIN, Timestamp::as_second),
            controller: metadata.controller(interner),
            labels: interner.share(labels.unwrap_or_default()),
            ready: true_one("Ready").is_some(),
            deleting: metadata.deletion_timestamp.is_some(),
            over: matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed")),
            key: pod.key,
            uid: pod.uid,
            target,
        })
    }
}

impl Wire for PdbWire {
    type View = PdbView;

    const MESSAGE: Option<Message> = Some(PDB);

    fn into_view(self, pdb: Identity, interner: &Interner) -> Result<PdbView, DecodeError> {
        Ok(PdbView {
            key: pdb.key,
            uid: pdb.uid,
            version: pdb.version.unwrap_or_default(),
            generation: self.metadata.generation.unwrap_or_default(),
            selector: Selector::compile(self.spec.selector.as_ref(), interner),
            min_available: self.spec.min_available,
            max_unavailable: self.spec.max_unavailable,
            status: self.status.into_status(interner),
            written_by: self.metadata.status_writer(interner),
        })
    }
}

impl Wire for WorkloadWire {
    type View = WorkloadView;

    const MESSAGE: Option<Message> = Some(WORKLOAD);

    fn into_view(self, workload: Identity, interner: &Interner) -> Result<WorkloadView, DecodeError> {
        Ok(WorkloadView {
            controller: self.metadata.controller(interner),
            replicas: self.spec.replicas.unwrap_or(DEFAULT_REPLICAS),
            key: workload.key,
            uid: workload.uid,
        })
    }
}

impl From<Value> for Amount {
    fn from(amount: Value) -> Self {
        match amount {
            Value::String(text) => Self::Text(text.into()),
            other => other.as_i64().map_or(Self::Other, Self::Int),
        }
    }
}

impl PdbStatusWire {
    fn into_status(self, interner: &Interner) -> Status {
        let disrupted = self.disrupted_pods.into_iter().flatten();
        let mut conditions = self.conditions.into_iter().flatten();
        let ours = conditions.find(|condition| condition.kind == DISRUPTION_ALLOWED);
        let ours = ours.filter(|condition| matches!(&*condition.status, "True" | "False"));
        Status {
            observed_generation: self.observed_generation.unwrap_or_default(),
            disruptions_allowed: self.disruptions_allowed.unwrap_or_default(),
            current_healthy: self.current_healthy.unwrap_or_default(),
            desired_healthy: self.desired_healthy.unwrap_or_default(),
            expected_pods: self.expected_pods.unwrap_or_default(),
            disrupted_pods: disrupted
                .map(|(name, since)| (name.into(), approval(since.as_deref())))
                .collect(),
            condition: ours.map(|condition| Condition {
                allowed: condition.status == "True",
                reason: interner.intern(condition.reason.as_deref().unwrap_or_default()),
                message: condition.message.unwrap_or_default().into(),
                observed_generation: condition.observed_generation.unwrap_or_default(),
                since: condition.last_transition_time,
            }),
        }
    }
}

/// When an eviction was approved. One without a time was never; a time that cannot be represented lies so far
/// ahead that the pod is not believed to stay.
fn approval(since: Option<&str>) -> Timestamp {
    since.map_or(Timestamp::MIN, |text| text.parse().unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use controller_core::informer::Observed;
    use controller_core::meta::Uid;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn decoded<W: Wire>(object: &Value) -> W::View {
        let mut object = object.clone();
        object["metadata"]["name"] = json!("n");
        let found = Observed::read::<W>(object.to_string().as_bytes());
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
        let interner = Interner::new();
        let decoded = |name: &str| {
            let wire: PodWire = serde_json::from_value(json!({ "metadata": {
                "name": name, "labels": { "app": "web", "tier": "front" },
                "ownerReferences": [{ "apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": true }],
            } }))
            .unwrap();
            let identity = Identity::of(None, name, "", None, &interner);
            wire.into_view(identity, &interner).unwrap()
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
            // Not believed to stay: it may be on its way for ever.
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
}
