//! [`ListWatch`] against a scripted HTTP service that serves pages, with literal JSON.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use controller_core::cache::{DecodeError, ErrorKind, Identity, SourceEvent, View, Wire, intern};
use controller_core::config::Encoding;
use controller_core::meta::Uid;
use controller_runtime::api::client::{ConnectOptions, connect};
use controller_runtime::api::limits::{Limits, Permits, limited};
use controller_runtime::api::metrics::RequestMetrics;
use controller_runtime::clock::Clock;
use controller_runtime::informer::{ListWatch, Source};
use controller_testing::surface::kubeconfig_of;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::Client;
use kube::client::Body;
use kube::discovery::ApiResource;
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::thing::{By, Running, Thing, ThingWire, clock, key};

/// An answer of the server.
#[derive(Clone)]
enum Answer {
    /// A status and a JSON body.
    Json(u16, Value),
    /// A status and a body that is not JSON.
    Text(u16, &'static str),
    /// A stream of lines, with what happens between them.
    Watch(Vec<Step>),
}

#[derive(Clone)]
enum Step {
    Line(String),
    Pause(Duration),
    Break(io::ErrorKind),
    /// Sends nothing more.
    Hang,
}

struct Asked {
    at: Instant,
    uri: String,
    accept: String,
}

/// Plays its answers one by one, then repeats the last one.
#[derive(Clone)]
struct Server {
    clock: Clock,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    fn new(clock: &Clock, answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            clock: clock.clone(),
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            asked: Arc::default(),
        }
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let response = server.answer(&request);
            async move { Ok::<_, io::Error>(response) }
        });
        Client::new(service, "default")
    }

    fn answer(
        &self,
        request: &Request<Body>,
    ) -> Response<StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>> {
        if request.uri().to_string().contains("sendInitialEvents=true") {
            return refused();
        }
        let accept = request
            .headers()
            .get("accept")
            .map(|accept| accept.to_str().unwrap().to_owned());
        self.asked.lock().push(Asked {
            at: self.clock.instant(),
            uri: request.uri().to_string(),
            accept: accept.unwrap_or_default(),
        });
        assert!(self.asked.lock().len() < 10_000, "a hot loop");
        let answer = {
            let mut answers = self.answers.lock();
            let last = answers.len() == 1;
            if last {
                answers.front().cloned()
            } else {
                answers.pop_front()
            }
        };
        let (status, steps) = match answer.expect("a server has an answer") {
            Answer::Json(status, body) => (status, vec![Step::Line(body.to_string())]),
            Answer::Text(status, body) => (status, vec![Step::Line(body.to_owned())]),
            Answer::Watch(steps) => (200, steps),
        };
        let clock = self.clock.clone();
        let body = stream::iter(steps).filter_map(move |step| {
            let clock = clock.clone();
            async move {
                match step {
                    Step::Line(line) => Some(Ok(Frame::data(Bytes::from(line + "\n")))),
                    Step::Pause(duration) => {
                        clock.sleep(duration).await;
                        None
                    }
                    Step::Break(kind) => Some(Err(io::Error::new(kind, "the wire was cut"))),
                    Step::Hang => std::future::pending().await,
                }
            }
        });
        let mut response = Response::new(StreamBody::new(body.boxed()));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        response
    }

    fn source(&self) -> ListWatch<ThingWire> {
        ListWatch::new(self.client(), things(), Encoding::default(), self.clock.clone())
    }

    /// Requests since the last call, without the parameters that never change.
    fn asked(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.asked.lock());
        let uri = |asked: Asked| {
            asked
                .uri
                .replace("?&", "?")
                .replace("&timeoutSeconds=290", "")
                .replace("&allowWatchBookmarks=true", "")
        };
        asked.into_iter().map(uri).collect()
    }

    /// Time between consecutive requests.
    fn gaps(&self) -> Vec<Duration> {
        self.asked
            .lock()
            .windows(2)
            .map(|pair| pair[1].at - pair[0].at)
            .collect()
    }
}

