//! The admin server as its clients see it, over loopback.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

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

#[tokio::test]
async fn readiness_and_liveness_follow_their_checks() {
    let bench = Bench::new().await;
    let synced = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&synced);
    let answer = move || {
        if asked.load(SeqCst) {
            Ok(())
        } else {
            Err("not listed yet".to_owned())
        }
    };
    bench.readiness.check("informer-nodes", answer);
    let (status, body) = bench.get("/readyz").await;
    assert_eq!(status, "HTTP/1.1 500 Internal Server Error");
    assert_eq!(
        body,
        "[-]informer-nodes failed: not listed yet\nreadyz check failed\n"
    );
    synced.store(true, SeqCst);
    assert_eq!(
        bench.get("/readyz").await,
        ("HTTP/1.1 200 OK".to_owned(), "ok".to_owned())
    );
    for query in ["?verbose", "?verbose=1", "?a=b&verbose"] {
        let (_, body) = bench.get(&format!("/readyz{query}")).await;
        assert_eq!(body, "[+]informer-nodes ok\nreadyz check passed\n", "{query}");
    }
    assert_eq!(bench.get("/readyz?terse&verbosely").await.1, "ok");

    assert_eq!(bench.get("/livez").await.1, "ok");
    bench.liveness.queue("nodes", || Duration::from_secs(301));
    for endpoint in ["livez", "healthz"] {
        let (status, body) = bench.get(&format!("/{endpoint}")).await;
        assert_eq!(status, "HTTP/1.1 500 Internal Server Error");
        let expected = "[-]queue-nodes failed: a worker is busy with one item for 301 s";
        assert_eq!(body, format!("{expected}\n{endpoint} check failed\n"));
    }
}

#[tokio::test]
async fn metrics_have_the_content_type_of_prometheus() {
    let bench = Bench::new().await;
    let (head, body) = bench.exchange("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(status_line(&head), "HTTP/1.1 200 OK");
    assert!(
        head.contains("\r\ncontent-type: text/plain; version=0.0.4\r\n"),
        "{head}"
    );
    assert!(
        body.contains("\ncontroller_build_info{commit=\"abc\",version=\"1.2.3\"} 1\n"),
        "{body}"
    );
}

#[tokio::test]
async fn the_version_and_a_config_of_any_size_are_json() {
    let bench = Bench::new().await;
    let (_, body) = bench.get("/version").await;
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap(),
        json!({"version": "1.2.3", "commit": "abc", "kubernetesVersions": ["1.35", "1.36", "1.37"]})
    );
    let (head, body) = bench.exchange("GET /configz HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(head.contains("\r\ncontent-type: application/json\r\n"), "{head}");
    let config: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(config["dryRun"], true);
}

const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility \
                       guarantees and is for debugging purposes only.";

/// Head and body of the answer to a client that accepts `accept`.
async fn accepted(bench: &Bench, path: &str, accept: &str) -> (String, String) {
    let accept = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
    bench.exchange(&accept).await
}

#[tokio::test]
async fn flagz_lists_the_flags_without_secrets_as_text_or_as_an_object() {
    let toy = CommonConfig {
        kubeconfig: Some("https://me:secret@host/config".into()),
        ..CommonConfig::default()
    };
    let bench = Bench::showing(effective(&toy), None, patient(), None).await;
    let (head, body) = accepted(&bench, "/flagz", "*/*").await;
    assert!(
        head.contains("\r\ncontent-type: text/plain; charset=utf-8\r\n"),
        "{head}"
    );
    let start = format!("\ntoy-controller flagz\n{WARNING}\n");
    let flags: Vec<_> = body.strip_prefix(&start).expect(&body).lines().collect();
    let names = flags.iter().map(|flag| flag.split('=').next());
    assert!(names.is_sorted(), "{flags:?}");
    for flag in [
        "context=",
        "dry-run=false",
        "kube-api-qps=50",
        "kubeconfig=https://***@host/config",
        "leader-elect-lease-duration=15s",
    ] {
        assert!(flags.contains(&flag), "{flag} in {flags:?}");
    }

    let object = "application/json;g=config.k8s.io;v=v1beta1;as=Flagz";
    let (head, body) = accepted(&bench, "/flagz", object).await;
    assert!(head.contains("\r\ncontent-type: application/json\r\n"), "{head}");
    let found: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        [&found["kind"], &found["apiVersion"], &found["metadata"]["name"]],
        ["Flagz", "config.k8s.io/v1beta1", "toy-controller"]
    );
    assert_eq!(found["flags"]["kube-api-qps"], "50");
    assert_eq!(found["flags"].as_object().unwrap().len(), flags.len());

    let (head, body) = accepted(&bench, "/flagz", "application/json").await;
    assert_eq!(status_line(&head), "HTTP/1.1 406 Not Acceptable");
    assert_eq!(
        body,
        "there are text/plain and application/json;g=config.k8s.io;v=v1beta1;as=Flagz\n"
    );
}

