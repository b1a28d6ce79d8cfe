//! Faults of watches.

use std::pin::pin;
use std::time::Duration;

use embedded_apiserver::{Fault, FaultRule, NODES as NODES_RESOURCE};
use futures::StreamExt;
use kube::ResourceExt;
use kube::api::{GetParams, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, InitialListStrategy, watcher};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::faults::{SECOND, annotate, breaks, is_annotated, one_node};
use crate::http::*;

fn watch_from(version: u64) -> String {
    format!("{NODES}?watch=1&resourceVersion={version}")
}

#[tokio::test(start_paused = true)]
async fn an_outage_breaks_watches_and_refuses_connections_until_it_is_over() {
    let (server, api) = one_node();
    let version = server.version();
    let uri = watch_from(version);
    let mut watch = Watch::open(&server.client(), &uri).await;
    server.fail_next(1, |_| true, Fault::Delay(SECOND * 3));
    let patching = api.clone();
    let waiting = tokio::spawn(async move { breaks(&patching).await });
    sleep(SECOND).await;
    let future = GetParams::at(&(version + 1).to_string());
    let reading = api.clone();
    let answering = tokio::spawn(async move { reading.get_with("node-1", &future).await });
    sleep(SECOND).await;
    server.down();
    assert_eq!(watch.next_within(SECOND).await, Next::Broken);
    assert!(breaks(&api).await);
    sleep(SECOND * 60).await;
    assert!(waiting.await.unwrap());
    assert!(matches!(answering.await.unwrap(), Err(kube::Error::Service(_))));
    assert!(!is_annotated(&server));
    server.up();
    annotate(&api).await.unwrap();
    let mut watch = Watch::open(&server.client(), &uri).await;
    assert_eq!(watch.line().await, "MODIFIED node-1");
}

#[tokio::test(start_paused = true)]
async fn closed_watches_end_in_good_order() {
    let (server, api) = one_node();
    let uri = watch_from(server.version());
    let mut watch = Watch::open(&server.client(), &uri).await;
    server.close_watches();
    assert_eq!(watch.next_within(SECOND).await, Next::End);
    let mut watch = Watch::open(&server.client(), &uri).await;
    annotate(&api).await.unwrap();
    assert_eq!(watch.line().await, "MODIFIED node-1");
}

