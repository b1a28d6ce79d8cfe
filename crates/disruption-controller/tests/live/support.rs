//! Budgets, pods and workloads, and our binary as a process beside them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use controller_core::clock::{Clock, saturating_add};
use harness::audit::{self, Asked};
use harness::chart::Chart;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use testkit::real::{AuditLevel, ControlPlane, Options, Process, eventually};

pub(crate) use harness::{QUICK_LEASE, Replica, SOON};

pub(crate) const NAME: &str = "disruption-controller";
pub(crate) const CHART: Chart = Chart::of(NAME);
/// How long after its cause a status may be written that is to follow at once, on a busy machine.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(5);

pub(crate) struct Cluster {
    pub(crate) control_plane: ControlPlane,
    /// Of the service account.
    kubeconfig: PathBuf,
}

/// The numbers of a budget's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) allowed: i64,
    pub(crate) current: i64,
    pub(crate) desired: i64,
    pub(crate) expected: i64,
}

/// The binary under test; `DISRUPTION_CONTROLLER_BINARY` names another build of it.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("DISRUPTION_CONTROLLER_BINARY").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_disruption-controller")),
        PathBuf::from,
    )
}

/// `kubectl`; none where there is none.
#[allow(clippy::print_stdout, reason = "for who runs the test")]
pub(crate) fn kubectl() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders)
        .map(|folder| folder.join("kubectl"))
        .find(|program| program.is_file());
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(found.is_some() || !ci, "with CI=true kubectl must be on the PATH");
    if found.is_none() {
        println!("left out: there is no kubectl on the PATH");
    }
    found
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        let options = Options {
            audit: Some(AuditLevel::Metadata),
            ..Options::default()
        };
        let control_plane = ControlPlane::start(options).await.unwrap();
        let kubeconfig = CHART.install(&control_plane).await;
        Self {
            control_plane,
            kubeconfig,
        }
    }

    /// Our binary, running on the rights of the service account.
    pub(crate) fn start(&self, args: &[&str]) -> Replica {
        Replica::start(&binary(), &self.kubeconfig, args)
    }

    /// The same, leading and with full caches.
    pub(crate) async fn start_leading(&self, args: &[&str]) -> Replica {
        let replica = self.start(args);
        replica.until_ready().await;
        replica.until_leading().await;
        replica
    }

    /// What `explain` prints.
    pub(crate) async fn explain(&self, pdb: &str) -> String {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig.display());
        let pdb = format!("default/{pdb}");
        let mut explain = Process::spawn(&binary(), &["explain", &pdb, &kubeconfig], &[]).unwrap();
        ended_well(&mut explain).await
    }

    /// Starts `kubectl` with these arguments.
    pub(crate) fn spawn_kubectl(&self, kubectl: &Path, args: &[&str]) -> Process {
        let kubeconfig = format!("--kubeconfig={}", self.control_plane.kubeconfig().display());
        let all = [&[&*kubeconfig], args].concat();
        Process::spawn(kubectl, &all, &[("HOME", "/nonexistent")]).unwrap()
    }

    /// Runs it to its end; what it printed.
    pub(crate) async fn kubectl(&self, kubectl: &Path, args: &[&str]) -> String {
        ended_well(&mut self.spawn_kubectl(kubectl, args)).await
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.control_plane.client())
    }

    /// The objects of a kind, in the namespace `default` where it has namespaces.
    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let client = self.control_plane.client();
        let resource = resource(kind);
        match kind {
            "Node" | "CustomResourceDefinition" => Api::all_with(client, &resource),
            _ => Api::default_namespaced_with(client, &resource),
        }
    }

    /// Makes an object; it has a `kind`.
    pub(crate) async fn create(&self, object: Value) -> Value {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let object = serde_json::from_value(with_version(object)).unwrap();
        let created = self.api(&kind).create(&PostParams::default(), &object).await;
        serde_json::to_value(created.unwrap()).unwrap()
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.api(kind).get(name).await.unwrap();
        serde_json::to_value(found).unwrap()
    }

    /// All of a kind.
    pub(crate) async fn all(&self, kind: &str) -> Vec<Value> {
        let all = self.api(kind).list(&ListParams::default()).await.unwrap();
        let values = all.into_iter().map(serde_json::to_value);
        values.map(Result::unwrap).collect()
    }

    pub(crate) async fn merge(&self, kind: &str, name: &str, patch: Value) {
        let api = self.api(kind);
        let patched = api
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.unwrap();
    }

    /// A merge patch of the status.
    pub(crate) async fn merge_status(&self, kind: &str, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let api = self.api(kind);
        let patched = api.patch_status(name, &PatchParams::default(), &patch).await;
        patched.unwrap();
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        let at_once = DeleteParams::default().grace_period(0);
        self.api(kind).delete(name, &at_once).await.unwrap();
    }

    /// A budget for the pods with the label `app: app`, of the same name.
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

    /// A ready pod with the label `app: app` of a controller.
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

    /// `app-0`, `app-1` and so on.
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

    /// A workload of `replicas` pods with the label `app: name`, of a `Deployment` where there is one.
    pub(crate) async fn workload(
        &self,
        kind: &str,
        name: &str,
        replicas: i64,
        deployment: Option<&Value>,
    ) -> Value {
        let labels = json!({"app": name});
        let selector = if kind == "ReplicationController" {
            labels.clone()
        } else {
            json!({"matchLabels": labels})
        };
        let mut workload = json!({
            "kind": kind, "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": selector,
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            },
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
        let plural = resource(kind).plural;
        let mut subresources = json!({});
        if scales {
            subresources["scale"] =
                json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
        }
        let definition = format!("{plural}.example.com");
        self.create(json!({
            "kind": "CustomResourceDefinition", "metadata": {"name": definition},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": subresources,
                    "schema": {"openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    }},
                }],
            },
        }))
        .await;
        let served = async || self.api(kind).list(&ListParams::default()).await.ok();
        eventually(SOON, "the custom resource is served", served)
            .await
            .unwrap();
    }

    /// A custom resource of `replicas` pods.
    pub(crate) async fn custom(&self, kind: &str, name: &str, replicas: i64) -> Value {
        self.create(json!({"kind": kind, "metadata": {"name": name}, "spec": {"replicas": replicas}}))
            .await
    }

    /// Asks the eviction API; the code of the answer. The pod stays with a deletionTimestamp: no kubelet ends it.
    pub(crate) async fn evict(&self, pod: &str) -> u16 {
        self.evict_with(pod, json!({})).await
    }

    /// The same of a pod that is gone at once.
    pub(crate) async fn evict_at_once(&self, pod: &str) -> u16 {
        self.evict_with(pod, json!({"gracePeriodSeconds": 0})).await
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

    /// Waits so long until the status has these numbers.
    pub(crate) async fn until_late(&self, pdb: &str, numbers: Numbers, within: Duration) {
        let mut seen = Value::Null;
        let there = async || {
            seen = self.status(pdb).await;
            (Numbers::of(&seen) == numbers).then_some(())
        };
        let in_time = eventually(within, "the status", there).await;
        assert!(in_time.is_ok(), "{pdb} is not {numbers:?} but {seen:#}");
    }

    /// Waits until the condition `DisruptionAllowed` has this status, reason and message.
    pub(crate) async fn until_condition(&self, pdb: &str, condition: &str) {
        let mut seen = Value::Null;
        let there = async || {
            seen = self.status(pdb).await;
            (self::condition(&seen) == condition).then_some(())
        };
        let in_time = eventually(SOON, "the condition", there).await;
        assert!(in_time.is_ok(), "{pdb} is not {condition:?} but {seen:#}");
    }

    /// Waits until an event says so: object, type, reason and message begin with `line`.
    pub(crate) async fn until_event(&self, line: &str) {
        let mut seen = Vec::new();
        let there = async || {
            seen = self.events().await;
            seen.iter().any(|event| event.starts_with(line)).then_some(())
        };
        let in_time = eventually(SOON, "the event", there).await;
        assert!(in_time.is_ok(), "none is {line:?}: {seen:#?}");
    }

    /// Object, type, reason and message of each event, as `kubectl get events` has them.
    pub(crate) async fn events(&self) -> Vec<String> {
        let events = self.all("Event").await;
        let line = |event: &Value| {
            let parts = [
                &event["involvedObject"]["name"],
                &event["type"],
                &event["reason"],
                &event["message"],
            ];
            parts.map(|part| part.as_str().unwrap_or_default()).join(" ")
        };
        events.iter().map(line).collect()
    }

    /// What the audit log holds, in order of the answers.
    pub(crate) fn requests(&self) -> Vec<Asked> {
        audit::requests(&self.control_plane)
    }

    /// The newest patch of this object that was answered `since` then; `ours` says whether it is ours.
    ///
    /// The audit log may trail what a read shows.
    pub(crate) async fn patched(&self, resource: &str, name: &str, ours: bool, since: Timestamp) -> Asked {
        let logged = async || {
            let newest_first = self.requests().into_iter().rev();
            let mut these = newest_first.filter(|asked| asked.is("patch", resource) && asked.name == name);
            these.find(|asked| asked.is_by(NAME) == ours && asked.answered >= since)
        };
        let what = format!("a patch of {resource} {name} since {since} is in the audit log");
        eventually(SOON, &what, logged).await.unwrap()
    }
}

