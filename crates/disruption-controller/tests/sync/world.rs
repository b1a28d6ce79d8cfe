//! Budgets, pods and workloads on the embedded API server, next to our loop. Time is tokio's, paused.

use controller_testing::Running;
use controller_testing::objects::{name, owner};
use disruption_controller::DisruptionController;
use embedded_apiserver::{
    CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, Mark, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS,
    REPLICATION_CONTROLLERS, Resource, STATEFUL_SETS,
};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::EvictParams;
use serde_json::{Value, json};

use crate::budget::{self, Numbers, definition};

/// The custom resource of these tests, with a `/scale`.
static WIDGETS: Resource = Resource::namespaced("example.com", "v1", "Widget", "widgets");
/// One without, for the objects below it.
static GADGETS: Resource = Resource::namespaced("example.com", "v1", "Gadget", "gadgets");
pub(crate) const WORKLOADS: [&Resource; 6] = [
    &DEPLOYMENTS,
    &REPLICA_SETS,
    &STATEFUL_SETS,
    &REPLICATION_CONTROLLERS,
    &WIDGETS,
    &GADGETS,
];

// No limits: they are not what these tests are about.
controller_testing::world!(DisruptionController, &PODS, limits: (0.0, 0));

impl World {
    /// With `pods` pods without a controller, and the budget `web` for them.
    pub(crate) fn with_budget(pods: usize, field: &str, amount: &Value) -> Self {
        let world = Self::new();
        world.pods(pods, None);
        world.pdb("web", field, amount);
        world
    }

    /// With a `ReplicaSet` that wants `wanted` pods, and has `pods`.
    pub(crate) fn with_set(wanted: i64, pods: usize) -> (Self, Value) {
        let world = Self::new();
        let set = world.replica_set("web", wanted, None);
        world.pods(pods, Some(&set));
        (world, set)
    }

    /// With a custom resource that wants `wanted` pods, and has `pods`.
    pub(crate) fn with_widget(wanted: i64, pods: usize) -> (Self, Value) {
        let world = Self::new();
        world.define_widgets(true);
        let widget = world.workload("Widget", "web", wanted);
        world.pods(pods, Some(&widget));
        (world, widget)
    }

    /// Creates a budget for the pods with the label `app: web`.
    pub(crate) fn pdb(&self, name: &str, field: &str, amount: &Value) {
        self.pdb_of(name, field, amount, &json!({ "matchLabels": { "app": "web" } }));
    }

    pub(crate) fn pdb_of(&self, name: &str, field: &str, amount: &Value, selector: &Value) {
        self.insert(pdb(name, &json!({ field: amount, "selector": selector })));
    }

    pub(crate) fn edit_pdb(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.edit_of(&POD_DISRUPTION_BUDGETS, name, edit);
    }

    /// Creates a ready pod of a controller, with the label `app: web`.
    pub(crate) fn pod(&self, name: &str, controller: Option<&Value>) {
        self.pod_of("web", name, controller);
    }

    pub(crate) fn pod_of(&self, app: &str, name: &str, controller: Option<&Value>) {
        self.insert(pod(
            name,
            &json!({ "app": app }),
            true,
            true,
            controller.map(owner).as_ref(),
        ));
    }

    /// Creates `web-0`, `web-1` and so on.
    pub(crate) fn pods(&self, count: usize, controller: Option<&Value>) {
        (0..count).for_each(|number| self.pod(&format!("web-{number}"), controller));
    }

    pub(crate) fn ready(&self, pod: &str, is: bool) {
        self.edit(pod, |pod| pod["status"]["conditions"] = json!([ready(is)]));
    }

    pub(crate) fn relabel(&self, pod: &str, app: &str) {
        self.edit(pod, |pod| pod["metadata"]["labels"]["app"] = json!(app));
    }

    pub(crate) fn replica_set(&self, name: &str, replicas: i64, deployment: Option<&Value>) -> Value {
        self.insert(workload("ReplicaSet", name, replicas, deployment))
    }

    pub(crate) fn workload(&self, kind: &str, name: &str, replicas: i64) -> Value {
        self.insert(workload(kind, name, replicas, None))
    }

    /// Serves widgets, with a `/scale` or without.
    pub(crate) fn define_widgets(&self, scale: bool) {
        self.insert(definition("Widget", scale));
    }

