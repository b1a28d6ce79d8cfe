//! A node with devices, pods that claim them, and our binary as a process beside kube-scheduler.

use std::collections::BTreeMap;
use std::path::PathBuf;

use harness::audit::{self, Asked};
use harness::chart::Chart;
use harness::rights::grant;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use testkit::real::{AuditLevel, ControlPlane, Options, Process, eventually};

use crate::kubelet::Kubelet;

pub(crate) use harness::{Replica, SOON};

pub(crate) const NAME: &str = "resourceclaim-controller";
pub(crate) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
pub(crate) const CLAIM_OF: &str = "resource.kubernetes.io/pod-claim-name";
/// The one class of devices, and what pods call them that ask for a number of them.
pub(crate) const CLASS: &str = "gpu";
pub(crate) const EXTENDED: &str = "example.com/gpu";
pub(crate) const NODE: &str = "n";
/// The template of [`Cluster::template`].
pub(crate) const TEMPLATE: &str = "one-gpu";
const DRIVER: &str = "gpu.example.com";
/// As many devices as one slice may hold.
const SLICE: usize = 128;
/// Has our binary make claims for groups of pods.
pub(crate) const GROUPS: &str = "--feature-gates=DRAWorkloadResourceClaims=true";
/// What puts the loop of kube-controller-manager in the place of our binary.
const BUILT_IN: &str = "RESOURCECLAIM_CONTROLLER_BUILT_IN";

pub(crate) struct Cluster {
    pub(crate) control_plane: ControlPlane,
    /// Of the service account.
    pub(crate) kubeconfig: PathBuf,
    pub(crate) kubelet: Kubelet,
    setup: Setup,
    _scheduler: Process,
    _manager: Process,
}

/// How a cluster differs from the plain one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) devices: usize,
    /// Whether claims are made for groups of pods.
    pub(crate) groups: bool,
    /// Whether whoever binds claims needs a right of its own.
    pub(crate) granular: bool,
}

/// The process under test.
pub(crate) enum Controller {
    Ours(Replica),
    BuiltIn { _process: Process },
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            devices: 16,
            groups: false,
            granular: true,
        }
    }
}

impl Setup {
    /// The chart with the values that it takes.
    pub(crate) const fn chart(self) -> Chart {
        let chart = Chart::of(NAME);
        if self.groups {
            chart.rendered_as("groups.golden.yaml")
        } else {
            chart
        }
    }
}

/// What the chart gives in the whole cluster, but for the right that counts inside another one.
pub(crate) fn rules_without_binding() -> Value {
    let mut rules = Setup::default().chart().rules();
    let all = rules.as_array_mut().unwrap();
    let count = all.len();
    all.retain(|rule| rule["resources"] != json!(["resourceclaims/binding"]));
    assert_eq!(all.len(), count - 1);
    rules
}

