//! Budgets and pods as an API server stores them.

use std::collections::BTreeMap;

use controller_core::controller::{Now, RequestOf};
use controller_core::meta::ObjectKey;
use controller_testing::sim::{self, NOW};
use disruption_controller::DisruptionController;
use disruption_controller::requests::{Query, Reset, Write};
use disruption_controller::view::{
    Amount, DISRUPTION_ALLOWED, DISRUPTION_TARGET, PdbView, PdbWire, Phase, PodView, PodWire,
};
use embedded_apiserver::{POD_DISRUPTION_BUDGETS, PODS, Server};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::world::{Cluster, SELECTORS};

impl Cluster {
    /// The budget or the pod that `ask` is about; `None` for requests about other objects.
    pub(super) fn as_stored(&self, ask: &RequestOf<DisruptionController>, now: Now) -> Option<Server> {
        let (budget, pod) = concerned(ask);
        if self.bug.is_some() || (budget, pod) == (None, None) {
            return None;
        }
        let pdbs = self
            .pdbs
            .stored(|key| Some(key) == budget, |pdb| pdb_fields(&pdb.view));
        let pods = self
            .pods
            .stored(|key| Some(key) == pod, |pod| pod_fields(&pod.view));
        let next = budget.map_or(self.pods.next_version(), |_| self.pdbs.next_version());
        Some(sim::server(now, pdbs.chain(pods).collect(), next - 1))
    }

    pub(super) fn compare_stored(
        &self,
        ask: &RequestOf<DisruptionController>,
        server: &Server,
    ) -> Result<(), String> {
        let (budget, pod) = concerned(ask);
        // The model has no field managers.
        self.pdbs
            .compare_with::<PdbWire>(server, &POD_DISRUPTION_BUDGETS, |pdb| {
                (Some(&pdb.key) == budget).then(|| PdbView {
                    written_by: None,
                    ..pdb.clone()
                })
            })?;
        self.pods.compare_with::<PodWire>(server, &PODS, |held| {
            (Some(&held.key) == pod).then(|| held.clone())
        })
    }
}

/// The budget and the pod that a request is about.
fn concerned(ask: &RequestOf<DisruptionController>) -> (Option<&ObjectKey>, Option<&ObjectKey>) {
    match ask {
        RequestOf::Write(Write::Status(write)) => (Some(&write.status.pdb.key), None),
        RequestOf::Write(Write::Reset(Reset { pod, .. })) | RequestOf::Query(Query::Pod(pod)) => {
            (None, Some(pod))
        }
        RequestOf::Query(_) => (None, None),
    }
}

fn pdb_fields(view: &PdbView) -> Value {
    let amount = |amount: &Option<Amount>| match amount {
        Some(Amount::Int(number)) => json!(number),
        Some(Amount::Text(text)) => json!(**text),
        Some(Amount::Other) | None => json!(null),
    };
    let selects = SELECTORS
        .iter()
        .find(|selects| selects.compiled == view.selector)
        .unwrap();
    let status = &view.status;
    let condition = status.condition.as_ref().map(|condition| {
        json!({
            "type": DISRUPTION_ALLOWED, "status": if condition.allowed { "True" } else { "False" },
            "reason": *condition.reason, "message": *condition.message,
            "observedGeneration": condition.observed_generation, "lastTransitionTime": condition.since,
        })
    });
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "generation": view.generation },
        "spec": {
            "selector": selects.written,
            "minAvailable": amount(&view.min_available), "maxUnavailable": amount(&view.max_unavailable),
        },
        "status": {
            "observedGeneration": status.observed_generation, "disruptionsAllowed": status.disruptions_allowed,
            "currentHealthy": status.current_healthy, "desiredHealthy": status.desired_healthy,
            "expectedPods": status.expected_pods, "disruptedPods": status.disrupted_pods,
            "conditions": condition.as_slice(),
        },
    })
}

fn pod_fields(view: &PodView) -> Value {
    let owner = view.controller.as_deref().map(|owner| json!({
        "apiVersion": *owner.api_version, "kind": *owner.kind, "name": *owner.name, "uid": owner.uid.to_string(),
        "controller": true,
    }));
    let ready = json!({ "type": "Ready", "status": if view.ready { "True" } else { "False" } });
    let target = view.target.as_deref().map(|target| json!({
        "type": DISRUPTION_TARGET, "status": "True", "reason": *target.reason, "lastTransitionTime": target.since,
    }));
    let conditions: Vec<_> = [ready].into_iter().chain(target).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generation": 1, "ownerReferences": owner.as_slice(),
            "creationTimestamp": Timestamp::from_second(view.created).unwrap(),
            "labels": view.labels.iter().collect::<BTreeMap<_, _>>(),
            "deletionTimestamp": view.deleting.then_some(NOW.wall),
            "deletionGracePeriodSeconds": view.deleting.then_some(30),
        },
        "spec": { "containers": [{ "name": "c", "image": "i" }] },
        "status": { "phase": if view.phase == Phase::Failed { "Failed" } else { "Running" }, "conditions": conditions },
    })
}
