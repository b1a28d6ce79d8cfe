//! A test's direct access to objects.

use embedded_apiserver::{CUSTOM_RESOURCE_DEFINITIONS, LEASES as LEASES_RESOURCE, NODES as NODES_RESOURCE};
use serde_json::{Value, json};

use crate::http::*;
use crate::server;

#[tokio::test(start_paused = true)]
async fn a_test_writes_as_another_client_and_past_the_rules() {
    let server = server();
    let lease = json!({
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": { "name": "l" },
        "spec": { "holderIdentity": "a" },
    });
    let inserted = server.insert(lease.clone()).unwrap();
    assert_eq!(inserted["metadata"]["managedFields"][0]["manager"], "test");
    assert_eq!(server.insert(lease).unwrap_err().reason, "AlreadyExists");
    let mut watch = Watch::since(&server.client(), LEASES, &inserted).await;
    let edited = server
        .edit(&LEASES_RESOURCE, "default", "l", |lease| {
            lease["spec"]["holderIdentity"] = json!("b");
        })
        .unwrap();
    watch.tells("MODIFIED", &edited).await;
    assert_eq!(server.get(&LEASES_RESOURCE, "default", "l"), Some(edited));
    server.delete(&LEASES_RESOURCE, "default", "l").unwrap();
    assert_eq!(watch.line().await, "DELETED l");
    assert_eq!(server.get(&LEASES_RESOURCE, "default", "l"), None);
    assert_eq!(
        server
            .delete(&LEASES_RESOURCE, "default", "l")
            .unwrap_err()
            .to_string(),
        "leases.coordination.k8s.io \"l\" not found"
    );
    assert_eq!(server.requests().writes().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn seeded_nodes_are_ready_and_of_realistic_size() {
    let server = server();
    server.seed_nodes(3);
    let nodes = server.list(&NODES_RESOURCE);
    assert_eq!(nodes.len(), 3);
    let size = nodes[0].to_string().len();
    assert!((4_500..7_000).contains(&size), "{size}");
    assert_eq!(nodes[0]["metadata"]["name"], "node-1");
    assert_eq!(nodes[0]["status"]["conditions"][3]["type"], "Ready");
    let edited = server
        .edit(&NODES_RESOURCE, "", "node-1", |node| {
            node["status"]["conditions"][3]["status"] = json!("Unknown");
        })
        .unwrap();
    assert_eq!(edited["status"]["conditions"][3]["status"], "Unknown");
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_a_test_inserts_is_served() {
    let server = server();
    let client = server.client();
    let definition = json!({
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{ "name": "v1", "served": true, "storage": true }],
        },
    });
    server.insert(definition).unwrap();
    let widget = json!({
        "kind": "Widget",
        "apiVersion": "example.com/v1",
        "metadata": { "name": "w" },
    });
    server.insert(widget).unwrap();
    let uri = "/apis/example.com/v1/widgets/w";
    assert_eq!(read(&client, uri).await["kind"], "Widget");
    server
        .delete(&CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.example.com")
        .unwrap();
    is_gone(&client, uri).await;
    assert_eq!(server.list(&CUSTOM_RESOURCE_DEFINITIONS), [] as [Value; 0]);
}
