//! The decoded objects, and how they become views.

use controller_core::cache::protobuf::Message;
use controller_core::cache::{DecodeError, Identity, Interned, Wire, share, time};
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::messages::{NODE, POD};
use super::{NO_EXECUTE, NodeView, Operator, PodView, Taint, Toleration};

/// The decoded part of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodWire {
    metadata: Metadata,
    spec: PodSpec,
    status: PodStatus,
}

/// The decoded part of a node.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeWire {
    #[serde(default)]
    spec: NodeSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    generation: Option<i64>,
    #[serde(deserialize_with = "time")]
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    node_name: Option<Interned>,
    tolerations: Option<Vec<TolerationWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct PodStatus {
    conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Condition {
    #[serde(rename = "type")]
    kind: Option<String>,
    status: Option<String>,
    #[serde(deserialize_with = "time")]
    last_transition_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TolerationWire {
    key: Option<Interned>,
    operator: Option<String>,
    value: Option<Interned>,
    effect: Option<String>,
    toleration_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct NodeSpec {
    taints: Option<Vec<TaintWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TaintWire {
    key: Option<Interned>,
    value: Option<Interned>,
    effect: Option<String>,
    #[serde(deserialize_with = "time")]
    time_added: Option<Timestamp>,
}

impl Condition {
    fn says_bound(&self) -> bool {
        self.kind.as_deref() == Some("PodScheduled") && self.status.as_deref() == Some("True")
    }
}

impl TaintWire {
    fn evicts(&self) -> bool {
        self.effect.as_deref() == Some(NO_EXECUTE)
    }
}

impl TolerationWire {
    /// `None` if the toleration is for another effect.
    fn kept(self) -> Option<Toleration> {
        let effect = self.effect.as_deref().unwrap_or_default();
        (effect.is_empty() || effect == NO_EXECUTE).then(|| Toleration {
            key: self.key.unwrap_or_default().into(),
            operator: match self.operator.as_deref().unwrap_or_default() {
                "" | "Equal" => Operator::Equal,
                "Exists" => Operator::Exists,
                "Lt" => Operator::Lt,
                "Gt" => Operator::Gt,
                _ => Operator::Unknown,
            },
            value: self.value.unwrap_or_default().into(),
            seconds: self.toleration_seconds,
        })
    }
}

impl Wire for PodWire {
    type View = PodView;

    const MESSAGE: Option<Message> = Some(POD);

    /// A pod without a node is on no tainted one (TE-16).
    fn is_kept(&self) -> bool {
        self.spec.node_name.as_ref().is_some_and(|node| !node.is_empty())
    }

    fn into_view(self, pod: Identity) -> Result<PodView, DecodeError> {
        let node = self.spec.node_name.filter(|node| !node.is_empty());
        let node =
            node.ok_or_else(|| DecodeError::Unrepresentable("the pod is bound to no node".to_owned()))?;
        let tolerations = self.spec.tolerations.into_iter().flatten();
        let tolerations = tolerations.filter_map(TolerationWire::kept);
        let mut conditions = self.status.conditions.into_iter().flatten();
        let scheduled = conditions.find(Condition::says_bound);
        Ok(PodView {
            key: pod.key,
            uid: pod.uid,
            node: node.into(),
            tolerations: share(tolerations.collect()),
            bound: scheduled
                .and_then(|condition| condition.last_transition_time)
                .or(self.metadata.creation_timestamp),
            generation: self.metadata.generation.unwrap_or_default(),
            deleting: self.metadata.deletion_timestamp.is_some(),
        })
    }
}

impl Wire for NodeWire {
    type View = NodeView;

    const MESSAGE: Option<Message> = Some(NODE);

    /// A node without `NoExecute` taints evicts nobody, just like a node that is gone (TE-1, TE-17).
    fn is_kept(&self) -> bool {
        self.spec.taints.iter().flatten().any(TaintWire::evicts)
    }

    fn into_view(self, node: Identity) -> Result<NodeView, DecodeError> {
        let taints = self.spec.taints.into_iter().flatten();
        let taints = taints.filter(TaintWire::evicts).map(|taint| Taint {
            key: taint.key.unwrap_or_default().into(),
            value: taint.value.unwrap_or_default().into(),
            time_added: taint.time_added,
        });
        Ok(NodeView {
            key: node.key,
            taints: taints.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use controller_core::meta::{ObjectKey, Uid};
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn identity() -> Identity {
        Identity {
            key: ObjectKey::namespaced("ns", "p"),
            uid: Uid::default(),
            version: None,
        }
    }

    fn pod(pod: &Value) -> PodView {
        let wire: PodWire = serde_json::from_value(pod.clone()).unwrap();
        assert!(wire.is_kept());
        wire.into_view(identity()).unwrap()
    }

    fn taints_of(node: NodeWire) -> Vec<Taint> {
        node.into_view(identity()).unwrap().taints
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[rstest]
    #[case::scheduled(
        json!([{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z" },
               { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z" }]),
        Some("2026-01-01T00:00:05Z")
    )]
    #[case::not_scheduled_yet(
        json!([{ "type": "PodScheduled", "status": "False", "lastTransitionTime": "2026-01-01T00:00:05Z" }]),
        Some("2026-01-01T00:00:00Z")
    )]
    #[case::without_a_transition(
        json!([{ "type": "PodScheduled", "status": "True", "lastTransitionTime": null }]),
        Some("2026-01-01T00:00:00Z")
    )]
    #[case::without_conditions(json!(null), Some("2026-01-01T00:00:00Z"))]
    #[case::in_the_year_1(
        json!([{ "type": "PodScheduled", "status": "True", "lastTransitionTime": "0001-01-01T00:00:00Z" }]),
        Some("2026-01-01T00:00:00Z")
    )]
    fn a_pod_was_bound_when_it_was_scheduled_else_when_it_was_created(
        #[case] conditions: Value,
        #[case] bound: Option<&str>,
    ) {
        let view = pod(&json!({
            "metadata": { "creationTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "nodeName": "n" },
            "status": { "conditions": conditions },
        }));
        assert_eq!(view.bound, bound.map(at));
    }

    #[test]
    fn equal_lists_of_tolerations_are_one() {
        let decoded = |seconds: i64| {
            let wire: PodWire = serde_json::from_value(json!({ "spec": { "nodeName": "n", "tolerations": [
                { "key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds },
            ] } }))
            .unwrap();
            wire.into_view(identity()).unwrap().tolerations
        };
        assert!(Arc::ptr_eq(&decoded(300), &decoded(300)));
        assert!(!Arc::ptr_eq(&decoded(300), &decoded(301)));
    }

    #[test]
    fn tolerations_of_other_effects_are_left_out() {
        let view = pod(&json!({ "spec": { "nodeName": "n", "tolerations": [
            { "key": "a", "effect": "NoSchedule", "operator": "Exists" },
            { "key": "b", "effect": "", "value": "v" },
            { "key": "c", "effect": "NoExecute", "operator": "Near", "tolerationSeconds": -3 },
            {},
        ] } }));
        let kept: Vec<_> = view
            .tolerations
            .iter()
            .map(|kept| (&*kept.key, kept.operator, &*kept.value, kept.seconds))
            .collect();
        assert_eq!(
            kept,
            [
                ("b", Operator::Equal, "v", None),
                ("c", Operator::Unknown, "", Some(-3)),
                ("", Operator::Equal, "", None),
            ]
        );
    }

    #[rstest]
    #[case::no_node(json!({ "spec": {} }))]
    #[case::an_empty_one(json!({ "spec": { "nodeName": "" } }))]
    #[case::null(json!({ "spec": { "nodeName": null } }))]
    #[case::nothing_at_all(json!({}))]
    fn pods_without_a_node_are_not_kept(#[case] pod: Value) {
        let wire: PodWire = serde_json::from_value(pod).unwrap();
        assert!(!wire.is_kept());
    }

    #[rstest]
    #[case::one_that_evicts(json!([{ "key": "k", "effect": "NoSchedule" }, { "key": "k", "effect": "NoExecute" }]), true)]
    #[case::none_that_evicts(json!([{ "key": "k", "effect": "NoSchedule" }]), false)]
    #[case::none_at_all(json!(null), false)]
    fn nodes_without_no_execute_taints_are_not_kept(#[case] taints: Value, #[case] kept: bool) {
        let wire: NodeWire = serde_json::from_value(json!({ "spec": { "taints": taints } })).unwrap();
        assert_eq!(wire.is_kept(), kept);
        assert_eq!(taints_of(wire).len(), usize::from(kept));
    }

    #[rstest]
    #[case::a_time("2026-01-01T00:00:00Z", Some("2026-01-01T00:00:00Z"))]
    #[case::the_year_1("0001-01-01T00:00:00Z", None)]
    #[case::a_second_later("0001-01-01T00:00:01Z", Some("0001-01-01T00:00:01Z"))]
    #[case::the_end_of_the_year_9999("9999-12-31T23:59:59Z", None)]
    fn no_time_fails_an_object(#[case] time_added: &str, #[case] expected: Option<&str>) {
        let wire: NodeWire = serde_json::from_value(json!({ "spec": { "taints": [
            { "key": "k", "effect": "NoExecute", "timeAdded": time_added },
        ] } }))
        .unwrap();
        assert_eq!(taints_of(wire)[0].time_added, expected.map(at));
    }
}