/// The binary under test; `RESOURCECLAIM_CONTROLLER_BINARY` names another build of it.
fn binary() -> PathBuf {
    std::env::var_os("RESOURCECLAIM_CONTROLLER_BINARY").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_resourceclaim-controller")),
        PathBuf::from,
    )
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    /// A node with devices, a scheduler, and the garbage collector.
    pub(crate) async fn with(setup: Setup) -> Self {
        let mut options = Options {
            audit: Some(AuditLevel::Metadata),
            ..Options::default()
        };
        if setup.groups {
            options.alpha_apis = vec!["scheduling.k8s.io/v1alpha2"];
            options.feature_gates = vec![
                "GenericWorkload=true",
                "GangScheduling=true",
                "DRAWorkloadResourceClaims=true",
            ];
        }
        if !setup.granular {
            options
                .feature_gates
                .push("DRAResourceClaimGranularStatusAuthorization=false");
        }
        let control_plane = ControlPlane::start(options).await.unwrap();
        let kubeconfig = setup.chart().install(&control_plane).await;
        if !setup.granular {
            grant(&control_plane, NAME, rules_without_binding()).await;
        }
        let mut controllers = vec!["garbage-collector-controller"];
        if setup.groups {
            controllers.push("podgroup-protection-controller");
        }
        let manager = control_plane.start_controller_manager(&controllers, &[]).unwrap();
        let scheduler = control_plane.start_scheduler(&[]).unwrap();
        let kubelet = Kubelet::start(&control_plane);
        let cluster = Self {
            control_plane,
            kubeconfig,
            kubelet,
            setup,
            _scheduler: scheduler,
            _manager: manager,
        };
        cluster.furnish(setup.devices).await;
        cluster
    }

    /// The node and its devices.
    async fn furnish(&self, devices: usize) {
        let room = json!({"cpu": "1000", "memory": "1000Gi", "pods": "10000"});
        let node = json!({"kind": "Node", "metadata": {"name": NODE}});
        self.create(node).await;
        let status = json!({
            "allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}],
        });
        self.merge_status("Node", NODE, status).await;
        // Admission has tainted it as not ready.
        self.merge("Node", NODE, json!({"spec": {"taints": null}})).await;
        let expression = format!("device.driver == '{DRIVER}'");
        self.create(json!({
            "kind": "DeviceClass", "metadata": {"name": CLASS},
            "spec": {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": EXTENDED},
        }))
        .await;
        let all: Vec<Value> = (0..devices)
            .map(|number| json!({"name": format!("gpu-{number}")}))
            .collect();
        let slices = all.chunks(SLICE);
        for (number, slice) in slices.clone().enumerate() {
            self.create(json!({
                "kind": "ResourceSlice", "metadata": {"name": format!("{NODE}-{number}")},
                "spec": {
                    "driver": DRIVER, "nodeName": NODE, "devices": slice,
                    "pool": {"name": NODE, "generation": 1, "resourceSliceCount": slices.len()},
                },
            }))
            .await;
        }
        let admins = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
        self.merge("Namespace", "default", admins).await;
    }

    /// Our binary on the rights of the service account.
    pub(crate) fn spawn(&self, args: &[&str]) -> Replica {
        Replica::start(&binary(), &self.kubeconfig, args)
    }

    /// The same, leading and with full caches.
    pub(crate) async fn start(&self, args: &[&str]) -> Replica {
        let replica = self.spawn(args);
        replica.until_ready().await;
        replica.until_leading().await;
        replica
    }

    /// What scenarios are about that hold for the loop of kube-controller-manager too, or ought to.
    pub(crate) async fn controller(&self) -> Controller {
        if std::env::var_os(BUILT_IN).is_none() {
            let gates: &[&str] = if self.setup.groups { &[GROUPS] } else { &[] };
            return Controller::Ours(self.start(gates).await);
        }
        let process = self.control_plane.start_controller_manager(&[NAME], &[]);
        Controller::BuiltIn {
            _process: process.unwrap(),
        }
    }

    /// What `explain` prints.
    pub(crate) async fn explain(&self, object: &str) -> String {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig.display());
        let object = format!("default/{object}");
        let mut explain = Process::spawn(&binary(), &["explain", &object, &kubeconfig], &[]).unwrap();
        let ended = explain.wait_exit(SOON).await.unwrap();
        assert_eq!(ended.code(), Some(0), "{}", explain.log());
        explain.log()
    }

    /// The objects of a kind, in the namespace `default` where it has namespaces.
    pub(crate) fn api(&self, kind: &str) -> Api<DynamicObject> {
        let client = self.control_plane.client();
        let resource = resource(kind);
        match kind {
            "Node" | "DeviceClass" | "ResourceSlice" | "Namespace" => Api::all_with(client, &resource),
            _ => Api::default_namespaced_with(client, &resource),
        }
    }

    /// Makes an object; it has a `kind`.
    pub(crate) async fn create(&self, mut object: Value) -> Value {
        let kind = object["kind"].as_str().unwrap().to_owned();
        object["apiVersion"] = json!(resource(&kind).api_version);
        let object = serde_json::from_value(object).unwrap();
        let created = self.api(&kind).create(&PostParams::default(), &object).await;
        serde_json::to_value(created.unwrap()).unwrap()
    }

    pub(crate) async fn find(&self, kind: &str, name: &str) -> Option<Value> {
        let found = self.api(kind).get_opt(name).await.unwrap()?;
        Some(serde_json::to_value(found).unwrap())
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.find(kind, name).await;
        found.unwrap_or_else(|| panic!("{kind} {name} is not there"))
    }

    /// All of a kind.
    pub(crate) async fn all(&self, kind: &str) -> Vec<Value> {
        let all = self.api(kind).list(&ListParams::default()).await.unwrap();
        let values = all.into_iter().map(serde_json::to_value);
        values.map(Result::unwrap).collect()
    }

    pub(crate) async fn merge(&self, kind: &str, name: &str, patch: Value) {
        let (api, params) = (self.api(kind), PatchParams::default());
        api.patch(name, &params, &Patch::Merge(patch)).await.unwrap();
    }

    /// A merge patch of the status.
    pub(crate) async fn merge_status(&self, kind: &str, name: &str, status: Value) {
        let (api, params) = (self.api(kind), PatchParams::default());
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &params, &patch).await.unwrap();
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        let params = DeleteParams::default();
        self.api(kind).delete(name, &params).await.unwrap();
    }

    /// As `kubectl delete --force` does.
    pub(crate) async fn force_delete(&self, pod: &str) {
        let params = DeleteParams::default().grace_period(0);
        self.api("Pod").delete(pod, &params).await.unwrap();
    }

    /// A template for one device.
    pub(crate) async fn template(&self) {
        let request = json!({"name": "r", "exactly": {"deviceClassName": CLASS}});
        self.template_of(TEMPLATE, request).await;
    }

    pub(crate) async fn template_of(&self, name: &str, request: Value) {
        self.create(json!({
            "kind": "ResourceClaimTemplate", "metadata": {"name": name},
            "spec": {
                "metadata": {"labels": {"from": name}, "annotations": {"from": name}},
                "spec": {"devices": {"requests": [request]}},
            },
        }))
        .await;
    }

    /// A user's claim for one device.
    pub(crate) async fn claim(&self, name: &str) -> Value {
        let request = json!({"name": "r", "exactly": {"deviceClassName": CLASS}});
        self.create(json!({
            "kind": "ResourceClaim", "metadata": {"name": name}, "spec": {"devices": {"requests": [request]}},
        }))
        .await
    }

    /// A pod with these entries of `resourceClaims`.
    pub(crate) async fn pod(&self, name: &str, entries: &[Value]) -> Value {
        self.create(pod(name, entries)).await
    }

    /// Has a pod end well.
    pub(crate) async fn finish(&self, pod: &str) {
        self.merge_status("Pod", pod, json!({"phase": "Succeeded"})).await;
    }

    /// Waits until the kubelet runs a pod.
    pub(crate) async fn until_running(&self, pod: &str) {
        self.until_is("Pod", pod, "it runs", |pod| pod["status"]["phase"] == "Running")
            .await;
    }

    /// Waits until an object is so, and returns it.
    pub(crate) async fn until_is(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        is: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut seen = None;
        let there = async || {
            seen = self.find(kind, name).await;
            seen.clone().filter(&is)
        };
        let found = eventually(SOON, what, there).await.ok();
        found.unwrap_or_else(|| panic!("{kind} {name} is never such that {what}: {seen:#?}"))
    }

    pub(crate) async fn until_gone(&self, kind: &str, name: &str) {
        let mut seen = None;
        let gone = async || {
            seen = self.find(kind, name).await;
            seen.is_none().then_some(())
        };
        let in_time = eventually(SOON, "it is gone", gone).await;
        assert!(in_time.is_ok(), "{kind} {name} stays: {seen:#?}");
    }

    /// The claims that a pod says were made for its entries; waits until there are `count`.
    pub(crate) async fn claims_of(&self, pod: &str, count: usize) -> BTreeMap<String, String> {
        let what = format!("it has {count} claims");
        let pod = self.until_is("Pod", pod, &what, |pod| claims_of(pod).len() == count);
        claims_of(&pod.await)
    }

    /// How many claims there are that are not on their way out.
    pub(crate) async fn count_claims(&self) -> usize {
        let claims = self.all("ResourceClaim").await;
        let stays = |claim: &&Value| claim["metadata"]["deletionTimestamp"].is_null();
        claims.iter().filter(stays).count()
    }

    /// What the audit log holds of our requests, in order of the answers.
    pub(crate) fn requests(&self) -> Vec<Asked> {
        audit::requests_of(&self.control_plane, NAME)
    }
}

