//! Namespaces: the initial ones, and creates in those that are missing or terminated.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::server;

crate::scenarios![
    four_namespaces_exist_from_the_start,
    a_new_namespace_is_active_and_labelled_with_its_name,
    nothing_is_created_in_a_missing_namespace,
];

async fn four_namespaces_exist_from_the_start(client: Client) {
    let label = json!({ ".": {}, "f:kubernetes.io/metadata.name": {} });
    for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
        let found = read(&client, format!("{NAMESPACES}/{name}")).await;
        found.shows(json!({
            "metadata.labels": { "kubernetes.io/metadata.name": name },
            "spec": { "finalizers": ["kubernetes"] },
            "status": { "phase": "Active" },
            "metadata.managedFields": [{
                "manager": "kube-apiserver",
                "operation": "Update",
                "apiVersion": "v1",
                // Not fixed: the second may change after the creation.
                "time": found["metadata"]["managedFields"][0]["time"],
                "fieldsType": "FieldsV1",
                "fieldsV1": { "f:metadata": { "f:labels": label } },
            }],
        }));
    }
}

async fn a_new_namespace_is_active_and_labelled_with_its_name(client: Client) {
    let object = json!({
        "metadata": { "name": "ns-new", "labels": { "a": "b", "kubernetes.io/metadata.name": "other" } },
        "spec": { "finalizers": ["x/y"] },
        "status": { "phase": "Terminating" },
    });
    let created = create(&client, NAMESPACES, object).await;
    created.shows(json!({
        "metadata.labels": { "a": "b", "kubernetes.io/metadata.name": "ns-new" },
        "spec.finalizers": ["x/y", "kubernetes"],
        "status": { "phase": "Active" },
        "metadata.managedFields.0.fieldsV1": {
            "f:metadata": { "f:labels": { ".": {}, "f:a": {}, "f:kubernetes.io/metadata.name": {} } },
            "f:spec": { "f:finalizers": {} },
        },
    }));
    let generated = json!({ "metadata": { "generateName": "ns-" } });
    let generated = create(&client, NAMESPACES, generated).await;
    let name = generated["metadata"]["name"].as_str().unwrap();
    let by_name = json!({ "metadata.labels": { "kubernetes.io/metadata.name": name } });
    generated.shows(by_name.clone());
    let body = json!({ "metadata": { "labels": null } });
    let still = merge(&client, format!("{NAMESPACES}/{name}"), body).await;
    still.shows(by_name);
}

async fn nothing_is_created_in_a_missing_namespace(client: Client) {
    let collection = format!("{NAMESPACES}/ns-missing/configmaps");
    let details = json!({ "name": "ns-missing", "kind": "namespaces" });
    for object in [named("a"), json!({ "metadata": {} })] {
        let refused = post(&client, &collection, object).await;
        refused.refuses(404, "NotFound", "namespaces \"ns-missing\" not found", &details);
    }
    let elsewhere = json!({ "metadata": { "name": "a", "namespace": "z" } });
    assert_eq!(post(&client, &collection, elsewhere).await.code, 400);
    let uri = format!("{collection}/a");
    for missing in [
        get(&client, &uri).await,
        put(&client, &uri, named("a")).await,
        patch(&client, &uri, MERGE, named("a")).await,
        delete(&client, &uri, Value::Null).await,
    ] {
        missing.is(404, "NotFound");
        missing.says(404, "configmaps \"a\" not found");
    }
    for list in [
        get(&client, &collection).await,
        delete(&client, &collection, Value::Null).await,
    ] {
        list.shows(json!({ "code": 200, "items": [] }));
    }
}

#[tokio::test(start_paused = true)]
async fn seeded_pods_live_in_namespaces_that_exist() {
    let server = server();
    server.seed_nodes(1);
    server.seed_pods(100);
    let pod = &server.list(&embedded_apiserver::PODS)[0];
    let name = pod["metadata"]["namespace"].as_str().unwrap();
    let map = named("a");
    create(&server.client(), &format!("{NAMESPACES}/{name}/configmaps"), map).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_being_terminated_takes_nothing_new() {
    let server = server();
    let client = server.client();
    create(&client, CONFIG_MAPS, named("a")).await;
    let edited = server.edit(&embedded_apiserver::NAMESPACES, "", "default", |namespace| {
        namespace["status"]["phase"] = json!("Terminating");
    });
    edited.unwrap();
    let refused = post(&client, CONFIG_MAPS, named("b")).await;
    let why = "unable to create new content in namespace default because it is being terminated";
    let cause = json!({
        "reason": "NamespaceTerminating", "message": "namespace default is being terminated",
        "field": "metadata.namespace",
    });
    let details = json!({ "name": "b", "kind": "configmaps", "causes": [cause] });
    let message = format!("configmaps \"b\" is forbidden: {why}");
    refused.refuses(403, "Forbidden", &message, &details);
    merge(
        &client,
        format!("{CONFIG_MAPS}/a"),
        json!({ "data": { "a": "b" } }),
    )
    .await;
    assert_eq!(
        delete(&client, format!("{CONFIG_MAPS}/a"), Value::Null)
            .await
            .code,
        200
    );
}
