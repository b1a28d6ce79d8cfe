//! `/status`, `/scale` and `/binding`.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;

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
    a_binding_assigns_a_pod_to_a_node,
    a_pod_that_cannot_be_bound_is_a_conflict,
    a_binding_must_mean_this_pod_and_a_node,
];

/// The containers of a pod.
fn containers() -> Value {
    json!([{ "name": "c", "image": "i" }])
}

fn pod(name: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "app": "a" } }, "spec": { "containers": containers() } })
}

/// A workload with `replicas: 2` and the labels `app: a` and `tier: b`.
fn workload(name: &str, selector: &Value) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "own": "1" } },
        "spec": {
            "replicas": 2,
            "serviceName": "s",
            "selector": selector,
            "template": {
                "metadata": { "labels": { "app": "a", "tier": "b" } },
                "spec": { "containers": containers() },
            },
        },
    })
}

fn deployment(name: &str) -> Value {
    let mut deployment = workload(name, &json!({ "matchLabels": { "app": "a" } }));
    deployment["spec"].as_object_mut().unwrap().remove("serviceName");
    deployment
}

/// A write of `/status` that tries to change all that it should not.
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

/// Which of its metadata [`greedy`] changed.
fn changed(object: &Value) -> Vec<&str> {
    let metadata = &object["metadata"];
    let mut changed = Vec::new();
    if metadata["labels"]["new"] == "1" {
        changed.push("labels");
    }
    if metadata["annotations"]["new"] == "1" {
        changed.push("annotations");
    }
    if metadata.get("finalizers").is_some() {
        changed.push("finalizers");
    }
    if metadata.get("ownerReferences").is_some() {
        changed.push("ownerReferences");
    }
    changed
}

/// Lets go of an object that [`greedy`] gave a finalizer, so that the next scenario starts without it.
async fn release(client: &Client, uri: &str) {
    let answer = patch(client, uri, MERGE, json!({ "metadata": { "finalizers": null } })).await;
    assert_eq!(answer.code, 200, "{answer:?}");
}

async fn a_status_write_of_a_pod_changes_status_and_metadata_but_owners(client: Client) {
    let created = create(&client, PODS, pod("p")).await;
    assert_eq!(created["status"]["phase"], "Pending");
    let mut write = greedy(&json!({ "phase": "Running" }));
    write["spec"] = json!({ "nodeName": "elsewhere" });
    let uri = format!("{PODS}/p");
    let written = patch(&client, format!("{uri}/status"), MERGE, write).await;
    assert_eq!(written.code, 200);
    let written = written.body;
    assert_eq!(written["kind"], "Pod");
    assert_eq!(written["status"]["phase"], "Running");
    assert_eq!(written["spec"].get("nodeName"), None);
    assert_eq!(changed(&written), ["labels", "annotations", "finalizers"]);
    assert_eq!(written["metadata"]["generation"], 1);
    assert!(version(&written) > version(&created));
    assert_eq!(get(&client, format!("{uri}/status")).await.body, written);
    assert_eq!(get(&client, &uri).await.body, written);
    let mut replaced = written.clone();
    replaced["status"]["phase"] = json!("Succeeded");
    replaced["spec"]["containers"][0]["image"] = json!("other");
    let replaced = put(&client, format!("{uri}/status"), replaced).await.body;
    assert_eq!(replaced["status"]["phase"], "Succeeded");
    assert_eq!(replaced["spec"]["containers"][0]["image"], "i");
    let main = patch(&client, &uri, MERGE, json!({ "status": { "phase": "Failed" } })).await;
    assert_eq!(main.body["status"]["phase"], "Succeeded");
    release(&client, &uri).await;
}

