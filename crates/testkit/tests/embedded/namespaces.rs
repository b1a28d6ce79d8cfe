//! Namespaces: those there are, what may be created in them, and how they end.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::server;

crate::scenarios![
    four_namespaces_exist_from_the_start,
    a_new_namespace_is_active_and_labelled_with_its_name,
    nothing_is_created_in_a_missing_namespace,
    a_deleted_namespace_terminates,
    nothing_is_created_in_a_terminating_namespace,
    writes_and_deletes_go_on_in_a_terminating_namespace,
    a_namespace_without_content_is_finalized,
    a_namespace_waits_for_its_own_finalizers_too,
    a_namespace_that_waits_for_nothing_goes_with_the_second_delete,
    the_parts_of_a_namespace_are_written_by_their_own_paths,
    some_namespaces_cannot_be_deleted,
    the_delete_of_a_namespace_honours_its_preconditions,
    the_options_of_a_namespace_delete_become_finalizers,
    a_dry_run_does_not_start_the_end_of_a_namespace,
    a_terminating_namespace_is_found_by_its_phase,
];

async fn namespace(client: &Client, name: &str) -> String {
    create(client, NAMESPACES, json!({ "metadata": { "name": name } })).await;
    format!("{NAMESPACES}/{name}")
}

/// Says that nothing is left in the namespace, as its controller does.
async fn finalize(client: &Client, uri: &str) -> Answer {
    let name = uri.rsplit('/').next().unwrap();
    let body = json!({ "metadata": { "name": name }, "spec": { "finalizers": [] } });
    put(client, format!("{uri}/finalize"), body).await
}

fn refusal(answer: &Answer) -> (u16, &str, &str) {
    let text = |field: &str| answer.body[field].as_str().unwrap_or_default();
    (answer.code, text("reason"), text("message"))
}

async fn four_namespaces_exist_from_the_start(client: Client) {
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let found = get(&client, format!("{NAMESPACES}/{name}")).await.body;
        assert_eq!(
            found["metadata"]["labels"],
            json!({ "kubernetes.io/metadata.name": name })
        );
        assert_eq!(
            (&found["spec"], &found["status"]),
            (
                &json!({ "finalizers": ["kubernetes"] }),
                &json!({ "phase": "Active" })
            )
        );
        assert_eq!(
            found["metadata"]["managedFields"],
            json!([{
                "manager": "kube-apiserver",
                "operation": "Update",
                "apiVersion": "v1",
                // The second may change between the two.
                "time": found["metadata"]["managedFields"][0]["time"],
                "fieldsType": "FieldsV1",
                "fieldsV1": { "f:metadata": { "f:labels": {
                    ".": {},
                    "f:kubernetes.io/metadata.name": {},
                } } },
            }])
        );
    }
}

async fn a_new_namespace_is_active_and_labelled_with_its_name(client: Client) {
    let object = json!({
        "metadata": {
            "name": "ns-new",
            "labels": { "a": "b", "kubernetes.io/metadata.name": "other" },
        },
        "spec": { "finalizers": ["x/y"] },
        "status": { "phase": "Terminating" },
    });
    let created = create(&client, NAMESPACES, object).await;
    assert_eq!(
        created["metadata"]["labels"],
        json!({ "a": "b", "kubernetes.io/metadata.name": "ns-new" })
    );
    assert_eq!(
        (&created["spec"]["finalizers"], &created["status"]),
        (&json!(["x/y", "kubernetes"]), &json!({ "phase": "Active" }))
    );
    assert_eq!(
        created["metadata"]["managedFields"][0]["fieldsV1"],
        json!({
            "f:metadata": { "f:labels": {
                ".": {},
                "f:a": {},
                "f:kubernetes.io/metadata.name": {},
            } },
            "f:spec": { "f:finalizers": {} },
        })
    );
    let generated = json!({ "metadata": { "generateName": "ns-" } });
    let generated = create(&client, NAMESPACES, generated).await;
    let name = &generated["metadata"]["name"];
    assert_eq!(
        generated["metadata"]["labels"]["kubernetes.io/metadata.name"],
        *name
    );
    let uri = format!("{NAMESPACES}/{}", name.as_str().unwrap());
    let body = json!({ "metadata": { "labels": null } });
    let still = patch(&client, &uri, MERGE, body).await.body;
    assert_eq!(
        still["metadata"]["labels"],
        json!({ "kubernetes.io/metadata.name": name })
    );
}