#[tokio::test]
async fn statusz_tells_since_when_which_version_runs() {
    let bench = Bench::new().await;
    let (_, body) = bench.get("/statusz").await;
    let lines: Vec<_> = body.lines().collect();
    let [empty, name, warning, gap, started, up, version, paths] = *lines else {
        panic!("{body}");
    };
    assert_eq!(
        [empty, name, warning, gap],
        ["", "toy-controller statusz", WARNING, ""]
    );
    assert!(
        started.starts_with("Started: ") && started.contains(" UTC 2"),
        "{started}"
    );
    assert!(up.starts_with("Up: 0 hr 0"), "{up}");
    assert_eq!(version, "Binary version: 1.2.3");
    assert_eq!(
        paths,
        "Paths: /configz /flagz /healthz /livez /metrics /readyz /statusz /version"
    );

    let object = "application/json;g=config.k8s.io;v=v1beta1;as=Statusz";
    let (_, body) = accepted(&bench, "/statusz", object).await;
    let found: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(found["kind"], "Statusz");
    assert_eq!(found["binaryVersion"], "1.2.3");
    assert!(found["uptimeSeconds"].as_u64().unwrap() < 60, "{found}");
    found["startTime"].as_str().unwrap().parse::<Timestamp>().unwrap();
}

#[tokio::test]
async fn an_unknown_path_lists_the_known_ones() {
    let (status, body) = Bench::new().await.get("/").await;
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    assert_eq!(
        body,
        "not found; there are /configz /flagz /healthz /livez /metrics /readyz /statusz /version\n"
    );
}

