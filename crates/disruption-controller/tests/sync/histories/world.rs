//! Takes the steps of a history. The cluster that they ask for does not depend on which evictions the controller let
//! pass: it is kept beside the server, and what was evicted is brought back.

use std::collections::BTreeMap;

use harness::objects::{owner, remove, stays, terminate, text};
use harness::sim::START;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::EvictParams;
use serde_json::{Value, json};
use testkit::embedded::{
    DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, Resource,
    STATEFUL_SETS, Server,
};
use tokio::task::JoinSet;

use super::ledger::matches;
use super::steps::{Action, Amount, Labels, Made, WORKLOADS};
use crate::world::{WIDGETS, widgets};

/// What the steps asked for.
#[derive(Default)]
pub(super) struct World {
    /// By name.
    pods: BTreeMap<String, Wanted>,
    /// The newest of each number.
    workloads: BTreeMap<usize, Value>,
    /// Evictions under way.
    evictions: JoinSet<()>,
}

/// A pod that the steps asked for.
struct Wanted {
    made: Made,
    owner: Option<Value>,
    terminating: bool,
    /// The uid that it has, while nobody evicts it.
    uid: String,
}

/// The controller's wall clock, which is never wrong.
pub(super) fn now(server: &Server) -> Timestamp {
    START.checked_add(server.elapsed()).unwrap()
}

impl World {
    /// Takes one step. What it is about may be gone: that an object is missing is no failure.
    pub(super) fn take(&mut self, server: &Server, action: &Action) {
        match action {
            Action::DefineWidgets => drop(server.insert(widgets(true))),
            Action::Workload { workload, replicas } => self.make_workload(server, *workload, *replicas),
            Action::Scale { workload, replicas } => {
                let scale = |object: &mut Value| object["spec"]["replicas"] = json!(replicas);
                let _ = server.edit(resource(*workload), "default", &workload_name(*workload), scale);
            }
            Action::DeleteWorkload(workload) => {
                let _ = server.delete(resource(*workload), "default", &workload_name(*workload));
            }
            Action::Pod { pod, made } => {
                let controller = made.workload.and_then(|workload| self.workloads.get(&workload));
                let wanted = Wanted {
                    made: made.clone(),
                    owner: controller.map(owner),
                    terminating: false,
                    uid: String::new(),
                };
                self.pods.insert(pod_name(*pod), wanted);
                self.bring(server, &pod_name(*pod));
            }
            Action::Ready { pod, ready } => self.change(server, *pod, |made| made.ready = *ready),
            Action::Relabel { pod, labels } => self.change(server, *pod, |made| made.labels = *labels),
            Action::Terminate(pod) => {
                let name = pod_name(*pod);
                if let Some(wanted) = self.pods.get_mut(&name) {
                    wanted.terminating = true;
                    terminate(server, &name);
                }
            }
            Action::DeletePod(pod) => {
                self.pods.remove(&pod_name(*pod));
                remove(server, &PODS, &pod_name(*pod));
            }
            Action::Budget {
                budget,
                amount,
                selector,
            } => make_budget(server, &budget_name(*budget), amount, selector),
            Action::Amount { budget, amount } => edit_budget(server, *budget, |spec| {
                for field in ["minAvailable", "maxUnavailable"] {
                    spec[field] = if field == amount.field {
                        amount.amount.clone()
                    } else {
                        Value::Null
                    };
                }
            }),
            Action::Select { budget, selector } => {
                edit_budget(server, *budget, |spec| spec["selector"] = selector.clone());
            }
            Action::DeleteBudget(budget) => {
                let _ = server.delete(&POD_DISRUPTION_BUDGETS, "default", &budget_name(*budget));
            }
            Action::Evict(pod) => self.evict(server, pod_name(*pod)),
            Action::Approve(pod) => approve(server, &pod_name(*pod)),
            Action::Replace => self.replace(server),
        }
    }

    /// The steps are over: nobody evicts any more, and the cluster becomes what they asked for.
    pub(super) fn rest(&mut self, server: &Server) {
        self.evictions.abort_all();
        self.replace(server);
    }

    fn make_workload(&mut self, server: &Server, workload: usize, replicas: i64) {
        let (kind, above) = WORKLOADS[workload];
        let resource = resource(workload);
        let name = workload_name(workload);
        let _ = server.delete(resource, "default", &name);
        let mut object = json!({
            "apiVersion": resource.api_version(), "kind": kind, "metadata": { "name": name },
            "spec": { "replicas": replicas },
        });
        if let Some(above) = above.and_then(|above| self.workloads.get(&above)) {
            object["metadata"]["ownerReferences"] = json!([owner(above)]);
        }
        // Nobody may have defined its kind.
        if let Ok(object) = server.insert(object) {
            self.workloads.insert(workload, object);
        }
    }

