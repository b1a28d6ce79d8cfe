//! Pods, templates and claims on the embedded API server, next to our loop; the tests act as scheduler and kubelet.
//! Time is tokio's, paused.

use std::collections::BTreeMap;
use std::time::Duration;

use controller_testing::objects::{each, name, text, uid};
use controller_testing::seeded_bugs::{answered, answered_late, between, found_as, send};
use controller_testing::{Running, Start};
use embedded_apiserver::{POD_GROUPS, PODS, RESOURCE_CLAIMS};
use http::Method;
use http::request::Parts;
use resourceclaim_controller::ResourceClaimController;
use resourceclaim_controller::config::Config;
use resourceclaim_controller::pod_group::GroupVersion;
use serde_json::{Value, json};

pub(crate) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

// No limits: they are not what these tests are about.
controller_testing::world!(ResourceClaimController, &PODS, limits: (0.0, 0));

impl World {
    /// With the template `t`.
    pub(crate) fn with_template() -> Self {
        let world = Self::new();
        world.template("t");
        world
    }

    /// With `PodGroups`.
    pub(crate) fn with_groups() -> Self {
        let world = Self::new();
        world.server.serve(&POD_GROUPS);
        world
    }

    /// Starts our process; answers to its creates arrive `late` after they are carried out.
    pub(crate) fn start_with_late_answers(&self, late: Duration) -> Running {
        let client = answered_late(self.client(), &self.clock, late, |head| {
            head.method == Method::POST
        });
        process().start(client, &self.clock)
    }

    /// Starts our process; to it the API server serves `PodGroups` in `v1alpha2` alone, like that of Kubernetes 1.36.
    pub(crate) fn start_on_alpha_groups(&self, start: Start<Config>) -> Running {
        let served = GroupVersion::V1Beta1.api_version();
        let client = between(self.client(), move |client, mut head, body| async move {
            let path = head.uri.to_string();
            let asked = GroupVersion::V1Alpha2.api_version();
            if path == "/apis/scheduling.k8s.io" {
                let version = json!({ "groupVersion": asked, "version": "v1alpha2" });
                let group = json!({ "kind": "APIGroup", "name": "scheduling.k8s.io", "versions": [version] });
                return Ok(found_as(&group));
            }
            assert!(!path.contains(served), "{path}");
            let (path, mut body) = (path.replace(asked, served), body);
            if path.contains(served) {
                body = String::from_utf8_lossy(&body).replace(asked, served).into_bytes();
            }
            head.uri = path.parse().unwrap();
            send(&client, head, body).await
        });
        start.start(client, &self.clock)
    }

    /// Starts our process; to it the API server has another version.
    pub(crate) fn start_on(&self, version: &Value, start: Start<Config>) -> Running {
        let version = version.clone();
        let is_asked = |head: &Parts| head.uri.path() == "/version";
        let client = answered(self.client(), move |head| {
            is_asked(head).then(|| found_as(&version))
        });
        start.start(client, &self.clock)
    }

    pub(crate) fn template(&self, name: &str) {
        self.template_of(name, &json!({ "devices": { "requests": [request()] } }));
    }

