//! Watches: start, events, end.

use std::time::Duration;

use embedded_apiserver::NODES as NODES_RESOURCE;
use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::server;

crate::scenarios![
    a_watch_tells_what_happened_since_its_version,
    a_selector_turns_changes_into_additions_and_deletions,
    a_watch_from_no_version_starts_with_what_there_is,
    a_streaming_list_ends_with_a_marked_bookmark,
    a_metadata_only_watch_rewrites_its_events,
    a_watch_ends_at_its_timeout,
    a_watch_from_the_future_waits_and_a_streaming_list_does_not,
    a_namespaced_watch_sees_its_namespace_only,
];

fn lease(name: &str, group: &str, a: &str) -> Value {
    json!({ "metadata": { "name": name, "labels": { "group": group, "a": a } } })
}

fn watch_of(group: &str, more: &str) -> String {
    format!("{LEASES}?watch=true&labelSelector=group%3D{group}{more}")
}

async fn label(client: &Client, name: &str, a: &str) -> Value {
    let body = json!({ "metadata": { "labels": { "a": a } } });
    merge(client, format!("{LEASES}/{name}"), body).await
}

async fn a_watch_tells_what_happened_since_its_version(client: Client) {
    let first = create(&client, LEASES, lease("since-1", "since", "1")).await;
    let second = create(&client, LEASES, lease("since-2", "since", "1")).await;
    let mut watch = Watch::since(&client, watch_of("since", ""), &first).await;
    watch.tells("ADDED", &second).await;
    let mut changed = label(&client, "since-1", "2").await;
    watch.tells("MODIFIED", &changed).await;
    delete(&client, format!("{LEASES}/since-1"), Value::Null).await;
    let deleted = watch.event().await;
    assert!(version(&deleted["object"]) > version(&changed));
    changed["metadata"]["resourceVersion"] = deleted["object"]["metadata"]["resourceVersion"].clone();
    assert_eq!(deleted, json!({ "type": "DELETED", "object": changed }));
    assert!(watch.is_silent().await);
}

async fn a_selector_turns_changes_into_additions_and_deletions(client: Client) {
    let created = create(&client, LEASES, lease("sel", "sel", "1")).await;
    let entered = label(&client, "sel", "sel").await;
    let annotated = json!({ "metadata": { "annotations": { "z": "z" } } });
    let annotated = merge(&client, format!("{LEASES}/sel"), annotated).await;
    let left = label(&client, "sel", "1").await;
    label(&client, "sel", "2").await;
    label(&client, "sel", "sel").await;
    delete(&client, format!("{LEASES}/sel"), Value::Null).await;
    let mut watch = Watch::since(&client, watch_of("sel,a%3Dsel", ""), &created).await;
    watch.tells("ADDED", &entered).await;
    watch.tells("MODIFIED", &annotated).await;
    // The event shows the object's last selected state, with the version at which it left the selection.
    let mut gone = annotated;
    gone["metadata"]["resourceVersion"] = left["metadata"]["resourceVersion"].clone();
    watch.tells("DELETED", &gone).await;
    watch.tells_of(&["ADDED sel", "DELETED sel"]).await;
    assert!(watch.is_silent().await);
}

async fn a_watch_from_no_version_starts_with_what_there_is(client: Client) {
    create(&client, LEASES, lease("any-2", "any", "1")).await;
    create(&client, LEASES, lease("any-1", "any", "1")).await;
    catch_up(&client, LEASES).await;
    for version in ["", "&resourceVersion=0"] {
        let mut watch = Watch::open(&client, watch_of("any", version)).await;
        watch.tells_of(&["ADDED any-1", "ADDED any-2"]).await;
        assert!(watch.is_silent().await);
    }
}

const STREAMING: &str = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

async fn a_streaming_list_ends_with_a_marked_bookmark(client: Client) {
    let first = create(&client, LEASES, lease("str-1", "str", "1")).await;
    let second = create(&client, LEASES, lease("str-2", "str", "1")).await;
    let mut watch = Watch::open(&client, watch_of("str", STREAMING)).await;
    watch.tells("ADDED", &first).await;
    watch.tells("ADDED", &second).await;
    let bookmark = watch.event().await;
    assert_eq!(bookmark["type"], "BOOKMARK");
    let object = &bookmark["object"];
    object.shows(json!({ "kind": "Lease", "apiVersion": "coordination.k8s.io/v1" }));
    assert!(version(object) >= version(&second));
    object.shows(json!({ "metadata.annotations": { "k8s.io/initial-events-end": "true" } }));
    let third = create(&client, LEASES, lease("str-3", "str", "1")).await;
    watch.tells("ADDED", &third).await;
    let unmarked = STREAMING.replace("&allowWatchBookmarks=true", "");
    let mut watch = Watch::open(&client, watch_of("str,a%3Dnone", &unmarked)).await;
    assert!(watch.is_silent().await);
}

async fn a_metadata_only_watch_rewrites_its_events(client: Client) {
    let node = json!({
        "metadata": { "name": "pm", "labels": { "group": "pm" } },
        "spec": { "unschedulable": true },
    });
    let node = create(&client, NODES, node).await;
    let uri = format!("{NODES}?watch=1&labelSelector=group%3Dpm{STREAMING}");
    let mut watch = Watch::open_as(&client, uri, METADATA).await;
    watch.tells("ADDED", &partial(&node)).await;
    let bookmark = watch.event().await["object"].take();
    assert_eq!(bookmark, partial(&bookmark));
    delete(&client, format!("{NODES}/pm"), Value::Null).await;
    let deleted = watch.event().await;
    deleted.shows(json!({ "type": "DELETED", "object": partial(&deleted["object"]) }));
    deleted.shows(json!({ "object.metadata.uid": node["metadata"]["uid"] }));
}

