//! What the log says about a client certificate that changes (CORE-13).
//!
//! A separate binary: tracing caches for each callsite whether a subscriber is interested, so tests with and without a
//! subscriber cannot run in one process.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::api::client::{ConnectOptions, connect};
use controller_runtime::api::limits::Limits;
use controller_runtime::api::metrics::RequestMetrics;
use controller_runtime::clock::Clock;
use http::Request;
use parking_lot::Mutex;
use prometheus::Registry;
use rcgen::generate_simple_self_signed;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;

/// Interval between checks of the files.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Nobody listens on port 1; the files are checked nevertheless.
const KUBECONFIG: &str = "
clusters: [{name: test, cluster: {server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}]
users: [{name: test, user: {client-certificate: tls.crt, client-key: tls.key}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Lines since the last call, without times, and with `DIR` for the directory.
    fn take(&self, dir: &Path) -> Vec<String> {
        let log = String::from_utf8(std::mem::take(&mut *self.0.lock())).unwrap();
        log.replace(dir.to_str().unwrap(), "DIR")
            .lines()
            .map(|line| line.trim_start().to_owned())
            .collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_pair_that_is_not_taken_is_named_once_for_each_reason_and_no_line_shows_a_key() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_writer(move || writer.clone())
        .finish()
        .with(Targets::new().with_target("controller_runtime", LevelFilter::INFO));
    let _guard = tracing::subscriber::set_default(subscriber);
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let [before, after] = [(); 2].map(|()| generate_simple_self_signed(["user".to_owned()]).unwrap());
    write("kubeconfig", KUBECONFIG);
    write("tls.crt", &before.cert.pem());
    write("tls.key", &before.signing_key.serialize_pem());
    let options = ConnectOptions {
        kubeconfig: Some(dir.path().join("kubeconfig")),
        context: None,
        limits: Limits { qps: 0.0, burst: 0 },
        user_agent: "test/1".into(),
    };
    let metrics = RequestMetrics::register(&Registry::new()).unwrap();
    let connection = connect(&options, &Clock::system(), &metrics).await.unwrap();
    // Each request checks the files if tokio's clock says that a check is due.
    let look = async || {
        tokio::time::pause();
        tokio::time::advance(LOOK_EVERY).await;
        tokio::time::resume();
        let request = Request::get("/api/v1/nodes").body(Vec::new()).unwrap();
        connection.http.client().request_text(request).await.unwrap_err();
        log.take(dir.path())
    };
    assert_eq!(look().await, [""; 0]);

    write("tls.crt", &after.cert.pem());
    assert_eq!(
        look().await,
        [
            "WARN kept the old certificate of the client: use certificate DIR/tls.crt with private key DIR/tls.key: keys may not be consistent: KeyMismatch"
        ]
    );
    assert_eq!(look().await, [""; 0], "said already");

    write("tls.key", &after.signing_key.serialize_pem().replace('\n', " "));
    assert_eq!(
        look().await,
        [
            "WARN kept the old certificate of the client: take the private key from TLS file DIR/tls.key: a section has no end"
        ]
    );

    write("tls.key", &after.signing_key.serialize_pem());
    assert_eq!(
        look().await,
        ["INFO took the new certificate of the client cert=DIR/tls.crt"]
    );
    assert_eq!(look().await, [""; 0]);
}