    /// Changes a pod, be it there or evicted.
    fn change(&mut self, server: &Server, pod: usize, change: impl FnOnce(&mut Made)) {
        let name = pod_name(pod);
        if let Some(wanted) = self.pods.get_mut(&name) {
            change(&mut wanted.made);
            let made = &wanted.made;
            let _ = server.edit(&PODS, "default", &name, |pod| {
                pod["metadata"]["labels"] = labels(made.labels);
                let conditions = pod["status"]["conditions"].as_array_mut();
                let mut conditions = conditions.into_iter().flatten();
                if let Some(held) = conditions.find(|condition| condition["type"] == "Ready") {
                    *held = ready(made.ready);
                }
            });
        }
    }

    /// Brings back what somebody evicted.
    fn replace(&mut self, server: &Server) {
        let names: Vec<String> = self.pods.keys().cloned().collect();
        for name in names {
            let wanted = &self.pods[&name];
            let is_there = server.get(&PODS, "default", &name).is_some_and(|pod| {
                pod["metadata"]["uid"] == wanted.uid && stays(Some(&pod)) != wanted.terminating
            });
            if !is_there {
                self.bring(server, &name);
            }
        }
    }

    fn bring(&mut self, server: &Server, name: &str) {
        let Some(wanted) = self.pods.get_mut(name) else {
            return;
        };
        remove(server, &PODS, name);
        let made = &wanted.made;
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": labels(made.labels) },
            "spec": { "containers": [] },
            "status": { "phase": "Running", "conditions": [ready(made.ready)] },
        });
        if made.bound {
            pod["spec"]["nodeName"] = json!("n");
        }
        if let Some(owner) = &wanted.owner {
            pod["metadata"]["ownerReferences"] = json!([owner]);
        }
        wanted.uid = text(&server.insert(pod).unwrap()["metadata"]["uid"]);
        if wanted.terminating {
            terminate(server, name);
        }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "whoever drains a node is no task of the controller"
    )]
    fn evict(&mut self, server: &Server, name: String) {
        let pods: Api<Pod> = Api::namespaced(server.client_as("drain/test"), "default");
        self.evictions.spawn(async move {
            // It may be refused, or meet a fault.
            let _ = pods.evict(&name, &EvictParams::default()).await;
        });
    }
}

pub(super) fn resource(workload: usize) -> &'static Resource {
    match WORKLOADS[workload].0 {
        "Deployment" => &DEPLOYMENTS,
        "ReplicaSet" => &REPLICA_SETS,
        "StatefulSet" => &STATEFUL_SETS,
        "ReplicationController" => &REPLICATION_CONTROLLERS,
        _ => &WIDGETS,
    }
}

fn pod_name(pod: usize) -> String {
    format!("pod-{pod}")
}

fn budget_name(budget: usize) -> String {
    format!("budget-{budget}")
}

fn workload_name(workload: usize) -> String {
    format!("workload-{workload}")
}

fn labels(labels: Labels) -> Value {
    let mut map = json!({ "app": labels.app });
    if labels.tier {
        map["tier"] = json!("front");
    }
    map
}

fn ready(ready: bool) -> Value {
    json!({ "type": "Ready", "status": if ready { "True" } else { "False" } })
}

fn make_budget(server: &Server, name: &str, amount: &Amount, selector: &Value) {
    let _ = server.delete(&POD_DISRUPTION_BUDGETS, "default", name);
    let mut pdb = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name },
        "spec": { "selector": selector },
    });
    pdb["spec"][amount.field] = amount.amount.clone();
    server.insert(pdb).unwrap();
}

fn edit_budget(server: &Server, budget: usize, edit: impl FnOnce(&mut Value)) {
    let name = budget_name(budget);
    let _ = server.edit(&POD_DISRUPTION_BUDGETS, "default", &name, |pdb| {
        edit(&mut pdb["spec"]);
    });
}

/// What the Eviction API does to the budget and the pod before it deletes that.
fn approve(server: &Server, name: &str) {
    let Some(pod) = server.get(&PODS, "default", name) else {
        return;
    };
    let has = serde_json::from_value(pod["metadata"]["labels"].clone()).unwrap();
    let mut budgets = server.list(&POD_DISRUPTION_BUDGETS);
    budgets.retain(|pdb| matches(&pdb["spec"]["selector"], &has));
    let ([pdb], true) = (&*budgets, stays(Some(&pod))) else {
        return;
    };
    let allowed = pdb["status"]["disruptionsAllowed"].as_i64().unwrap_or_default();
    if allowed == 0 || pdb["status"]["observedGeneration"] != pdb["metadata"]["generation"] {
        return;
    }
    let whole_seconds = SignedDuration::from_secs(i64::try_from(server.elapsed().as_secs()).unwrap());
    let since = START.checked_add(whole_seconds).unwrap().to_string();
    let edit = |pdb: &mut Value| {
        pdb["status"]["disruptionsAllowed"] = json!(allowed - 1);
        pdb["status"]["disruptedPods"][name] = json!(since);
    };
    server
        .edit(
            &POD_DISRUPTION_BUDGETS,
            "default",
            &text(&pdb["metadata"]["name"]),
            edit,
        )
        .unwrap();
    let target = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastTransitionTime": since,
    });
    let mark = |pod: &mut Value| {
        let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
        conditions.retain(|condition| condition["type"] != "DisruptionTarget");
        conditions.push(target);
    };
    server.edit(&PODS, "default", name, mark).unwrap();
}
