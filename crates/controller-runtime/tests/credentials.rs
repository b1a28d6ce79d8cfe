//! Credentials that change while the process runs (CORE-13): on the test's own TLS server, which counts connections,
//! and on a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use controller_core::error::Chain;
use controller_runtime::api::client::{ConnectOptions, connect};
use controller_runtime::api::limits::Limits;
use controller_runtime::api::metrics::RequestMetrics;
use controller_runtime::clock::Clock;
use controller_runtime::metrics::encode;
use futures::stream::{self, StreamExt};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Api;
use kube::api::PostParams;
use kube::client::Body;
use local_control_plane::{ControlPlane, Options, TokenUser, eventually};
use parking_lot::Mutex;
use prometheus::Registry;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, date_time_ymd,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Interval between checks of the files.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Long enough for any step on a busy machine; only a failing test waits that long.
const DEADLINE: Duration = Duration::from_mins(1);

/// Expiry of the certificates of the users `before` and `after`.
const EXPIRIES: [u64; 2] = [2_000_000_000, 2_100_000_000];

/// Signs the certificates of a test.
struct Authority {
    cert: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
struct Identity {
    cert: String,
    key: String,
}

/// A directory with a kubeconfig that names `tls.crt` and `tls.key` in the same directory.
struct Files(TempDir);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = common_name("authority");
        let key = KeyPair::generate().unwrap();
        Self {
            cert: params.self_signed(&key).unwrap().pem(),
            issuer: Issuer::new(params, key),
        }
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        Identity {
            cert: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    fn server(&self) -> Identity {
        self.sign(&CertificateParams::new(["127.0.0.1".to_owned()]).unwrap())
    }

    fn user(&self, name: &str) -> Identity {
        self.sign(&user_params(name))
    }

    /// A user whose certificate expires at `unix_time`.
    fn user_until(&self, name: &str, unix_time: u64) -> Identity {
        let mut params = user_params(name);
        params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(unix_time);
        self.sign(&params)
    }
}

fn user_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut dn = DistinguishedName::new();
    dn.push(DnType::CommonName, name);
    dn
}

impl Identity {
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from_pem_slice(self.cert.as_bytes()).unwrap()]
    }
}

impl Files {
    fn new(cluster: &Value, identity: &Identity) -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write_kubeconfig(
            cluster,
            &json!({ "client-certificate": "tls.crt", "client-key": "tls.key" }),
        );
        files.write_identity(identity);
        files
    }

    fn write_kubeconfig(&self, cluster: &Value, user: &Value) {
        let kubeconfig = json!({
            "clusters": [{ "name": "test", "cluster": cluster }],
            "users": [{ "name": "test", "user": user }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" }}],
            "current-context": "test",
        });
        self.write("kubeconfig", &kubeconfig.to_string());
    }

    fn write_identity(&self, identity: &Identity) {
        self.write("tls.crt", &identity.cert);
        self.write("tls.key", &identity.key);
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    async fn client(&self) -> kube::Client {
        client(&self.0.path().join("kubeconfig")).await.unwrap()
    }

    /// The error of a client that cannot be built.
    async fn error(&self) -> String {
        let Err(error) = client(&self.0.path().join("kubeconfig")).await else {
            panic!("there is a client")
        };
        error.replace(self.0.path().to_str().unwrap(), "DIR")
    }
}

async fn client(kubeconfig: &Path) -> Result<kube::Client, String> {
    metered(kubeconfig, &Registry::new()).await
}

async fn metered(kubeconfig: &Path, registry: &Registry) -> Result<kube::Client, String> {
    let options = ConnectOptions {
        kubeconfig: Some(kubeconfig.to_owned()),
        context: None,
        limits: Limits { qps: 0.0, burst: 0 },
        user_agent: "test/1".into(),
    };
    let metrics = RequestMetrics::register(registry).unwrap();
    match connect(&options, &Clock::system(), &metrics).await {
        Ok(connection) => Ok(connection.http.client()),
        Err(error) => Err(Chain(&error).to_string()),
    }
}

/// The user name that the server sees.
async fn name_of(client: &kube::Client) -> kube::Result<String> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await?;
    Ok(review.status.unwrap().user_info.unwrap().username.unwrap())
}

/// Advances tokio's clock, which times the checks of the files; nothing waits meanwhile, so the sockets notice nothing.
async fn pass(duration: Duration) {
    tokio::time::pause();
    tokio::time::advance(duration).await;
    tokio::time::resume();
}