async fn a_status_write_of_a_deployment_leaves_its_labels(client: Client) {
    create(&client, DEPLOYMENTS, deployment("d")).await;
    let mut write = greedy(&json!({ "replicas": 2 }));
    write["spec"] = json!({ "replicas": 5 });
    let uri = format!("{DEPLOYMENTS}/d");
    let written = patch(&client, format!("{uri}/status"), MERGE, write).await.body;
    assert_eq!(
        (&written["status"]["replicas"], &written["spec"]["replicas"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(
        changed(&written),
        ["annotations", "finalizers", "ownerReferences"]
    );
    assert_eq!(written["metadata"]["labels"], json!({ "own": "1" }));
    assert_eq!(written["metadata"]["generation"], 1);
    release(&client, &uri).await;
}

async fn a_status_write_of_a_claim_leaves_all_metadata(client: Client) {
    let claim = json!({ "metadata": { "name": "c", "labels": { "own": "1" } }, "spec": {} });
    create(&client, CLAIMS, claim).await;
    let reserved = json!([{ "resource": "pods", "name": "p", "uid": "u1" }]);
    let devices = json!({ "devices": {} });
    let write = greedy(&json!({ "reservedFor": reserved, "allocation": devices }));
    let uri = format!("{CLAIMS}/c/status");
    let written = patch(&client, &uri, MERGE, write).await;
    assert_eq!(written.code, 200, "{written:?}");
    assert_eq!(written.body["status"]["reservedFor"], reserved);
    assert_eq!(changed(&written.body), [""; 0]);
    assert_eq!(written.body["metadata"]["labels"], json!({ "own": "1" }));
}

async fn a_status_write_of_other_kinds_changes_their_metadata_and_no_generation(client: Client) {
    let selector = json!({ "matchLabels": { "app": "a" } });
    let job = json!({ "template": { "spec": { "restartPolicy": "Never", "containers": containers() } } });
    let mut replica_set = workload("s", &selector);
    replica_set["spec"].as_object_mut().unwrap().remove("serviceName");
    let budget = json!({ "minAvailable": 1, "selector": selector });
    let healthy = json!({
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    });
    let cases = [
        (
            NODES,
            json!({ "metadata": { "name": "s" } }),
            json!({ "phase": "Running" }),
            Value::Null,
        ),
        (
            JOBS,
            json!({ "metadata": { "name": "s" }, "spec": job }),
            json!({ "active": 1 }),
            json!(1),
        ),
        (REPLICA_SETS, replica_set, json!({ "replicas": 1 }), json!(1)),
        (
            STATEFUL_SETS,
            workload("s", &selector),
            json!({ "replicas": 1 }),
            json!(1),
        ),
        (
            PDBS,
            json!({ "metadata": { "name": "s" }, "spec": budget }),
            healthy,
            json!(1),
        ),
    ];
    for (collection, object, status, generation) in cases {
        create(&client, collection, object).await;
        let uri = format!("{collection}/s");
        let written = patch(&client, format!("{uri}/status"), MERGE, greedy(&status)).await;
        assert_eq!(written.code, 200, "{written:?}");
        assert_eq!(
            changed(&written.body),
            ["labels", "annotations", "finalizers", "ownerReferences"],
            "{collection}"
        );
        assert_eq!(written.body["metadata"]["generation"], generation, "{collection}");
        for (field, value) in status.as_object().unwrap() {
            assert_eq!(written.body["status"][field], *value, "{collection}");
        }
        release(&client, &uri).await;
    }
}

async fn a_status_write_is_owned_apart_from_the_object(client: Client) {
    create(&client, PODS, pod("p")).await;
    let write = json!({ "metadata": { "annotations": { "k": "v" } }, "status": { "phase": "Running" } });
    let uri = format!("{PODS}/p/status?fieldManager=kubelet");
    let written = patch(&client, uri, MERGE, write).await.body;
    let entries = written["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries
        .iter()
        .find(|entry| entry["manager"] == "kubelet")
        .unwrap();
    assert_eq!(
        (&entry["operation"], &entry["subresource"], &entry["fieldsV1"]),
        (
            &json!("Update"),
            &json!("status"),
            &json!({
                "f:metadata": { "f:annotations": { ".": {}, "f:k": {} } },
                "f:status": { "f:phase": {} },
            })
        )
    );
    let other = entries
        .iter()
        .find(|entry| entry["manager"] == "scenario")
        .unwrap();
    assert_eq!(other.get("subresource"), None);
    assert_eq!(other["fieldsV1"].get("f:status"), None);
}

async fn a_status_update_must_name_its_object_and_its_version_where_the_object_must(client: Client) {
    create(&client, PODS, pod("p")).await;
    let uri = format!("{PODS}/p/status");
    let nameless = put(&client, &uri, json!({ "status": { "phase": "Running" } })).await;
    nameless.says(
        400,
        "the name of the object (p based on URL) was undeterminable: name must be provided",
    );
    let blind = json!({ "metadata": { "name": "p" }, "status": { "phase": "Running" } });
    let blind = put(&client, &uri, blind).await;
    assert_eq!(
        (blind.code, &blind.body["status"]["phase"]),
        (200, &json!("Running"))
    );
    assert_eq!(blind.body["metadata"].get("labels"), None);
    let stale = json!({ "metadata": { "name": "p", "resourceVersion": "1" } });
    let stale = put(&client, &uri, stale).await;
    stale.is(409, "Conflict");
    let other = json!({ "metadata": { "name": "p", "uid": "other" } });
    let other = put(&client, &uri, other).await;
    other.says(409, &format!(
                "Operation cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4, Key: \
                 /registry/pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
                 precondition: other, UID in object meta: {}",
                blind.body["metadata"]["uid"].as_str().unwrap()
            ));
    let budget = json!({ "metadata": { "name": "b" }, "spec": { "minAvailable": 1, "selector": {} } });
    create(&client, PDBS, budget).await;
    let blind = json!({ "metadata": { "name": "b" } });
    let blind = put(&client, format!("{PDBS}/b/status"), blind).await;
    blind.says(
        422,
        "poddisruptionbudgets.policy \"b\" is invalid: metadata.resourceVersion: Invalid value: 0: must \
                 be specified for an update",
    );
}

async fn a_status_patch_of_another_uid_is_invalid_and_a_stale_one_a_conflict(client: Client) {
    create(&client, PODS, pod("p")).await;
    let uri = format!("{PODS}/p/status");
    let other = json!({ "metadata": { "uid": "other" }, "status": { "phase": "Failed" } });
    for content_type in [MERGE, STRATEGIC] {
        let other = patch(&client, &uri, content_type, other.clone()).await;
        other.says(
            422,
            "Pod \"p\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable",
        );
        assert_eq!(other.body["details"]["causes"][0]["field"], "metadata.uid");
    }
    let both =
        json!({ "metadata": { "uid": "other", "resourceVersion": "1" }, "status": { "phase": "Failed" } });
    let both = patch(&client, &uri, STRATEGIC, both).await;
    both.is(409, "Conflict");
    assert_eq!(get(&client, &uri).await.body["status"]["phase"], "Pending");
}

async fn a_status_write_cannot_create(client: Client) {
    let uri = format!("{PODS}/nope/status");
    for missing in [
        get(&client, &uri).await,
        put(&client, &uri, pod("nope")).await,
        patch(&client, &uri, MERGE, json!({ "status": {} })).await,
    ] {
        assert_eq!(
            (missing.code, &missing.body["message"], &missing.body["details"]),
            (
                404,
                &json!("pods \"nope\" not found"),
                &json!({ "name": "nope", "kind": "pods" })
            )
        );
    }
}

const NO_SUCH_RESOURCE: &str = "the server could not find the requested resource";
const NO_SUCH_METHOD: &str = "the server does not allow this method on the requested resource";

async fn status_is_read_replaced_and_patched_only_where_there_is_one(client: Client) {
    create(&client, PODS, pod("p")).await;
    let uri = format!("{PODS}/p/status");
    for refused in [
        post(&client, &uri, json!({})).await,
        delete(&client, &uri, Value::Null).await,
    ] {
        refused.says(405, NO_SUCH_METHOD);
    }
    for path in [
        "/api/v1/namespaces/default/configmaps/x/status",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases/x/status",
        "/apis/resource.k8s.io/v1/deviceclasses/x/status",
    ] {
        let missing = get(&client, path).await;
        assert_eq!(
            (missing.code, &missing.body["message"]),
            (404, &json!(NO_SUCH_RESOURCE)),
            "{path}"
        );
    }
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
    assert_eq!(get(&client, &uri).await.body, expected);
    let status = json!({ "status": { "replicas": 1 } });
    let status = patch(&client, format!("{DEPLOYMENTS}/d/status"), MERGE, status)
        .await
        .body;
    expected["status"]["replicas"] = json!(1);
    expected["metadata"]["resourceVersion"] = status["metadata"]["resourceVersion"].clone();
    assert_eq!(get(&client, &uri).await.body, expected);
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
    let mut replica_set = workload("w", &selector);
    replica_set["spec"].as_object_mut().unwrap().remove("serviceName");
    let mut controller = replica_set.clone();
    controller["spec"]["selector"] = json!({ "tier": "b", "app": "a" });
    let text = "app in (a,z),app,!no,tier=b,x notin (y)";
    for (collection, object, expected) in [
        (REPLICA_SETS, replica_set, text),
        (STATEFUL_SETS, workload("w", &selector), text),
        (REPLICATION_CONTROLLERS, controller, "app=a,tier=b"),
    ] {
        create(&client, collection, object).await;
        let scale = get(&client, format!("{collection}/w/scale")).await.body;
        assert_eq!(scale["spec"], json!({ "replicas": 2 }), "{collection}");
        assert_eq!(
            scale["status"],
            json!({ "replicas": 0, "selector": expected }),
            "{collection}"
        );
    }
}

async fn scale_is_only_where_there_is_one(client: Client) {
    create(&client, DEPLOYMENTS, deployment("d")).await;
    let uri = format!("{DEPLOYMENTS}/d/scale");
    for refused in [
        post(&client, &uri, json!({})).await,
        delete(&client, &uri, Value::Null).await,
    ] {
        refused.says(405, NO_SUCH_METHOD);
    }
    for path in [
        "/apis/apps/v1/namespaces/default/daemonsets/x/scale",
        "/apis/batch/v1/namespaces/default/jobs/x/scale",
        "/api/v1/nodes/x/scale",
    ] {
        let missing = get(&client, path).await;
        assert_eq!(
            (missing.code, &missing.body["message"]),
            (404, &json!(NO_SUCH_RESOURCE)),
            "{path}"
        );
    }
    let missing = get(&client, format!("{DEPLOYMENTS}/nope/scale")).await;
    assert_eq!(
        (missing.code, &missing.body["details"]),
        (
            404,
            &json!({ "name": "nope", "group": "apps", "kind": "deployments" })
        )
    );
}

fn binding(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "name": name },
        "target": { "kind": "Node", "name": "n1" },
    })
}

async fn a_binding_assigns_a_pod_to_a_node(client: Client) {
    let created = create(&client, PODS, pod("p")).await;
    let uri = format!("{PODS}/p");
    let tried = post(&client, format!("{uri}/binding?dryRun=All"), binding("p")).await;
    assert_eq!(tried.code, 201);
    assert_eq!(get(&client, &uri).await.body, created);
    let mut annotated = binding("p");
    annotated["metadata"]["annotations"] = json!({ "k": "v" });
    annotated["metadata"]["labels"] = json!({ "zone": "z" });
    let bound = post(&client, format!("{uri}/binding"), annotated).await;
    assert_eq!(
        (bound.code, bound.body),
        (
            201,
            json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 })
        )
    );
    let bound = get(&client, &uri).await.body;
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["metadata"]["annotations"], json!({ "k": "v" }));
    assert_eq!(bound["metadata"]["labels"], json!({ "app": "a", "zone": "z" }));
    assert_eq!(bound["metadata"]["generation"], 1);
    assert_eq!(
        bound["metadata"]["managedFields"],
        created["metadata"]["managedFields"]
    );
    let condition = &bound["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], condition.get("reason")),
        (&json!("PodScheduled"), &json!("True"), None)
    );
    assert!(condition["lastTransitionTime"].is_string());
    let selected = get(&client, format!("{PODS}?fieldSelector=spec.nodeName%3Dn1"))
        .await
        .body;
    assert_eq!(names(&selected), ["p"]);
    let again = post(&client, format!("{uri}/binding"), binding("p")).await;
    assert_eq!(
        (again.code, &again.body["message"], &again.body["details"]),
        (
            409,
            &json!(
                "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n1\""
            ),
            &json!({ "name": "p", "kind": "pods/binding" })
        )
    );
}