async fn nothing_is_created_in_a_missing_namespace(client: Client) {
    let collection = format!("{NAMESPACES}/ns-missing/configmaps");
    for object in [json!({ "metadata": { "name": "a" } }), json!({ "metadata": {} })] {
        assert_eq!(
            post(&client, &collection, object).await.body,
            json!({
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": "namespaces \"ns-missing\" not found",
                "reason": "NotFound",
                "details": { "name": "ns-missing", "kind": "namespaces" },
                "code": 404,
            })
        );
    }
    let elsewhere = json!({ "metadata": { "name": "a", "namespace": "z" } });
    assert_eq!(post(&client, &collection, elsewhere).await.code, 400);
    let uri = format!("{collection}/a");
    let named = json!({ "metadata": { "name": "a" } });
    for missing in [
        get(&client, &uri).await,
        put(&client, &uri, named.clone()).await,
        patch(&client, &uri, MERGE, named).await,
        delete(&client, &uri, Value::Null).await,
    ] {
        assert_eq!(refusal(&missing), (404, "NotFound", "configmaps \"a\" not found"));
    }
    for list in [
        get(&client, &collection).await,
        delete(&client, &collection, Value::Null).await,
    ] {
        assert_eq!((list.code, &list.body["items"]), (200, &json!([])));
    }
}

async fn a_deleted_namespace_terminates(client: Client) {
    let uri = namespace(&client, "ns-end").await;
    let before = get(&client, &uri).await.body;
    let mut watch = Watch::open(
        &client,
        format!(
            "{NAMESPACES}?watch=1&fieldSelector=metadata.name%3Dns-end&resourceVersion={}",
            version(&before)
        ),
    )
    .await;
    let ending = delete(&client, &uri, Value::Null).await;
    assert_eq!((ending.code, &ending.body["kind"]), (200, &json!("Namespace")));
    let ending = ending.body;
    assert!(ending["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(ending["metadata"].get("deletionGracePeriodSeconds"), None);
    assert_eq!(ending["status"], json!({ "phase": "Terminating" }));
    assert_eq!(ending["spec"], json!({ "finalizers": ["kubernetes"] }));
    assert_eq!(
        watch.event().await,
        json!({ "type": "MODIFIED", "object": ending })
    );
    assert_eq!(delete(&client, &uri, Value::Null).await.body, ending);
    let accepted = delete(&client, &uri, json!({ "orphanDependents": false })).await;
    assert_eq!((accepted.code, accepted.body), (202, ending));
    finalize(&client, &uri).await;
    assert_eq!(watch.line().await, "DELETED ns-end");
}

async fn nothing_is_created_in_a_terminating_namespace(client: Client) {
    let uri = namespace(&client, "ns-closed").await;
    let collection = format!("{uri}/configmaps");
    create(&client, &collection, json!({ "metadata": { "name": "a" } })).await;
    delete(&client, &uri, Value::Null).await;
    let refused = post(&client, &collection, json!({ "metadata": { "name": "b" } })).await;
    assert_eq!(
        refused.body,
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "configmaps \"b\" is forbidden: unable to create new content in namespace ns-closed \
                        because it is being terminated",
            "reason": "Forbidden",
            "details": { "name": "b", "kind": "configmaps", "causes": [{
                "reason": "NamespaceTerminating",
                "message": "namespace ns-closed is being terminated",
                "field": "metadata.namespace",
            }] },
            "code": 403,
        })
    );
    let why =
        "is forbidden: unable to create new content in namespace ns-closed because it is being terminated";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/ns-closed/leases";
    for (collection, metadata, named) in [
        (&*collection, json!({ "name": "a" }), "configmaps \"a\""),
        (
            &*format!("{collection}?dryRun=All"),
            json!({ "generateName": "b-" }),
            "configmaps \"b-\"",
        ),
        (&*collection, json!({}), "configmaps \"Unknown\""),
        (leases, json!({ "name": "l" }), "leases.coordination.k8s.io \"l\""),
    ] {
        let refused = post(&client, collection, json!({ "metadata": metadata })).await;
        assert_eq!(refusal(&refused), (403, "Forbidden", &*format!("{named} {why}")));
    }
    finalize(&client, &uri).await;
}

