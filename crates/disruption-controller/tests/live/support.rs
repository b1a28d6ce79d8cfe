//! Budgets, pods and workloads, next to our binary as a process.

use std::time::Duration;

pub(crate) use controller_core::time::saturating_add as after;
use controller_testing::audit::Asked;
use controller_testing::cluster::until;
use controller_testing::objects::owner;
use controller_testing::soon;
pub(crate) use controller_testing::{QUICK_LEASE, SOON};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::budget::{Numbers, condition, definition};

/// How late a status may be written, on a busy machine, that must follow its cause at once.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(5);

controller_testing::cluster!("disruption-controller");

impl Cluster {
    /// With the permissions of a process that only observes.
    pub(crate) async fn observed() -> Self {
        let chart = CHART.rendered_as("observer.golden.yaml");
        Self(controller_testing::cluster::Cluster::new(chart, BUILT).await)
    }

    /// With the permission to get gadgets.
    pub(crate) async fn with_owners() -> Self {
        let chart = CHART.rendered_as("owners.golden.yaml");
        Self(controller_testing::cluster::Cluster::new(chart, BUILT).await)
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.control_plane.client())
    }

    /// Makes a budget named `app` for the pods with the label `app: app`.
    pub(crate) async fn pdb(&self, app: &str, field: &str, amount: Value) {
        self.pdb_of(app, app, field, amount).await;
    }

    pub(crate) async fn pdb_of(&self, name: &str, app: &str, field: &str, amount: Value) {
        let mut pdb = json!({
            "kind": "PodDisruptionBudget", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": app}}},
        });
        pdb["spec"][field] = amount;
        self.create(pdb).await;
    }

    /// Makes a ready pod of a controller, with the label `app: app`.
    pub(crate) async fn pod(&self, app: &str, name: &str, controller: Option<&Value>) {
        let mut pod = json!({
            "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        });
        if let Some(controller) = controller {
            pod["metadata"]["ownerReferences"] = json!([owner(controller)]);
        }
        self.create(pod).await;
        self.ready(name, true).await;
    }

    /// Makes `app-0`, `app-1` and so on.
    pub(crate) async fn some_pods(&self, app: &str, count: usize, controller: Option<&Value>) {
        for number in 0..count {
            self.pod(app, &format!("{app}-{number}"), controller).await;
        }
    }

    pub(crate) async fn ready(&self, pod: &str, ready: bool) {
        set_ready(&self.pods(), pod, ready).await.unwrap();
    }

    pub(crate) async fn relabel(&self, pod: &str, app: &str) {
        let labels = json!({"metadata": {"labels": {"app": app}}});
        self.merge("Pod", pod, labels).await;
    }

    /// Makes a workload of `replicas` pods with the label `app: name`, controlled by a `Deployment` if one is given.
    pub(crate) async fn workload(
        &self,
        kind: &str,
        name: &str,
        replicas: i64,
        deployment: Option<&Value>,
    ) -> Value {
        let labels = json!({"app": name});
        let mut selector = json!({"matchLabels": labels});
        if kind == "ReplicationController" {
            selector = labels.clone();
        }
        let pod = json!({"containers": [{"name": "c", "image": "i"}]});
        let template = json!({"metadata": {"labels": labels}, "spec": pod});
        let mut workload = json!({
            "kind": kind, "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": selector, "template": template},
        });
        if kind == "StatefulSet" {
            workload["spec"]["serviceName"] = json!(name);
        }
        if let Some(deployment) = deployment {
            workload["metadata"]["ownerReferences"] = json!([owner(deployment)]);
        }
        self.create(workload).await
    }

    /// Has the API server serve a kind of `example.com/v1`.
    pub(crate) async fn define(&self, kind: &str, scales: bool) {
        self.define_as(definition(kind, scales), kind).await;
    }

    pub(crate) async fn define_as(&self, definition: Value, kind: &str) {
        self.create(definition).await;
        let served = async || self.api(kind).list(&ListParams::default()).await.ok();
        soon("the kind is served", served).await;
    }

    /// Makes a custom resource below another, and a ready pod of it with the same name and the label `app: app`.
    pub(crate) async fn below(&self, kind: &str, name: &str, app: &str, above: &Value) {
        let object = json!({
            "kind": kind, "metadata": {"name": name, "ownerReferences": [owner(above)]}, "spec": {},
        });
        let object = self.create(object).await;
        self.pod(app, name, Some(&object)).await;
    }

    /// Makes a custom resource of `replicas` pods.
    pub(crate) async fn custom(&self, kind: &str, name: &str, replicas: i64) -> Value {
        self.create(json!({"kind": kind, "metadata": {"name": name}, "spec": {"replicas": replicas}}))
            .await
    }

    /// Calls the Eviction API; returns the code of the answer. The pod stays with a deletionTimestamp: no kubelet ends
    /// it.
    pub(crate) async fn evict(&self, pod: &str) -> u16 {
        self.evict_with(pod, json!({})).await
    }

    /// Calls the Eviction API for a pod that is then gone at once.
    pub(crate) async fn evict_at_once(&self, pod: &str) -> u16 {
        self.evict_with(pod, json!({"gracePeriodSeconds": 0})).await
    }

    /// Asks the Eviction API what it would answer.
    pub(crate) async fn would_evict(&self, pod: &str) -> u16 {
        self.evict_with(pod, json!({"dryRun": ["All"]})).await
    }

    /// Not `Api::evict`, whose options do not arrive: it sends them as `delete_options`.
    async fn evict_with(&self, pod: &str, options: Value) -> u16 {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}, "deleteOptions": options,
        });
        let params = PostParams::default();
        let pods = self.pods();
        let answer = pods.create_subresource::<Value, IgnoredAny>("eviction", pod, &params, &eviction);
        match answer.await {
            Ok(_) => 201,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn status(&self, pdb: &str) -> Value {
        self.get("PodDisruptionBudget", pdb).await["status"].clone()
    }

    pub(crate) async fn until(&self, pdb: &str, numbers: Numbers) {
        self.until_late(pdb, numbers, SOON).await;
    }

    /// Waits at most `within` until the status has these numbers.
    pub(crate) async fn until_late(&self, pdb: &str, numbers: Numbers, within: Duration) {
        let what = format!("{pdb} is {numbers:?}");
        let is = |status: &Value| Numbers::of(status) == numbers;
        until(within, &what, async || self.status(pdb).await, is).await;
    }

    /// Waits until the condition `DisruptionAllowed` has this status, reason and message.
    pub(crate) async fn until_condition(&self, pdb: &str, wanted: &str) {
        let what = format!("{pdb} is {wanted:?}");
        let is = |status: &Value| condition(status) == wanted;
        until(SOON, &what, async || self.status(pdb).await, is).await;
    }

    /// The newest patch of this object that was answered after `since`; `ours` says whether it is ours.
    ///
    /// The audit log may lag behind reads.
    pub(crate) async fn patched(&self, resource: &str, name: &str, ours: bool, since: Timestamp) -> Asked {
        let logged = async || {
            let newest_first = self.all_requests().into_iter().rev();
            let mut these = newest_first.filter(|asked| asked.is("patch", resource) && asked.name == name);
            these.find(|asked| asked.is_by(NAME) == ours && asked.answered >= since)
        };
        let what = format!("a patch of {resource} {name} since {since} is in the audit log");
        soon(&what, logged).await
    }
}

/// Returns whether this request is our write of a budget's status.
pub(crate) fn writes_a_status(asked: &Asked) -> bool {
    asked.is_by(NAME) && asked.is("patch", "poddisruptionbudgets/status")
}

/// Sets a running pod's readiness, as the kubelet does.
pub(crate) async fn set_ready(pods: &Api<Pod>, pod: &str, ready: bool) -> kube::Result<()> {
    let ready = if ready { "True" } else { "False" };
    let status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]});
    let patch = Patch::Strategic(json!({ "status": status }));
    pods.patch_status(pod, &PatchParams::default(), &patch)
        .await
        .map(drop)
}