async fn a_pod_that_cannot_be_bound_is_a_conflict(client: Client) {
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{ "name": "x/y" }]);
    let gated = create(&client, PODS, gated).await;
    let condition = &gated["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("PodScheduled"), &json!("False"), &json!("SchedulingGated"))
    );
    let mut doomed = pod("doomed");
    doomed["metadata"]["finalizers"] = json!(["x/y"]);
    create(&client, PODS, doomed).await;
    delete(
        &client,
        format!("{PODS}/doomed"),
        json!({ "gracePeriodSeconds": 0 }),
    )
    .await;
    for (name, why) in [
        ("gated", "pod gated has non-empty .spec.schedulingGates"),
        (
            "doomed",
            "pod doomed is being deleted, cannot be assigned to a host",
        ),
    ] {
        let refused = post(&client, format!("{PODS}/{name}/binding"), binding(name)).await;
        refused.says(
            409,
            &format!("Operation cannot be fulfilled on pods/binding \"{name}\": {why}"),
        );
    }
    release(&client, &format!("{PODS}/doomed")).await;
}

async fn a_binding_must_mean_this_pod_and_a_node(client: Client) {
    let created = create(&client, PODS, pod("p")).await;
    let uri = format!("{PODS}/p/binding");
    let mut nowhere = binding("p");
    nowhere["target"] = json!({ "kind": "Node" });
    let mut elsewhere = binding("p");
    elsewhere["target"]["kind"] = json!("Pod");
    for (body, code, message) in [
        (
            binding("q"),
            400,
            "name in URL does not match name in Binding object",
        ),
        (nowhere, 500, "target.name: Required value"),
        (
            elsewhere,
            500,
            "target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\"",
        ),
    ] {
        let refused = post(&client, &uri, body).await;
        assert_eq!((refused.code, &refused.body["message"]), (code, &json!(message)));
    }
    let storage = "Operation cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4, Key: \
                   /registry/pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: ";
    let metadata = &created["metadata"];
    for (field, called) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let mut other = binding("p");
        other["metadata"][field] = json!("1");
        let other = post(&client, &uri, other).await;
        let found = metadata[field].as_str().unwrap();
        other.says(
            409,
            &format!("{storage}{called} in precondition: 1, {called} in object meta: {found}"),
        );
    }
    let missing = post(&client, format!("{PODS}/nope/binding"), binding("nope")).await;
    missing.says(404, "pods \"nope\" not found");
    assert_eq!(get(&client, &uri).await.code, 405);
}
