//! Lists: selectors, pages, versions, forms of objects.

use std::time::Duration;

use embedded_apiserver::NODES as NODES_RESOURCE;
use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::{rows, server};

crate::scenarios![
    a_list_names_its_kind_and_its_items_do_not,
    label_selectors_choose_by_equality_and_by_set,
    field_selectors_choose_by_name_and_by_what_the_kind_offers,
    a_paged_list_shows_one_version_to_its_end,
    a_page_of_one_namespace_is_blind_to_the_others,
    versions_are_read_as_asked,
    a_client_can_ask_for_metadata_only,
];

/// Creates a lease with this value of the label `a`.
async fn lease(client: &Client, name: &str, value: &str) -> Value {
    create(client, LEASES, labelled(name, &json!({ "a": value }))).await
}

async fn a_list_names_its_kind_and_its_items_do_not(client: Client) {
    lease(&client, "kinds", "b").await;
    let list = read(&client, format!("{LEASES}?labelSelector=a%3Db")).await;
    list.shows(json!({ "kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1" }));
    assert!(version(&list) > 0);
    list["items"][0].shows(json!({ "kind": null, "apiVersion": null, "metadata.name": "kinds" }));
    let none = read(&client, format!("{LEASES}?labelSelector=a%3Dnobody")).await;
    assert_eq!(none["items"], json!([]));
}

async fn label_selectors_choose_by_equality_and_by_set(client: Client) {
    lease(&client, "b", "b").await;
    lease(&client, "c", "c").await;
    create(&client, LEASES, named("none")).await;
    for (selector, expected) in rows! {
        "a" => vec!["b", "c"];
        "!a" => vec!["none"];
        "a=b" => vec!["b"];
        "a == b" => vec!["b"];
        "a!=b" => vec!["c", "none"];
        "a in (b, c)" => vec!["b", "c"];
        "a notin (b)" => vec!["c", "none"];
        "a in (b,c),a!=c" => vec!["b"];
    } {
        let uri = format!("{LEASES}?labelSelector={}", escaped(selector));
        lists(&client, uri, &expected).await;
    }
}

async fn field_selectors_choose_by_name_and_by_what_the_kind_offers(client: Client) {
    create(&client, NODES, named("one")).await;
    let two = json!({ "metadata": { "name": "two" }, "spec": { "unschedulable": true } });
    create(&client, NODES, two).await;
    for (selector, expected) in rows! {
        "metadata.name=one" => vec!["one"];
        "metadata.name!=one" => vec!["two"];
        "spec.unschedulable=true" => vec!["two"];
        "spec.unschedulable=false" => vec!["one"];
        "spec.unschedulable=" => vec![];
    } {
        let uri = format!("{NODES}?fieldSelector={}", escaped(selector));
        lists(&client, uri, &expected).await;
    }
    lease(&client, "fields", "b").await;
    let all = "/apis/coordination.k8s.io/v1/leases?labelSelector=a&fieldSelector=metadata.namespace%3D";
    lists(&client, format!("{all}default"), &["fields"]).await;
    lists(&client, format!("{all}other"), &[]).await;
}

async fn a_paged_list_shows_one_version_to_its_end(client: Client) {
    for name in ["page-1", "page-2", "page-3", "page-4"] {
        lease(&client, name, "b").await;
    }
    let uri = format!("{LEASES}?labelSelector=a&limit=2");
    let first = read(&client, &uri).await;
    assert_eq!(names(&first), ["page-1", "page-2"]);
    // With a selector, the number of remaining items is unknown.
    first.shows(json!({ "metadata.remainingItemCount": null }));
    delete(&client, format!("{LEASES}/page-3"), Value::Null).await;
    lease(&client, "page-5", "b").await;
    for value in ["c", "d"] {
        let relabel = json!({ "metadata": { "labels": { "a": value } } });
        merge(&client, format!("{LEASES}/page-4"), relabel).await;
    }
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = read(&client, format!("{uri}&continue={token}")).await;
    assert_eq!(names(&second), ["page-3", "page-4"]);
    second.shows(json!({ "items.1.metadata.labels.a": "b", "metadata.continue": null }));
    assert_eq!(version(&second), version(&first));
    let now = format!("{LEASES}?labelSelector=a");
    lists(&client, now, &["page-1", "page-2", "page-4", "page-5"]).await;
    let bad = get(&client, format!("{uri}&continue=garbage")).await;
    bad.is(400, "BadRequest");
    let both = get(&client, format!("{uri}&continue={token}&resourceVersion=1")).await;
    let message = "specifying resource version is not allowed when using continue";
    both.says(400, message);
}