impl Controller {
    pub(crate) async fn stop(self) {
        if let Self::Ours(replica) = self {
            assert_eq!(replica.stop().await, Some(0));
        }
    }
}

pub(crate) fn pod(name: &str, entries: &[Value]) -> Value {
    let used: Vec<Value> = entries
        .iter()
        .map(|entry| json!({"name": entry["name"]}))
        .collect();
    json!({
        "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "resourceClaims": entries,
            "containers": [{"name": "c", "image": "i", "resources": {"claims": used}}],
        },
    })
}

/// An entry of a pod for which a claim is made.
pub(crate) fn made(name: &str) -> Value {
    made_from(name, TEMPLATE)
}

pub(crate) fn made_from(name: &str, template: &str) -> Value {
    json!({"name": name, "resourceClaimTemplateName": template})
}

/// An entry of a pod that names a claim.
pub(crate) fn named(name: &str, claim: &str) -> Value {
    json!({"name": name, "resourceClaimName": claim})
}

/// The claims in the status of a pod or a group, by entry.
pub(crate) fn claims_of(object: &Value) -> BTreeMap<String, String> {
    let statuses = object["status"]["resourceClaimStatuses"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let statuses = statuses.into_iter().flatten();
    statuses
        .map(|status| (text(&status["name"]), text(&status["resourceClaimName"])))
        .collect()
}

/// The uids that a claim is reserved for.
pub(crate) fn reserved_for(claim: &Value) -> Vec<&str> {
    let reserved = claim["status"]["reservedFor"].as_array();
    let uids = reserved.into_iter().flatten();
    uids.filter_map(|consumer| consumer["uid"].as_str()).collect()
}

/// Its finalizer stays for five minutes.
pub(crate) fn is_free(claim: &Value) -> bool {
    claim["status"]["allocation"].is_null() && reserved_for(claim).is_empty()
}

pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

fn resource(kind: &str) -> ApiResource {
    let (group, version, plural) = match kind {
        "ResourceClaim" => ("resource.k8s.io", "v1", "resourceclaims"),
        "ResourceClaimTemplate" => ("resource.k8s.io", "v1", "resourceclaimtemplates"),
        "ResourceSlice" => ("resource.k8s.io", "v1", "resourceslices"),
        "DeviceClass" => ("resource.k8s.io", "v1", "deviceclasses"),
        "PodGroup" => ("scheduling.k8s.io", "v1alpha2", "podgroups"),
        "Pod" => ("", "v1", "pods"),
        "Node" => ("", "v1", "nodes"),
        "Namespace" => ("", "v1", "namespaces"),
        "Event" => ("events.k8s.io", "v1", "events"),
        other => panic!("{other} is not known"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}
