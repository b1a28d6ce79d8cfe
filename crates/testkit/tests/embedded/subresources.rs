//! `/status`, `/scale`, `/binding`, `/finalize` and `/token`.

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
    a_scale_write_changes_the_replicas_and_counts_as_a_change,
    a_scale_write_must_not_be_stale_and_must_mean_this_object,
    a_scale_must_be_a_scale_of_this_object_and_not_negative,
    a_dry_run_of_a_scale_changes_nothing,
    scale_is_read_replaced_and_patched_only_where_there_is_one,
    a_binding_assigns_a_pod_to_a_node,
    a_pod_that_cannot_be_bound_is_a_conflict,
    a_binding_must_mean_this_pod_and_a_node,
    the_finalizers_of_a_namespace_are_written_apart,
    a_deleted_namespace_waits_for_its_finalizers,
    a_service_account_gets_a_token_for_an_hour,
    a_token_request_must_mean_this_account_and_last_ten_minutes,
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
    assert_eq!(
        (nameless.code, &nameless.body["message"]),
        (
            400,
            &json!("the name of the object (p based on URL) was undeterminable: name must be provided")
        )
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
    assert_eq!((stale.code, &stale.body["reason"]), (409, &json!("Conflict")));
    let other = json!({ "metadata": { "name": "p", "uid": "other" } });
    let other = put(&client, &uri, other).await;
    assert_eq!(
        (other.code, &other.body["message"]),
        (
            409,
            &json!(format!(
                "Operation cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4, Key: \
                 /registry/pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
                 precondition: other, UID in object meta: {}",
                blind.body["metadata"]["uid"].as_str().unwrap()
            ))
        )
    );
    let budget = json!({ "metadata": { "name": "b" }, "spec": { "minAvailable": 1, "selector": {} } });
    create(&client, PDBS, budget).await;
    let blind = json!({ "metadata": { "name": "b" } });
    let blind = put(&client, format!("{PDBS}/b/status"), blind).await;
    assert_eq!(
        (blind.code, &blind.body["message"]),
        (
            422,
            &json!(
                "poddisruptionbudgets.policy \"b\" is invalid: metadata.resourceVersion: Invalid value: 0: must \
                 be specified for an update"
            )
        )
    );
}