async fn a_page_of_one_namespace_is_blind_to_the_others(client: Client) {
    let there = LEASES.replace("default", "kube-system");
    let blind = json!({ "group": "blind" });
    for (uri, name) in [(&*there, "blind-1"), (&there, "blind-2"), (LEASES, "blind-here")] {
        create(&client, uri, labelled(name, &blind)).await;
    }
    let uri = format!("{there}?labelSelector=group%3Dblind");
    let first = read(&client, format!("{uri}&limit=1")).await;
    assert_eq!(names(&first), ["blind-1"]);
    delete(&client, format!("{LEASES}/blind-here"), Value::Null).await;
    delete(&client, format!("{there}/blind-2"), Value::Null).await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = format!("{uri}&limit=1&continue={token}");
    lists(&client, second, &["blind-2"]).await;
    let exact = format!(
        "{uri}&resourceVersionMatch=Exact&resourceVersion={}",
        version(&first)
    );
    lists(&client, exact, &["blind-1", "blind-2"]).await;
}

async fn versions_are_read_as_asked(client: Client) {
    let first = lease(&client, "versions-1", "b").await;
    lease(&client, "versions-2", "b").await;
    let list = async |query: &str| read(&client, format!("{LEASES}?labelSelector=a&{query}")).await;
    let old = version(&first);
    let exact = list(&format!("resourceVersion={old}&resourceVersionMatch=Exact")).await;
    assert_eq!((names(&exact), version(&exact)), (vec!["versions-1"], old));
    let paged = list(&format!("resourceVersion={old}&limit=10")).await;
    assert_eq!((names(&paged), version(&paged)), (vec!["versions-1"], old));
    catch_up(&client, LEASES).await;
    let no_older = format!("resourceVersion={old}&resourceVersionMatch=NotOlderThan");
    assert_eq!(names(&list(&no_older).await), ["versions-1", "versions-2"]);
    let any = list("resourceVersion=0&limit=1").await;
    assert_eq!(names(&any), ["versions-1", "versions-2"]);
    any.shows(json!({ "metadata.continue": null }));
    // Each request waits some seconds for its version.
    let futures = [
        format!("{LEASES}?resourceVersion=99999999"),
        format!("{LEASES}?resourceVersion=99999999&resourceVersionMatch=Exact"),
        format!("{LEASES}/versions-1?resourceVersion=99999999"),
    ]
    .map(|uri| get(&client, uri));
    for future in futures::future::join_all(futures).await {
        future.begins(504, "Timeout: Too large resource version: 99999999, current: ");
        future.shows(json!({ "reason": "Timeout", "details": {
            "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            "retryAfterSeconds": 1,
        } }));
    }
    let bad = get(&client, format!("{LEASES}?resourceVersion=abc")).await;
    bad.says(
        400,
        "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": \
         invalid syntax",
    );
}

async fn a_client_can_ask_for_metadata_only(client: Client) {
    let node = json!({
        "metadata": { "name": "meta", "labels": { "group": "meta" } },
        "spec": { "unschedulable": true },
    });
    let node = create(&client, NODES, node).await;
    let expected = json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": node["metadata"],
    });
    let uri = format!("{NODES}/meta");
    assert_eq!(get_as(&client, &uri, METADATA).await.body, expected);
    let collection = format!("{NODES}?labelSelector=group%3Dmeta");
    let list = get_as(&client, collection, METADATA_LIST).await;
    list.shows(json!({ "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1" }));
    assert_eq!(list.body["items"], json!([expected]));
    assert_eq!(get_as(&client, &uri, "text/plain").await.code, 406);
    let either = "application/json;as=Table;v=v1;g=example.com,application/json";
    assert_eq!(get_as(&client, &uri, either).await.body, node);
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
