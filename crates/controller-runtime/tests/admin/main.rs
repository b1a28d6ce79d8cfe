//! The admin server as its clients see it, over loopback.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod authorization;
mod certificates;
mod connections;
mod pages;

use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use controller_core::config::CommonConfig;
use controller_core::error::Chain;
use controller_runtime::admin::{
    AdminLimits, AdminServer, AdminState, Authorizer, Certificate, Error, TlsPaths,
};
use controller_runtime::clock::Clock;
use controller_runtime::config::effective;
use controller_runtime::metrics::{Build, Metrics};
use controller_runtime::readiness::{Liveness, Readiness};
use controller_runtime::sender::Caller;
use controller_runtime::shutdown::Trigger;
use controller_runtime::tasks::TaskSet;
use controller_runtime::{shutdown, tls_files};
use http::{Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::client::Body;
use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

/// Long enough for any step on a busy machine; only a failing test waits that long.
const DEADLINE: Duration = Duration::from_mins(1);

struct Bench {
    addr: SocketAddr,
    readiness: Readiness,
    liveness: Liveness,
    trigger: Trigger,
    tasks: TaskSet,
}

fn patient() -> AdminLimits {
    AdminLimits {
        request: DEADLINE,
        ..AdminLimits::default()
    }
}

impl Bench {
    async fn new() -> Self {
        Self::with(None, patient()).await
    }

    async fn with(certificate: Option<Certificate>, limits: AdminLimits) -> Self {
        Self::guarded(certificate, limits, None).await
    }

    async fn guarded(
        certificate: Option<Certificate>,
        limits: AdminLimits,
        authorizer: Option<Authorizer>,
    ) -> Self {
        // Larger than the buffers of a connection that nobody reads from.
        let config = json!({"dryRun": true, "padding": "x".repeat(16 << 20)});
        Self::showing(config, certificate, limits, authorizer).await
    }

    async fn showing(
        config: Value,
        certificate: Option<Certificate>,
        limits: AdminLimits,
        authorizer: Option<Authorizer>,
    ) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = AdminServer::bind(any, certificate, Clock::system(), limits)
            .await
            .unwrap();
        let build = Build {
            version: "1.2.3",
            commit: "abc",
        };
        let state = AdminState {
            registry: Metrics::new(build).unwrap().registry().clone(),
            readiness: Readiness::new(),
            liveness: Liveness::new(),
            component: "toy-controller",
            config,
            build,
            authorizer,
            kubernetes_versions: &["1.35", "1.36", "1.37"],
        };
        let (trigger, shutdown) = shutdown::channel();
        let mut bench = Self {
            addr: server.local_addr(),
            readiness: state.readiness.clone(),
            liveness: state.liveness.clone(),
            trigger,
            tasks: TaskSet::new(),
        };
        bench.tasks.spawn("admin", async move {
            server.serve(state, async { shutdown.draining().await }).await;
        });
        bench
    }

    async fn connect(&self) -> TcpStream {
        within_deadline(TcpStream::connect(self.addr)).await.unwrap()
    }

    /// Connects from an address other than the server's own.
    async fn connect_from_elsewhere(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
        within_deadline(socket.connect(self.addr)).await.unwrap()
    }

    /// Status line and body of the answer to `GET path`.
    async fn get(&self, path: &str) -> (String, String) {
        let (head, body) = self
            .exchange(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
            .await;
        (status_line(&head), body)
    }

    /// Head and body of the answer to `request`.
    async fn exchange(&self, request: &str) -> (String, String) {
        exchange(self.connect().await, request).await.unwrap()
    }
}

async fn within_deadline<F: Future>(future: F) -> F::Output {
    Clock::system()
        .timeout(DEADLINE, future)
        .await
        .expect("the server hangs")
}

fn status_line(head: &str) -> String {
    head.lines().next().unwrap_or_default().to_owned()
}

async fn exchange<S>(mut stream: S, request: &str) -> std::io::Result<(String, String)>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    within_deadline(async {
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        Ok((head.to_owned(), body.to_owned()))
    })
    .await
}