async fn writes_and_deletes_go_on_in_a_terminating_namespace(client: Client) {
    let uri = namespace(&client, "ns-goes-on").await;
    let collection = format!("{uri}/configmaps");
    let created = create(&client, &collection, json!({ "metadata": { "name": "a" } })).await;
    delete(&client, &uri, Value::Null).await;
    let object = format!("{collection}/a");
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    assert_eq!(patch(&client, &object, MERGE, label).await.code, 200);
    let data = json!({ "metadata": { "name": "a" }, "data": { "c": "d" } });
    let updated = put(&client, &object, data).await;
    assert_eq!(
        (updated.code, &updated.body["metadata"]["uid"]),
        (200, &created["metadata"]["uid"])
    );
    assert_eq!(delete(&client, &object, Value::Null).await.code, 200);
    finalize(&client, &uri).await;
    assert_eq!(get(&client, &uri).await.code, 404);
}

async fn a_namespace_without_content_is_finalized(client: Client) {
    let uri = namespace(&client, "ns-final").await;
    let ending = delete(&client, &uri, Value::Null).await.body;
    let other = json!({
        "metadata": { "name": "ns-final", "labels": { "a": "b" } },
        "spec": { "finalizers": ["x/y"] },
        "status": { "phase": "Active" },
    });
    let other = put(&client, format!("{uri}/finalize"), other).await;
    assert_eq!(other.code, 200);
    assert_eq!(other.body["spec"], json!({ "finalizers": ["x/y"] }));
    assert_eq!(other.body["status"], json!({ "phase": "Terminating" }));
    assert_eq!(
        other.body["metadata"]["managedFields"][1],
        json!({
            "manager": "scenario",
            "operation": "Update",
            "apiVersion": "v1",
            "time": other.body["metadata"]["managedFields"][1]["time"],
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": { "f:labels": { "f:a": {} } },
                "f:spec": { "f:finalizers": {} },
            },
            "subresource": "finalize",
        })
    );
    let bad = json!({ "metadata": { "name": "ns-final" }, "spec": { "finalizers": ["bogus"] } });
    assert_eq!(
        refusal(&put(&client, format!("{uri}/finalize"), bad).await),
        (
            422,
            "Invalid",
            "Namespace \"ns-final\" is invalid: spec.finalizers[0]: Invalid value: \"bogus\": name is neither a \
             standard finalizer name nor is it fully qualified"
        )
    );
    let stale = json!({ "metadata": {
        "name": "ns-final",
        "resourceVersion": ending["metadata"]["resourceVersion"],
    } });
    assert_eq!(put(&client, format!("{uri}/finalize"), stale).await.code, 409);
    let last = finalize(&client, &uri).await;
    assert_eq!((last.code, &last.body["spec"]), (200, &json!({})));
    assert_eq!(get(&client, &uri).await.code, 404);
    assert_eq!(
        refusal(&finalize(&client, &uri).await),
        (404, "NotFound", "namespaces \"ns-final\" not found")
    );
    let uri = format!("{NAMESPACES}/default/finalize");
    for refused in [
        get(&client, &uri).await,
        patch(&client, &uri, MERGE, json!({})).await,
        post(&client, &uri, json!({})).await,
        delete(&client, &uri, Value::Null).await,
    ] {
        assert_eq!(
            (refused.code, &refused.body["reason"]),
            (405, &json!("MethodNotAllowed"))
        );
    }
}

