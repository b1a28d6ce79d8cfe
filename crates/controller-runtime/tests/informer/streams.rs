//! [`ListWatch`] against the embedded API server, which serves streaming lists and both encodings: a thing is a node.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::Bytes;
use controller_core::cache::protobuf::{FieldKind, METADATA, Message};
use controller_core::cache::{DecodeError, Identity, Wire, intern};
use controller_core::config::Encoding;
use controller_runtime::informer::ListWatch;
use embedded_apiserver::{Fault, FaultRule, NODES, RecordedRequest, RequestVerb, Server};
use futures::{StreamExt, stream};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use kube::discovery::ApiResource;
use rstest::rstest;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::thing::{Running, Thing, clock};

/// The number of taints is the value of the thing.
#[derive(Clone, Deserialize)]
struct NodeWire {
    #[serde(default)]
    spec: Spec,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    provider_id: String,
    taints: Vec<Taint>,
}

#[derive(Clone, Deserialize)]
struct Taint {}

impl Wire for NodeWire {
    type View = Thing;

    const MESSAGE: Option<Message> = Some(&[
        METADATA,
        (
            2,
            "spec",
            FieldKind::Message(&[(3, "providerID", FieldKind::Text), (5, "taints", TAINTS)]),
        ),
    ]);

    fn into_view(self, node: Identity) -> Result<Thing, DecodeError> {
        Ok(Thing {
            key: node.key,
            node: intern(&self.spec.provider_id),
            value: i64::try_from(self.spec.taints.len()).unwrap(),
        })
    }
}

const TAINTS: FieldKind = FieldKind::List(&FieldKind::Message(&[]));

struct World {
    server: Server,
    running: Running,
}

fn start(server: Server, encoding: Encoding) -> World {
    let client = server.client();
    start_by(client, server, encoding)
}

fn start_by(client: Client, server: Server, encoding: Encoding) -> World {
    let clock = clock();
    let nodes = ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&());
    let source = ListWatch::<NodeWire>::new(client, nodes, encoding, clock.clone());
    World {
        server,
        running: Running::start(source, clock),
    }
}

fn server() -> Server {
    Server::starting_at("2026-01-01T00:00:00Z".parse().unwrap())
}

fn node(name: &str, taints: usize) -> Value {
    let taint = |n| json!({ "key": format!("k{n}"), "effect": "NoExecute" });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name },
        "spec": { "taints": (0..taints).map(taint).collect::<Vec<_>>() },
    })
}

fn with_nodes(count: usize) -> Server {
    let server = server();
    for number in 0..count {
        server.insert(node(&format!("n{number}"), number)).unwrap();
    }
    server
}

fn taint(server: &Server, name: &str, taints: usize) {
    let tainted = node(name, taints)["spec"]["taints"].clone();
    server
        .edit(&NODES, "", name, |node| node["spec"]["taints"] = tainted)
        .unwrap();
}

/// Verb, and whether the request lists all objects.
const STREAM: (RequestVerb, bool) = (RequestVerb::Watch, true);
const PAGE: (RequestVerb, bool) = (RequestVerb::List, true);
const WATCH: (RequestVerb, bool) = (RequestVerb::Watch, false);

impl World {
    /// Two nodes come in pages; then the watch cannot resume.
    async fn is_listed_in_pages_and_then_anew(&self) {
        self.running.clock.sleep(Duration::from_mins(1)).await;
        assert_eq!(self.running.held(), ["n0=0", "n1=1"]);
        assert_eq!(self.verbs(), [PAGE, WATCH]);
        self.server.down();
        taint(&self.server, "n0", 3);
        self.server.compact();
        self.server.up();
        self.running.clock.sleep(Duration::from_mins(1)).await;
        assert_eq!(self.running.held(), ["n0=3", "n1=1"]);
    }

    /// After a 410, and after any failure of earlier attempts, these requests lead to a watch.
    async fn is_listed_anew_by(&self, expected: &[(RequestVerb, bool)]) {
        let before = self.verbs().len();
        self.server.down();
        taint(&self.server, "n0", before);
        self.server.compact();
        self.server.up();
        self.running.clock.sleep(Duration::from_mins(2)).await;
        assert_eq!(self.running.last_error(), None);
        assert_eq!(
            self.verbs()[before + 1..],
            *expected,
            "after the watch that was too late"
        );
    }

    fn verbs(&self) -> Vec<(RequestVerb, bool)> {
        let asked = self.asked().into_iter();
        asked.map(|(verb, lists, _)| (verb, lists)).collect()
    }

    /// Verb, whether the request lists all objects, and whether it accepts protobuf.
    fn asked(&self) -> Vec<(RequestVerb, bool, bool)> {
        let requests = self.server.requests();
        let asked = requests
            .iter()
            .map(|request| (request.verb, request.lists(), request.accept.contains("protobuf")));
        asked.collect()
    }
}

