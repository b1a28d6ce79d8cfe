//! The decoded objects, and how they become views.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-1 | `into_view` | `tests/decide_table.rs::what_the_api_server_would_refuse_fails_safe` |

mod drained;

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::cache::protobuf::Message;
use controller_core::cache::{DecodeError, Identity, Interned, OwnerWire, Wire, share, time};
use controller_core::meta::OwnerRef;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

pub use self::drained::DrainedPodWire;
use super::messages::{NODE, PDB, POD, WORKLOAD};
use super::{
    Amount, Condition, DISRUPTION_ALLOWED, DISRUPTION_TARGET, DisruptionTarget, NodeView, PdbView, Phase,
    PodView, Status, WorkloadView,
};
use crate::labels::Labels;
use crate::selector::{Selector, SelectorWire};

/// Source: `policy/v1`, `AlwaysAllow`.
const ALWAYS_ALLOW: &str = "AlwaysAllow";
/// The API server's default of `spec.replicas`.
const DEFAULT_REPLICAS: i64 = 1;

/// The decoded part of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodWire {
    metadata: Metadata,
    spec: PodSpecWire,
    status: PodStatusWire,
}

/// The decoded part of a budget.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PdbWire {
    metadata: Metadata,
    spec: PdbSpecWire,
    status: PdbStatusWire,
}

/// The decoded part of a workload.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WorkloadWire {
    metadata: Metadata,
    spec: WorkloadSpecWire,
}

/// The decoded part of a node.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct NodeWire {}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    generation: Option<i64>,
    labels: Option<Labels>,
    owner_references: Option<Vec<OwnerWire>>,
    #[serde(deserialize_with = "time")]
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<IgnoredAny>,
    managed_fields: Option<Vec<ManagerWire>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ManagerWire {
    manager: Option<Interned>,
    subresource: Option<String>,
    #[serde(deserialize_with = "time")]
    time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpecWire {
    node_name: Option<Interned>,
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
    reason: Option<Interned>,
    message: Option<String>,
    observed_generation: Option<i64>,
    #[serde(deserialize_with = "time")]
    last_transition_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PdbSpecWire {
    selector: Option<SelectorWire>,
    min_available: Option<Amount>,
    max_unavailable: Option<Amount>,
    unhealthy_pod_eviction_policy: Option<String>,
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
    fn controller(&mut self) -> Option<Arc<OwnerRef>> {
        let owners = self.owner_references.take();
        OwnerWire::controller(owners?).map(share)
    }

    fn status_writer(self) -> Option<Arc<str>> {
        let managers = self.managed_fields.into_iter().flatten();
        let of_status = managers.filter(|entry| entry.subresource.as_deref() == Some("status"));
        let last = of_status.max_by_key(|entry| entry.time)?;
        let manager = last.manager.filter(|manager| !manager.is_empty());
        manager.map(Arc::from)
    }
}

impl Wire for PodWire {
    type View = PodView;

    const MESSAGE: Option<Message> = Some(POD);

    fn into_view(self, pod: Identity) -> Result<PodView, DecodeError> {
        let mut metadata = self.metadata;
        let conditions = self.status.conditions.unwrap_or_default();
        // The first condition of a type counts, as upstream.
        let true_one = |kind: &str| {
            let first = conditions.iter().find(|condition| condition.kind == kind);
            first.filter(|condition| condition.status == "True")
        };
        let target = true_one(DISRUPTION_TARGET).map(|condition| {
            Arc::new(DisruptionTarget {
                reason: condition.reason.clone().unwrap_or_default().into(),
                since: condition.last_transition_time.unwrap_or(Timestamp::MIN),
                version: pod.version.clone().unwrap_or_default(),
                generation: metadata.generation.unwrap_or_default(),
            })
        });
        let labels = metadata.labels.take();
        let node = self.spec.node_name.filter(|node| !node.is_empty());
        Ok(PodView {
            created: metadata.creation_timestamp.map_or(i64::MIN, Timestamp::as_second),
            controller: metadata.controller(),
            labels: share(labels.unwrap_or_default()),
            ready: true_one("Ready").is_some(),
            deleting: metadata.deletion_timestamp.is_some(),
            phase: match self.status.phase.as_deref() {
                None | Some("" | "Pending") => Phase::Pending,
                Some("Succeeded") => Phase::Succeeded,
                Some("Failed") => Phase::Failed,
                Some(_) => Phase::Running,
            },
            node: node.map(Arc::from),
            key: pod.key,
            uid: pod.uid,
            target,
        })
    }
}

impl Wire for NodeWire {
    type View = NodeView;

    const MESSAGE: Option<Message> = Some(NODE);

    fn into_view(self, node: Identity) -> Result<NodeView, DecodeError> {
        Ok(NodeView { key: node.key })
    }
}

impl Wire for PdbWire {
    type View = PdbView;

    const MESSAGE: Option<Message> = Some(PDB);

    fn into_view(self, pdb: Identity) -> Result<PdbView, DecodeError> {
        Ok(PdbView {
            key: pdb.key,
            uid: pdb.uid,
            version: pdb.version.unwrap_or_default(),
            generation: self.metadata.generation.unwrap_or_default(),
            selector: Arc::new(Selector::compile(self.spec.selector)),
            min_available: self.spec.min_available,
            max_unavailable: self.spec.max_unavailable,
            always_allow: self.spec.unhealthy_pod_eviction_policy.as_deref() == Some(ALWAYS_ALLOW),
            status: self.status.into_status(),
            written_by: self.metadata.status_writer(),
        })
    }
}

impl Wire for WorkloadWire {
    type View = WorkloadView;

    const MESSAGE: Option<Message> = Some(WORKLOAD);

    fn into_view(mut self, workload: Identity) -> Result<WorkloadView, DecodeError> {
        Ok(WorkloadView {
            controller: self.metadata.controller(),
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
    fn into_status(self) -> Status {
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
                reason: condition.reason.unwrap_or_default().into(),
                message: condition.message.unwrap_or_default().into(),
                observed_generation: condition.observed_generation.unwrap_or_default(),
                since: condition.last_transition_time,
            }),
        }
    }
}

/// When an eviction was approved. An entry without a time counts as long over; a time that cannot be represented lies
/// so far in the future that the pod is not expected to stay.
fn approval(since: Option<&str>) -> Timestamp {
    since.map_or(Timestamp::MIN, |text| text.parse().unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests;
