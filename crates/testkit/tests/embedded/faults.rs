//! What can be made to go wrong.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, GetParams, ListParams, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, InitialListStrategy, watcher};
use serde_json::{Value, json};
use testkit::embedded::{Fault, NODES as NODES_RESOURCE, Server, Verb};
use tokio::time::Instant;

use crate::http::*;
use crate::server;

fn annotation() -> Value {
    json!({ "metadata": { "annotations": { "a": "b" } } })
}

fn is_annotated(server: &Server) -> bool {
    server.get(&NODES_RESOURCE, "", "node-1").unwrap()["metadata"]["annotations"]["a"] == "b"
}

fn one_node() -> (Server, Api<Node>) {
    let server = server();
    server.seed_nodes(1);
    let api = Api::all(server.client());
    (server, api)
}

async fn annotate(api: &Api<Node>) -> kube::Result<Node> {
    let patch = Patch::Strategic(annotation());
    api.patch("node-1", &PatchParams::default(), &patch).await
}

#[tokio::test(start_paused = true)]
async fn the_next_matching_requests_are_refused_with_a_status() {
    let (server, api) = one_node();
    let fault = Fault::Status {
        code: 429,
        reason: "TooManyRequests".to_owned(),
        retry_after: Some(Duration::from_secs(7)),
    };
    server.fail_next(2, |request| request.verb == Verb::Patch, fault);
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let refused = patch(&server.client(), format!("{NODES}/node-1"), MERGE, annotation()).await;
    assert_eq!(refused.code, 429);
    assert_eq!(refused.headers["retry-after"], "7");
    assert_eq!(
        refused.body,
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "refused by the test: TooManyRequests",
            "reason": "TooManyRequests",
            "details": { "retryAfterSeconds": 7 },
            "code": 429,
        })
    );
    let Err(kube::Error::Api(status)) = annotate(&api).await else {
        panic!("the second patch is refused too");
    };
    assert_eq!((status.code, status.reason.as_str()), (429, "TooManyRequests"));
    assert!(!is_annotated(&server));
    annotate(&api).await.unwrap();
    assert!(is_annotated(&server));
}

#[tokio::test(start_paused = true)]
async fn priority_and_fairness_refuses_in_plain_text() {
    let (server, _) = one_node();
    let fault = Fault::Throttled {
        retry_after: Duration::from_secs(1),
    };
    server.fail_next(1, |_| true, fault);
    let refused = get(&server.client(), NODES).await;
    assert_eq!(refused.code, 429);
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(refused.body, "Too many requests, please try again later.\n");
}

#[tokio::test(start_paused = true)]
async fn a_connection_breaks_before_or_after_the_effect() {
    let (server, api) = one_node();
    server.fail_next(1, |request| request.verb.is_write(), Fault::DropBefore);
    assert!(matches!(annotate(&api).await, Err(kube::Error::Service(_))));
    assert!(!is_annotated(&server));
    server.fail_next(1, |request| request.verb.is_write(), Fault::DropAfterEffect);
    assert!(matches!(annotate(&api).await, Err(kube::Error::Service(_))));
    assert!(is_annotated(&server));
    let codes: Vec<Option<u16>> = server.requests().iter().map(|request| request.code).collect();
    assert_eq!(codes, [None, None]);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_takes_effect_late() {
    let (server, api) = one_node();
    server.fail_next(
        1,
        |request| request.name == "node-1",
        Fault::Delay(Duration::from_secs(5)),
    );
    server.fail_next(
        1,
        |request| request.name == "node-1",
        Fault::status(503, "ServiceUnavailable"),
    );
    let start = Instant::now();
    let Err(kube::Error::Api(status)) = annotate(&api).await else {
        panic!("delayed, then refused");
    };
    assert_eq!((status.code, start.elapsed()), (503, Duration::from_secs(5)));
    server.fail_next(3, |_| true, Fault::Delay(Duration::from_secs(5)));
    server.clear_faults();
    annotate(&api).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn an_outage_breaks_watches_and_refuses_connections_until_it_is_over() {
    let (server, api) = one_node();
    let version = server.version();
    let uri = format!("{NODES}?watch=1&resourceVersion={version}");
    let mut watch = Watch::open(&server.client(), &uri).await;
    server.fail_next(1, |_| true, Fault::Delay(Duration::from_secs(3)));
    let waiting = tokio::spawn({
        let api = api.clone();
        async move { annotate(&api).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let future = GetParams::at(&(version + 1).to_string());
    let answering = tokio::spawn({
        let api = api.clone();
        async move { api.get_with("node-1", &future).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.down();
    assert_eq!(watch.next_within(Duration::from_secs(1)).await, Next::Broken);
    assert!(matches!(annotate(&api).await, Err(kube::Error::Service(_))));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(matches!(waiting.await.unwrap(), Err(kube::Error::Service(_))));
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
    let uri = format!("{NODES}?watch=1&resourceVersion={}", server.version());
    let mut watch = Watch::open(&server.client(), &uri).await;
    server.close_watches();
    assert_eq!(watch.next_within(Duration::from_secs(1)).await, Next::End);
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