// === the test's own server ===

/// Tells each client its name and counts connections.
struct Server {
    authority: Authority,
    before: Identity,
    after: Identity,
    address: SocketAddr,
    connections: Arc<Connections>,
    /// Events for the only watch.
    events: UnboundedSender<&'static str>,
    _tasks: JoinSet<()>,
}

#[derive(Default)]
struct Connections {
    opened: AtomicUsize,
    open: AtomicUsize,
}

/// Answers the requests of one connection.
struct Peer {
    name: &'static str,
    events: Arc<Mutex<Option<UnboundedReceiver<&'static str>>>>,
}

impl Server {
    async fn start() -> Self {
        let authority = Authority::new();
        let before = authority.user_until("before", EXPIRIES[0]);
        let after = authority.user_until("after", EXPIRIES[1]);
        let names = HashMap::from([
            (before.chain().remove(0), "before"),
            (after.chain().remove(0), "after"),
        ]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls_config(&authority)));
        let connections = Arc::new(Connections::default());
        let (events, receiver) = unbounded_channel();
        let receiver = Arc::new(Mutex::new(Some(receiver)));

        let mut tasks = JoinSet::new();
        let counts = Arc::clone(&connections);
        tasks.spawn(async move {
            let mut served = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, names, counts) = (acceptor.clone(), names.clone(), Arc::clone(&counts));
                let events = Arc::clone(&receiver);
                served.spawn(async move {
                    counts.opened.fetch_add(1, SeqCst);
                    counts.open.fetch_add(1, SeqCst);
                    serve(stream, acceptor, &names, events).await;
                    counts.open.fetch_sub(1, SeqCst);
                });
            }
        });
        Self {
            authority,
            before,
            after,
            address,
            connections,
            events,
            _tasks: tasks,
        }
    }

    fn cluster(&self, files: &Path) -> Value {
        let ca = files.join("ca.crt");
        std::fs::write(&ca, &self.authority.cert).unwrap();
        json!({ "server": format!("https://{}", self.address), "certificate-authority": ca })
    }

    /// The files of the user `before`.
    fn files(&self, ca: &TempDir) -> Files {
        Files::new(&self.cluster(ca.path()), &self.before)
    }

    fn opened(&self) -> usize {
        self.connections.opened.load(SeqCst)
    }

    async fn only_is_open(&self, count: usize) {
        eventually(DEADLINE, "the other connections are closed", async || {
            (self.connections.open.load(SeqCst) == count).then_some(())
        })
        .await
        .unwrap();
    }
}

fn tls_config(authority: &Authority) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.cert.as_bytes()).unwrap())
        .unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .unwrap();
    let identity = authority.server();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.chain(), key)
        .unwrap()
}

async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    names: &HashMap<CertificateDer<'static>, &'static str>,
    events: Arc<Mutex<Option<UnboundedReceiver<&'static str>>>>,
) {
    let Ok(stream) = acceptor.accept(stream).await else {
        return;
    };
    let name = names[&stream.get_ref().1.peer_certificates().unwrap()[0]];
    let peer = Peer { name, events };
    let service = service_fn(|request| std::future::ready(Ok::<_, Infallible>(peer.answer(&request))));
    // The client decides how a connection ends.
    let _ended = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

impl Peer {
    fn answer(&self, request: &Request<Incoming>) -> Response<BoxBody<Bytes, Infallible>> {
        if request.uri().query().is_some_and(|query| query.contains("watch")) {
            let events = self.events.lock().take().expect("one watch");
            let events = stream::unfold(events, async |mut events| {
                events.recv().await.map(|event| (event, events))
            });
            let frames = events.map(|event| Ok(Frame::data(Bytes::from(event))));
            return Response::new(BodyExt::boxed(StreamBody::new(frames)));
        }
        let review = json!({ "metadata": {}, "status": { "userInfo": { "username": self.name }}});
        Response::new(BodyExt::boxed(Full::from(review.to_string())))
    }
}

#[tokio::test]
async fn a_rotated_client_certificate_is_used_within_10_s_over_new_connections() {
    let (server, ca) = (Server::start().await, tempfile::tempdir().unwrap());
    let files = server.files(&ca);
    let client = files.client().await;
    assert_eq!(name_of(&client).await.unwrap(), "before");

    files.write_identity(&server.after);
    pass(LOOK_EVERY / 2).await;
    assert_eq!(name_of(&client).await.unwrap(), "before", "not looked at yet");
    assert_eq!(server.opened(), 1);

    pass(LOOK_EVERY / 2).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");
    assert_eq!(server.opened(), 2);
    server.only_is_open(1).await;

    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");
    assert_eq!(server.opened(), 2, "a connection without a change");
}

/// Expiry from the metrics.
fn expiry(registry: &Registry) -> Option<u64> {
    let metrics = encode(registry).unwrap();
    let name = "controller_client_certificate_expiration_timestamp_seconds ";
    let value = metrics.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.parse().unwrap())
}

