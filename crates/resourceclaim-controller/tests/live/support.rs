//! A node with devices, pods that claim them, and our binary as a process next to kube-scheduler.

use std::collections::BTreeMap;
use std::ops::Deref;

use controller_testing::chart::Chart;
use controller_testing::cluster::{self, audited};
use controller_testing::objects::{each, stays, text};
use local_control_plane::Process;
use serde_json::{Value, json};

use crate::kubelet::Kubelet;

pub(crate) use controller_testing::{Replica, SOON};

pub(crate) const NAME: &str = "resourceclaim-controller";
pub(crate) const BUILT: &str = env!("CARGO_BIN_EXE_resourceclaim-controller");
pub(crate) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
pub(crate) const CLAIM_OF: &str = "resource.kubernetes.io/pod-claim-name";
/// The only class of devices; [`EXTENDED`] is its name in pods that request a number of devices.
pub(crate) const CLASS: &str = "gpu";
pub(crate) const EXTENDED: &str = "example.com/gpu";
pub(crate) const NODE: &str = "n";
/// The template of [`Cluster::template`].
pub(crate) const TEMPLATE: &str = "one-gpu";
const DRIVER: &str = "gpu.example.com";
/// Most devices in one slice.
const SLICE: usize = 128;
/// Has our binary make claims for groups of pods.
pub(crate) const GROUPS: &str = "--feature-gates=DRAWorkloadResourceClaims=true";
/// Runs the loop of kube-controller-manager in place of our binary.
const BUILT_IN: &str = "RESOURCECLAIM_CONTROLLER_BUILT_IN";

pub(crate) struct Cluster {
    pub(crate) kubelet: Kubelet,
    setup: Setup,
    _scheduler: Process,
    _manager: Process,
    // Last: the next test may have it once it is dropped.
    common: cluster::Cluster,
}

/// How a cluster differs from the plain one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) devices: usize,
    /// Claims are made for groups of pods.
    pub(crate) groups: bool,
    /// Binding claims needs a permission of its own.
    pub(crate) granular: bool,
}

/// The process under test.
pub(crate) enum Controller {
    Ours(Replica),
    BuiltIn { _process: Process },
}

impl Setup {
    pub(crate) const PLAIN: Self = Self {
        devices: 16,
        groups: false,
        granular: true,
    };

    /// The chart with the values for this setup.
    pub(crate) const fn chart(self) -> Chart {
        let chart = Chart::of(NAME);
        if self.groups {
            chart.rendered_as("groups.golden.yaml")
        } else {
            chart
        }
    }
}

/// The chart's rules for the whole cluster, without the permission that counts inside another one.
pub(crate) fn rules_without_binding() -> Value {
    let mut rules = Setup::PLAIN.chart().rules();
    let all = rules.as_array_mut().unwrap();
    let count = all.len();
    all.retain(|rule| rule["resources"] != json!(["resourceclaims/binding"]));
    assert_eq!(all.len(), count - 1);
    rules
}

impl Deref for Cluster {
    type Target = cluster::Cluster;