async fn a_status_patch_of_another_uid_is_invalid_and_a_stale_one_a_conflict(client: Client) {
    create(&client, PODS, pod("p")).await;
    let uri = format!("{PODS}/p/status");
    let other = json!({ "metadata": { "uid": "other" }, "status": { "phase": "Failed" } });
    for content_type in [MERGE, STRATEGIC] {
        let other = patch(&client, &uri, content_type, other.clone()).await;
        assert_eq!(
            (other.code, &other.body["message"]),
            (
                422,
                &json!("Pod \"p\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable")
            )
        );
        assert_eq!(other.body["details"]["causes"][0]["field"], "metadata.uid");
    }
    let both =
        json!({ "metadata": { "uid": "other", "resourceVersion": "1" }, "status": { "phase": "Failed" } });
    let both = patch(&client, &uri, STRATEGIC, both).await;
    assert_eq!((both.code, &both.body["reason"]), (409, &json!("Conflict")));
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
        assert_eq!(
            (refused.code, &refused.body["message"]),
            (405, &json!(NO_SUCH_METHOD))
        );
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
    let none = patch(&client, &uri, MERGE, json!({ "spec": { "replicas": 0 } })).await;
    assert_eq!(none.body["spec"], json!({}));
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

async fn a_scale_write_changes_the_replicas_and_counts_as_a_change(client: Client) {
    let created = create(&client, DEPLOYMENTS, deployment("d")).await;
    let uri = format!("{DEPLOYMENTS}/d");
    let mut watch = Watch::open(
        &client,
        format!("{DEPLOYMENTS}?watch=1&resourceVersion={}", version(&created)),
    )
    .await;
    let to_three = json!({
        "spec": { "replicas": 3 },
        "status": { "replicas": 9 },
        "metadata": { "labels": { "new": "1" } },
    });
    let scale = patch(
        &client,
        format!("{uri}/scale?fieldManager=scaler"),
        MERGE,
        to_three,
    )
    .await;
    assert_eq!(scale.code, 200);
    assert_eq!(
        (
            &scale.body["kind"],
            &scale.body["spec"],
            &scale.body["status"]["replicas"]
        ),
        (&json!("Scale"), &json!({ "replicas": 3 }), &json!(0))
    );
    let scaled = get(&client, &uri).await.body;
    assert_eq!(scaled["spec"]["replicas"], 3);
    assert_eq!(scaled["metadata"]["generation"], 2);
    assert_eq!(scaled["metadata"]["labels"], json!({ "own": "1" }));
    assert_eq!(version(&scaled), version(&scale.body));
    assert_eq!(
        watch.event().await,
        json!({ "type": "MODIFIED", "object": scaled })
    );
    let entries = scaled["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(
        entries[0],
        json!({
            "manager": "scaler",
            "operation": "Update",
            "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": { "f:spec": { "f:replicas": {} } },
            "subresource": "scale",
        })
    );
    assert_eq!(entries[1]["fieldsV1"]["f:spec"].get("f:replicas"), None);
    let same = patch(
        &client,
        format!("{uri}/scale"),
        STRATEGIC,
        json!({ "spec": { "replicas": 3 } }),
    )
    .await;
    assert_eq!((same.code, version(&same.body)), (200, version(&scaled)));
    let replaced = json!({ "metadata": { "name": "d" }, "spec": { "replicas": 4 } });
    let replaced = put(&client, format!("{uri}/scale"), replaced).await;
    assert_eq!(
        (replaced.code, &replaced.body["spec"]["replicas"]),
        (200, &json!(4))
    );
    assert_eq!(get(&client, &uri).await.body["metadata"]["generation"], 3);
    let emptied = json!({ "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": { "name": "d" } });
    let emptied = put(&client, format!("{uri}/scale"), emptied).await;
    assert_eq!((emptied.code, &emptied.body["spec"]), (200, &json!({})));
    assert_eq!(get(&client, &uri).await.body["spec"]["replicas"], 0);
}

async fn a_scale_write_must_not_be_stale_and_must_mean_this_object(client: Client) {
    let created = create(&client, DEPLOYMENTS, deployment("d")).await;
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let uri = format!("{DEPLOYMENTS}/d/scale");
    let stale = json!({ "metadata": { "name": "d", "resourceVersion": "1" }, "spec": { "replicas": 3 } });
    for stale in [
        put(&client, &uri, stale.clone()).await,
        patch(&client, &uri, MERGE, stale).await,
    ] {
        assert_eq!(stale.code, 409);
        assert_eq!(
            stale.body["message"],
            "Operation cannot be fulfilled on deployments.apps \"d\": the object has been modified; please \
             apply your changes to the latest version and try again"
        );
        assert_eq!(
            stale.body["details"],
            json!({ "name": "d", "group": "apps", "kind": "deployments" })
        );
    }
    let other = json!({ "metadata": { "name": "d", "uid": "other" }, "spec": { "replicas": 3 } });
    let replaced = put(&client, &uri, other.clone()).await;
    assert_eq!(
        (replaced.code, &replaced.body["message"]),
        (
            409,
            &json!(format!(
                "Operation cannot be fulfilled on deployments.apps \"d\": StorageError: invalid object, Code: 4, \
                 Key: /registry/deployments/default/d, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
                 failed: UID in precondition: other, UID in object meta: {uid}"
            ))
        )
    );
    let patched = patch(&client, &uri, MERGE, other).await;
    assert_eq!(
        (patched.code, &patched.body["message"], &patched.body["details"]),
        (
            409,
            &json!(format!(
                "Operation cannot be fulfilled on deployments/scale.apps \"d\": Precondition failed: UID in \
                 precondition: other, UID in object meta: {uid}"
            )),
            &json!({ "name": "d", "group": "apps", "kind": "deployments/scale" })
        )
    );
    let right = json!({
        "metadata": { "uid": uid, "resourceVersion": created["metadata"]["resourceVersion"] },
        "spec": { "replicas": 3 },
    });
    assert_eq!(patch(&client, &uri, MERGE, right).await.code, 200);
}

async fn a_scale_must_be_a_scale_of_this_object_and_not_negative(client: Client) {
    create(&client, DEPLOYMENTS, deployment("d")).await;
    let uri = format!("{DEPLOYMENTS}/d/scale");
    let negative = json!({ "metadata": { "name": "d" }, "spec": { "replicas": -1 } });
    for negative in [
        put(&client, &uri, negative.clone()).await,
        patch(&client, &uri, MERGE, negative).await,
    ] {
        assert_eq!(negative.code, 422);
        assert_eq!(
            negative.body["message"],
            "Scale.autoscaling \"d\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal \
             to 0"
        );
        assert_eq!(
            negative.body["details"],
            json!({ "name": "d", "group": "autoscaling", "kind": "Scale", "causes": [{
                "reason": "FieldValueInvalid",
                "message": "Invalid value: -1: must be greater than or equal to 0",
                "field": "spec.replicas",
            }] })
        );
    }
    for (body, message) in [
        (
            json!({ "metadata": { "name": "other" }, "spec": { "replicas": 1 } }),
            "the name of the object (other) does not match the name on the URL (d)",
        ),
        (
            json!({ "spec": { "replicas": 1 } }),
            "the name of the object (d based on URL) was undeterminable: name must be provided",
        ),
        (
            json!({ "metadata": { "name": "d", "namespace": "other" } }),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            json!({ "kind": "Deployment", "apiVersion": "apps/v1", "metadata": { "name": "d" } }),
            "Deployment in version \"v1\" cannot be handled as a Scale: converting (v1.Deployment) to \
             (autoscaling.Scale): unknown conversion",
        ),
    ] {
        let refused = put(&client, &uri, body).await;
        assert_eq!((refused.code, &refused.body["message"]), (400, &json!(message)));
    }
    let text = patch(&client, &uri, MERGE, json!({ "spec": { "replicas": "many" } })).await;
    assert_eq!((text.code, &text.body["reason"]), (422, &json!("Invalid")));
    assert_eq!(text.body["details"]["causes"][0]["field"], "patch");
    let message = text.body["message"].as_str().unwrap();
    assert!(
        message.ends_with(
            "json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32"
        ),
        "{message}"
    );
}

async fn a_dry_run_of_a_scale_changes_nothing(client: Client) {
    create(&client, DEPLOYMENTS, deployment("d")).await;
    let tried = json!({ "spec": { "replicas": 7 } });
    let tried = patch(&client, format!("{DEPLOYMENTS}/d/scale?dryRun=All"), MERGE, tried).await;
    assert_eq!((tried.code, &tried.body["spec"]["replicas"]), (200, &json!(7)));
    assert_eq!(
        get(&client, format!("{DEPLOYMENTS}/d")).await.body["spec"]["replicas"],
        2
    );
}

async fn scale_is_read_replaced_and_patched_only_where_there_is_one(client: Client) {
    create(&client, DEPLOYMENTS, deployment("d")).await;
    let uri = format!("{DEPLOYMENTS}/d/scale");
    for refused in [
        post(&client, &uri, json!({})).await,
        delete(&client, &uri, Value::Null).await,
    ] {
        assert_eq!(
            (refused.code, &refused.body["message"]),
            (405, &json!(NO_SUCH_METHOD))
        );
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
    let uri = format!("{DEPLOYMENTS}/nope/scale");
    for missing in [
        get(&client, &uri).await,
        put(&client, &uri, json!({ "metadata": { "name": "nope" } })).await,
        patch(&client, &uri, MERGE, json!({})).await,
    ] {
        assert_eq!(
            (missing.code, &missing.body["details"]),
            (
                404,
                &json!({ "name": "nope", "group": "apps", "kind": "deployments" })
            )
        );
    }
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
        assert_eq!(
            (refused.code, &refused.body["message"]),
            (
                409,
                &json!(format!(
                    "Operation cannot be fulfilled on pods/binding \"{name}\": {why}"
                ))
            )
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
        assert_eq!(
            (other.code, &other.body["message"]),
            (
                409,
                &json!(format!(
                    "{storage}{called} in precondition: 1, {called} in object meta: {found}"
                ))
            )
        );
    }
    let missing = post(&client, format!("{PODS}/nope/binding"), binding("nope")).await;
    assert_eq!(
        (missing.code, &missing.body["message"]),
        (404, &json!("pods \"nope\" not found"))
    );
    assert_eq!(get(&client, &uri).await.code, 405);
}

async fn the_finalizers_of_a_namespace_are_written_apart(client: Client) {
    let created = create(&client, NAMESPACES, json!({ "metadata": { "name": "apart" } })).await;
    assert_eq!(created["spec"], json!({ "finalizers": ["kubernetes"] }));
    assert_eq!(created["status"], json!({ "phase": "Active" }));
    assert_eq!(
        created["metadata"]["labels"],
        json!({ "kubernetes.io/metadata.name": "apart" })
    );
    assert_eq!(
        created["metadata"]["managedFields"][0]["fieldsV1"],
        json!({ "f:metadata": { "f:labels": { ".": {}, "f:kubernetes.io/metadata.name": {} } } })
    );
    let uri = format!("{NAMESPACES}/apart");
    let ours = json!({ "spec": { "finalizers": ["x/y"] }, "status": { "phase": "Terminating" } });
    let main = patch(&client, &uri, MERGE, ours.clone()).await.body;
    assert_eq!(
        (&main["spec"], &main["status"]),
        (&created["spec"], &created["status"])
    );
    let mut finalized = ours;
    finalized["metadata"] = json!({ "name": "apart" });
    let finalized = put(&client, format!("{uri}/finalize?fieldManager=f"), finalized).await;
    assert_eq!(finalized.code, 200);
    assert_eq!(finalized.body["spec"], json!({ "finalizers": ["x/y"] }));
    assert_eq!(finalized.body["status"], json!({ "phase": "Active" }));
    let entries = finalized.body["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["manager"] == "f").unwrap();
    assert_eq!(
        (&entry["subresource"], &entry["fieldsV1"]),
        (&json!("finalize"), &json!({ "f:spec": { "f:finalizers": {} } }))
    );
    for refused in [
        get(&client, format!("{uri}/finalize")).await,
        patch(&client, format!("{uri}/finalize"), MERGE, json!({})).await,
        post(&client, format!("{uri}/finalize"), json!({})).await,
    ] {
        assert_eq!(refused.code, 405);
    }
    remove_namespace(&client, "apart").await;
}

async fn a_deleted_namespace_waits_for_its_finalizers(client: Client) {
    create(&client, NAMESPACES, json!({ "metadata": { "name": "doomed" } })).await;
    let uri = format!("{NAMESPACES}/doomed");
    let doomed = delete(&client, &uri, Value::Null).await;
    assert_eq!((doomed.code, &doomed.body["kind"]), (200, &json!("Namespace")));
    assert_eq!(doomed.body["status"]["phase"], "Terminating");
    assert!(doomed.body["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(doomed.body["metadata"].get("deletionGracePeriodSeconds"), None);
    let done = json!({ "metadata": { "name": "doomed" }, "spec": {} });
    let done = put(&client, format!("{uri}/finalize"), done).await;
    assert_eq!(
        (done.code, &done.body["status"]["phase"]),
        (200, &json!("Terminating"))
    );
    assert_eq!(get(&client, &uri).await.code, 404);
}

/// Does what the namespace controller does, which no test server runs.
async fn remove_namespace(client: &Client, name: &str) {
    let uri = format!("{NAMESPACES}/{name}");
    assert_eq!(delete(client, &uri, Value::Null).await.code, 200);
    let done = put(
        client,
        format!("{uri}/finalize"),
        json!({ "metadata": { "name": name } }),
    )
    .await;
    assert_eq!(done.code, 200, "{done:?}");
}

fn token_request(metadata: &Value, spec: &Value) -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": metadata,
        "spec": spec,
    })
}

async fn a_service_account_gets_a_token_for_an_hour(client: Client) {
    let account = create(&client, SERVICE_ACCOUNTS, json!({ "metadata": { "name": "sa" } })).await;
    let uri = format!("{SERVICE_ACCOUNTS}/sa/token");
    let issued = post(&client, &uri, token_request(&json!({}), &json!({}))).await;
    assert_eq!(issued.code, 201);
    let issued = issued.body;
    assert_eq!(
        (&issued["kind"], &issued["apiVersion"]),
        (&json!("TokenRequest"), &json!("authentication.k8s.io/v1"))
    );
    assert_eq!(
        ["name", "namespace", "uid"].map(|field| &issued["metadata"][field]),
        [&json!("sa"), &json!("default"), &account["metadata"]["uid"]]
    );
    assert_eq!(
        issued["spec"],
        json!({
            "audiences": ["https://kubernetes.default.svc"],
            "expirationSeconds": 3600,
            "boundObjectRef": null,
        })
    );
    let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let lasts = time(&issued["status"]["expirationTimestamp"])
        .duration_since(time(&issued["metadata"]["creationTimestamp"]));
    assert_eq!(lasts.as_secs(), 3600);
    let spec = json!({ "audiences": ["a"], "expirationSeconds": 7200 });
    let other = post(&client, &uri, token_request(&json!({ "name": "sa" }), &spec))
        .await
        .body;
    assert_eq!(
        (&other["spec"]["audiences"], &other["spec"]["expirationSeconds"]),
        (&json!(["a"]), &json!(7200))
    );
    assert!(other["status"]["token"].is_string());
    assert_ne!(other["status"]["token"], issued["status"]["token"]);
    assert_eq!(get(&client, &uri).await.code, 405);
}

async fn a_token_request_must_mean_this_account_and_last_ten_minutes(client: Client) {
    let account = create(&client, SERVICE_ACCOUNTS, json!({ "metadata": { "name": "sa" } })).await;
    let uid = account["metadata"]["uid"].as_str().unwrap();
    let uri = format!("{SERVICE_ACCOUNTS}/sa/token");
    let other_uid = format!(
        "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"sa\": the UID in the token request \
         (x) does not match the UID of the service account ({uid})"
    );
    for (metadata, spec, code, message) in [
        (
            json!({ "name": "x" }),
            json!({}),
            422,
            "TokenRequest.authentication.k8s.io \"sa\" is invalid: metadata.name: Invalid value: \"x\": must match \
             the service account name if specified",
        ),
        (
            json!({ "namespace": "x" }),
            json!({}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (json!({ "uid": "x" }), json!({}), 409, &other_uid),
        (
            json!({}),
            json!({ "expirationSeconds": 599 }),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 599: may \
             not specify a duration less than 10 minutes",
        ),
    ] {
        let refused = post(&client, &uri, token_request(&metadata, &spec)).await;
        assert_eq!((refused.code, &refused.body["message"]), (code, &json!(message)));
    }
    let missing = format!("{SERVICE_ACCOUNTS}/nope/token");
    let missing = post(&client, missing, token_request(&json!({}), &json!({}))).await;
    assert_eq!(
        (missing.code, &missing.body["message"]),
        (404, &json!("serviceaccounts \"nope\" not found"))
    );
}
