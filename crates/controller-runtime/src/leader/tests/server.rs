//! An API server behind a network that each test scripts.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::LEASES;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "ttl-controller";
const COLLECTION: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// Cheap to clone; all clones share the Lease.
#[derive(Clone)]
pub(super) struct Server {
    api: embedded_apiserver::Server,
    calls: Arc<Mutex<Vec<Call>>>,
}

/// A request that reached the server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    /// The identity passed to [`Server::client`].
    pub(super) client: &'static str,
    pub(super) verb: &'static str,
    /// The body sent; `null` if none.
    pub(super) body: Value,
}

/// What network and server do with a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fate {
    /// Delay until the server carries out the request.
    pub(super) before: Duration,
    /// Delay until the answer arrives.
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
    /// Answered 200 by a proxy's own page instead.
    Page,
    /// Answered 403 by the authorizer.
    Forbidden,
    /// Answered 403 because the namespace is being deleted.
    Terminating,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            api: embedded_apiserver::Server::starting_at("2026-01-01T12:00:00Z".parse().unwrap()),
            calls: Arc::default(),
        }
    }
}

impl Server {
    /// A client whose requests all succeed.
    pub(super) fn client(&self, name: &'static str) -> kube::Client {
        self.client_with(name, |_| Fate::default())
    }

    /// A client whose requests meet the fate that `script` returns.
    pub(super) fn client_with(
        &self,
        name: &'static str,
        script: impl Fn(&Call) -> Fate + Send + Sync + 'static,
    ) -> kube::Client {
        let (server, script) = (self.clone(), Arc::new(script));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (server, script) = (server.clone(), Arc::clone(&script));
            async move {
                let (call, request) = read(name, request).await;
                let fate = script(&call);
                Ok::<_, Infallible>(server.pass_on(&call, request, fate).await)
            }
        });
        kube::Client::new(service, "default")
    }

    /// Changes the `spec` by merge, as another client would; creates the Lease if there is none.
    pub(super) fn edit(&self, spec: &Value) {
        if self.lease().is_null() {
            let metadata = json!({"name": NAME, "namespace": NAMESPACE});
            let (api_version, kind) = ("coordination.k8s.io/v1", "Lease");
            let lease = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
            self.api.insert(lease).unwrap();
            return;
        }
        self.change(|lease| {
            for (field, value) in spec.as_object().unwrap() {
                lease["spec"][field] = value.clone();
            }
        });
    }

    pub(super) fn label(&self, key: &str, value: &str) {
        self.change(|lease| lease["metadata"]["labels"][key] = json!(value));
    }

    fn change(&self, change: impl FnOnce(&mut Value)) {
        self.api.edit(&LEASES, NAMESPACE, NAME, change).unwrap();
    }

    /// Sets etcd back to the state and version `past` steps ago.
    pub(super) fn set_back(&self, past: u64) {
        assert!(self.api.set_back(self.api.version() - past));
        self.api.up();
    }

    pub(super) fn delete(&self) {
        let _ = self.api.delete(&LEASES, NAMESPACE, NAME);
    }

    /// The current `spec`; `null` if there is no Lease.
    pub(super) fn spec(&self) -> Value {
        self.lease()["spec"].clone()
    }

    /// The current Lease; `null` if there is none.
    pub(super) fn lease(&self) -> Value {
        self.api.get(&LEASES, NAMESPACE, NAME).unwrap_or(Value::Null)
    }

    /// The requests since the last call.
    pub(super) fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock())
    }

    /// The verbs of the requests since the last call.
    pub(super) fn take_verbs(&self) -> Vec<&'static str> {
        self.take_calls().into_iter().map(|call| call.verb).collect()
    }

    async fn pass_on(&self, call: &Call, request: Request<Body>, fate: Fate) -> Response<Body> {
        self.calls.lock().push(call.clone());
        tokio::time::sleep(fate.before).await;
        let api = self.api.client();
        let answer = match fate.end {
            End::Answered => api.send(request).await.unwrap(),
            End::RequestLost => pending().await,
            End::AnswerLost => {
                api.send(request).await.unwrap();
                pending().await
            }
            End::Refused(code) => refusal(code, "scripted", "refused by the script", &[]),
            End::Page => Response::new(Body::from(br#"{"message":"Sign in to continue"}"#.to_vec())),
            End::Forbidden => {
                let verb = call.verb;
                let message = format!("leases is forbidden: User \"a\" cannot {verb} resource \"leases\"");
                refusal(403, "Forbidden", &message, &[])
            }
            End::Terminating => {
                let message =
                    "unable to create new content in namespace kube-system because it is being terminated";
                refusal(403, "Forbidden", message, &["NamespaceTerminating"])
            }
        };
        tokio::time::sleep(fate.after).await;
        answer
    }
}

/// Describes a request and returns it unchanged.
async fn read(client: &'static str, request: Request<Body>) -> (Call, Request<Body>) {
    let (head, body) = request.into_parts();
    let path = head.uri.to_string();
    let verb = match (&head.method, path.strip_prefix(COLLECTION)) {
        (&Method::GET, Some("/ttl-controller")) => "get",
        (&Method::POST, Some("?" | "")) => "create",
        (&Method::PUT, Some("/ttl-controller?" | "/ttl-controller")) => "update",
        (&Method::GET, Some(query)) => {
            let of_the_lease = query.contains("fieldSelector=metadata.name%3Dttl-controller");
            assert!(of_the_lease, "{query}");
            if query.contains("watch=true") {
                "watch"
            } else {
                "list"
            }
        }
        (method, _) => panic!("unexpected request {method} {path}"),
    };
    let bytes = body.collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if verb == "update" {
        let version = &body["metadata"]["resourceVersion"];
        assert!(version.is_string(), "every update carries a resourceVersion");
    }
    (
        Call { client, verb, body },
        Request::from_parts(head, Body::from(bytes.to_vec())),
    )
}

fn refusal(code: u16, reason: &str, message: &str, causes: &[&str]) -> Response<Body> {
    let causes: Vec<_> = causes.iter().map(|reason| json!({"reason": reason})).collect();
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": message, "details": {"causes": causes},
    });
    let answer = Response::builder().status(code);
    answer.body(Body::from(status.to_string().into_bytes())).unwrap()
}