/// Returns whether the server closes `stream` without an answer.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut answer = Vec::new();
    match within_deadline(stream.read_to_end(&mut answer)).await {
        Ok(_) => answer.is_empty(),
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// A server whose API server knows the tokens `reader`, `operator`, `other` and `torn`. It allows `reader` to `get`
/// `/metrics` and `operator` the paths for operators, both allows and denies `torn` everything, and fails for the token
/// `broken`. Everybody may `get` `/readyz`, as on every cluster.
async fn reviewed(certificate: Option<Certificate>) -> (Bench, Asked) {
    let asked = Asked::default();
    let noted = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let noted = Arc::clone(&noted);
        async move {
            assert_eq!(request.method(), "POST");
            let path = request.uri().path().to_owned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let spec = serde_json::from_slice::<Value>(&body).unwrap()["spec"].take();
            let status = review(&path, &spec);
            noted.lock().push((path, spec));
            let code = if status.is_some() { 201 } else { 500 };
            let body = json!({"status": status.unwrap_or_default()}).to_string();
            Ok::<_, Infallible>(
                Response::builder()
                    .status(code)
                    .body(Body::from(body.into_bytes()))
                    .unwrap(),
            )
        }
    });
    let caller = Caller::new(Clock::system());
    let authorizer = Authorizer::new(kube::Client::new(service, "default"), caller);
    (
        Bench::guarded(certificate, patient(), Some(authorizer)).await,
        asked,
    )
}

fn review(path: &str, spec: &Value) -> Option<Value> {
    if path == TOKEN_REVIEWS {
        return match spec["token"].as_str().unwrap() {
            "broken" => None,
            known @ ("reader" | "operator" | "other" | "torn") => Some(json!({
                "authenticated": true,
                "user": {"username": known, "uid": "1", "groups": ["readers"], "extra": {"of": ["a", "b"]}},
            })),
            _ => Some(json!({"authenticated": false, "error": "invalid bearer token"})),
        };
    }
    assert_eq!(path, ACCESS_REVIEWS);
    let asks = &spec["nonResourceAttributes"];
    let path = asks["path"].as_str().unwrap();
    let is_allowed = match spec["user"].as_str() {
        Some("torn") => return Some(json!({"allowed": true, "denied": true})),
        Some("reader") => path == "/metrics",
        Some("operator") => ["/configz", "/flagz", "/statusz", "/readyz/*", "/livez/*"].contains(&path),
        _ => false,
    };
    let is_allowed = is_allowed || ["/readyz", "/livez"].contains(&path);
    Some(json!({"allowed": is_allowed && asks["verb"] == "get"}))
}

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

fn certificate() -> (CertificateDer<'static>, String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (
        made.cert.der().clone(),
        made.cert.pem(),
        made.signing_key.serialize_pem(),
    )
}

/// A self-signed certificate for `localhost` and its key, in files.
struct Pair {
    dir: tempfile::TempDir,
    paths: TlsPaths,
    cert: CertificateDer<'static>,
}

impl Pair {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let paths = TlsPaths {
            cert: dir.path().join("tls.crt"),
            key: dir.path().join("tls.key"),
        };
        let (cert, cert_pem, key_pem) = certificate();
        std::fs::write(&paths.cert, cert_pem).unwrap();
        std::fs::write(&paths.key, key_pem).unwrap();
        Self { dir, paths, cert }
    }

    fn certificate(&self) -> Certificate {
        Certificate::Files(self.paths.clone())
    }

    async fn error(&self) -> String {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let bound = AdminServer::bind(
            any,
            Some(self.certificate()),
            Clock::system(),
            AdminLimits::default(),
        )
        .await;
        let text = Chain(&bound.unwrap_err()).to_string();
        text.replace(&*self.dir.path().to_string_lossy(), "DIR")
    }
}

/// Requests to the API server: path, and `spec` of the review.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;
