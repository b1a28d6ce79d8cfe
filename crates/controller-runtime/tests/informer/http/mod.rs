//! [`ListWatch`] against a scripted HTTP service that serves pages, with literal JSON.

mod away;
mod hot_loops;
mod objects;
mod views;
mod watches;

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
