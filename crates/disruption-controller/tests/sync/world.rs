//! Budgets, pods and workloads on the embedded API server, and our loop beside them. Time is tokio's, paused.

use std::ops::Deref;

use disruption_controller::DisruptionController;
use disruption_controller::config::Config;
use harness::Start;
use harness::objects::owner;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::EvictParams;
use serde_json::{Value, json};
use testkit::embedded::{
    CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, EVENTS, Mark, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS,
    REPLICATION_CONTROLLERS, Resource, STATEFUL_SETS,
};

use crate::budget::{self, Numbers};

/// The custom resource of these tests, with a `/scale`.
pub(crate) static WIDGETS: Resource = Resource::namespaced("example.com", "v1", "Widget", "widgets");

pub(crate) struct World(harness::world::World<Config>);

impl Deref for World {
    type Target = harness::world::World<Config>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self(harness::world::World::new(process))
    }

    /// A budget for the pods with the label `app: web`.
    pub(crate) fn pdb(&self, name: &str, field: &str, amount: &Value) {
        self.pdb_of(name, field, amount, &json!({ "matchLabels": { "app": "web" } }));
    }

    pub(crate) fn pdb_of(&self, name: &str, field: &str, amount: &Value, selector: &Value) {
        let mut pdb = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name },
            "spec": { "selector": selector },
        });
        pdb["spec"][field] = amount.clone();
        self.insert(pdb);
    }

    pub(crate) fn edit_pdb(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.server
            .edit(&POD_DISRUPTION_BUDGETS, "default", name, edit)
            .unwrap();
    }

    /// A ready pod with the label `app: web` of a controller.
    pub(crate) fn pod(&self, name: &str, controller: Option<&Value>) {
        self.pod_of("web", name, controller);
    }

    pub(crate) fn pod_of(&self, app: &str, name: &str, controller: Option<&Value>) {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": app } },
            "spec": { "nodeName": "n", "containers": [] },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        if let Some(controller) = controller {
            pod["metadata"]["ownerReferences"] = json!([owner(controller)]);
        }
        self.insert(pod);
    }

    /// `web-0`, `web-1` and so on.
    pub(crate) fn pods(&self, count: usize, controller: Option<&Value>) {
        for number in 0..count {
            self.pod(&format!("web-{number}"), controller);
        }
    }

    pub(crate) fn edit(&self, pod: &str, edit: impl FnOnce(&mut Value)) {
        self.server.edit(&PODS, "default", pod, edit).unwrap();
    }

    pub(crate) fn ready(&self, pod: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        self.edit(pod, |pod| {
            pod["status"]["conditions"] = json!([{ "type": "Ready", "status": status }]);
        });
    }

    pub(crate) fn relabel(&self, pod: &str, app: &str) {
        self.edit(pod, |pod| pod["metadata"]["labels"]["app"] = json!(app));
    }

    pub(crate) fn delete(&self, pod: &str) {
        self.server.delete(&PODS, "default", pod).unwrap();
    }

    pub(crate) fn replica_set(&self, name: &str, replicas: i64, deployment: Option<&Value>) -> Value {
        let mut object = workload("apps/v1", "ReplicaSet", name, replicas);
        if let Some(deployment) = deployment {
            object["metadata"]["ownerReferences"] = json!([owner(deployment)]);
        }
        self.insert(object)
    }

    pub(crate) fn deployment(&self, name: &str, replicas: i64) -> Value {
        self.insert(workload("apps/v1", "Deployment", name, replicas))
    }

    pub(crate) fn stateful_set(&self, name: &str, replicas: i64) -> Value {
        self.insert(workload("apps/v1", "StatefulSet", name, replicas))
    }

    pub(crate) fn replication_controller(&self, name: &str, replicas: i64) -> Value {
        self.insert(workload("v1", "ReplicationController", name, replicas))
    }

    /// Serves widgets, with a `/scale` or without.
    pub(crate) fn define_widgets(&self, scale: bool) {
        self.insert(widgets(scale));
    }

    /// Takes the `/scale` of widgets away, or gives it.
    pub(crate) fn give_scale(&self, give: bool) {
        let edit = |definition: &mut Value| definition["spec"] = widgets(give)["spec"].take();
        self.server
            .edit(&CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.example.com", edit)
            .unwrap();
    }

    pub(crate) fn widget(&self, name: &str, replicas: i64) -> Value {
        self.insert(workload("example.com/v1", "Widget", name, replicas))
    }

    pub(crate) fn scale(&self, workload: &Value, replicas: i64) {
        let edit = |workload: &mut Value| workload["spec"]["replicas"] = json!(replicas);
        self.server
            .edit(resource(workload), "default", name(workload), edit)
            .unwrap();
    }

    pub(crate) fn remove(&self, workload: &Value) {
        self.server
            .delete(resource(workload), "default", name(workload))
            .unwrap();
    }

    /// Asks the eviction API; the code of the answer.
    pub(crate) async fn evict(&self, pod: &str) -> u16 {
        let pods: Api<Pod> = Api::namespaced(self.server.client_as("drain/test"), "default");
        match pods.evict(pod, &EvictParams::default()).await {
            Ok(_) => 201,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn status(&self, pdb: &str) -> Value {
        let pdb = self.server.get(&POD_DISRUPTION_BUDGETS, "default", pdb);
        pdb.unwrap()["status"].clone()
    }

    pub(crate) fn numbers(&self, pdb: &str) -> Numbers {
        Numbers::of(&self.status(pdb))
    }

    pub(crate) fn allowed(&self, pdb: &str) -> i64 {
        self.numbers(pdb).allowed
    }

    /// Status, reason and message of the condition `DisruptionAllowed`.
    pub(crate) fn condition(&self, pdb: &str) -> String {
        budget::condition(&self.status(pdb))
    }

    /// Lets everything happen that is due at once or is collected.
    pub(crate) async fn settle(&self) {
        self.pass_millis(250).await;
    }

    /// The codes of our status writes since `mark`.
    pub(crate) fn status_writes(&self, mark: Mark) -> Vec<Option<u16>> {
        let writes = self.sent_since(mark).to("poddisruptionbudgets").writes();
        writes.iter().map(|request| request.code).collect()
    }

    /// How many scales we have read since `mark`.
    pub(crate) fn scale_reads(&self, mark: Mark) -> usize {
        let scales = self
            .sent_since(mark)
            .only(|request| request.subresource == "scale");
        scales.len()
    }

    /// How often events of this reason were published, repeats included.
    pub(crate) fn count_events(&self, reason: &str) -> i64 {
        let events = self.server.list(&EVENTS);
        let ours = events.iter().filter(|event| event["reason"] == reason);
        ours.map(|event| event["series"]["count"].as_i64().unwrap_or(1))
            .sum()
    }
}

/// Our process, without client-side limits: they are not what these tests are about.
pub(crate) fn process() -> Start<Config> {
    Start::of::<DisruptionController>().limits(0.0, 0)
}

/// The definition of [`WIDGETS`], with a `/scale` or without.
pub(crate) fn widgets(scale: bool) -> Value {
    let mut subresources = json!({ "status": {} });
    if scale {
        subresources["scale"] =
            json!({ "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" });
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": subresources,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    })
}

fn workload(api_version: &str, kind: &str, name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "metadata": { "name": name },
        "spec": { "replicas": replicas },
    })
}

fn resource(object: &Value) -> &'static Resource {
    match object["kind"].as_str() {
        Some("ReplicaSet") => &REPLICA_SETS,
        Some("Deployment") => &DEPLOYMENTS,
        Some("StatefulSet") => &STATEFUL_SETS,
        Some("ReplicationController") => &REPLICATION_CONTROLLERS,
        Some("Widget") => &WIDGETS,
        other => panic!("{other:?}"),
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}
