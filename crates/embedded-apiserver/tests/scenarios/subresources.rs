//! `/status` and `/scale`.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::objects::{containers, job};
use crate::rows;

crate::scenarios![
    a_status_write_of_a_pod_changes_status_and_metadata_but_owners,
    a_status_write_of_a_deployment_leaves_its_labels,
    a_status_write_of_a_claim_leaves_all_metadata,
    a_status_write_of_other_kinds_changes_their_metadata_and_no_generation,
    a_status_write_is_owned_apart_from_the_object,
    a_status_update_must_name_its_object_and_its_version_where_the_object_must,
    a_status_patch_of_another_uid_is_invalid_and_a_stale_one_a_conflict,
    a_status_write_cannot_create,
    status_is_read_replaced_and_patched_only_where_there_is_one,
    the_scale_of_a_deployment_shows_its_replicas_and_selector,
    the_scale_of_every_workload_has_its_selector_as_text,
    scale_is_only_where_there_is_one,
];

/// Message for a write whose uid or version is not the pod's.
pub(crate) const STORAGE: &str = "Operation cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4, Key: \
     /registry/pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: ";

pub(crate) fn pod(name: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "app": "a" } }, "spec": { "containers": containers() } })
}

/// A workload with `replicas: 2` and the labels `app: a` and `tier: b`.
fn workload(name: &str, selector: &Value) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "own": "1" } },
        "spec": {
            "replicas": 2,
            "selector": selector,
            "template": {
                "metadata": { "labels": { "app": "a", "tier": "b" } },
                "spec": { "containers": containers() },
            },
        },
    })
}

fn stateful_set(name: &str, selector: &Value) -> Value {
    let mut set = workload(name, selector);
    set["spec"]["serviceName"] = json!("s");
    set
}

fn deployment(name: &str) -> Value {
    workload(name, &json!({ "matchLabels": { "app": "a" } }))
}

/// A write of `/status` that also tries to change its metadata.
fn greedy(status: &Value) -> Value {
    json!({
        "metadata": {
            "generation": 9,
            "labels": { "new": "1" },
            "annotations": { "new": "1" },
            "finalizers": ["x/y"],
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u" }],
        },
        "status": status,
    })
}

/// The metadata fields that [`greedy`] changed.
fn changed(object: &Value) -> Vec<&str> {
    let metadata = &object["metadata"];
    let is_changed = |field: &&str| match *field {
        "labels" | "annotations" => metadata[field]["new"] == "1",
        other => metadata.get(other).is_some(),
    };
    let fields = ["labels", "annotations", "finalizers", "ownerReferences"];
    fields.into_iter().filter(is_changed).collect()
}

async fn a_status_write_of_a_pod_changes_status_and_metadata_but_owners(client: Client) {
    let created = create(&client, PODS, pod("p")).await;
    assert_eq!(created["status"]["phase"], "Pending");
    let mut write = greedy(&json!({ "phase": "Running" }));
    write["spec"] = json!({ "nodeName": "elsewhere" });
    let uri = format!("{PODS}/p");
    let written = merge(&client, format!("{uri}/status"), write).await;
    written.shows(
        json!({ "kind": "Pod", "status.phase": "Running", "spec.nodeName": null, "metadata.generation": 1 }),
    );
    assert_eq!(changed(&written), ["labels", "annotations", "finalizers"]);
    assert!(version(&written) > version(&created));
    assert_eq!(read(&client, format!("{uri}/status")).await, written);
    assert_eq!(read(&client, &uri).await, written);
    let mut replaced = written.clone();
    replaced["status"]["phase"] = json!("Succeeded");
    replaced["spec"]["containers"][0]["image"] = json!("other");
    let replaced = update(&client, format!("{uri}/status"), replaced).await;
    replaced.shows(json!({ "status.phase": "Succeeded", "spec.containers.0.image": "i" }));
    let main = merge(&client, &uri, json!({ "status": { "phase": "Failed" } })).await;
    assert_eq!(main["status"]["phase"], "Succeeded");
    release(&client, &uri).await;
}

async fn a_status_write_of_a_deployment_leaves_its_labels(client: Client) {
    create(&client, DEPLOYMENTS, deployment("d")).await;
    let mut write = greedy(&json!({ "replicas": 2 }));
    write["spec"] = json!({ "replicas": 5 });
    let uri = format!("{DEPLOYMENTS}/d");
    let written = merge(&client, format!("{uri}/status"), write).await;
    assert_eq!(
        changed(&written),
        ["annotations", "finalizers", "ownerReferences"]
    );
    written.shows(json!({
        "status.replicas": 2,
        "spec.replicas": 2,
        "metadata.labels": { "own": "1" },
        "metadata.generation": 1,
    }));
    release(&client, &uri).await;
}

