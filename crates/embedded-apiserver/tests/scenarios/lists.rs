//! Lists of compacted versions and of versions to come.

use std::time::Duration;

use embedded_apiserver::NODES as NODES_RESOURCE;
use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::server;

crate::scenarios![versions_of_the_future_are_waited_for_in_vain];

async fn versions_of_the_future_are_waited_for_in_vain(client: Client) {
    create(&client, LEASES, named("l")).await;
    // Each request waits some seconds for its version.
    let futures = [
        format!("{LEASES}?resourceVersion=99999999"),
        format!("{LEASES}?resourceVersion=99999999&resourceVersionMatch=Exact"),
        format!("{LEASES}/l?resourceVersion=99999999"),
    ]
    .map(|uri| get(&client, uri));
    for future in futures::future::join_all(futures).await {
        future.begins(504, "Timeout: Too large resource version: 99999999, current: ");
        future.shows(json!({ "reason": "Timeout", "details": {
            "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            "retryAfterSeconds": 1,
        } }));
    }
}

#[tokio::test(start_paused = true)]
async fn an_unfiltered_page_counts_what_is_left() {
    let server = server();
    server.seed_nodes(5);
    let page = read(&server.client(), format!("{NODES}?limit=2")).await;
    assert_eq!(names(&page), ["node-1", "node-2"]);
    page.shows(json!({ "metadata.remainingItemCount": 3 }));
    let exactly = read(&server.client(), format!("{NODES}?limit=5")).await;
    exactly.shows(json!({ "metadata.remainingItemCount": null, "metadata.continue": null }));
}

#[tokio::test(start_paused = true)]
async fn lists_of_a_compacted_version_are_gone() {
    let server = server();
    server.seed_nodes(3);
    let client = server.client();
    let uri = format!("{NODES}?limit=2");
    let page = read(&client, &uri).await;
    let label = |node: &mut Value| node["metadata"]["labels"] = json!({ "new": "yes" });
    server.edit(&NODES_RESOURCE, "", "node-3", label).unwrap();
    server.compact();
    let exact = format!(
        "{NODES}?resourceVersion={}&resourceVersionMatch=Exact",
        version(&page)
    );
    let exact = get(&client, exact).await;
    exact.is(410, "Expired");
    exact.says(410, "The resourceVersion for the provided list is too old.");
    let token = page["metadata"]["continue"].as_str().unwrap();
    let next = get(&client, format!("{uri}&continue={token}")).await;
    next.is(410, "Expired");
    next.begins(
        410,
        "The provided continue parameter is too old to display a consistent list result.",
    );
    // The refusal contains a token that continues at the latest version.
    let token = next.body["metadata"]["continue"].as_str().unwrap();
    let rest = read(&client, format!("{uri}&continue={token}")).await;
    assert_eq!(names(&rest), ["node-3"]);
    rest.shows(json!({ "items.0.metadata.labels": { "new": "yes" } }));
}

#[tokio::test(start_paused = true)]
async fn a_list_waits_up_to_three_seconds_for_a_version_to_come() {
    let server = server();
    let client = server.client();
    let wanted = server.version() + 1;
    let list = tokio::spawn({
        let client = client.clone();
        async move { get(&client, format!("{NODES}?resourceVersion={wanted}")).await }
    });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!list.is_finished());
    server.seed_nodes(1);
    assert_eq!(names(&list.await.unwrap().body), ["node-1"]);
}