#[rstest]
#[case::in_protobuf(Encoding::Protobuf, true)]
#[case::in_json(Encoding::Json, false)]
#[tokio::test(start_paused = true)]
async fn a_streaming_list_and_then_a_watch_feed_the_store(
    #[case] encoding: Encoding,
    #[case] is_protobuf: bool,
) {
    let world = start(with_nodes(3), encoding);
    assert_eq!(world.running.told().await, ["+n0=0", "+n1=1", "+n2=2", "synced"]);
    taint(&world.server, "n0", 7);
    world.server.insert(node("n3", 1)).unwrap();
    world.server.delete(&NODES, "", "n1").unwrap();
    assert_eq!(world.running.told().await, ["~n0=0>7", "+n3=1", "-n1=1"]);
    let asked = [
        (RequestVerb::Watch, true, is_protobuf),
        (RequestVerb::Watch, false, is_protobuf),
    ];
    assert_eq!(world.asked(), asked);
}

/// As behind a proxy that supports JSON only.
#[tokio::test(start_paused = true)]
async fn an_answer_in_json_is_read_whatever_was_asked_for() {
    let world = start(with_nodes(2).without_protobuf(), Encoding::Protobuf);
    assert_eq!(world.running.told().await, ["+n0=0", "+n1=1", "synced"]);
    taint(&world.server, "n0", 7);
    assert_eq!(world.running.told().await, ["~n0=0>7"]);
}

#[rstest]
#[case::not_acceptable(406, "NotAcceptable")]
#[case::unsupported(415, "UnsupportedMediaType")]
#[tokio::test(start_paused = true)]
async fn who_refuses_protobuf_is_asked_for_json(#[case] code: u16, #[case] reason: &str) {
    let server = with_nodes(1);
    let asks_for_protobuf = |request: &RecordedRequest| request.accept.contains("protobuf");
    server.fail(FaultRule::new(Fault::status(code, reason)).matching(asks_for_protobuf));
    let world = start(server, Encoding::Protobuf);
    assert_eq!(world.running.told().await, ["+n0=0", "synced"]);
    let (list, watch) = (
        (RequestVerb::Watch, true, false),
        (RequestVerb::Watch, false, false),
    );
    assert_eq!(world.asked(), [(RequestVerb::Watch, true, true), list, watch]);
    assert_eq!(world.running.last_error(), None);
}

#[rstest]
#[case::in_protobuf(Encoding::Protobuf)]
#[case::in_json(Encoding::Json)]
#[tokio::test(start_paused = true)]
async fn a_bad_object_is_skipped_by_name_in_a_stream_and_in_a_watch(#[case] encoding: Encoding) {
    let server = with_nodes(3);
    let spoil = |server: &Server, name: &str| {
        let spoilt = |node: &mut Value| node["spec"]["taints"] = json!("none");
        server.spoil(&NODES, "", name, spoilt).unwrap();
    };
    spoil(&server, "n0");
    let world = start(server, encoding);
    assert_eq!(world.running.told().await, ["+n1=1", "+n2=2", "synced"]);
    spoil(&world.server, "n1");
    taint(&world.server, "n2", 5);
    assert_eq!(world.running.told().await, ["~n2=2>5"]);
    assert_eq!(world.running.held(), ["n1=1", "n2=5"], "the last known view");
    assert_eq!(world.running.metric("decode_errors_total"), 2);
    assert_eq!(world.running.last_error(), None);
    assert_eq!(world.asked().len(), 2);
}

#[rstest]
#[case::in_protobuf(Encoding::Protobuf)]
#[case::in_json(Encoding::Json)]
#[tokio::test(start_paused = true)]
async fn a_410_leads_to_a_new_stream_and_the_missed_is_told(#[case] encoding: Encoding) {
    let world = start(with_nodes(3), encoding);
    world.running.settle().await;
    world.server.down();
    world.running.clock.sleep(Duration::from_secs(10)).await;
    world.server.delete(&NODES, "", "n1").unwrap();
    world.server.compact();
    world.server.up();
    world.running.told.take();
    world.running.clock.sleep(Duration::from_mins(2)).await;
    assert_eq!(world.running.told.take(), ["-n1=1"]);
    assert_eq!(world.running.metric("relists_total"), 1);
    assert_eq!(world.running.last_error(), None);
}

