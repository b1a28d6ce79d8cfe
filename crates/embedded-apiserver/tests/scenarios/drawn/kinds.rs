//! The kinds whose objects sequences are about, with what is drawn of each.

use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

pub(super) struct Kind {
    pub(super) plural: &'static str,
    pub(super) name: &'static str,
    pub(super) api_version: &'static str,
    /// An object but for its metadata.
    pub(super) body: fn(&mut StdRng) -> Value,
    /// A status, where there is one.
    pub(super) status: Option<fn(&mut StdRng) -> Value>,
}

impl Kind {
    /// The path of its objects in a namespace.
    pub(super) fn collection(&self, namespace: &str) -> String {
        let group = if self.api_version == "v1" { "api" } else { "apis" };
        format!(
            "/{group}/{}/namespaces/{namespace}/{}",
            self.api_version, self.plural
        )
    }
}

pub(super) const KINDS: [Kind; 6] = [
    Kind {
        plural: "configmaps",
        name: "ConfigMap",
        api_version: "v1",
        body: config_map,
        status: None,
    },
    Kind {
        plural: "pods",
        name: "Pod",
        api_version: "v1",
        body: pod,
        status: Some(pod_status),
    },
    Kind {
        plural: "leases",
        name: "Lease",
        api_version: "coordination.k8s.io/v1",
        body: lease,
        status: None,
    },
    Kind {
        plural: "resourceclaimtemplates",
        name: "ResourceClaimTemplate",
        api_version: "resource.k8s.io/v1",
        body: template,
        status: None,
    },
    Kind {
        plural: "poddisruptionbudgets",
        name: "PodDisruptionBudget",
        api_version: "policy/v1",
        body: budget,
        status: Some(budget_status),
    },
    Kind {
        plural: "resourceclaims",
        name: "ResourceClaim",
        api_version: "resource.k8s.io/v1",
        body: claim,
        status: Some(claim_status),
    },
];

fn one_of(rng: &mut StdRng, all: &[Value]) -> Value {
    all.choose(rng).unwrap().clone()
}

fn config_map(rng: &mut StdRng) -> Value {
    let data = [
        json!({"k": "v"}),
        json!({"k": "w", "j": ""}),
        json!({}),
        json!({"k": null}),
    ];
    json!({"data": one_of(rng, &data)})
}

/// Nothing else of a pod's spec may change.
fn pod(rng: &mut StdRng) -> Value {
    let image = one_of(rng, &[json!("i"), json!("i"), json!("j")]);
    json!({"spec": {"containers": [{"name": "c", "image": image}], "terminationGracePeriodSeconds": 1}})
}

fn pod_status(rng: &mut StdRng) -> Value {
    let ready = |ready| json!([{"type": "Ready", "status": ready}]);
    let conditions = [ready("True"), ready("False"), json!([]), json!(null)];
    let phase = [json!("Running"), json!("Succeeded"), json!("Pending")];
    json!({"phase": one_of(rng, &phase), "conditions": one_of(rng, &conditions)})
}

fn lease(rng: &mut StdRng) -> Value {
    let times = [
        json!("2020-01-01T00:00:00.5Z"),
        json!("2020-01-01T00:00:00Z"),
        json!("2020-01-01T02:00:00.000001+02:00"),
    ];
    let all = [
        json!({"holderIdentity": "h"}),
        json!({"holderIdentity": "", "leaseDurationSeconds": 15}),
        json!({"leaseDurationSeconds": 0}),
        json!({"leaseDurationSeconds": -1, "leaseTransitions": -1}),
        json!({"renewTime": one_of(rng, &times), "leaseTransitions": 2}),
        json!({"holderIdentity": "h", "acquireTime": one_of(rng, &times)}),
    ];
    json!({"spec": one_of(rng, &all)})
}

fn template(rng: &mut StdRng) -> Value {
    json!({"spec": {"metadata": {"labels": {"l": one_of(rng, &[json!("x"), json!("y")])}}, "spec": {"devices": {}}}})
}

fn budget(rng: &mut StdRng) -> Value {
    let amounts = [json!(0), json!(1), json!("50%"), json!(-1)];
    let selectors = [
        json!({"matchLabels": {"l": "x"}}),
        json!({}),
        json!({"matchExpressions": [{"key": "l", "operator": "Exists"}]}),
    ];
    let mut spec = json!({"selector": one_of(rng, &selectors)});
    spec["minAvailable"] = one_of(rng, &amounts);
    if rng.random_ratio(1, 10) {
        spec["unhealthyPodEvictionPolicy"] = one_of(
            rng,
            &[json!("AlwaysAllow"), json!("IfHealthyBudget"), json!("Never")],
        );
    }
    json!({"spec": spec})
}

fn budget_status(rng: &mut StdRng) -> Value {
    let allowed = rng.random_range(0..3);
    json!({
        "observedGeneration": rng.random_range(0..3), "disruptionsAllowed": allowed, "currentHealthy": 1 + allowed,
        "desiredHealthy": 1, "expectedPods": 1 + allowed,
    })
}

fn claim(rng: &mut StdRng) -> Value {
    let class = one_of(rng, &[json!("c"), json!("d"), json!("no class!")]);
    json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": class}}]}}})
}

fn claim_status(rng: &mut StdRng) -> Value {
    let device = json!({"driver": "gpu.example.com", "pool": "node", "device": "gpu-0", "request": "r"});
    let pod = |name: &str| json!({"resource": "pods", "name": name, "uid": format!("u-{name}")});
    let allocations = [
        json!({"devices": {"results": [device]}}),
        json!({"devices": {"results": []}}),
        json!(null),
    ];
    let reserved = [
        json!(null),
        json!([]),
        json!([pod("p")]),
        json!([pod("p"), pod("q")]),
        json!([pod("p"), pod("p")]),
    ];
    let mut status = json!({"reservedFor": one_of(rng, &reserved)});
    if rng.random_ratio(2, 3) {
        status["allocation"] = one_of(rng, &allocations);
    }
    status
}