    fn deref(&self) -> &Self::Target {
        &self.common
    }
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        Self::with(Setup::PLAIN).await
    }

    /// A node with devices, a scheduler, and the garbage collector.
    pub(crate) async fn with(setup: Setup) -> Self {
        let mut options = audited();
        options.pod_groups = setup.groups;
        options.coarse_claim_status = !setup.granular;
        let common = cluster::Cluster::with(options, setup.chart(), BUILT).await;
        let control_plane = &common.control_plane;
        if !setup.granular {
            common.grant(rules_without_binding()).await;
        }
        let mut controllers = vec!["garbage-collector-controller"];
        if setup.groups {
            controllers.push("podgroup-protection-controller");
        }
        let manager = control_plane.start_controller_manager(&controllers, &[]).unwrap();
        let scheduler = control_plane.start_scheduler(&[]).unwrap();
        let kubelet = Kubelet::start(control_plane);
        let cluster = Self {
            kubelet,
            setup,
            _scheduler: scheduler,
            _manager: manager,
            common,
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
        let device = |number| json!({"name": format!("gpu-{number}")});
        let all: Vec<Value> = (0..devices).map(device).collect();
        let slices = all.chunks(SLICE);
        for (number, slice) in slices.clone().enumerate() {
            let pool = json!({"name": NODE, "generation": 1, "resourceSliceCount": slices.len()});
            self.create(json!({
                "kind": "ResourceSlice", "metadata": {"name": format!("{NODE}-{number}")},
                "spec": {"driver": DRIVER, "nodeName": NODE, "devices": slice, "pool": pool},
            }))
            .await;
        }
        let admins = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
        self.merge("Namespace", "default", admins).await;
    }

    /// The process under test in scenarios that also hold, or ought to, for the loop of kube-controller-manager.
    pub(crate) async fn controller(&self) -> Controller {
        if std::env::var_os(BUILT_IN).is_none() {
            let gates: &[&str] = if self.setup.groups { &[GROUPS] } else { &[] };
            return Controller::Ours(self.start_leading(gates).await);
        }
        let process = self.control_plane.start_controller_manager(&[NAME], &[]);
        Controller::BuiltIn {
            _process: process.unwrap(),
        }
    }

    /// With a template for one device.
    pub(crate) async fn with_template() -> Self {
        let cluster = Self::new().await;
        cluster.template().await;
        cluster
    }

    /// Makes a template for one device.
    pub(crate) async fn template(&self) {
        self.template_of(TEMPLATE, request()).await;
    }

    pub(crate) async fn template_of(&self, name: &str, request: Value) {
        let metadata = json!({"labels": {"from": name}, "annotations": {"from": name}});
        self.create(json!({
            "kind": "ResourceClaimTemplate", "metadata": {"name": name},
            "spec": {"metadata": metadata, "spec": {"devices": {"requests": [request]}}},
        }))
        .await;
    }

    /// Makes a user's claim for one device.
    pub(crate) async fn claim(&self, name: &str) -> Value {
        let spec = json!({"devices": {"requests": [request()]}});
        self.create(json!({"kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}))
            .await
    }

    /// Makes a pod with these entries of `resourceClaims`.
    pub(crate) async fn pod(&self, name: &str, entries: &[Value]) -> Value {
        self.create(pod(name, entries)).await
    }

    /// Ends a pod as succeeded.
    pub(crate) async fn finish(&self, pod: &str) {
        self.merge_status("Pod", pod, json!({"phase": "Succeeded"})).await;
    }

    /// Waits until the kubelet runs a pod.
    pub(crate) async fn until_running(&self, pod: &str) {
        self.until_is("Pod", pod, "it runs", |pod| pod["status"]["phase"] == "Running")
            .await;
    }

    /// The claims recorded in a pod; waits until there are `count`.
    pub(crate) async fn claims_of(&self, pod: &str, count: usize) -> BTreeMap<String, String> {
        let what = format!("it has {count} claims");
        let pod = self.until_is("Pod", pod, &what, |pod| claims_of(pod).len() == count);
        claims_of(&pod.await)
    }

    /// The number of claims that are not being deleted.
    pub(crate) async fn count_claims(&self) -> usize {
        let claims = self.all("ResourceClaim").await;
        claims.iter().filter(|claim| stays(Some(claim))).count()
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
    let used = entries.iter().map(|entry| json!({"name": entry["name"]}));
    let used: Vec<Value> = used.collect();
    json!({
        "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "resourceClaims": entries,
            "containers": [{"name": "c", "image": "i", "resources": {"claims": used}}],
        },
    })
}

fn request() -> Value {
    json!({"name": "r", "exactly": {"deviceClassName": CLASS}})
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
    let claim = |status: &Value| (text(&status["name"]), text(&status["resourceClaimName"]));
    each(&object["status"]["resourceClaimStatuses"])
        .map(claim)
        .collect()
}

/// The uids that a claim is reserved for.
pub(crate) fn reserved_for(claim: &Value) -> Vec<&str> {
    let reserved = each(&claim["status"]["reservedFor"]);
    reserved.filter_map(|consumer| consumer["uid"].as_str()).collect()
}

/// True if the claim is neither allocated nor reserved. Its finalizer stays for five minutes.
pub(crate) fn is_free(claim: &Value) -> bool {
    claim["status"]["allocation"].is_null() && reserved_for(claim).is_empty()
}

pub(crate) fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}