/// The answer of an API server without streaming lists.
fn refused() -> Response<StreamBody<BoxStream<'static, io::Result<Frame<Bytes>>>>> {
    let status = status(422, "Invalid", &json!({})).to_string();
    let mut response = Response::new(StreamBody::new(
        stream::iter([Ok(Frame::data(status.into()))]).boxed(),
    ));
    *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
    response
}

fn things() -> ApiResource {
    ApiResource {
        group: "example.io".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.io/v1".to_owned(),
        kind: "Thing".to_owned(),
        plural: "things".to_owned(),
    }
}

fn start(answers: impl IntoIterator<Item = Answer>) -> (Server, Running) {
    let clock = clock();
    let server = Server::new(&clock, answers);
    let running = Running::start(server.source(), clock);
    (server, running)
}

fn object(name: &str, version: &str, value: &Value) -> Value {
    json!({
        "apiVersion": "example.io/v1", "kind": "Thing",
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "resourceVersion": version},
        "spec": {"node": "n1", "value": value, "ignored": [1, {"deep": null}]},
    })
}

fn page(version: &str, proceed: &str, items: &[Value]) -> Answer {
    Answer::Json(
        200,
        json!({
            "apiVersion": "example.io/v1", "kind": "ThingList",
            "metadata": {"resourceVersion": version, "continue": proceed},
            "items": items,
        }),
    )
}

fn status(code: u16, reason: &str, details: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": format!("answer {code}"), "reason": reason, "code": code, "details": details,
    })
}

fn refusal(code: u16, reason: &str) -> Answer {
    Answer::Json(code, status(code, reason, &json!({})))
}