#[tokio::test]
async fn the_metrics_tell_when_the_client_certificate_in_use_expires() {
    let (server, ca) = (Server::start().await, tempfile::tempdir().unwrap());
    let (files, registry) = (server.files(&ca), Registry::new());
    let client = metered(&files.0.path().join("kubeconfig"), &registry)
        .await
        .unwrap();
    assert_eq!(expiry(&registry), Some(EXPIRIES[0]));

    files.write("tls.crt", &server.after.cert);
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "before");
    assert_eq!(expiry(&registry), Some(EXPIRIES[0]), "the key does not fit");

    files.write("tls.key", &server.after.key);
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");
    assert_eq!(expiry(&registry), Some(EXPIRIES[1]));
}

#[tokio::test]
async fn the_metrics_tell_of_a_certificate_in_the_kubeconfig_and_of_none_where_there_is_none() {
    let (server, ca) = (Server::start().await, tempfile::tempdir().unwrap());
    let files = server.files(&ca);
    let inline = json!({
        "client-certificate-data": STANDARD.encode(&server.before.cert),
        "client-key-data": STANDARD.encode(&server.before.key),
    });
    for (user, expected) in [(inline, Some(EXPIRIES[0])), (json!({ "token": "t" }), None)] {
        files.write_kubeconfig(&server.cluster(ca.path()), &user);
        let registry = Registry::new();
        metered(&files.0.path().join("kubeconfig"), &registry)
            .await
            .unwrap();
        assert_eq!(expiry(&registry), expected, "{user}");
    }
}

#[tokio::test]
async fn a_half_written_pair_changes_nothing_until_its_other_half_is_there() {
    let (server, ca) = (Server::start().await, tempfile::tempdir().unwrap());
    let files = server.files(&ca);
    let client = files.client().await;

    files.write("tls.crt", &server.after.cert);
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "before", "the key does not fit");
    files.write("tls.key", "");
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "before", "there is no key");
    std::fs::remove_file(files.0.path().join("tls.key")).unwrap();
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "before", "there is no file");
    assert_eq!(server.opened(), 1);

    files.write("tls.key", &server.after.key);
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");
}