/// kube-apiserver ends streams cleanly when it shuts down or the reader is slow; a server that does not know the
/// parameter serves an ordinary watch.
#[rstest]
#[case::one_that_tells_nothing(Fault::WatchSilent)]
#[case::one_that_ends(Fault::WatchEnds)]
#[tokio::test(start_paused = true)]
async fn a_stream_that_does_not_end_what_there_is_costs_streams_for_good_only_twice_in_a_row(
    #[case] fault: Fault,
) {
    let server = with_nodes(2);
    let is_stream = |request: &RecordedRequest| request.lists() && request.verb == RequestVerb::Watch;
    // The third stream is complete.
    server.fail(FaultRule::new(fault.clone()).matching(is_stream).times(1));
    let world = start(server, Encoding::Protobuf);
    world.running.clock.sleep(Duration::from_mins(1)).await;
    assert_eq!(world.running.held(), ["n0=0", "n1=1"]);
    assert_eq!(world.verbs(), [STREAM, PAGE, WATCH]);
    world.is_listed_anew_by(&[STREAM, WATCH]).await;
    world.server.fail(FaultRule::new(fault).matching(is_stream));
    world.is_listed_anew_by(&[STREAM, PAGE, WATCH]).await;
    world.is_listed_anew_by(&[STREAM, PAGE, WATCH]).await;
    world.is_listed_anew_by(&[PAGE, WATCH]).await;
}

type Answer = http::Response<UnsyncBoxBody<Bytes, io::Error>>;

/// A client of `server` whose streams come from `answer`, or from the server if `answer` returns `None`.
fn over(server: &Server, answer: impl Fn() -> Option<Answer> + Send + Sync + 'static) -> Client {
    let (client, answer) = (server.client(), Arc::new(answer));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, answer) = (client.clone(), Arc::clone(&answer));
        async move {
            let query = request.uri().query().unwrap_or_default();
            let is_stream = query.contains("sendInitialEvents=true");
            if let Some(answer) = is_stream.then(&*answer).flatten() {
                return Ok::<_, kube::Error>(answer);
            }
            let response = client.send(request).await?;
            Ok(response.map(|body| body.map_err(io::Error::other).boxed_unsync()))
        }
    });
    Client::new(service, "default")
}

/// A client of `server` whose first stream breaks before the first event, without reaching the server.
fn breaking_once(server: &Server, kind: io::ErrorKind) -> Client {
    let whole = AtomicBool::new(true);
    over(server, move || {
        let cut = || Err::<Frame<Bytes>, _>(io::Error::new(kind, "the wire was cut"));
        let breaks = whole.swap(false, SeqCst);
        breaks.then(|| http::Response::new(StreamBody::new(stream::iter([cut()])).boxed_unsync()))
    })
}

/// As kube-apiserver with an etcd without progress notifications: it serves pages and watches.
#[rstest]
#[case::each_ends_with_an_error(200, json!({ "type": "ERROR", "object": failure(500) }))]
#[case::each_is_too_late(200, json!({ "type": "ERROR", "object": failure(504) }))]
#[case::each_is_refused(500, failure(500))]
#[case::each_is_garbage(200, json!("what is that?"))]
#[tokio::test(start_paused = true)]
async fn where_every_stream_fails_lists_come_in_pages(#[case] code: u16, #[case] body: Value) {
    let server = with_nodes(2);
    let client = over(&server, move || {
        let body = Full::from(format!("{body}\n")).map_err(|never| match never {});
        let answer = http::Response::builder()
            .status(code)
            .header("content-type", "application/json");
        Some(answer.body(body.boxed_unsync()).unwrap())
    });
    let world = start_by(client, server, Encoding::Protobuf);
    world.is_listed_in_pages_and_then_anew().await;
    assert_eq!(world.verbs(), [PAGE, WATCH, WATCH, PAGE, WATCH]);
}

/// A line without end must not fill the memory.
#[tokio::test(start_paused = true)]
async fn an_event_in_json_has_an_end_too() {
    let server = with_nodes(1);
    let client = over(&server, || {
        let data = Bytes::from(vec![b'x'; 1 << 20]);
        let endless = stream::repeat_with(move || Ok(Frame::data(data.clone()))).take(65);
        let body = StreamBody::new(endless.chain(stream::pending())).boxed_unsync();
        let answer = http::Response::builder().header("content-type", "application/json");
        Some(answer.body(body).unwrap())
    });
    let world = start_by(client, server, Encoding::Protobuf);
    world.running.clock.sleep(Duration::from_secs(10)).await;
    assert_eq!(world.running.held(), ["n0=0"]);
}

fn failure(code: u16) -> Value {
    json!({ "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "message": "not now" })
}

/// As if the API server restarted meanwhile.
#[rstest]
#[case::cut_off(io::ErrorKind::UnexpectedEof)]
#[case::reset(io::ErrorKind::ConnectionReset)]
#[case::timed_out(io::ErrorKind::TimedOut)]
#[tokio::test(start_paused = true)]
async fn after_a_stream_that_broke_one_list_comes_in_pages_and_the_next_as_a_stream(
    #[case] kind: io::ErrorKind,
) {
    let server = with_nodes(2);
    let world = start_by(breaking_once(&server, kind), server, Encoding::Protobuf);
    world.is_listed_in_pages_and_then_anew().await;
    assert_eq!(world.verbs(), [PAGE, WATCH, WATCH, STREAM, WATCH]);
}
