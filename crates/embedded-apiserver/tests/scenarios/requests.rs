//! The record of requests, and time as seen by clients.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::http::*;
use crate::server;

#[tokio::test(start_paused = true)]
async fn every_request_is_recorded_in_the_order_of_arrival() {
    let server = server();
    server.seed_nodes(2);
    let nodes: Api<Node> = Api::all(server.client_as("ttl-controller/0.1"));
    nodes.list_metadata(&ListParams::default()).await.unwrap();
    let mark = server.mark();
    let patch = Patch::Strategic(json!({ "metadata": { "annotations": { "a": "b" } } }));
    nodes
        .patch("node-2", &PatchParams::default(), &patch)
        .await
        .unwrap();
    nodes.get_opt("node-9").await.unwrap();
    nodes.delete("node-1", &DeleteParams::default()).await.unwrap();
    assert_eq!(
        server.requests().lines(),
        [
            "list nodes",
            r#"patch nodes/node-2 {"metadata":{"annotations":{"a":"b"}}}"#,
            "get nodes/node-9",
            "delete nodes/node-1 {}",
        ]
    );
    assert_eq!(
        server.requests_since(mark).writes().lines(),
        [
            r#"patch nodes/node-2 {"metadata":{"annotations":{"a":"b"}}}"#,
            "delete nodes/node-1 {}",
        ]
    );
    let requests = server.requests();
    let codes: Vec<Option<u16>> = requests.iter().map(|request| request.code).collect();
    assert_eq!(codes, [Some(200), Some(200), Some(404), Some(200)]);
    assert_eq!(requests[0].user_agent, "ttl-controller/0.1");
    assert_eq!(
        (requests[0].metadata_only, requests[1].metadata_only),
        (true, false)
    );
    assert_eq!(requests.to("leases").len(), 0);
    let node = server.get(&embedded_apiserver::NODES, "", "node-2").unwrap();
    let managers: Vec<&str> = node["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["manager"].as_str().unwrap())
        .collect();
    assert_eq!(
        managers,
        ["kube-controller-manager", "kubelet", "kubelet", "ttl-controller"]
    );
}

#[tokio::test(start_paused = true)]
async fn answers_carry_the_date_of_the_servers_clock() {
    let server = server();
    let client = server.client();
    let date = async || get(&client, NODES).await.headers["date"].clone();
    assert_eq!(date().await, "Thu, 01 Jan 2026 00:00:00 GMT");
    tokio::time::sleep(Duration::from_secs(3661)).await;
    assert_eq!(date().await, "Thu, 01 Jan 2026 01:01:01 GMT");
    let node = create(&client, NODES, named("n")).await;
    assert_eq!(node["metadata"]["creationTimestamp"], "2026-01-01T01:01:01Z");
}

#[tokio::test(start_paused = true)]
async fn two_runs_are_the_same() {
    async fn run() -> String {
        let server = server();
        server.seed_nodes(3);
        let client = server.client();
        post(&client, LEASES, json!({ "metadata": { "generateName": "g-" } })).await;
        let list = get(&client, "/apis/coordination.k8s.io/v1/leases").await;
        format!("{}{}", get(&client, NODES).await.body, list.body)
    }
    assert_eq!(run().await, run().await);
}
