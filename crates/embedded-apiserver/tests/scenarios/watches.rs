//! Bookmarks, ends and lost history of watches.

use std::time::Duration;

use embedded_apiserver::NODES as NODES_RESOURCE;
use serde_json::json;

use crate::http::*;
use crate::server;

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
async fn a_watch_from_a_compacted_version_gets_that_it_expired() {
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
