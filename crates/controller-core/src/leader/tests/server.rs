//! A scripted API server that knows one Lease.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Cheap to clone; all clones share the Lease.
#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    /// Every change: version, type, object.
    history: Vec<(u64, &'static str, Value)>,
    watchers: Vec<mpsc::UnboundedSender<Bytes>>,
    calls: Vec<Call>,
}

/// A request that reached the server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    /// Identity given to [`Server::client`].
    pub(super) client: &'static str,
    /// Kubernetes' verb.
    pub(super) verb: &'static str,
    /// Path and query.
    pub(super) path: String,
    /// What was sent, `null` without.
    pub(super) body: Value,
}

/// What the network and the server do with a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fate {
    /// Until the server carries it out.
    pub(super) before: Duration,
    /// Until the answer arrives.
    pub(super) after: Duration,
    pub(super) end: End,
}

/// How a request ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum End {
    /// Carried out and answered.
    #[default]
    Answered,
    /// Never carried out, never answered.
    RequestLost,
    /// Carried out, never answered.
    AnswerLost,
    /// Answered with this code instead.
    Refused(u16),
    /// Answered 403 by the authorizer.
    Forbidden,
    /// Answered 403 because the namespace is going away.
    Terminating,
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

const COLLECTION: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

impl Server {
    /// A client whose requests all go well.
    pub(super) fn client(&self, name: &'static str) -> kube::Client {
        self.client_with(name, |_| Fate::default())
    }

    /// A client whose requests meet the fate that `script` tells.
    pub(super) fn client_with(
        &self,
        name: &'static str,
        script: impl Fn(&Call) -> Fate + Send + Sync + 'static,
    ) -> kube::Client {
        let server = self.clone();
        let script = Arc::new(script);
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            let script = Arc::clone(&script);
            async move {
                let call = read(name, request).await;
                let fate = script(&call);
                Ok::<_, Infallible>(server.serve(call, fate).await)
            }
        });
        kube::Client::new(service, "default")
    }

    /// Changes the `spec` as another client would, by merge; creates the Lease if need be.
    pub(super) fn edit(&self, spec: &Value) {
        let mut state = self.0.lock();
        let mut lease = state.lease.clone().unwrap_or_else(
            || json!({"metadata": {"name": "ttl-controller", "namespace": "kube-system"}, "spec": {}}),
        );
        for (field, value) in spec.as_object().unwrap() {
            lease["spec"][field] = value.clone();
        }
        state.write(lease);
    }

    /// Sets a label.
    pub(super) fn label(&self, key: &str, value: &str) {
        let mut state = self.0.lock();
        let mut lease = state.lease.clone().unwrap();
        lease["metadata"]["labels"][key] = json!(value);
        state.write(lease);
    }

    /// Deletes the Lease.
    pub(super) fn delete(&self) {
        let mut state = self.0.lock();
        if let Some(lease) = state.lease.take() {
            state.publish("DELETED", lease);
        }
    }

    /// The `spec` now; `null` when there is no Lease.
    pub(super) fn spec(&self) -> Value {
        self.lease()["spec"].clone()
    }

    /// The Lease now; `null` when there is none.
    pub(super) fn lease(&self) -> Value {
        self.0.lock().lease.clone().unwrap_or(Value::Null)
    }

    /// The requests since the last call of this.
    pub(super) fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.0.lock().calls)
    }

    /// Their verbs only.
    pub(super) fn take_verbs(&self) -> Vec<&'static str> {
        self.take_calls().into_iter().map(|call| call.verb).collect()
    }

    async fn serve(&self, call: Call, fate: Fate) -> Answer {
        self.0.lock().calls.push(call.clone());
        tokio::time::sleep(fate.before).await;
        let answer = match fate.end {
            End::Answered => self.0.lock().carry_out(&call),
            End::RequestLost => pending().await,
            End::AnswerLost => {
                self.0.lock().carry_out(&call);
                pending().await
            }
            End::Refused(code) => status(code, "scripted", "refused by the script"),
            End::Forbidden => status(
                403,
                "Forbidden",
                &format!(
                    "leases is forbidden: User \"a\" cannot {} resource \"leases\"",
                    call.verb
                ),
            ),
            End::Terminating => answer(403, &terminating()),
        };
        tokio::time::sleep(fate.after).await;
        answer
    }
}