async fn a_watch_ends_at_its_timeout(client: Client) {
    let uri = watch_of("timeout", "&timeoutSeconds=2");
    let mut watch = Watch::open(&client, uri).await;
    assert!(watch.is_silent().await);
    assert_eq!(watch.next_within(Duration::from_secs(5)).await, Next::End);
}

async fn a_watch_from_the_future_waits_and_a_streaming_list_does_not(client: Client) {
    let mut watch = Watch::open(&client, watch_of("future", "&resourceVersion=99999999")).await;
    create(&client, LEASES, lease("future", "future", "1")).await;
    assert!(watch.is_silent().await);
    label(&client, "future", "2").await;
    assert!(watch.is_silent().await);
    let uri = watch_of("future", &format!("{STREAMING}&resourceVersion=99999999"));
    let mut watch = Watch::open(&client, uri).await;
    let error = watch.event().await;
    error.shows(json!({ "type": "ERROR", "object.code": 504, "object.reason": "Timeout" }));
    assert_eq!(watch.next_within(Duration::from_secs(5)).await, Next::End);
}

async fn a_namespaced_watch_sees_its_namespace_only(client: Client) {
    let here = create(&client, LEASES, lease("ns", "ns", "1")).await;
    let there = LEASES.replace("default", "kube-system");
    let everywhere = "/apis/coordination.k8s.io/v1/leases?labelSelector=group%3Dns";
    let mut all = Watch::since(&client, everywhere, &here).await;
    let mut one = Watch::since(&client, watch_of("ns", ""), &here).await;
    create(&client, &there, lease("ns-there", "ns", "1")).await;
    assert_eq!(all.line().await, "ADDED ns-there");
    assert!(one.is_silent().await);
    let deleted = delete(&client, format!("{there}/ns-there"), Value::Null).await;
    assert_eq!(deleted.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_comes_every_minute_to_who_asked_for_it() {
    let server = server();
    server.seed_nodes(1);
    let client = server.client();
    let uri = format!("{NODES}?watch=1&resourceVersion={}", server.version());
    let mut with = Watch::open(&client, format!("{uri}&allowWatchBookmarks=true")).await;
    let mut without = Watch::open(&client, uri).await;
    assert_eq!(with.next_within(Duration::from_secs(59)).await, Next::Silence);
    // Writes to other resources advance the bookmark.
    create(&client, LEASES, named("other")).await;
    for seconds in [2, 61] {
        let bookmark = json!({ "type": "BOOKMARK", "object": {
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": { "resourceVersion": server.version().to_string() },
        } });
        let next = with.next_within(Duration::from_secs(seconds)).await;
        assert_eq!(next, Next::Event(bookmark));
    }
    assert_eq!(without.next_within(Duration::from_mins(5)).await, Next::Silence);
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_timeout_ends_after_half_an_hour() {
    let server = server();
    let mut watch = Watch::open(&server.client(), format!("{NODES}?watch=1&resourceVersion=1")).await;
    assert_eq!(watch.next_within(Duration::from_secs(1799)).await, Next::Silence);
    assert_eq!(watch.next_within(Duration::from_secs(2)).await, Next::End);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_compacted_version_is_told_that_it_expired() {
    let server = server();
    server.seed_nodes(2);
    let client = server.client();
    let old = server.version() - 1;
    server.compact();
    let mut watch = Watch::open(&client, format!("{NODES}?watch=1&resourceVersion={old}")).await;
    assert_eq!(
        watch.event().await,
        json!({ "type": "ERROR", "object": {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": format!("too old resource version: {old} ({})", old + 1),
            "reason": "Expired",
            "code": 410,
        } })
    );
    assert_eq!(watch.next_within(Duration::from_secs(1)).await, Next::End);
    let uri = format!("{NODES}?watch=1&resourceVersion={}", old + 1);
    let mut current = Watch::open(&client, uri).await;
    server.compact();
    server.delete(&NODES_RESOURCE, "", "node-1").unwrap();
    assert_eq!(current.line().await, "DELETED node-1");
}

#[tokio::test(start_paused = true)]
async fn history_of_more_than_five_minutes_is_forgotten_once_it_is_long() {
    let server = server();
    server.seed_nodes(2000);
    let client = server.client();
    let watch_from =
        async |version: u64| Watch::open(&client, format!("{NODES}?watch=1&resourceVersion={version}")).await;
    let old = server.version();
    tokio::time::sleep(Duration::from_secs(299)).await;
    server.delete(&NODES_RESOURCE, "", "node-1").unwrap();
    assert_eq!(watch_from(1).await.line().await, "ADDED node-1");
    tokio::time::sleep(Duration::from_secs(2)).await;
    server.delete(&NODES_RESOURCE, "", "node-2").unwrap();
    assert_eq!(watch_from(1).await.event().await["object"]["code"], 410);
    assert_eq!(watch_from(old).await.line().await, "DELETED node-1");
}