#[tokio::test(start_paused = true)]
async fn kubes_watcher_recovers_from_an_outage_and_a_compaction() {
    let (server, api) = one_node();
    for strategy in [InitialListStrategy::ListWatch, InitialListStrategy::StreamingList] {
        let config = watcher::Config {
            initial_list_strategy: strategy,
            ..watcher::Config::default()
        };
        let events = watcher(api.clone(), config).default_backoff();
        let mut events = pin!(events);
        let mut seen = Vec::new();
        let mut until = async |wanted: &str| {
            seen.clear();
            while seen.last().map(String::as_str) != Some(wanted) {
                seen.push(match events.next().await.unwrap() {
                    Ok(Event::Init) => "init".to_owned(),
                    Ok(Event::InitApply(node)) => format!("listed {}", node.name_any()),
                    Ok(Event::InitDone) => "done".to_owned(),
                    Ok(Event::Apply(node)) => format!("applied {}", node.name_any()),
                    Ok(Event::Delete(node)) => format!("deleted {}", node.name_any()),
                    Err(_) => "failed".to_owned(),
                });
            }
            seen.clone()
        };
        assert_eq!(until("done").await, ["init", "listed node-1", "done"]);
        server.down();
        assert_eq!(until("failed").await, ["failed"]);
        server.seed_nodes(2);
        server.compact();
        server.up();
        let recovered = until("done").await;
        assert!(
            recovered.ends_with(&["init", "listed node-1", "listed node-2", "done"].map(String::from)),
            "{recovered:?}"
        );
        server.delete(&NODES_RESOURCE, "", "node-2").unwrap();
        assert_eq!(until("deleted node-2").await, ["deleted node-2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_end_at_once_or_tell_nothing() {
    let (server, api) = one_node();
    let uri = format!("{}&allowWatchBookmarks=true", watch_from(server.version()));
    annotate(&api).await.unwrap();
    server.fail_next(1, |_| true, Fault::WatchEnds);
    let mut watch = Watch::open(&server.client(), &uri).await;
    assert_eq!(watch.next_within(SECOND).await, Next::End);

    server.fail_next(1, |_| true, Fault::WatchSilent);
    let mut watch = Watch::open(&server.client(), &uri).await;
    assert_eq!(watch.next_within(Duration::from_hours(1)).await, Next::Silence);
    server.close_watches();
    assert_eq!(watch.next_within(Duration::from_hours(1)).await, Next::Silence);
    server.down();
    assert_eq!(watch.next_within(SECOND).await, Next::Broken);
    server.up();
    let mut watch = Watch::open(&server.client(), &uri).await;
    assert_eq!(watch.line().await, "MODIFIED node-1");
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_lag_so_that_events_of_two_resources_come_in_another_order() {
    let (server, api) = one_node();
    let version = server.version();
    server.fail(FaultRule::new(Fault::WatchLags(SECOND * 5)).resource("nodes"));
    let nodes = format!("{}&allowWatchBookmarks=true", watch_from(version));
    let leases = format!("{LEASES}?watch=1&resourceVersion={version}");
    let mut nodes = Watch::open(&server.client(), nodes).await;
    let mut leases = Watch::open(&server.client(), leases).await;
    let start = Instant::now();
    annotate(&api).await.unwrap();
    sleep(SECOND * 2).await;
    create(&server.client(), LEASES, named("later")).await;
    server.delete(&NODES_RESOURCE, "", "node-1").unwrap();
    assert_eq!(leases.line().await, "ADDED later");
    assert_eq!(start.elapsed(), SECOND * 2);
    for (line, after) in [("MODIFIED node-1", 5), ("DELETED node-1", 7)] {
        assert_eq!(nodes.line().await, line);
        assert_eq!(start.elapsed(), SECOND * after);
    }
    let Next::Event(bookmark) = nodes.next_within(Duration::from_mins(2)).await else {
        panic!("a bookmark is due every minute");
    };
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(crate::http::version(&bookmark["object"]), server.version());
}

#[tokio::test(start_paused = true)]
async fn a_restarted_server_knows_its_objects_and_no_events_of_before() {
    let (server, api) = one_node();
    let before = server.version();
    let uri = watch_from(before);
    let mut watch = Watch::open(&server.client(), &uri).await;
    annotate(&api).await.unwrap();
    assert_eq!(watch.line().await, "MODIFIED node-1");
    server.restart();
    assert_eq!(watch.next_within(SECOND).await, Next::Broken);
    assert!(breaks(&api).await);
    server.up();
    let error = Watch::open(&server.client(), &uri).await.event().await;
    error.shows(json!({ "type": "ERROR", "object.code": 410 }));
    let exact = format!("{NODES}?resourceVersion={before}&resourceVersionMatch=Exact");
    lists(&server.client(), exact, &["node-1"]).await;
    let mut watch = Watch::open(&server.client(), watch_from(server.version())).await;
    server.delete(&NODES_RESOURCE, "", "node-1").unwrap();
    assert_eq!(watch.line().await, "DELETED node-1");
}

/// What no watch can tell: its version comes again.
#[tokio::test(start_paused = true)]
async fn an_etcd_that_is_set_back_gives_versions_again_and_keeps_watches_waiting() {
    let (server, api) = one_node();
    let (client, backup) = (server.client(), server.version());
    annotate(&api).await.unwrap();
    create(&client, NODES, named("lost")).await;
    let lost = server.version();
    server.delete(&NODES_RESOURCE, "", "node-1").unwrap();
    assert!(server.set_back(backup));
    assert!(breaks(&api).await);
    server.up();
    assert!(!is_annotated(&server));
    lists(&client, NODES, &["node-1"]).await;
    assert_eq!(server.version(), backup);
    let error = Watch::open(&client, watch_from(backup - 1)).await.event().await;
    error.shows(json!({ "type": "ERROR", "object.code": 410 }));

    let mut ahead = Watch::open(&client, watch_from(lost)).await;
    let mut watch = Watch::open(&client, watch_from(backup)).await;
    for name in ["b", "c"] {
        create(&client, NODES, named(name)).await;
        assert_eq!(watch.line().await, format!("ADDED {name}"));
    }
    assert_eq!(server.version(), lost);
    assert_eq!(ahead.next_within(SECOND).await, Next::Silence);
    create(&client, NODES, named("d")).await;
    assert_eq!(ahead.line().await, "ADDED d");

    server.compact();
    assert!(!server.set_back(backup), "nobody knows what was then");
    annotate(&api).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_restored_etcd_holds_what_it_was_given_alone() {
    let (server, api) = one_node();
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "kept", "uid": "u", "resourceVersion": "70", "annotations": { "a": "b" } },
    });
    server.restore(vec![node], 79).unwrap();
    lists(&server.client(), NODES, &["kept"]).await;
    assert!(api.get_opt("node-1").await.unwrap().is_none());
    let kept = server.get(&NODES_RESOURCE, "", "kept").unwrap();
    assert_eq!(
        (&kept["metadata"]["uid"], &kept["metadata"]["resourceVersion"]),
        (&json!("u"), &json!("70"))
    );
    // What changes nothing is no write.
    let same = Patch::Merge(json!({ "metadata": { "annotations": { "a": "b" } } }));
    let params = PatchParams::default();
    let patched = api.patch("kept", &params, &same).await.unwrap();
    assert_eq!(patched.metadata.resource_version.as_deref(), Some("70"));
    let other = Patch::Merge(json!({ "metadata": { "annotations": { "a": "c" } } }));
    let patched = api.patch("kept", &params, &other).await.unwrap();
    assert_eq!(patched.metadata.resource_version.as_deref(), Some("80"));

    let unknown = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" } });
    server.restore(vec![unknown], 1).unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_allows_an_old_state_may_begin_in_the_past() {
    let (server, _) = one_node();
    let client = server.client();
    sleep(SECOND * 10).await;
    server.seed_nodes(2);
    let by = SECOND * 5;
    server.fail(FaultRule::new(Fault::Stale { by, illegal: false }));
    let mut recent = Watch::open(&client, format!("{NODES}?watch=1")).await;
    assert_eq!(recent.line().await, "ADDED node-1");
    assert_eq!(recent.line().await, "ADDED node-2");
    let mut old = Watch::open(&client, format!("{NODES}?watch=1&resourceVersion=0")).await;
    assert_eq!(old.line().await, "ADDED node-1");
    // What the cache lacked is sent as it comes.
    assert_eq!(old.line().await, "MODIFIED node-1");
    assert_eq!(old.line().await, "ADDED node-2");
}
