//! Namespaces of seeded pods, and one that is being terminated.

use serde_json::{Value, json};

use crate::http::*;
use crate::server;

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
