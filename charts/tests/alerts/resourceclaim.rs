//! Pods with a claim from a template: they are scheduled, finish, and are deleted.

use embedded_apiserver::{Actors, PODS, RESOURCE_CLAIMS, RequestVerb, Server};
use futures::FutureExt;
use resourceclaim_controller::ResourceClaimController;
use serde_json::{Value, json};

use crate::cluster::{Controller, TICK, start, start_dry};
use crate::faults::{Fault, LEFT_DRY, leave_dry, writes};

/// Ticks between new pods.
const TICKS_A_POD: u64 = 2;
/// Ticks from the creation of a pod to its end and to its deletion.
const FINISHES: u64 = 60 / TICK.as_secs();
const GOES: u64 = 120 / TICK.as_secs();

/// A pod that is never deleted.
const STAYS: &str = "stays";

pub(crate) const CONTROLLER: Controller = Controller {
    name: "resourceclaim-controller",
    start: start::<ResourceClaimController>,
    start_dry: start_dry::<ResourceClaimController>,
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
            let refused = writes(cluster, embedded_apiserver::Fault::status(403, "Forbidden"));
            cluster.server.fail(refused.verb(RequestVerb::Create));
        },
        told_by: &["CreatesFail", "RequestsRefused", "RetriesGrow"],
    },
    Fault {
        name: "the built-in loop was not switched off, and thinks otherwise",
        begin: |cluster| {
            insert_pod(&cluster.server, STAYS);
            cluster.fault = Some(|server, _| async move { undo(&server) }.boxed());
        },
        told_by: &["RivalWriter"],
    },
    Fault {
        name: LEFT_DRY,
        begin: |cluster| {
            leave_dry(cluster);
            insert_pod(&cluster.server, STAYS);
        },
        told_by: &["ClaimsStuck", "PlannedWritesUndone"],
    },
];

fn load(server: &Server, tick: u64) {
    if !tick.is_multiple_of(TICKS_A_POD) {
        return;
    }
    insert_pod(server, &name(tick));
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

fn insert_pod(server: &Server, name: &str) {
    server
        .insert(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}], "containers": []},
            "status": {"phase": "Pending"},
        }))
        .unwrap();
}

/// What a rival does when it sees the claim that we recorded.
fn undo(server: &Server) {
    edit_pod(server, STAYS, |pod| {
        pod["status"]["resourceClaimStatuses"] = json!([]);
    });
}

/// As the scheduler does: allocates the pod's claim and binds the pod.
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