    /// With a widget that wants `wanted` pods, and `gadgets` gadgets below it, each with a pod `gadget-…` of its own.
    pub(crate) fn with_gadgets(wanted: i64, gadgets: usize) -> (Self, Value) {
        let world = Self::new();
        world.define_widgets(true);
        world.insert(definition("Gadget", false));
        let widget = world.workload("Widget", "web", wanted);
        (0..gadgets).for_each(|number| world.gadget(number, Some(&widget)));
        (world, widget)
    }

    /// Creates a gadget of `above`, with a pod.
    pub(crate) fn gadget(&self, number: usize, above: Option<&Value>) {
        let name = format!("gadget-{number}");
        let gadget = self.insert(workload("Gadget", &name, 1, above));
        self.pod(&name, Some(&gadget));
    }

    /// Adds or removes the `/scale` of widgets.
    pub(crate) fn give_scale(&self, give: bool) {
        let spec = definition("Widget", give)["spec"].take();
        self.edit_of(
            &CUSTOM_RESOURCE_DEFINITIONS,
            "widgets.example.com",
            |definition| definition["spec"] = spec,
        );
    }

    pub(crate) fn scale(&self, workload: &Value, replicas: i64) {
        let scale = |workload: &mut Value| workload["spec"]["replicas"] = json!(replicas);
        self.edit_of(resource_of(workload), &name(workload), scale);
    }

    pub(crate) fn remove(&self, workload: &Value) {
        self.delete_of(resource_of(workload), &name(workload));
    }

    /// Calls the Eviction API; returns the code of the answer.
    pub(crate) async fn evict(&self, pod: &str) -> u16 {
        let pods: Api<Pod> = Api::namespaced(self.server.client_as("drain/test"), "default");
        match pods.evict(pod, &EvictParams::default()).await {
            Ok(_) => 201,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) fn status(&self, pdb: &str) -> Value {
        self.get_of(&POD_DISRUPTION_BUDGETS, pdb)["status"].take()
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

    /// Starts the controller, and lets everything happen that is due at once or collected.
    pub(crate) async fn start_and_settle(&self) -> Running {
        let running = self.start();
        self.settle().await;
        running
    }

    /// Why the budget cannot be computed, by its condition.
    pub(crate) fn failure(&self, pdb: &str) -> String {
        let condition = self.condition(pdb);
        let failure = condition.strip_prefix("False SyncFailed ");
        failure.unwrap_or_else(|| panic!("{condition}")).to_owned()
    }

    /// Lets everything happen that is due at once or collected.
    pub(crate) async fn settle(&self) {
        self.pass_millis(250).await;
    }

    /// The codes of our status writes since `mark`.
    pub(crate) fn status_writes(&self, mark: Mark) -> Vec<Option<u16>> {
        let writes = self.sent_since(mark).to("poddisruptionbudgets").writes();
        writes.iter().map(|request| request.code).collect()
    }

    /// The number of scales that we have read since `mark`.
    pub(crate) fn scale_reads(&self, mark: Mark) -> usize {
        self.sent_since(mark)
            .only(|request| request.subresource == "scale")
            .len()
    }
}

pub(crate) fn pdb(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name }, "spec": spec,
    })
}

/// A pod of a controller, `bound` to a node or not.
pub(crate) fn pod(name: &str, labels: &Value, is_ready: bool, bound: bool, owner: Option<&Value>) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": labels },
        "spec": { "containers": [] }, "status": { "phase": "Running", "conditions": [ready(is_ready)] },
    });
    if bound {
        pod["spec"]["nodeName"] = json!("n");
    }
    if let Some(owner) = owner {
        pod["metadata"]["ownerReferences"] = json!([owner]);
    }
    pod
}

/// The condition `Ready`, as the kubelet writes it.
pub(crate) fn ready(ready: bool) -> Value {
    json!({ "type": "Ready", "status": if ready { "True" } else { "False" } })
}

/// A workload that `above` controls, or nobody.
pub(crate) fn workload(kind: &str, name: &str, replicas: i64, above: Option<&Value>) -> Value {
    let mut workload = json!({
        "apiVersion": resource(kind).api_version(), "kind": kind, "metadata": { "name": name },
        "spec": { "replicas": replicas },
    });
    if let Some(above) = above {
        workload["metadata"]["ownerReferences"] = json!([owner(above)]);
    }
    workload
}

/// The resource of a kind of workloads.
pub(crate) fn resource(kind: &str) -> &'static Resource {
    let found = WORKLOADS.into_iter().find(|resource| resource.kind == kind);
    found.unwrap_or_else(|| panic!("{kind}"))
}

fn resource_of(workload: &Value) -> &'static Resource {
    resource(workload["kind"].as_str().unwrap())
}