#[tokio::test]
async fn a_pair_behind_a_symbolic_link_is_rotated_by_swapping_the_link() {
    let (server, ca) = (Server::start().await, tempfile::tempdir().unwrap());
    let files = server.files(&ca);
    let at = |name: &str| files.0.path().join(name);
    // The layout of a Secret volume by the kubelet.
    for (version, identity) in [("..1", &server.before), ("..2", &server.after)] {
        std::fs::create_dir(at(version)).unwrap();
        files.write(&format!("{version}/tls.crt"), &identity.cert);
        files.write(&format!("{version}/tls.key"), &identity.key);
    }
    std::os::unix::fs::symlink("..1", at("..data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        std::fs::remove_file(at(name)).unwrap();
        std::os::unix::fs::symlink(format!("..data/{name}"), at(name)).unwrap();
    }
    let client = files.client().await;
    assert_eq!(name_of(&client).await.unwrap(), "before");

    std::os::unix::fs::symlink("..2", at("..data_tmp")).unwrap();
    std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");
}

#[tokio::test]
async fn a_watch_goes_on_over_its_old_connection_which_is_closed_when_it_ends() {
    let (server, ca) = (Server::start().await, tempfile::tempdir().unwrap());
    let files = server.files(&ca);
    let client = files.client().await;
    let request = Request::get("/api/v1/nodes?watch=true")
        .body(Body::empty())
        .unwrap();
    let mut watch = client.send(request).await.unwrap().into_body();

    files.write_identity(&server.after);
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");
    server.events.send("event").unwrap();
    let event = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(event, "event");
    server.only_is_open(2).await;

    drop(watch);
    server.only_is_open(1).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");
    assert_eq!(server.opened(), 2);
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_at_the_start_is_an_error_that_shows_nothing_of_the_key() {
    let (server, ca) = (Server::start().await, tempfile::tempdir().unwrap());
    let files = server.files(&ca);
    let on_one_line = server.before.key.replace('\n', " ");
    let cut_off = &on_one_line[..on_one_line.len() / 2];
    files.write("tls.key", &on_one_line);
    assert_eq!(
        files.error().await,
        "cannot set up the connection with the client certificate of the kubeconfig: take the private key from TLS file DIR/tls.key: a section has no end"
    );

    std::fs::remove_file(files.0.path().join("tls.key")).unwrap();
    assert_eq!(
        files.error().await,
        "cannot set up the connection with the client certificate of the kubeconfig: read TLS file DIR/tls.key: No such file or directory (os error 2)"
    );

    let inline = |text: &str| serde_json::to_value(k8s_openapi::ByteString(text.into())).unwrap();
    files.write_kubeconfig(
        &server.cluster(ca.path()),
        &json!({ "client-certificate-data": inline(&server.before.cert), "client-key-data": inline(cut_off) }),
    );
    assert_eq!(
        files.error().await,
        "cannot take the client certificate and its key from the kubeconfig: a section does not start as it must"
    );
}

// === a real API server ===

#[tokio::test]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_rotated_client_certificate_is_used_without_a_restart() {
    let (authority, ca) = (Authority::new(), tempfile::tempdir().unwrap());
    let ca = ca.path().join("ca.crt");
    std::fs::write(&ca, &authority.cert).unwrap();
    let options = Options {
        api_server_args: vec![format!("--client-ca-file={}", ca.display())],
        ..Options::default()
    };
    let control_plane = ControlPlane::start(options).await.unwrap();
    let kubeconfig = std::fs::read_to_string(control_plane.kubeconfig()).unwrap();
    let kubeconfig: Value = serde_json::from_str(&kubeconfig).unwrap();
    let cluster = &kubeconfig["clusters"][0]["cluster"];

    let soon = u64::try_from(Clock::system().now().as_second()).unwrap() + 8;
    let before = authority.user_until("before", soon);
    let (rotated, left) = (Files::new(cluster, &before), Files::new(cluster, &before));
    let (client, client_of_before) = (rotated.client().await, left.client().await);
    assert_eq!(name_of(&client).await.unwrap(), "before");
    assert_eq!(name_of(&client_of_before).await.unwrap(), "before");

    rotated.write_identity(&authority.user("after"));
    pass(LOOK_EVERY).await;
    assert_eq!(name_of(&client).await.unwrap(), "after");

    let refused = eventually(DEADLINE, "the certificate of before has expired", async || {
        name_of(&client_of_before).await.err()
    });
    let refused = refused.await.unwrap();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 401),
        "{refused}"
    );
    assert_eq!(name_of(&client).await.unwrap(), "after");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_rotated_token_is_used_without_a_restart() {
    let (before, after) = (TokenUser::new("before"), TokenUser::new("after"));
    let tokens = (before.token.clone(), after.token.clone());
    let options = Options {
        users: vec![before, after],
        ..Options::default()
    };
    let control_plane = ControlPlane::start(options).await.unwrap();

    let directory = tempfile::tempdir().unwrap();
    let token_file = directory.path().join("token");
    std::fs::write(&token_file, &tokens.0).unwrap();
    let kubeconfig = control_plane.kubeconfig_for(&tokens.0).unwrap();
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    let with_file = text
        .replace(&tokens.0, "TOKEN")
        .replace("\"token\"", "\"tokenFile\"")
        .replace("token:", "tokenFile:");
    let path = directory.path().join("kubeconfig");
    std::fs::write(&path, with_file.replace("TOKEN", token_file.to_str().unwrap())).unwrap();

    let client = client(&path).await.unwrap();
    assert_eq!(name_of(&client).await.unwrap(), "before");

    std::fs::write(&token_file, &tokens.1).unwrap();
    eventually(Duration::from_secs(90), "the new token is used", async || {
        (name_of(&client).await.ok().as_deref() == Some("after")).then_some(())
    })
    .await
    .unwrap();
}