impl State {
    fn carry_out(&mut self, call: &Call) -> Answer {
        match (call.verb, &self.lease) {
            ("get", Some(lease)) => answer(200, lease),
            ("get" | "update", None) => status(404, "NotFound", "no such lease"),
            ("create", Some(_)) => status(409, "AlreadyExists", "the lease exists"),
            ("create", None) => answer(201, &self.write(call.body.clone())),
            ("update", Some(lease)) => {
                let sent = &call.body["metadata"]["resourceVersion"];
                assert!(sent.is_string(), "every update carries a resourceVersion");
                if sent == &lease["metadata"]["resourceVersion"] {
                    answer(200, &self.write(call.body.clone()))
                } else {
                    status(409, "Conflict", "the object has been modified")
                }
            }
            ("list", lease) => answer(
                200,
                &json!({
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "LeaseList",
                    "metadata": {"resourceVersion": self.version.to_string()},
                    "items": lease.iter().collect::<Vec<_>>(),
                }),
            ),
            ("watch", _) => self.watch(&call.path),
            _ => status(405, "MethodNotAllowed", "no such request"),
        }
    }

    fn write(&mut self, mut lease: Value) -> Value {
        let kind = if self.lease.is_some() { "MODIFIED" } else { "ADDED" };
        lease["metadata"]["resourceVersion"] = json!((self.version + 1).to_string());
        self.lease = Some(lease.clone());
        self.publish(kind, lease.clone());
        lease
    }

    fn publish(&mut self, kind: &'static str, mut lease: Value) {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let line = event(kind, &lease);
        self.watchers.retain(|watcher| watcher.send(line.clone()).is_ok());
        self.history.push((self.version, kind, lease));
    }

    fn watch(&mut self, path: &str) -> Answer {
        let query: BTreeMap<_, _> = path
            .split(['?', '&'])
            .filter_map(|part| part.split_once('='))
            .collect();
        let after: u64 = query["resourceVersion"].parse().unwrap();
        let (sender, receiver) = mpsc::unbounded_channel();
        for (version, kind, lease) in &self.history {
            if *version > after {
                sender.send(event(kind, lease)).unwrap();
            }
        }
        self.watchers.push(sender);
        let lines = futures::stream::unfold(receiver, |mut receiver| async move {
            let line = receiver.recv().await?;
            Some((Ok(Frame::data(line)), receiver))
        });
        Response::new(BodyExt::boxed_unsync(StreamBody::new(lines)))
    }
}

async fn read(client: &'static str, request: Request<Body>) -> Call {
    let (head, body) = request.into_parts();
    let path = head.uri.to_string();
    let verb = match (head.method, path.strip_prefix(COLLECTION)) {
        (Method::GET, Some("/ttl-controller")) => "get",
        (Method::POST, Some("?" | "")) => "create",
        (Method::PUT, Some("/ttl-controller?" | "/ttl-controller")) => "update",
        (Method::GET, Some(query)) => {
            assert!(
                query.contains("fieldSelector=metadata.name%3Dttl-controller"),
                "{query}"
            );
            if query.contains("watch=true") {
                "watch"
            } else {
                "list"
            }
        }
        (method, _) => panic!("unexpected request {method} {path}"),
    };
    let body = body.collect().await.unwrap().to_bytes();
    Call {
        client,
        verb,
        path,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    }
}

fn event(kind: &str, lease: &Value) -> Bytes {
    let mut line = json!({"type": kind, "object": lease}).to_string();
    line.push('\n');
    Bytes::from(line)
}

fn status(code: u16, reason: &str, message: &str) -> Answer {
    answer(
        code,
        &json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure",
            "code": code, "reason": reason, "message": message,
        }),
    )
}

fn terminating() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": "unable to create new content in namespace kube-system because it is being terminated",
        "details": {"causes": [{"reason": "NamespaceTerminating", "message": "…", "field": "metadata.namespace"}]},
    })
}

fn answer(code: u16, body: &Value) -> Answer {
    Response::builder()
        .status(code)
        .body(Full::from(body.to_string()).boxed_unsync())
        .unwrap()
}
