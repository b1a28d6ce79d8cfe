//! Faults that a test can inject.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::{Fault, FaultRule, NODES as NODES_RESOURCE, RequestVerb, Server};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::http::*;
use crate::{rows, server};

const NODE: &str = "/api/v1/nodes/node-1";
pub(crate) const SECOND: Duration = Duration::from_secs(1);

fn annotation() -> Value {
    json!({ "metadata": { "annotations": { "a": "b" } } })
}

pub(crate) fn is_annotated(server: &Server) -> bool {
    server.get(&NODES_RESOURCE, "", "node-1").unwrap()["metadata"]["annotations"]["a"] == "b"
}

/// True if the connection breaks during a patch of the node.
pub(crate) async fn breaks(api: &Api<Node>) -> bool {
    matches!(annotate(api).await, Err(kube::Error::Service(_)))
}

pub(crate) fn one_node() -> (Server, Api<Node>) {
    let server = server();
    server.seed_nodes(1);
    let api = Api::all(server.client());
    (server, api)
}

pub(crate) async fn annotate(api: &Api<Node>) -> kube::Result<Node> {
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
    server.fail_next(2, |request| request.verb == RequestVerb::Patch, fault);
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let refused = patch(&server.client(), NODE, MERGE, annotation()).await;
    assert_eq!(refused.headers["retry-after"], "7");
    let details = json!({ "retryAfterSeconds": 7 });
    let message = "refused by the test: TooManyRequests";
    refused.refuses(429, "TooManyRequests", message, &details);
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
    for (fault, takes_effect) in [(Fault::DropBefore, false), (Fault::DropAfterEffect, true)] {
        server.fail_next(1, |request| request.verb.is_write(), fault);
        assert!(breaks(&api).await);
        assert_eq!(is_annotated(&server), takes_effect);
    }
    assert!(server.requests().iter().all(|request| request.code.is_none()));
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_takes_effect_late() {
    let (server, api) = one_node();
    let five = Duration::from_secs(5);
    for fault in [Fault::Delay(five), Fault::status(503, "ServiceUnavailable")] {
        server.fail_next(1, |request| request.name == "node-1", fault);
    }
    let start = Instant::now();
    let Err(kube::Error::Api(status)) = annotate(&api).await else {
        panic!("delayed, then refused");
    };
    assert_eq!((status.code, start.elapsed()), (503, five));
    server.fail_next(3, |_| true, Fault::Delay(five));
    server.clear_faults();
    annotate(&api).await.unwrap();
    assert_eq!(start.elapsed(), five);
}

#[tokio::test(start_paused = true)]
async fn a_request_takes_effect_after_its_sender_gave_up() {
    let (server, api) = one_node();
    server.fail_next(
        1,
        |request| request.verb == RequestVerb::Patch,
        Fault::LateEffect(SECOND),
    );
    assert!(breaks(&api).await);
    assert_eq!((is_annotated(&server), server.late_effects()), (false, 1));
    sleep(SECOND * 2).await;
    assert_eq!((is_annotated(&server), server.late_effects()), (true, 0));
    let [patch] = &*server.requests().writes() else {
        panic!("there is one write");
    };
    assert_eq!((patch.served, patch.code), (Some(Duration::ZERO), None));
}

/// The codes of `count` gets of the node.
async fn codes(server: &Server, count: usize) -> Vec<u16> {
    let mut codes = Vec::new();
    for _ in 0..count {
        codes.push(get(&server.client(), NODE).await.code);
    }
    codes
}

fn busy() -> FaultRule {
    FaultRule::new(Fault::status(503, "ServiceUnavailable"))
}

#[tokio::test(start_paused = true)]
async fn a_rule_strikes_the_nth_matching_request_or_all_after_it() {
    let (server, _) = one_node();
    server.fail(busy().verb(RequestVerb::Get).resource("nodes").nth(3));
    assert_eq!(get(&server.client(), LEASES).await.code, 200);
    assert_eq!(get(&server.client(), NODES).await.code, 200);
    assert_eq!(codes(&server, 4).await, [200, 200, 503, 200]);
    let twice = busy()
        .matching(|request| request.name == "node-1")
        .after(1)
        .times(2);
    server.fail(twice);
    assert_eq!(codes(&server, 4).await, [200, 503, 503, 200]);
    server.fail(busy().after(1));
    assert_eq!(codes(&server, 4).await, [200, 503, 503, 503]);
}

#[tokio::test(start_paused = true)]
async fn a_chance_is_drawn_from_the_seed() {
    let (server, _) = one_node();
    server.fail(busy().probability(0.5));
    let mut drawn = Vec::new();
    for seed in [7, 7, 8] {
        server.seed_faults(seed);
        drawn.push(codes(&server, 32).await);
    }
    assert_eq!(drawn[0], drawn[1]);
    assert_ne!(drawn[0], drawn[2]);
    assert!(drawn[0].contains(&200) && drawn[0].contains(&503));
    server.clear_faults();
    server.fail(busy().probability(0.0));
    assert_eq!(codes(&server, 3).await, [200, 200, 200]);
}

#[tokio::test(start_paused = true)]
async fn a_request_may_never_be_answered_with_and_without_effect() {
    for takes_effect in [false, true] {
        let (server, api) = one_node();
        server.fail_next(1, |_| true, Fault::NoAnswer { takes_effect });
        let waiting = tokio::spawn(async move { breaks(&api).await });
        sleep(Duration::from_hours(1)).await;
        assert!(!waiting.is_finished());
        assert_eq!(is_annotated(&server), takes_effect);
        server.down();
        assert!(waiting.await.unwrap());
        let request = &server.requests()[0];
        assert_eq!((request.served.is_some(), request.code), (takes_effect, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_may_time_out_at_the_server_with_and_without_effect() {
    for takes_effect in [false, true] {
        let (server, _) = one_node();
        let after = Duration::from_mins(1);
        server.fail_next(1, |_| true, Fault::Timeout { after, takes_effect });
        let start = Instant::now();
        let answer = patch(&server.client(), NODE, MERGE, annotation()).await;
        answer.is(504, "Timeout");
        assert_eq!(start.elapsed(), after);
        assert_eq!(is_annotated(&server), takes_effect);
    }
}

#[tokio::test(start_paused = true)]
async fn a_proxy_may_answer_404_for_an_object_that_is_there() {
    let (server, _) = one_node();
    server.fail_next(1, |_| true, Fault::NoSuchPage);
    let answer = patch(&server.client(), NODE, MERGE, annotation()).await;
    assert_eq!((answer.code, answer.body), (404, json!("404 page not found\n")));
    assert!(!is_annotated(&server));
}

#[tokio::test(start_paused = true)]
async fn an_answer_may_break_off_or_be_no_object() {
    let garbage = |takes_effect| Fault::Garbage { takes_effect };
    for (fault, takes_effect) in rows! {
        Fault::CutAnswer => true;
        garbage(true) => true;
        garbage(false) => false;
    } {
        let (server, api) = one_node();
        server.fail_next(2, |request| request.verb != RequestVerb::Watch, fault.clone());
        assert!(api.list(&ListParams::default()).await.is_err(), "{fault:?}");
        // A client may take the page for an object without a name.
        let annotated = annotate(&api).await;
        assert!(annotated.is_ok_and(|node| node.metadata.name.is_none()) || fault == Fault::CutAnswer);
        assert_eq!(is_annotated(&server), takes_effect, "{fault:?}");
        let requests = server.requests();
        assert!(
            requests
                .iter()
                .all(|request| request.code == Some(200) && request.garbled),
            "{fault:?}"
        );

        let (server, api) = one_node();
        server.fail_next(1, |request| request.verb == RequestVerb::Watch, fault.clone());
        let mut events = pin!(watcher(api.clone(), watcher::Config::default()));
        let mut failed = 0;
        loop {
            match events.next().await.unwrap() {
                Ok(Event::InitDone) => drop(annotate(&api).await.unwrap()),
                Ok(Event::Apply(_)) => break,
                Ok(_) => {}
                Err(_) => failed += 1,
            }
        }
        assert!(failed > 0, "{fault:?}: the watch failed, and went on");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_may_show_the_past_where_it_allows_that_and_on_demand_where_not() {
    let (server, _) = one_node();
    let first = server.version();
    sleep(SECOND * 10).await;
    server.seed_nodes(2);
    let latest = server.version();
    let client = server.client();
    let listed = async |query: &str| {
        let list = read(&client, format!("{NODES}{query}")).await;
        (names(&list).len(), version(&list))
    };
    let second = async |query: &str| get(&client, format!("{NODES}/node-2{query}")).await.code;
    let stale = |illegal| {
        FaultRule::new(Fault::Stale {
            by: SECOND * 5,
            illegal,
        })
        .times(4)
    };
    server.fail(stale(false));
    assert_eq!(listed("?resourceVersion=0").await, (1, first));
    assert_eq!(listed("").await, (2, latest));
    let no_older = format!("?resourceVersion={latest}&resourceVersionMatch=NotOlderThan");
    assert_eq!(listed(&no_older).await, (2, latest));
    assert_eq!(second("?resourceVersion=0").await, 404);
    assert_eq!(second("").await, 200);

    server.fail(stale(true));
    assert_eq!(listed("").await, (1, first));
    assert_eq!(second("").await, 404);
    sleep(SECOND * 10).await;
    assert_eq!(listed("").await, (2, latest));
    assert_eq!(second("").await, 200);
}

#[tokio::test(start_paused = true)]
async fn clocks_may_be_wrong_that_of_a_proxy_and_that_of_the_server() {
    let server = server();
    let client = server.client();
    let creates = async |name: &str, date: &str, created: &str| {
        let answer = post(&client, NODES, named(name)).await;
        assert_eq!(answer.headers["date"], date);
        answer.shows(json!({ "metadata.creationTimestamp": created }));
    };
    server.offset_date(jiff::SignedDuration::from_mins(5));
    creates("a", "Thu, 01 Jan 2026 00:05:00 GMT", "2026-01-01T00:00:00Z").await;
    server.offset_date(jiff::SignedDuration::ZERO);
    server.offset_clock(jiff::SignedDuration::from_hours(-1));
    creates("b", "Wed, 31 Dec 2025 23:00:00 GMT", "2025-12-31T23:00:00Z").await;
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_each_request_when_it_is_carried_out() {
    let (server, api) = one_node();
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let told = seen.clone();
    server.observe(move |server, request| {
        told.lock()
            .push((request.to_string(), is_annotated(server), server.elapsed()));
    });
    let five = SECOND * 5;
    server.fail(FaultRule::new(Fault::Delay(five)).times(1));
    annotate(&api).await.unwrap();
    server.fail(busy().times(1));
    annotate(&api).await.unwrap_err();
    let line = r#"patch nodes/node-1 {"metadata":{"annotations":{"a":"b"}}}"#.to_owned();
    assert_eq!(*seen.lock(), [(line, false, five)]);
    let requests = server.requests();
    let times = requests.iter().map(|request| (request.arrived, request.served));
    assert_eq!(
        times.collect::<Vec<_>>(),
        [(Duration::ZERO, Some(five)), (five, None)]
    );
}
