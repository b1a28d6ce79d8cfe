//! Stories of budgets, told next to the embedded API server and next to a real one. Pods run nowhere: a story sets them
//! ready itself.

mod kinds;
mod overlaps;
mod timeouts;

use std::time::Duration;

use controller_testing::objects::owner;
use controller_testing::stories::{Objects, StoryStage, until};
use controller_testing::{SOON, soon};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::budget::{Numbers, condition, definition};

/// How late a status may be written, on a busy machine, that must follow its cause at once.
pub(crate) const AT_ONCE: SignedDuration = SignedDuration::from_secs(5);

/// Budgets, pods and what controls them.
pub(crate) trait Budgets {
    fn objects(&self) -> &Objects;

    fn pod_api(&self) -> Api<Pod> {
        Api::default_namespaced(self.objects().client())
    }

    /// Makes a budget named `app` for the pods with the label `app: app`.
    async fn pdb(&self, app: &str, field: &str, amount: Value) {
        self.pdb_of(app, app, field, amount).await;
    }

    async fn pdb_of(&self, name: &str, app: &str, field: &str, amount: Value) {
        let mut pdb = json!({
            "kind": "PodDisruptionBudget", "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": app}}},
        });
        pdb["spec"][field] = amount;
        self.objects().create(pdb).await;
    }

    /// Makes a ready pod of a controller, with the label `app: app`.
    async fn pod(&self, app: &str, name: &str, controller: Option<&Value>) {
        let mut pod = json!({
            "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        });
        if let Some(controller) = controller {
            pod["metadata"]["ownerReferences"] = json!([owner(controller)]);
        }
        self.objects().create(pod).await;
        self.ready(name, true).await;
    }

    /// Makes `app-0`, `app-1` and so on.
    async fn some_pods(&self, app: &str, count: usize, controller: Option<&Value>) {
        for number in 0..count {
            self.pod(app, &format!("{app}-{number}"), controller).await;
        }
    }

    async fn ready(&self, pod: &str, ready: bool) {
        set_ready(&self.pod_api(), pod, ready).await.unwrap();
    }

    async fn relabel(&self, pod: &str, app: &str) {
        let labels = json!({"metadata": {"labels": {"app": app}}});
        self.objects().merge("Pod", pod, labels).await;
    }

    /// Makes a workload of `replicas` pods with the label `app: name`, controlled by a `Deployment` if one is given.
    async fn workload(&self, kind: &str, name: &str, replicas: i64, deployment: Option<&Value>) -> Value {
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
        self.objects().create(workload).await
    }

    /// Has the API server serve a kind of `example.com/v1`.
    async fn define(&self, kind: &str, scales: bool) {
        self.define_as(definition(kind, scales), kind).await;
    }

    async fn define_as(&self, definition: Value, kind: &str) {
        self.objects().create(definition).await;
        let served = async || self.objects().api(kind).list(&ListParams::default()).await.ok();
        soon("the kind is served", served).await;
    }

    /// Makes a custom resource of `replicas` pods.
    async fn custom(&self, kind: &str, name: &str, replicas: i64) -> Value {
        self.objects()
            .create(json!({"kind": kind, "metadata": {"name": name}, "spec": {"replicas": replicas}}))
            .await
    }

    /// Calls the Eviction API; returns the code of the answer. The pod stays with a deletionTimestamp: no kubelet ends
    /// it.
    async fn evict(&self, pod: &str) -> u16 {
        self.evict_with(pod, json!({})).await
    }

    /// Not `Api::evict`, whose options do not arrive: it sends them as `delete_options`.
    async fn evict_with(&self, pod: &str, options: Value) -> u16 {
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}, "deleteOptions": options,
        });
        let params = PostParams::default();
        let pods = self.pod_api();
        let answer = pods.create_subresource::<Value, IgnoredAny>("eviction", pod, &params, &eviction);
        match answer.await {
            Ok(_) => 201,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{error}"),
        }
    }

    async fn status(&self, pdb: &str) -> Value {
        self.objects().get("PodDisruptionBudget", pdb).await["status"].clone()
    }

    async fn until(&self, pdb: &str, numbers: Numbers) {
        self.until_late(pdb, numbers, SOON).await;
    }

    /// Waits at most `within` until the status has these numbers.
    async fn until_late(&self, pdb: &str, numbers: Numbers, within: Duration) {
        let what = format!("{pdb} is {numbers:?}");
        let is = |status: &Value| Numbers::of(status) == numbers;
        until(within, &what, async || self.status(pdb).await, is).await;
    }

    /// Waits until the condition `DisruptionAllowed` has this status, reason and message.
    async fn until_condition(&self, pdb: &str, wanted: &str) {
        let what = format!("{pdb} is {wanted:?}");
        let is = |status: &Value| condition(status) == wanted;
        until(SOON, &what, async || self.status(pdb).await, is).await;
    }

    /// Sets how many pods a workload wants.
    async fn scale(&self, kind: &str, name: &str, replicas: i64) {
        let spec = json!({ "spec": { "replicas": replicas } });
        self.objects().merge(kind, name, spec).await;
    }
}

impl Budgets for Objects {
    fn objects(&self) -> &Objects {
        self
    }
}

/// When we last patched this object, at `since` or later. The log may lag behind reads.
async fn status_written(stage: &StoryStage, resource: &str, name: &str, since: Timestamp) -> Timestamp {
    let logged = async || {
        let mut newest_first = stage.requests().into_iter().rev();
        let written = newest_first
            .find(|asked| asked.is("patch", resource) && asked.name == name && asked.answered >= since)?;
        Some(written.answered)
    };
    let what = format!("a patch of {resource} {name} since {since} is in the log");
    soon(&what, logged).await
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
