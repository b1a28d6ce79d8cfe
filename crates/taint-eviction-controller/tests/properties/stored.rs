//! Nodes, pods and a budget as an API server stores them.

use std::sync::Arc;

use controller_core::controller::{Now, RequestOf};
use controller_core::meta::{ObjectKey, Uid};
use controller_testing::sim::{self, NOW};
use embedded_apiserver::{PODS as POD_RESOURCE, Server};
use serde_json::{Value, json};
use taint_eviction_controller::TaintEvictionController;
use taint_eviction_controller::requests::Query;
use taint_eviction_controller::view::{Operator, PodView, PodWire, Taint};

use super::world::{Cluster, PODS, has_grace};

impl Cluster {
    /// The node or the pod that `ask` is about, and a budget while budgets refuse; `None` for requests about the Lease, of
    /// which the model has no object.
    pub(super) fn as_stored(&self, ask: &RequestOf<TaintEvictionController>, now: Now) -> Option<Server> {
        let object = match ask {
            _ if self.bug.is_some() => return None,
            RequestOf::Query(Query::Node { name, .. }) => Some(self.node_as_stored(name)),
            _ => {
                let only = concerned(ask)?;
                self.pods
                    .stored(|key| key == only, |pod| pod_fields(&pod.view))
                    .next()
            }
        };
        let refuses = (now.wall < self.refuses_until).then(|| {
            let fields = json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "spec": { "minAvailable": PODS, "selector": {} },
                "status": { "observedGeneration": 1, "disruptionsAllowed": 0 },
            });
            sim::stored(&ObjectKey::namespaced("ns", "all"), &Uid::from("all"), 1, fields)
        });
        let objects = object.into_iter().chain(refuses).collect();
        Some(sim::server(now, objects, self.pods.next_version() - 1))
    }

    fn node_as_stored(&self, name: &Arc<str>) -> Value {
        let taints = self.taints(name).into_iter().map(|taint| {
            let Taint {
                key,
                value,
                time_added,
            } = taint;
            json!({ "key": *key, "value": *value, "timeAdded": time_added, "effect": "NoExecute" })
        });
        let spec = json!({ "taints": taints.collect::<Vec<_>>() });
        let fields = json!({ "apiVersion": "v1", "kind": "Node", "spec": spec });
        sim::stored(
            &ObjectKey::cluster(Arc::clone(name)),
            &Uid::from("node"),
            1,
            fields,
        )
    }

    pub(super) fn compare_stored(
        &self,
        ask: &RequestOf<TaintEvictionController>,
        server: &Server,
    ) -> Result<(), String> {
        let only = concerned(ask);
        self.pods.compare_with::<PodWire>(server, &POD_RESOURCE, |pod| {
            (Some(&pod.key) == only).then(|| pod.clone())
        })
    }
}

/// The pod that a request is about.
fn concerned(ask: &RequestOf<TaintEvictionController>) -> Option<&ObjectKey> {
    match ask {
        RequestOf::Write(write) => write.eviction().map(|eviction| &eviction.pod),
        RequestOf::Query(_) => None,
    }
}

fn pod_fields(view: &PodView) -> Value {
    let tolerations = view.tolerations.iter().map(|toleration| {
        let operator = if toleration.operator == Operator::Exists {
            "Exists"
        } else {
            "Equal"
        };
        json!({
            "key": *toleration.key, "operator": operator, "value": *toleration.value,
            "tolerationSeconds": toleration.seconds, "effect": "NoExecute",
        })
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generation": view.generation,
            "deletionTimestamp": view.deleting.then_some(NOW.wall),
            "deletionGracePeriodSeconds": view.deleting.then_some(30),
        },
        "spec": {
            "nodeName": *view.node,
            "tolerations": tolerations.collect::<Vec<_>>(),
            "containers": [{ "name": "c", "image": "i" }],
            "terminationGracePeriodSeconds": if view.deleting || has_grace(&view.key) { 30 } else { 0 },
        },
        "status": {
            "phase": "Running",
            "conditions": [
                { "type": "Ready", "status": "True" },
                { "type": "PodScheduled", "status": "True", "lastTransitionTime": view.bound },
            ],
        },
    })
}