async fn a_status_write_of_a_claim_leaves_all_metadata(client: Client) {
    let claim = json!({ "metadata": { "name": "c", "labels": { "own": "1" } }, "spec": {} });
    create(&client, CLAIMS, claim).await;
    let reserved = json!([{ "resource": "pods", "name": "p", "uid": "u1" }]);
    let write = greedy(&json!({ "reservedFor": reserved, "allocation": { "devices": {} } }));
    let written = merge(&client, format!("{CLAIMS}/c/status"), write).await;
    written.shows(json!({ "status.reservedFor": reserved, "metadata.labels": { "own": "1" } }));
    assert_eq!(changed(&written), [""; 0]);
}

async fn a_status_write_of_other_kinds_changes_their_metadata_and_no_generation(client: Client) {
    let selector = json!({ "matchLabels": { "app": "a" } });
    let budget = json!({ "metadata": { "name": "s" }, "spec": { "minAvailable": 1, "selector": selector } });
    let healthy =
        json!({ "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1 });
    for (collection, object, status, generation) in rows! {
        NODES, named("s"), json!({ "phase": "Running" }) => Value::Null;
        JOBS, job("s"), json!({ "active": 1 }) => json!(1);
        REPLICA_SETS, workload("s", &selector), json!({ "replicas": 1 }) => json!(1);
        STATEFUL_SETS, stateful_set("s", &selector), json!({ "replicas": 1 }) => json!(1);
        PDBS, budget, healthy => json!(1);
    } {
        create(&client, collection, object).await;
        let uri = format!("{collection}/s");
        let written = merge(&client, format!("{uri}/status"), greedy(&status)).await;
        let all = ["labels", "annotations", "finalizers", "ownerReferences"];
        assert_eq!(changed(&written), all, "{collection}");
        assert_eq!(written["metadata"]["generation"], generation, "{collection}");
        for (field, value) in status.as_object().unwrap() {
            assert_eq!(written["status"][field], *value, "{collection}");
        }
        release(&client, &uri).await;
    }
}

async fn a_status_write_is_owned_apart_from_the_object(client: Client) {
    create(&client, PODS, pod("p")).await;
    let write = json!({ "metadata": { "annotations": { "k": "v" } }, "status": { "phase": "Running" } });
    let uri = format!("{PODS}/p/status?fieldManager=kubelet");
    let written = merge(&client, uri, write).await;
    fields_of(&written, "kubelet").shows(json!({
        "operation": "Update",
        "subresource": "status",
        "fieldsV1": {
            "f:metadata": { "f:annotations": { ".": {}, "f:k": {} } },
            "f:status": { "f:phase": {} },
        },
    }));
    let other = fields_of(&written, "scenario");
    assert!(other["fieldsV1"].is_object());
    other.shows(json!({ "subresource": null, "fieldsV1.f:status": null }));
}

async fn a_status_update_must_name_its_object_and_its_version_where_the_object_must(client: Client) {
    create(&client, PODS, pod("p")).await;
    let uri = format!("{PODS}/p/status");
    let nameless = put(&client, &uri, json!({ "status": { "phase": "Running" } })).await;
    let why = "the name of the object (p based on URL) was undeterminable: name must be provided";
    nameless.says(400, why);
    let blind = json!({ "metadata": { "name": "p" }, "status": { "phase": "Running" } });
    let blind = update(&client, &uri, blind).await;
    blind.shows(json!({ "status.phase": "Running", "metadata.labels": null }));
    let stale = json!({ "metadata": { "name": "p", "resourceVersion": "1" } });
    put(&client, &uri, stale).await.is(409, "Conflict");
    let other = json!({ "metadata": { "name": "p", "uid": "other" } });
    let message = format!(
        "{STORAGE}UID in precondition: other, UID in object meta: {}",
        blind["metadata"]["uid"].as_str().unwrap()
    );
    put(&client, &uri, other).await.says(409, &message);
    let budget = json!({ "metadata": { "name": "b" }, "spec": { "minAvailable": 1, "selector": {} } });
    create(&client, PDBS, budget).await;
    put(&client, format!("{PDBS}/b/status"), named("b")).await.says(
        422,
        "poddisruptionbudgets.policy \"b\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for \
         an update",
    );
}

async fn a_status_patch_of_another_uid_is_invalid_and_a_stale_one_a_conflict(client: Client) {
    create(&client, PODS, pod("p")).await;
    let uri = format!("{PODS}/p/status");
    let other = json!({ "metadata": { "uid": "other" }, "status": { "phase": "Failed" } });
    for content_type in [MERGE, STRATEGIC] {
        let other = patch(&client, &uri, content_type, other.clone()).await;
        let message = "Pod \"p\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable";
        other.says(422, message);
        other.blames(&[("metadata.uid", "Invalid")]);
    }
    let mut both = other;
    both["metadata"]["resourceVersion"] = json!("1");
    patch(&client, &uri, STRATEGIC, both).await.is(409, "Conflict");
    assert_eq!(read(&client, &uri).await["status"]["phase"], "Pending");
}

async fn a_status_write_cannot_create(client: Client) {
    let uri = format!("{PODS}/nope/status");
    for missing in [
        get(&client, &uri).await,
        put(&client, &uri, pod("nope")).await,
        patch(&client, &uri, MERGE, json!({ "status": {} })).await,
    ] {
        let details = json!({ "name": "nope", "kind": "pods" });
        missing.refuses(404, "NotFound", "pods \"nope\" not found", &details);
    }
}

/// Fails unless a subresource can be neither created nor deleted, and does not exist at the paths in `missing`.
async fn is_only_a_part(client: &Client, uri: &str, missing: &[&str]) {
    post(client, uri, json!({})).await.says(405, NO_SUCH_METHOD);
    delete(client, uri, Value::Null).await.says(405, NO_SUCH_METHOD);
    for path in missing {
        get(client, path).await.says(404, NO_SUCH_RESOURCE);
    }
}

async fn status_is_read_replaced_and_patched_only_where_there_is_one(client: Client) {
    create(&client, PODS, pod("p")).await;
    let missing = [
        "/api/v1/namespaces/default/configmaps/x/status",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases/x/status",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/x/status",
    ];
    is_only_a_part(&client, &format!("{PODS}/p/status"), &missing).await;
}

async fn the_scale_of_a_deployment_shows_its_replicas_and_selector(client: Client) {
    let deployment = create(&client, DEPLOYMENTS, deployment("d")).await;
    let uri = format!("{DEPLOYMENTS}/d/scale");
    let mut expected = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": "d",
            "namespace": "default",
            "uid": deployment["metadata"]["uid"],
            "resourceVersion": deployment["metadata"]["resourceVersion"],
            "creationTimestamp": deployment["metadata"]["creationTimestamp"],
        },
        "spec": { "replicas": 2 },
        "status": { "replicas": 0, "selector": "app=a" },
    });
    assert_eq!(read(&client, &uri).await, expected);
    let status = json!({ "status": { "replicas": 1 } });
    let status = merge(&client, format!("{DEPLOYMENTS}/d/status"), status).await;
    expected["status"]["replicas"] = json!(1);
    expected["metadata"]["resourceVersion"] = status["metadata"]["resourceVersion"].clone();
    assert_eq!(read(&client, &uri).await, expected);
}