#[tokio::test]
async fn only_get_and_head_without_a_body_are_taken() {
    let bench = Bench::new().await;
    for (request, status) in [
        (
            "POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 405 Method Not Allowed",
        ),
        (
            "DELETE /nowhere HTTP/1.1\r\nHost: a\r\n\r\n",
            "HTTP/1.1 405 Method Not Allowed",
        ),
        (
            "GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 413 Payload Too Large",
        ),
        (
            "GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK",
        ),
        ("GET /livez HTTP/1.0\r\n\r\n", "HTTP/1.0 200 OK"),
    ] {
        let (head, _) = bench.exchange(request).await;
        assert_eq!(status_line(&head), status, "{request}");
    }
    let (head, body) = bench.exchange("HEAD /livez HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(status_line(&head), "HTTP/1.1 200 OK");
    assert!(head.contains("\r\ncontent-length: 2\r\n"), "{head}");
    assert_eq!(body, "");
}

#[tokio::test]
async fn a_request_that_is_none_or_too_large_is_refused() {
    let bench = Bench::new().await;
    let (head, _) = bench.exchange("nonsense\r\n\r\n").await;
    assert_eq!(status_line(&head), "HTTP/1.1 400 Bad Request");
    // Exactly the size that the server reads, as unread bytes would reset the connection.
    let begin = "GET /livez HTTP/1.1\r\nHost: a\r\nX-Long: ";
    let long = format!("{begin}{}", "x".repeat(8192 - begin.len()));
    let (head, _) = bench.exchange(&long).await;
    assert_eq!(status_line(&head), "HTTP/1.1 431 Request Header Fields Too Large");
}

#[tokio::test]
async fn a_request_that_never_ends_is_cut() {
    let limits = AdminLimits {
        request: Duration::from_millis(50),
        ..AdminLimits::default()
    };
    let bench = Bench::with(None, limits).await;
    for begun in ["", "GET /live", "GET /livez HTTP/1.1\r\nHost: a\r\n"] {
        let mut stream = bench.connect().await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        assert!(is_closed(&mut stream).await, "{begun:?}");
    }
    let pair = Pair::new();
    let bench = Bench::with(Some(pair.certificate()), limits).await;
    // A handshake that the client never begins.
    assert!(is_closed(&mut bench.connect().await).await);
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_makes_room_for_the_next() {
    let limits = AdminLimits {
        request: Duration::from_millis(100),
        connections: 1,
        ..AdminLimits::default()
    };
    let bench = Bench::with(None, limits).await;
    let mut lazy = bench.connect().await;
    lazy.write_all(b"GET /configz HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    lazy.readable().await.unwrap();
    within_deadline(async {
        // Refused until the server has cut the lazy client.
        while !matches!(
            exchange(bench.connect().await, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await,
            Ok((head, _)) if status_line(&head) == "HTTP/1.1 200 OK"
        ) {}
    })
    .await;
}

#[tokio::test]
async fn the_oldest_connection_makes_room_for_one_too_many() {
    let limits = AdminLimits {
        connections: 2,
        ..patient()
    };
    let bench = Bench::with(None, limits).await;
    let mut first = bench.connect().await;
    let second = bench.connect().await;
    assert_eq!(bench.get("/livez").await.1, "ok");
    assert!(is_closed(&mut first).await);
    let request = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";
    let (head, _) = exchange(second, request).await.unwrap();
    assert_eq!(status_line(&head), "HTTP/1.1 200 OK", "the younger one stays");
}

#[tokio::test]
async fn a_flood_of_idle_connections_keeps_no_probe_from_its_answer() {
    let bench = Bench::with(None, patient()).await;
    let mut idle = Vec::new();
    for number in 1..=400 {
        idle.push(bench.connect().await);
        if number % 20 == 0 {
            assert_eq!(
                bench.get("/livez").await.1,
                "ok",
                "beside {number} idle connections"
            );
        }
    }
}

/// The default address also serves IPv4 clients.
#[tokio::test]
async fn the_unspecified_address_serves_ipv4() {
    let every = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let server = AdminServer::bind(every, None, Clock::system(), AdminLimits::default())
        .await
        .unwrap();
    let port = server.local_addr().port();
    within_deadline(TcpStream::connect((Ipv4Addr::LOCALHOST, port)))
        .await
        .unwrap();
}

#[tokio::test]
async fn stopping_ends_the_server_although_a_client_holds_on() {
    let mut bench = Bench::new().await;
    assert_eq!(bench.get("/livez").await.1, "ok");
    let idle = bench.connect().await;
    bench.trigger.advance();
    within_deadline(bench.tasks.first_failure()).await;
    TcpStream::connect(bench.addr).await.unwrap_err();
    drop(idle);
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let bench = Bench::new().await;
    let error = AdminServer::bind(bench.addr, None, Clock::system(), AdminLimits::default())
        .await
        .unwrap_err();
    let said = Chain(&error).to_string();
    let start = format!("bind the admin server to {}: Address already in use", bench.addr);
    assert!(said.starts_with(&start), "{said}");
}

// === authorization ===

/// Requests to the API server: path, and `spec` of the review.
type Asked = Arc<Mutex<Vec<(String, Value)>>>;

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

/// Method, path, `Authorization`, and status code.
const REQUESTS: &str = "
GET  /metrics |               | 401
GET  /metrics | Basic reader  | 401
GET  /metrics | Bearer        | 401
GET  /metrics | Bearer madeup | 401
GET  /metrics | Bearer reader | 200
GET  /metrics | bearer reader | 200
GET  /metrics | Bearer other  | 403
GET  /metrics | Bearer torn   | 403
GET  /metrics | Bearer broken | 500
GET  /metrics?name[]=up | Bearer reader | 200
HEAD /metrics | Bearer reader | 403
GET  /configz |               | 401
GET  /configz | Bearer reader | 403
POST /metrics |               | 405
GET  /livez   |               | 200
GET  /readyz  |               | 200
GET  /readyz  | Bearer madeup | 200
GET  /healthz |               | 200
GET  /version |               | 200
GET  /metric  |               | 404
";

/// As `REQUESTS`, sent to a server without cached reviews.
const OPERATORS: &str = "
GET  /configz | Bearer operator | 200
GET  /flagz   |                 | 401
GET  /flagz   | Bearer reader   | 403
GET  /flagz   | Bearer operator | 200
GET  /statusz |                 | 401
GET  /statusz | Bearer reader   | 403
GET  /statusz | Bearer operator | 200
GET  /metrics | Bearer operator | 403
";

#[tokio::test]
async fn metrics_and_config_are_for_those_whom_the_api_server_allows_it() {
    for table in [REQUESTS, OPERATORS] {
        let (bench, _) = reviewed(None).await;
        bench.readiness.check("informer-nodes", || Ok(()));
        for row in table.trim().lines() {
            let [request, authorization, code] = *row.split('|').map(str::trim).collect::<Vec<_>>() else {
                panic!("no row: {row}");
            };
            let (method, path) = request.split_once(' ').unwrap();
            let path = path.trim();
            let header = match authorization {
                "" => String::new(),
                authorization => format!("Authorization: {authorization}\r\n"),
            };
            let (head, _) = bench
                .exchange(&format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{header}\r\n"))
                .await;
            assert_eq!(head.split(' ').nth(1), Some(code), "{row}");
        }
    }
}

/// Without authorization: client address, path, and status code.
const UNREVIEWED: &str = "
127.0.0.1 | /metrics | 200
127.0.0.2 | /metrics | 200
127.0.0.1 | /configz | 200
127.0.0.2 | /configz | 403
127.0.0.1 | /flagz   | 200
127.0.0.2 | /flagz   | 403
127.0.0.1 | /statusz | 200
127.0.0.2 | /statusz | 403
127.0.0.2 | /livez   | 200
127.0.0.2 | /readyz  | 200
127.0.0.2 | /healthz | 200
127.0.0.2 | /version | 200
";

#[tokio::test]
async fn where_nobody_is_asked_the_config_is_for_callers_from_localhost() {
    let bench = Bench::new().await;
    bench.readiness.check("informer-nodes", || Ok(()));
    for row in UNREVIEWED.trim().lines() {
        let [from, path, code] = *row.split('|').map(str::trim).collect::<Vec<_>>() else {
            panic!("no row: {row}");
        };
        let stream = match from {
            "127.0.0.1" => bench.connect().await,
            _ => bench.connect_from_elsewhere().await,
        };
        // Without TLS the server ignores tokens: any listener could have stolen them.
        let (head, body) = exchange(stream, &with_token("operator", path)).await.unwrap();
        assert_eq!(head.split(' ').nth(1), Some(code), "{row}");
        if code == "403" {
            let why = "this path is for callers from localhost, as through kubectl port-forward, and with \
                       --metrics-authorization=kubernetes for bearer tokens\n";
            assert_eq!(body, why, "{row}");
        }
    }
}

/// Authorization, client address, token, and whether the answer tells the reasons.
const REASONS: &str = "
no  | 127.0.0.1 |          | told
no  | 127.0.0.2 |          | withheld
no  | 127.0.0.2 | operator | withheld
yes | 127.0.0.1 |          | withheld
yes | 127.0.0.2 |          | withheld
yes | 127.0.0.2 | madeup   | withheld
yes | 127.0.0.2 | reader   | withheld
yes | 127.0.0.2 | other    | withheld
yes | 127.0.0.2 | broken   | withheld
yes | 127.0.0.2 | operator | told
";

#[tokio::test]
async fn the_reasons_are_for_whom_the_config_is_and_the_names_for_everybody() {
    for row in REASONS.trim().lines() {
        let [is_asked, from, token, expected] = *row.split('|').map(str::trim).collect::<Vec<_>>() else {
            panic!("no row: {row}");
        };
        let bench = match is_asked {
            "yes" => reviewed(None).await.0,
            _ => Bench::new().await,
        };
        bench.readiness.check("lease", || Ok(()));
        bench
            .readiness
            .check("informer-nodes", || Err("forbidden".to_owned()));
        bench
            .readiness
            .notes("missing permission", || vec!["patch nodes".to_owned()]);
        bench.liveness.queue("nodes", || Duration::from_secs(301));
        let (why, note, stuck) = match expected {
            "told" => (
                "forbidden",
                "patch nodes",
                "a worker is busy with one item for 301 s",
            ),
            _ => ("reason withheld", "reason withheld", "reason withheld"),
        };
        let failed = format!("[-]informer-nodes failed: {why}\n");
        let end = "readyz check failed\n";
        for (path, expected) in [
            ("/readyz", format!("{failed}{end}")),
            (
                "/readyz?verbose",
                format!("[+]lease ok\n{failed}[!]missing permission: {note}\n{end}"),
            ),
            (
                "/livez",
                format!("[-]queue-nodes failed: {stuck}\nlivez check failed\n"),
            ),
        ] {
            let stream = match from {
                "127.0.0.1" => bench.connect().await,
                _ => bench.connect_from_elsewhere().await,
            };
            let request = match token {
                "" => format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"),
                token => with_token(token, path),
            };
            let (head, body) = exchange(stream, &request).await.unwrap();
            assert_eq!(status_line(&head), "HTTP/1.1 500 Internal Server Error", "{row}");
            assert_eq!(body, expected, "{row} {path}");
        }
    }
}

fn with_token(token: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n")
}

#[tokio::test]
async fn the_api_server_is_asked_about_the_token_and_then_about_its_user_once() {
    let (bench, asked) = reviewed(None).await;
    for _ in 0..5 {
        bench.exchange(&with_token("reader", "/metrics")).await;
        bench.exchange(&with_token("madeup", "/metrics")).await;
    }
    let user = json!({
        "user": "reader", "uid": "1", "groups": ["readers"], "extra": {"of": ["a", "b"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    });
    assert_eq!(
        *asked.lock(),
        [
            (TOKEN_REVIEWS.to_owned(), json!({"token": "reader"})),
            (ACCESS_REVIEWS.to_owned(), user),
            (TOKEN_REVIEWS.to_owned(), json!({"token": "madeup"})),
        ]
    );
}

#[tokio::test]
async fn a_refusal_says_what_is_missing_and_to_whom() {
    let (bench, _) = reviewed(None).await;
    let (head, body) = bench.exchange("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(head.contains("\r\nwww-authenticate: Bearer\r\n"), "{head}");
    assert_eq!(body, "a bearer token is needed that the API server knows\n");
    let (_, body) = bench.exchange(&with_token("other", "/metrics")).await;
    assert_eq!(body, "user \"other\" may not read this path\n");
}

#[tokio::test]
async fn a_flood_of_made_up_tokens_is_turned_away() {
    let (bench, asked) = reviewed(None).await;
    let mut codes = Vec::new();
    for token in 0..40 {
        let (head, _) = bench
            .exchange(&with_token(&format!("madeup-{token}"), "/metrics"))
            .await;
        codes.push(head.split(' ').nth(1).unwrap().to_owned());
    }
    assert_eq!(
        codes.iter().filter(|code| *code == "401").count(),
        asked.lock().len()
    );
    assert!(codes.contains(&"429".to_owned()), "{codes:?}");

    // A new token of a scraper is reviewed, as the scraper has another address.
    let elsewhere = bench.connect_from_elsewhere().await;
    let (head, _) = exchange(elsewhere, &with_token("reader", "/metrics"))
        .await
        .unwrap();
    assert_eq!(status_line(&head), "HTTP/1.1 200 OK");
}

#[tokio::test]
async fn where_no_certificate_is_given_one_is_made() {
    let (bench, _) = reviewed(Some(Certificate::SelfSigned)).await;
    let url = format!("https://{}", bench.addr).parse().unwrap();
    let mut config = kube::Config::new(url);
    config.accept_invalid_certs = true;
    config.auth_info.token = Some("reader".to_owned().into());
    let client = kube::Client::try_from(config).unwrap();
    let get = |path: &str| Request::get(path).body(Vec::new()).unwrap();
    let metrics = client.request_text(get("/metrics")).await.unwrap();
    assert!(metrics.contains("controller_build_info"), "{metrics}");
    assert_eq!(client.request_text(get("/livez")).await.unwrap(), "ok");
}

// === TLS ===

/// A self-signed certificate for `localhost` and its key, in files.
struct Pair {
    dir: tempfile::TempDir,
    paths: TlsPaths,
    cert: CertificateDer<'static>,
}

fn certificate() -> (CertificateDer<'static>, String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (
        made.cert.der().clone(),
        made.cert.pem(),
        made.signing_key.serialize_pem(),
    )
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

/// Returns whether the server presents exactly the certificate `trusted`.
async fn shows(addr: SocketAddr, trusted: &CertificateDer<'static>) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = within_deadline(TcpStream::connect(addr)).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let Ok(stream) = within_deadline(TlsConnector::from(Arc::new(config)).connect(name, stream)).await else {
        return false;
    };
    let (head, body) = exchange(stream, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert_eq!((&*status_line(&head), &*body), ("HTTP/1.1 200 OK", "ok"));
    true
}

#[tokio::test]
async fn a_changed_certificate_is_taken_and_a_broken_one_is_not() {
    let pair = Pair::new();
    let limits = AdminLimits {
        tls_check: Duration::ZERO,
        ..patient()
    };
    let bench = Bench::with(Some(pair.certificate()), limits).await;
    let (new, new_cert, new_key) = certificate();
    assert!(shows(bench.addr, &pair.cert).await);
    assert!(!shows(bench.addr, &new).await);

    std::fs::write(&pair.paths.cert, new_cert).unwrap();
    assert!(shows(bench.addr, &pair.cert).await, "the key does not fit yet");
    std::fs::write(&pair.paths.key, new_key).unwrap();
    assert!(shows(bench.addr, &new).await);

    std::fs::write(&pair.paths.key, "no key").unwrap();
    assert!(shows(bench.addr, &new).await, "a broken key");
    std::fs::remove_file(&pair.paths.cert).unwrap();
    assert!(shows(bench.addr, &new).await, "no certificate");
}

#[tokio::test]
async fn the_files_are_not_looked_at_for_every_connection() {
    let pair = Pair::new();
    let limits = AdminLimits {
        tls_check: Duration::from_hours(1),
        ..patient()
    };
    let bench = Bench::with(Some(pair.certificate()), limits).await;
    let (new, new_cert, new_key) = certificate();
    std::fs::write(&pair.paths.cert, new_cert).unwrap();
    std::fs::write(&pair.paths.key, new_key).unwrap();
    assert!(shows(bench.addr, &pair.cert).await);
    assert!(!shows(bench.addr, &new).await);
}

#[tokio::test]
async fn a_client_without_tls_gets_no_answer_and_does_no_harm() {
    let pair = Pair::new();
    let bench = Bench::with(Some(pair.certificate()), patient()).await;
    let answer = exchange(bench.connect().await, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(!matches!(answer, Ok((head, _)) if head.starts_with("HTTP/")));
    assert!(shows(bench.addr, &pair.cert).await);
}

#[tokio::test]
async fn a_pair_that_cannot_be_used_at_the_start_is_an_error_that_names_it() {
    let write = |path: &Path, text: &str| std::fs::write(path, text).unwrap();

    let pair = Pair::new();
    std::fs::remove_file(&pair.paths.key).unwrap();
    assert_eq!(
        pair.error().await,
        "read TLS file DIR/tls.key: No such file or directory (os error 2)"
    );

    let pair = Pair::new();
    write(&pair.paths.cert, "");
    assert_eq!(
        pair.error().await,
        "take a certificate from TLS file DIR/tls.crt: no items found"
    );

    let pair = Pair::new();
    let lines_lost = certificate().2.replace('\n', " ");
    write(&pair.paths.key, &lines_lost);
    assert_eq!(
        pair.error().await,
        "take the private key from TLS file DIR/tls.key: a section has no end",
        "a word of the key is one too many"
    );

    let pair = Pair::new();
    write(&pair.paths.key, &certificate().2);
    let said = pair.error().await;
    assert!(
        said.starts_with("use certificate DIR/tls.crt with private key DIR/tls.key: "),
        "{said}"
    );
}

#[tokio::test]
async fn a_pair_that_cannot_be_used_takes_no_port() {
    let pair = Pair::new();
    std::fs::remove_file(&pair.paths.cert).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let error = AdminServer::bind(
        any,
        Some(pair.certificate()),
        Clock::system(),
        AdminLimits::default(),
    )
    .await
    .unwrap_err();
    assert!(matches!(error, Error::Tls(tls_files::Error::Read { path, .. }) if path == pair.paths.cert));
}