fn event(kind: &str, object: &Value) -> Step {
    // Literally, as the API server writes `type` first and `json!` would not.
    Step::Line(format!(r#"{{"type":"{kind}","object":{object}}}"#))
}

fn expired() -> Step {
    event("ERROR", &status(410, "Expired", &json!(null)))
}

fn bookmark(version: &str) -> Step {
    event(
        "BOOKMARK",
        &json!({"apiVersion": "example.io/v1", "kind": "Thing", "metadata": {"resourceVersion": version}}),
    )
}

/// A watch with these steps and then nothing.
fn watch(steps: impl IntoIterator<Item = Step>) -> Answer {
    Answer::Watch(steps.into_iter().chain([Step::Hang]).collect())
}

fn one(name: &str) -> Value {
    object(name, "1", &json!(1))
}

const LIST: &str = "/apis/example.io/v1/things?limit=20";
const WATCH_9: &str = "/apis/example.io/v1/things?watch=true&resourceVersion=9";
const WATCH_20: &str = "/apis/example.io/v1/things?watch=true&resourceVersion=20";

#[tokio::test(start_paused = true)]
async fn a_paged_list_and_then_a_watch_feed_the_store() {
    let (server, running) = start([
        page("9", "page-2", &[one("a"), one("b")]),
        page("9", "", &[one("c")]),
        watch([
            event("ADDED", &object("d", "10", &json!(4))),
            event("MODIFIED", &object("a", "11", &json!(5))),
            bookmark("12"),
            event("DELETED", &object("b", "13", &json!(6))),
        ]),
    ]);
    let told = "+ns/a=1 +ns/b=1 +ns/c=1 synced +ns/d=4 ~ns/a=1>5 -ns/b=6";
    assert_eq!(running.told().await.join(" "), told);
    let second = "/apis/example.io/v1/things?limit=200&continue=page-2";
    assert_eq!(server.asked(), [LIST, second, WATCH_9]);
    assert_eq!(running.names_by(&By::Node("n1".into())), ["a", "c", "d"]);
    assert_eq!(running.metric("events_total"), 3);
}

/// As in a mass eviction, whose writes have taken all permits of the next minutes.
#[tokio::test(start_paused = true)]
async fn a_list_does_not_wait_for_the_client_side_limit() {
    let clock = clock();
    let pages = [
        page("9", "page-2", &[one("a")]),
        page("9", "page-3", &[one("b")]),
        page("9", "", &[one("c")]),
        watch([]),
    ];
    let server = Server::new(&clock, pages);
    let permits = Permits::new(Limits { qps: 0.001, burst: 1 }, &clock);
    let metrics = RequestMetrics::register(&Registry::new()).unwrap();
    let client = limited(server.client(), permits, &clock, &metrics, "test".to_owned());
    let source = ListWatch::<ThingWire>::new(client, things(), Encoding::default(), clock.clone());
    let running = Running::start(source, clock);
    assert_eq!(running.told().await, ["+ns/a=1", "+ns/b=1", "+ns/c=1", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_has_stood_goes_on_from_the_last_bookmark_at_once() {
    let minute = |version| [bookmark(version), Step::Pause(Duration::from_secs(58))];
    let closes = ["8", "9", "10", "11", "12"]
        .into_iter()
        .flat_map(minute)
        .collect();
    let (server, running) = start([page("9", "", &[one("a")]), Answer::Watch(closes), watch([])]);
    running.clock.sleep(Duration::from_mins(5)).await;
    assert_eq!(server.gaps()[1], Duration::from_secs(290), "without a wait");
    assert_eq!(
        server.asked(),
        [
            LIST,
            WATCH_9,
            "/apis/example.io/v1/things?watch=true&resourceVersion=12"
        ]
    );
    assert_eq!(running.last_error(), None);
}

/// As behind a load balancer that keeps acknowledging for a dead server.
#[tokio::test(start_paused = true)]
async fn a_watch_that_is_silent_for_two_minutes_ends_and_another_goes_on_from_there() {
    let (server, running) = start([
        page("9", "", &[one("a")]),
        watch([bookmark("12")]),
        watch([event("MODIFIED", &object("a", "13", &json!(2)))]),
    ]);
    running.clock.sleep(Duration::from_secs(119)).await;
    assert_eq!(server.gaps().len(), 1, "a bookmark each minute keeps it");
    running.clock.sleep(Duration::from_secs(5)).await;
    assert_eq!(running.held(), ["a=2"]);
    assert_eq!(
        server.asked(),
        [
            LIST,
            WATCH_9,
            "/apis/example.io/v1/things?watch=true&resourceVersion=12"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_410_on_the_watch_leads_to_a_new_list() {
    let (server, running) = start([
        page("9", "", &[one("a"), one("b")]),
        watch([Step::Pause(Duration::from_mins(1)), expired()]),
        page("20", "", &[one("b"), one("c")]),
        watch([]),
    ]);
    running.clock.sleep(Duration::from_secs(70)).await;
    assert_eq!(
        running.told.take(),
        ["+ns/a=1", "+ns/b=1", "synced", "-ns/a=1", "+ns/c=1"],
        "the missed deletion is told"
    );
    assert_eq!(server.asked(), [LIST, WATCH_9, LIST, WATCH_20]);
    assert_eq!(running.metric("relists_total"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_410_at_the_start_of_a_watch_leads_to_a_new_list() {
    let (server, running) = start([
        page("9", "", &[one("a")]),
        refusal(410, "Expired"),
        page("20", "", &[one("b")]),
        watch([]),
    ]);
    running.settle().await;
    assert_eq!(
        running.last_error().unwrap(),
        "Expired: start the watch: 410 Expired: answer 410"
    );
    running.clock.sleep(Duration::from_mins(1)).await;
    assert_eq!(running.told.take(), ["+ns/a=1", "synced", "-ns/a=1", "+ns/b=1"]);
    assert_eq!(server.asked(), [LIST, WATCH_9, LIST, WATCH_20]);
    assert_eq!(running.last_error(), None, "the quiet watch has proven healthy");
}

#[tokio::test(start_paused = true)]
async fn a_410_between_pages_starts_the_list_over() {
    let (server, running) = start([
        page("9", "page-2", &[one("a")]),
        refusal(410, "Expired"),
        page("20", "", &[one("b")]),
        watch([]),
    ]);
    running.synced().await;
    assert_eq!(running.told().await, ["+ns/b=1", "synced"]);
    assert_eq!(
        server.asked()[..3],
        [LIST, "/apis/example.io/v1/things?limit=200&continue=page-2", LIST]
    );
}

#[tokio::test(start_paused = true)]
async fn a_429_is_asked_again_after_the_time_it_names_or_a_minute() {
    let throttled = |seconds| {
        Answer::Json(
            429,
            status(429, "TooManyRequests", &json!({"retryAfterSeconds": seconds})),
        )
    };
    let (server, running) = start([throttled(86_400), page("9", "", &[]), throttled(45), watch([])]);
    running.settle().await;
    assert!(running.last_error().unwrap().starts_with("Throttled: "));
    running.clock.sleep(Duration::from_secs(200)).await;
    assert_eq!(server.gaps()[0].as_secs(), 60, "the list, and no day");
    assert_eq!(server.gaps()[2].as_secs(), 45, "the watch");
    assert_eq!(server.asked(), [LIST, LIST, WATCH_9, WATCH_9]);
}

#[tokio::test(start_paused = true)]
async fn a_missing_permission_is_reported_and_retried() {
    let (server, running) = start([refusal(403, "Forbidden"), page("9", "", &[]), watch([])]);
    running.settle().await;
    assert!(running.state.borrow().forbidden());
    assert_eq!(
        running.last_error().unwrap(),
        "Forbidden: list: 403 Forbidden: answer 403"
    );
    running.synced().await;
    running.clock.sleep(Duration::from_secs(10)).await;
    assert!(!running.state.borrow().forbidden());
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_not_served_is_looked_for_every_30_s() {
    let missing = Answer::Text(404, "404 page not found");
    let (server, running) = start([
        missing.clone(),
        missing.clone(),
        missing,
        page("9", "", &[]),
        watch([]),
    ]);
    running.settle().await;
    assert!(running.state.borrow().not_served());
    running.synced().await;
    running.clock.sleep(Duration::from_secs(10)).await;
    assert!(!running.state.borrow().not_served());
    let seconds: Vec<_> = server.gaps().iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [30, 30, 30, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_breaks_is_retried() {
    let (server, running) = start([
        Answer::Text(500, "oops"),
        Answer::Text(200, "{\"items\": 3}"),
        page("9", "", &[one("a")]),
        refusal(503, "ServiceUnavailable"),
        watch([event("ADDED", &object("b", "10", &json!(2)))]),
    ]);
    running.clock.sleep(Duration::from_mins(1)).await;
    assert_eq!(running.told.take(), ["+ns/a=1", "synced", "+ns/b=2"]);
    assert_eq!(server.asked(), [LIST, LIST, LIST, WATCH_9, WATCH_9]);
}

#[tokio::test(start_paused = true)]
async fn a_bad_object_does_not_fail_its_page() {
    let (_, running) = start([
        page(
            "9",
            "",
            &[
                one("a"),
                object("bad", "2", &json!("text")),
                object("unlucky", "3", &json!(13)),
                one("c"),
            ],
        ),
        watch([]),
    ]);
    assert_eq!(running.told().await, ["+ns/a=1", "+ns/c=1", "synced"]);
    assert_eq!(running.metric("decode_errors_total"), 2);
    assert_eq!(running.last_error(), None);
}

#[tokio::test(start_paused = true)]
async fn a_bad_object_does_not_fail_its_watch_and_the_version_moves_on() {
    let closes = vec![
        event("ADDED", &object("b", "10", &json!(2))),
        event("MODIFIED", &object("a", "11", &json!({"not": "a number"}))),
        event("MODIFIED", &object("b", "12", &json!(3))),
        event("MODIFIED", &object("b", "13", &json!("text"))),
        Step::Pause(Duration::from_secs(10)),
    ];
    let (server, running) = start([page("9", "", &[one("a")]), Answer::Watch(closes), watch([])]);
    assert_eq!(
        running.told().await,
        ["+ns/a=1", "synced", "+ns/b=2", "~ns/b=2>3"]
    );
    assert_eq!(running.held(), ["a=1", "b=3"], "the last known views");
    running.clock.sleep(Duration::from_secs(20)).await;
    assert_eq!(
        server.asked()[2],
        "/apis/example.io/v1/things?watch=true&resourceVersion=13"
    );
    assert_eq!(running.metric("decode_errors_total"), 2);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_undecodable_in_a_new_list_is_not_deleted() {
    let (_, running) = start([
        page("9", "", &[one("a"), one("b")]),
        watch([expired()]),
        page("20", "", &[object("a", "19", &json!([]))]),
        watch([event("DELETED", &object("a", "21", &json!([])))]),
    ]);
    running.clock.sleep(Duration::from_secs(10)).await;
    assert_eq!(
        running.told.take(),
        ["+ns/a=1", "+ns/b=1", "synced", "-ns/b=1", "-ns/a=1"],
        "b went with the list, a only when it was deleted"
    );
}

#[tokio::test(start_paused = true)]
async fn hostile_objects_neither_panic_nor_stop_the_watch() {
    let nested = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let metadata = |value: &str| {
        format!(
            r#"{{"metadata":{{"name":"h","namespace":"ns","uid":"h","resourceVersion":"5"}},"spec":{{"value":{value}}}}}"#
        )
    };
    let hostile = [
        metadata("99999999999999999999999999999999"),
        metadata("1e999"),
        metadata("-9223372036854775809"),
        metadata(&nested),
        metadata("\"\\ud800\""),
        metadata("1").replace(r#""name":"h""#, r#""name":"""#),
        metadata("1").replace(r#""name":"h""#, r#""name":7"#),
        metadata("1").replace(r#""name":"h""#, r#""name":"h","name":"i""#),
        metadata("1").replace(r#""name":"h","#, ""),
        r#"{"metadata":[],"spec":{}}"#.to_owned(),
        r#"{"spec":{"value":1}}"#.to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
        "7".to_owned(),
    ];
    let list = format!(
        r#"{{"kind":"ThingList","apiVersion":"example.io/v1","metadata":{{"resourceVersion":"9"}},"items":[{},{}]}}"#,
        hostile.join(","),
        object("z", "8", &json!(i64::MIN)),
    );
    let list = Answer::Watch(vec![Step::Line(list)]);
    // For a watch event without a resourceVersion, kube lists again; it is more than a bad object.
    let with_version = hostile
        .iter()
        .filter(|object| object.contains("resourceVersion") && !object.contains("\"i\""));
    let lines = with_version.map(|object| Step::Line(format!(r#"{{"type":"MODIFIED","object":{object}}}"#)));
    let harmless = event("ADDED", &object("y", "10", &json!(i64::MAX)));
    let (server, running) = start([list, watch(lines.chain([harmless]))]);
    assert_eq!(
        running.told().await,
        [
            format!("+ns/z={}", i64::MIN),
            "synced".to_owned(),
            format!("+ns/y={}", i64::MAX)
        ]
    );
    assert_eq!(running.metric("decode_errors_total"), 14 + 8);
    assert_eq!(server.asked().len(), 2);
    assert_eq!(running.last_error(), None);
}

#[tokio::test(start_paused = true)]
async fn fields_that_no_rule_reads_may_hold_anything() {
    let object = r#"{"metadata":{"name":"a","namespace":"ns","uid":"a","resourceVersion":"5",
        "creationTimestamp":"0001-01-01T00:00:00Z","labels":7},"spec":{"value":1,"huge":1e999,"deep":DEEP}}"#
        .replace("DEEP", &format!("{}{}", "[".repeat(5_000), "]".repeat(5_000)));
    let list = format!(
        r#"{{"kind":"ThingList","apiVersion":"example.io/v1","metadata":{{"resourceVersion":"9"}},"items":[{object}]}}"#
    );
    let (_, running) = start([Answer::Watch(vec![Step::Line(list)]), watch([])]);
    assert_eq!(running.told().await, ["+ns/a=1", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_event_that_cannot_be_read_leads_to_a_new_list() {
    let (server, running) = start([
        page("9", "", &[one("a")]),
        watch([Step::Line(
            r#"{"type":"MODIFIED","object":{"metadata":}}"#.to_owned(),
        )]),
        page("20", "", &[object("a", "19", &json!(2))]),
        watch([]),
    ]);
    running.clock.sleep(Duration::from_secs(10)).await;
    assert_eq!(running.told.take(), ["+ns/a=1", "synced", "~ns/a=1>2"]);
    assert_eq!(server.asked()[2], LIST);
}

#[tokio::test(start_paused = true)]
async fn an_object_made_again_is_deleted_and_added_also_when_the_watch_shows_one_change() {
    let mut again = object("a", "10", &json!(1));
    again["metadata"]["uid"] = json!("another");
    let (_, running) = start([page("9", "", &[one("a")]), watch([event("MODIFIED", &again)])]);
    assert_eq!(running.told().await, ["+ns/a=1", "synced", "-ns/a=1", "+ns/a=1"]);
}

/// Number of requests in an hour to a server that plays these steps on every watch.
async fn requests_in_an_hour(each_watch: Vec<Step>) -> (usize, Running) {
    let (server, running) = start([page("9", "", &[one("a")]), Answer::Watch(each_watch)]);
    running.clock.sleep(Duration::from_hours(1)).await;
    let requests = server.asked.lock().len();
    (requests, running)
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_closed_at_once_do_not_become_a_hot_loop() {
    for each_watch in [
        vec![],
        vec![bookmark("10")],
        vec![Step::Break(io::ErrorKind::UnexpectedEof)],
        vec![Step::Break(io::ErrorKind::TimedOut)],
        vec![Step::Break(io::ErrorKind::ConnectionReset)],
        vec![event("ERROR", &status(500, "InternalError", &json!(null)))],
        vec![Step::Pause(Duration::from_secs(4))],
    ] {
        let (requests, running) = requests_in_an_hour(each_watch).await;
        // The backoff settles between 15 s and 30 s.
        assert!((100..=250).contains(&requests), "{requests} requests");
        // The error is visible.
        assert!(running.last_error().unwrap().starts_with("Other: "));
        assert_eq!(running.held(), ["a=1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn watches_that_tell_one_thing_and_close_do_not_become_a_hot_loop() {
    let (requests, _) = requests_in_an_hour(vec![event("MODIFIED", &object("a", "10", &json!(2)))]).await;
    // Each event resets the backoff to 0.8 s to 1.6 s.
    assert!((2_000..=4_600).contains(&requests), "{requests} requests");
}

#[tokio::test(start_paused = true)]
async fn a_410_on_every_watch_does_not_become_a_hot_loop_of_lists() {
    let round = || [page("9", "", &[one("a")]), Answer::Watch(vec![expired()])];
    let (server, running) = start((0..1_000).flat_map(|_| round()));
    running.clock.sleep(Duration::from_hours(1)).await;
    let requests = server.asked().len();
    assert!((200..=500).contains(&requests), "{requests} requests");
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_that_has_stood_is_resumed() {
    for kind in [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset] {
        let breaks = vec![Step::Pause(Duration::from_secs(100)), Step::Break(kind)];
        let (server, running) = start([page("9", "", &[one("a")]), Answer::Watch(breaks), watch([])]);
        running.clock.sleep(Duration::from_secs(200)).await;
        assert_eq!(server.asked(), [LIST, WATCH_9, WATCH_9]);
        assert_eq!(running.last_error(), None);
    }
}

/// Only labels: the API server may omit the rest.
#[derive(Clone, serde::Deserialize)]
struct LabelsWire {
    metadata: Labels,
}

#[derive(Clone, serde::Deserialize)]
struct Labels {
    #[serde(default)]
    labels: std::collections::BTreeMap<String, String>,
}

impl Wire for LabelsWire {
    type View = Thing;

    const METADATA_ONLY: bool = true;

    fn into_view(self, object: Identity) -> Result<Thing, DecodeError> {
        assert_eq!(object.uid, Uid::from("uid-a"));
        assert_eq!(object.version.as_deref(), Some("1"));
        let node = self.metadata.labels.get("node").map_or("", String::as_str);
        Ok(Thing {
            key: object.key,
            node: intern(node),
            value: 0,
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_view_of_metadata_asks_for_metadata_only() {
    let clock = clock();
    let mut a = one("a");
    a["metadata"]["labels"] = json!({"node": "n7"});
    let server = Server::new(&clock, [page("9", "", &[a]), watch([])]);
    let source = ListWatch::<LabelsWire>::new(server.client(), things(), Encoding::default(), clock.clone());
    let running = Running::start(source, clock);
    assert_eq!(running.told().await, ["+ns/a=0", "synced"]);
    assert_eq!(&*running.store().get(&key("a")).unwrap().node, "n7");
    assert_eq!(running.store().get(&key("a")).unwrap().key(), &key("a"));
    let accepted: Vec<_> = server
        .asked
        .lock()
        .iter()
        .map(|asked| asked.accept.clone())
        .collect();
    assert_eq!(
        accepted,
        [
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn any_other_view_asks_for_the_whole_object() {
    let (server, running) = start([page("9", "", &[one("a")]), watch([])]);
    running.settle().await;
    let asked = server.asked.lock();
    assert_eq!(asked.len(), 2);
    assert!(
        asked
            .iter()
            .all(|asked| !asked.accept.contains("PartialObjectMetadata"))
    );
}

#[tokio::test(start_paused = true)]
async fn views_of_one_namespace_and_node_share_the_strings() {
    let (_, running) = start([page("9", "", &[one("a"), one("b")]), watch([])]);
    running.settle().await;
    let store = running.store();
    let (a, b) = (store.get(&key("a")).unwrap(), store.get(&key("b")).unwrap());
    assert!(Arc::ptr_eq(&a.node, &b.node));
    assert!(Arc::ptr_eq(
        a.key.namespace.as_ref().unwrap(),
        b.key.namespace.as_ref().unwrap()
    ));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_no_rule_acts_on_is_as_good_as_deleted() {
    let not_kept = json!(99);
    let (_server, running) = start([
        page("9", "", &[one("a"), object("b", "2", &not_kept)]),
        watch([
            event("MODIFIED", &object("a", "10", &not_kept)),
            event("MODIFIED", &object("a", "11", &json!(7))),
            event("ADDED", &object("c", "12", &not_kept)),
            event("DELETED", &object("c", "13", &not_kept)),
            event("DELETED", &object("a", "14", &not_kept)),
        ]),
    ]);
    assert_eq!(
        running.told().await,
        ["+ns/a=1", "synced", "-ns/a=1", "+ns/a=7", "-ns/a=7"]
    );
    assert_eq!(running.held(), Vec::<String>::new());
}

/// The error of the first list from a server at `address`.
async fn failure_at(address: SocketAddr) -> ErrorKind {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, kubeconfig_of(&address.to_string())).unwrap();
    let options = ConnectOptions {
        kubeconfig: Some(kubeconfig),
        context: None,
        limits: Limits { qps: 0.0, burst: 1 },
        user_agent: "test".to_owned(),
    };
    let clock = Clock::system();
    let metrics = RequestMetrics::register(&Registry::new()).unwrap();
    let client = connect(&options, &clock, &metrics).await.unwrap().http;
    let mut source = ListWatch::<ThingWire>::new(client, things(), Encoding::Json, clock);
    loop {
        if let SourceEvent::Failed(error) = source.next().await {
            return error.kind;
        }
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_told_from_one_that_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let closes_each_connection = async {
        loop {
            let mut connection = listener.accept().await.unwrap().0;
            connection.read_u8().await.unwrap();
        }
    };
    tokio::select! {
        failure = failure_at(address) => assert_eq!(failure, ErrorKind::Other),
        () = closes_each_connection => {}
    }
    drop(listener);
    assert_eq!(failure_at(address).await, ErrorKind::Unreachable);
}
