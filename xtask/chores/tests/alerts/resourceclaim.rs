//! Pods whose claim is made from a template: they are scheduled with it, finish, and go.

use futures::FutureExt;
use resourceclaim_controller::ResourceClaimController;
use serde_json::{Value, json};
use testkit::embedded::{self, Actors, PODS, RESOURCE_CLAIMS, Server, Verb};

use crate::cluster::{Controller, TICK, start};
use crate::faults::{Fault, writes};

/// One pod is created as often as this.
const TICKS_A_POD: u64 = 2;
/// When a pod finishes, and when it is deleted, after it was created.
const FINISHES: u64 = 60 / TICK.as_secs();
const GOES: u64 = 120 / TICK.as_secs();

pub(crate) const CONTROLLER: Controller = Controller {
    name: "resourceclaim-controller",
    start: start::<ResourceClaimController>,
    prepare: |server| {
        let template = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "t"},
            "spec": {"spec": {"devices": {"requests": [
                {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}},
            ]}}},
        });
        server.insert(template).unwrap();
    },
    actors: || Actors::new().garbage_collector(),
    load: |server, tick| async move { load(&server, tick) }.boxed(),
    faults: FAULTS,
};

const FAULTS: &[Fault] = &[
    Fault {
        name: "a finalizer keeps a deleted claim",
        begin: |cluster| {
            let claim = json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": {"name": "held", "finalizers": ["example.com/hold"]},
                "spec": {"devices": {"requests": []}},
            });
            cluster.server.insert(claim).unwrap();
            cluster
                .server
                .delete(&RESOURCE_CLAIMS, "default", "held")
                .unwrap();
        },
        told_by: &["ClaimsStuck"],
    },
    Fault {
        name: "a quota refuses new claims",
        begin: |cluster| {
            let refused = writes(cluster, embedded::Fault::status(403, "Forbidden"));
            cluster.server.fail(refused.verb(Verb::Create));
        },
        told_by: &["CreatesFail", "RequestsRefused", "RetriesGrow"],
    },
];

fn load(server: &Server, tick: u64) {
    if !tick.is_multiple_of(TICKS_A_POD) {
        return;
    }
    server
        .insert(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name(tick)},
            "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}], "containers": []},
            "status": {"phase": "Pending"},
        }))
        .unwrap();
    for pod in server.list(&PODS) {
        schedule(server, &pod);
    }
    if let Some(finished) = tick.checked_sub(FINISHES) {
        edit_pod(server, &name(finished), |pod| {
            pod["status"]["phase"] = json!("Succeeded");
        });
    }
    if let Some(gone) = tick.checked_sub(GOES) {
        server.delete(&PODS, "default", &name(gone)).unwrap();
    }
}

/// As the scheduler: allocates the claim that was made for the pod, and binds it.
fn schedule(server: &Server, pod: &Value) {
    let metadata = &pod["metadata"];
    let Some(claim) = pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"].as_str() else {
        return;
    };
    if pod["spec"]["nodeName"].is_string() {
        return;
    }
    let allocate = |claim: &mut Value| {
        claim["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
        claim["status"]["allocation"] = json!({"devices": {"results": [
            {"request": "r", "driver": "gpu.example.com", "pool": "node", "device": "gpu-0"},
        ]}});
        claim["status"]["reservedFor"] =
            json!([{"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}]);
    };
    server.edit(&RESOURCE_CLAIMS, "default", claim, allocate).unwrap();
    let name = metadata["name"].as_str().unwrap();
    edit_pod(server, name, |pod| pod["spec"]["nodeName"] = json!("n"));
}

fn edit_pod(server: &Server, name: &str, edit: impl FnOnce(&mut Value)) {
    server.edit(&PODS, "default", name, edit).unwrap();
}

fn name(number: u64) -> String {
    format!("pod-{number}")
}