/// Whether we wrote the status of a budget.
pub(crate) fn writes_a_status(asked: &Asked) -> bool {
    asked.is_by(NAME) && asked.is("patch", "poddisruptionbudgets/status")
}

impl Numbers {
    pub(crate) fn of(status: &Value) -> Self {
        let number = |field: &str| status[field].as_i64().unwrap_or_default();
        numbers(
            number("disruptionsAllowed"),
            number("currentHealthy"),
            number("desiredHealthy"),
            number("expectedPods"),
        )
    }
}

pub(crate) fn numbers(allowed: i64, current: i64, desired: i64, expected: i64) -> Numbers {
    Numbers {
        allowed,
        current,
        desired,
        expected,
    }
}

/// Status, reason and message of the condition `DisruptionAllowed`.
pub(crate) fn condition(status: &Value) -> String {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let ours = conditions.find(|condition| condition["type"] == "DisruptionAllowed");
    let Some(ours) = ours else { return String::new() };
    let text = ["status", "reason", "message"].map(|field| ours[field].as_str().unwrap_or_default());
    text.join(" ").trim_end().to_owned()
}

/// What the kubelet says of a pod that runs.
pub(crate) async fn set_ready(pods: &Api<Pod>, pod: &str, ready: bool) -> kube::Result<()> {
    let ready = if ready { "True" } else { "False" };
    let patch = json!({"status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": ready}],
    }});
    let patch = Patch::Strategic(patch);
    pods.patch_status(pod, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// A reference to `object` as its controller.
fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "controller": true,
    })
}

fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" => ("apps", "v1"),
        "PodDisruptionBudget" => ("policy", "v1"),
        "CustomResourceDefinition" => ("apiextensions.k8s.io", "v1"),
        "Widget" | "Gadget" | "Sprocket" => ("example.com", "v1"),
        _ => ("", "v1"),
    };
    let plural = format!("{}s", kind.to_lowercase());
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural)
}

fn with_version(mut object: Value) -> Value {
    let kind = object["kind"].as_str().unwrap();
    object["apiVersion"] = json!(resource(kind).api_version);
    object
}

/// Waits until a process has ended well; what it printed.
pub(crate) async fn ended_well(process: &mut Process) -> String {
    let ended = process.wait_exit(SOON * 3).await.unwrap();
    assert_eq!(ended.code(), Some(0), "{}", process.log());
    process.log()
}

pub(crate) fn now() -> Timestamp {
    Clock::system().now()
}

/// As the API server writes times.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub(crate) fn after(time: Timestamp, span: Duration) -> Timestamp {
    saturating_add(time, span)
}