async fn a_namespace_waits_for_its_own_finalizers_too(client: Client) {
    let object = json!({ "metadata": { "name": "ns-own", "finalizers": ["x/y"] } });
    create(&client, NAMESPACES, object).await;
    let uri = format!("{NAMESPACES}/ns-own");
    delete(&client, &uri, Value::Null).await;
    let body = json!({ "metadata": { "name": "ns-own", "finalizers": ["x/y"] } });
    let waiting = put(&client, format!("{uri}/finalize"), body).await;
    assert_eq!((waiting.code, &waiting.body["spec"]), (200, &json!({})));
    assert_eq!(get(&client, &uri).await.body, waiting.body);
    let released = json!({ "metadata": { "finalizers": null } });
    assert_eq!(patch(&client, &uri, MERGE, released).await.code, 200);
    assert_eq!(get(&client, &uri).await.code, 404);
}

async fn a_namespace_that_waits_for_nothing_goes_with_the_second_delete(client: Client) {
    let uri = namespace(&client, "ns-second").await;
    assert_eq!(finalize(&client, &uri).await.body["status"]["phase"], "Active");
    let first = delete(&client, &uri, Value::Null).await;
    assert_eq!(
        (first.code, &first.body["status"]["phase"]),
        (200, &json!("Terminating"))
    );
    assert_eq!(get(&client, &uri).await.code, 200);
    let second = delete(&client, &uri, Value::Null).await;
    assert_eq!((second.code, &second.body["kind"]), (200, &json!("Namespace")));
    assert_eq!(get(&client, &uri).await.code, 404);
}

async fn the_parts_of_a_namespace_are_written_by_their_own_paths(client: Client) {
    let uri = namespace(&client, "ns-parts").await;
    let all = json!({
        "metadata": { "annotations": { "a": "b" } },
        "spec": { "finalizers": [] },
        "status": { "phase": "Terminating" },
    });
    let patched = patch(&client, &uri, MERGE, all).await.body;
    assert_eq!(patched["metadata"]["annotations"], json!({ "a": "b" }));
    assert_eq!(
        (&patched["spec"], &patched["status"]),
        (
            &json!({ "finalizers": ["kubernetes"] }),
            &json!({ "phase": "Active" })
        )
    );
    let phase = async |phase: &str| {
        let body = json!({ "spec": { "finalizers": [] }, "status": { "phase": phase } });
        patch(&client, format!("{uri}/status"), MERGE, body).await
    };
    assert_eq!(
        refusal(&phase("Terminating").await),
        (
            422,
            "Invalid",
            "Namespace \"ns-parts\" is invalid: status.Phase: Invalid value: \"Terminating\": may only be 'Active' \
             if `deletionTimestamp` is empty"
        )
    );
    delete(&client, &uri, Value::Null).await;
    assert_eq!(
        refusal(&phase("Active").await),
        (
            422,
            "Invalid",
            "Namespace \"ns-parts\" is invalid: status.Phase: Invalid value: \"Active\": may only be 'Terminating' \
             if `deletionTimestamp` is not empty"
        )
    );
    let same = phase("Terminating").await;
    assert_eq!(
        (same.code, &same.body["spec"]),
        (200, &json!({ "finalizers": ["kubernetes"] }))
    );
    finalize(&client, &uri).await;
}

async fn some_namespaces_cannot_be_deleted(client: Client) {
    for name in ["default", "kube-public", "kube-system"] {
        let refused = delete(&client, format!("{NAMESPACES}/{name}"), Value::Null).await;
        assert_eq!(
            refused.body,
            json!({
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"),
                "reason": "Forbidden",
                "details": { "name": name, "kind": "namespaces" },
                "code": 403,
            })
        );
    }
    let dry = json!({ "dryRun": ["All"] });
    let other = delete(&client, format!("{NAMESPACES}/kube-node-lease"), dry).await;
    assert_eq!(
        (other.code, &other.body["status"]["phase"]),
        (200, &json!("Terminating"))
    );
    let missing = delete(&client, format!("{NAMESPACES}/ns-nope"), Value::Null).await;
    assert_eq!(
        refusal(&missing),
        (404, "NotFound", "namespaces \"ns-nope\" not found")
    );
}