async fn the_scale_of_every_workload_has_its_selector_as_text(client: Client) {
    let selector = json!({
        "matchLabels": { "tier": "b" },
        "matchExpressions": [
            { "key": "app", "operator": "In", "values": ["z", "a"] },
            { "key": "no", "operator": "DoesNotExist" },
            { "key": "app", "operator": "Exists" },
            { "key": "x", "operator": "NotIn", "values": ["y"] },
        ],
    });
    let labels = json!({ "tier": "b", "app": "a" });
    for (collection, object, expected) in rows! {
        REPLICA_SETS, workload("w", &selector) => "app in (a,z),app,!no,tier=b,x notin (y)";
        STATEFUL_SETS, stateful_set("w", &selector) => "app in (a,z),app,!no,tier=b,x notin (y)";
        REPLICATION_CONTROLLERS, workload("w", &labels) => "app=a,tier=b";
    } {
        create(&client, collection, object).await;
        let scale = read(&client, format!("{collection}/w/scale")).await;
        let status = json!({ "replicas": 0, "selector": expected });
        scale.shows(json!({ "spec": { "replicas": 2 }, "status": status }));
    }
}

async fn scale_is_only_where_there_is_one(client: Client) {
    create(&client, DEPLOYMENTS, deployment("d")).await;
    let missing = [
        "/apis/apps/v1/namespaces/default/daemonsets/x/scale",
        "/apis/batch/v1/namespaces/default/jobs/x/scale",
        "/api/v1/nodes/x/scale",
    ];
    is_only_a_part(&client, &format!("{DEPLOYMENTS}/d/scale"), &missing).await;
    let missing = get(&client, format!("{DEPLOYMENTS}/nope/scale")).await;
    let details = json!({ "name": "nope", "group": "apps", "kind": "deployments" });
    missing.shows(json!({ "code": 404, "details": details }));
}