    pub(crate) fn template_of(&self, name: &str, spec: &Value) {
        self.insert(json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": { "name": name },
            "spec": { "spec": spec },
        }));
    }

    /// Creates the user's own claim.
    pub(crate) fn claim(&self, name: &str) {
        self.insert(claim(&json!({ "name": name })));
    }

    /// Creates a pod on no node, with an entry `gpu` from the template `t`; returns its uid.
    pub(crate) fn pod(&self, name: &str) -> String {
        self.pod_of(name, &[made("gpu", "t")])
    }

    pub(crate) fn pod_of(&self, name: &str, entries: &[Value]) -> String {
        self.pod_with(name, &json!({ "resourceClaims": entries, "containers": [] }))
    }

    pub(crate) fn pod_with(&self, name: &str, spec: &Value) -> String {
        uid(&self.insert(pod(name, spec)))
    }

    pub(crate) fn edit_claim(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.edit_of(&RESOURCE_CLAIMS, name, edit);
    }

    /// As the scheduler: allocates the claim for these pods, and protects it.
    pub(crate) fn allocate(&self, claim: &str, pods: &[&str]) {
        let reserved: Vec<_> = pods.iter().map(|pod| self.consumer(pod)).collect();
        self.edit_claim(claim, |claim| {
            claim["metadata"]["finalizers"] = json!([FINALIZER]);
            claim["status"]["allocation"] = allocation();
            claim["status"]["reservedFor"] = json!(reserved);
        });
    }

    pub(crate) fn consumer(&self, pod: &str) -> Value {
        json!({ "resource": "pods", "name": pod, "uid": self.uid(pod) })
    }

    /// As the scheduler: binds the pod.
    pub(crate) fn bind(&self, pod: &str) {
        self.edit(pod, |pod| pod["spec"]["nodeName"] = json!("n"));
    }

    /// As the scheduler: allocates the pod's claims for it, then binds it.
    pub(crate) fn schedule(&self, pod: &str) {
        for claim in self.claims_of(pod).values() {
            self.allocate(claim, &[pod]);
        }
        self.bind(pod);
    }

    /// As the kubelet: the pod has ended.
    pub(crate) fn finish(&self, pod: &str) {
        self.edit(pod, |pod| pod["status"]["phase"] = json!("Succeeded"));
    }

    pub(crate) fn delete_claim(&self, name: &str) {
        self.delete_of(&RESOURCE_CLAIMS, name);
    }

    pub(crate) fn get_claim(&self, name: &str) -> Value {
        self.get_of(&RESOURCE_CLAIMS, name)
    }

    /// The names of all claims.
    pub(crate) fn claims(&self) -> Vec<String> {
        self.server.list(&RESOURCE_CLAIMS).iter().map(name).collect()
    }

    /// The claims that the pod's status names, by entry.
    pub(crate) fn claims_of(&self, pod: &str) -> BTreeMap<String, String> {
        claims_of(&self.get(pod))
    }

    /// The claim of the pod's entry `gpu`.
    pub(crate) fn claim_of(&self, pod: &str) -> String {
        self.claims_of(pod)["gpu"].clone()
    }

    /// The names of the claim's consumers.
    pub(crate) fn reserved(&self, claim: &str) -> Vec<String> {
        let claim = self.get_claim(claim);
        each(&claim["status"]["reservedFor"])
            .map(|consumer| text(&consumer["name"]))
            .collect()
    }

    pub(crate) fn is_allocated(&self, claim: &str) -> bool {
        self.get_claim(claim)["status"]["allocation"].is_object()
    }

    pub(crate) fn is_protected(&self, claim: &str) -> bool {
        self.get_claim(claim)["metadata"]["finalizers"].is_array()
    }
}

/// Our process with these gates.
pub(crate) fn gated(gates: &str) -> Start<Config> {
    process().configured(|config| config.feature_gates = Some(gates.to_owned()))
}

/// An entry whose claim is made from a template.
pub(crate) fn made(name: &str, template: &str) -> Value {
    json!({ "name": name, "resourceClaimTemplateName": template })
}

/// An entry with the user's own claim.
pub(crate) fn own(name: &str, claim: &str) -> Value {
    json!({ "name": name, "resourceClaimName": claim })
}

pub(crate) fn request() -> Value {
    json!({ "name": "r", "exactly": { "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1 } })
}

pub(crate) fn claim(metadata: &Value) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata,
        "spec": { "devices": { "requests": [request()] } },
    })
}

pub(crate) fn pod(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec,
        "status": { "phase": "Pending" },
    })
}

pub(crate) fn pod_group(name: &str, entries: &[Value]) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": { "name": name },
        "spec": { "schedulingPolicy": { "basic": {} }, "resourceClaims": entries },
    })
}

/// The claims in the status of a pod or a group, by entry.
pub(crate) fn claims_of(pod: &Value) -> BTreeMap<String, String> {
    let statuses = each(&pod["status"]["resourceClaimStatuses"]);
    statuses
        .map(|status| (text(&status["name"]), text(&status["resourceClaimName"])))
        .collect()
}

pub(crate) fn allocation() -> Value {
    let device = json!({ "request": "r", "driver": "gpu.example.com", "pool": "node", "device": "gpu-0" });
    json!({ "devices": { "results": [device] } })
}
