//! Credentials that change while the process runs (CORE-13): on the test's own TLS server, which counts connections,
//! and on a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod real;
mod rotation;

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