async fn the_delete_of_a_namespace_honours_its_preconditions(client: Client) {
    let uri = namespace(&client, "ns-pre").await;
    let found = get(&client, &uri).await.body;
    let uid = found["metadata"]["uid"].as_str().unwrap();
    let other = delete(&client, &uri, json!({ "preconditions": { "uid": "bad" } })).await;
    assert_eq!(
        refusal(&other),
        (
            409,
            "Conflict",
            &*format!(
                "Operation cannot be fulfilled on namespaces \"ns-pre\": Precondition failed: UID in precondition: \
                 bad, UID in object meta: {uid}"
            )
        )
    );
    let stale = json!({ "preconditions": { "uid": uid, "resourceVersion": "1" } });
    assert_eq!(
        refusal(&delete(&client, &uri, stale).await),
        (
            409,
            "Conflict",
            &*format!(
                "Operation cannot be fulfilled on namespaces \"ns-pre\": Precondition failed: ResourceVersion in \
                 precondition: 1, ResourceVersion in object meta: {}",
                version(&found)
            )
        )
    );
    let right = json!({ "preconditions": { "uid": uid } });
    assert_eq!(delete(&client, &uri, right).await.code, 200);
    finalize(&client, &uri).await;
}

async fn the_options_of_a_namespace_delete_become_finalizers(client: Client) {
    for (name, options, finalizers) in [
        (
            "ns-fg",
            json!({ "propagationPolicy": "Foreground" }),
            json!(["foregroundDeletion"]),
        ),
        ("ns-or", json!({ "orphanDependents": true }), json!(["orphan"])),
        (
            "ns-old",
            json!({ "orphanDependents": false }),
            json!(["foregroundDeletion"]),
        ),
        ("ns-bg", json!({ "propagationPolicy": "Background" }), Value::Null),
    ] {
        let uri = namespace(&client, name).await;
        let ending = delete(&client, &uri, options).await.body;
        assert_eq!(ending["metadata"]["finalizers"], finalizers, "{name}");
        // What it waits for is settled by the first delete.
        let later = delete(&client, &uri, json!({ "propagationPolicy": "Orphan" })).await;
        assert_eq!(later.body, ending);
        finalize(&client, &uri).await;
        assert_eq!(get(&client, &uri).await.code, 404);
    }
}

async fn a_dry_run_does_not_start_the_end_of_a_namespace(client: Client) {
    let uri = namespace(&client, "ns-dry").await;
    let before = get(&client, &uri).await.body;
    let shown = delete(&client, &uri, json!({ "dryRun": ["All"] })).await.body;
    assert_eq!(shown["status"]["phase"], "Terminating");
    assert_eq!(version(&shown), version(&before));
    assert_eq!(get(&client, &uri).await.body, before);
}

async fn a_terminating_namespace_is_found_by_its_phase(client: Client) {
    let uri = namespace(&client, "ns-phase").await;
    let list = format!("{NAMESPACES}?fieldSelector=status.phase%3DTerminating,metadata.name%3Dns-phase");
    assert_eq!(names(&get(&client, &list).await.body), Vec::<&str>::new());
    delete(&client, &uri, Value::Null).await;
    assert_eq!(names(&get(&client, &list).await.body), ["ns-phase"]);
    finalize(&client, &uri).await;
}

#[tokio::test(start_paused = true)]
async fn seeded_pods_live_in_namespaces_that_exist() {
    let server = server();
    server.seed_nodes(1);
    server.seed_pods(100);
    let pod = &server.list(&testkit::embedded::PODS)[0];
    let name = pod["metadata"]["namespace"].as_str().unwrap();
    let map = json!({ "metadata": { "name": "a" } });
    create(&server.client(), &format!("{NAMESPACES}/{name}/configmaps"), map).await;
}
