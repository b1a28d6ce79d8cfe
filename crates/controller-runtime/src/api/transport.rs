//! The connections under a client. They differ from kube's in four ways:
//!
//! - kube leaves Nagle's algorithm on. The first request on a connection then waits until the API server acknowledges
//!   the end of the handshake, which the server delays: on loopback 51 ms to the first byte of the answer instead of 7.
//!   Go's clients, and so the built-in loops, do not wait.
//! - kube speaks HTTP/1.1, which cannot tell a silent watch from a dead connection. Here HTTP/2 is used if the API
//!   server speaks it, with pings as client-go sends them: a dead connection is noticed within 45 s, even if a load
//!   balancer keeps acknowledging for a dead server. Over HTTP/1.1 the kernel probes, and a watch that is silent for
//!   too long ends (`informer/list_watch`).
//! - Lists use HTTP/1.1 nevertheless: over HTTP/2 the API server spends a fifth more CPU on 50,000 pods. Lists need no
//!   ping, because they have a deadline.
//! - A connection on which a request was given up is not used again. So a frozen connection costs one request its time,
//!   and the next one, such as a renewal of the Lease, uses a new connection.

use std::time::Duration;

use http::{Request, Version};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::{CaptureConnection, HttpConnector, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt, RustlsTlsError};
use kube::{Config, Error};
use tower::{BoxError, ServiceBuilder};

use super::http::{Aside, Http};

/// A connection that was silent for this long is pinged. Source: client-go, `ReadIdleTimeout`.
const PING_AFTER: Duration = Duration::from_secs(30);
/// Longest time for the answer to a ping. Source: client-go, `PingTimeout`.
const PONG_WITHIN: Duration = Duration::from_secs(15);
/// Number of probes before the kernel gives a connection up.
const KERNEL_PROBES: u32 = 3;
/// HTTP/2 flow-control window in bytes: how much of an answer may be in flight.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;

type Connections = HttpClient<TimeoutConnector<HttpsConnector<HttpConnector>>, Body>;

/// Sends to the API server of `config`, which names no proxy; of its timeouts only `connect_timeout` counts.
pub(super) fn http(config: &Config) -> Result<Http, Error> {
    let lists = connections(config, Version::HTTP_11)?;
    let [aside, others] = [(); 2].map(|()| connections(config, Version::HTTP_2));
    let (aside, others) = (aside?, others?);
    let send = move |mut request: Request<Body>| {
        let given_up = GivenUp(Some(capture_connection(&mut request)));
        let connections = match request.extensions().get::<Aside>() {
            Some(Aside) => &aside,
            None if is_list(&request) => &lists,
            None => &others,
        };
        let answer = connections.request(request);
        async move {
            let answer = answer.await;
            given_up.answered();
            answer
        }
    };
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service_fn(send);
    Ok(Http::new(service))
}

/// True if the request is for a list, as pages or as a stream.
fn is_list(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query
        .split('&')
        .any(|pair| pair.starts_with("limit=") || pair == "sendInitialEvents=true")
}

/// Sends over `version`, or an older one if the API server does not speak it.
fn connections(config: &Config, version: Version) -> Result<Connections, Error> {
    let mut connector = TimeoutConnector::new(https(config, version)?);
    connector.set_connect_timeout(config.connect_timeout);
    Ok(HttpClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(PING_AFTER)
        .http2_keep_alive_timeout(PONG_WITHIN)
        .http2_keep_alive_while_idle(true)
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .build(connector))
}

/// Connects to the host of a URI, with TLS if its scheme says so.
fn https(config: &Config, version: Version) -> Result<HttpsConnector<HttpConnector>, Error> {
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into().map_err(RustlsTlsError::InvalidServerName);
        builder =
            builder.with_server_name_resolver(FixedServerNameResolver::new(name.map_err(Error::RustlsTls)?));
    }
    Ok(match version {
        Version::HTTP_11 => builder.enable_http1().wrap_connector(tcp()),
        _ => builder.enable_all_versions().wrap_connector(tcp()),
    })
}

/// Connects to the host of a URI, with or without TLS to follow.
fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(PING_AFTER));
    tcp.set_keepalive_interval(Some(PONG_WITHIN / KERNEL_PROBES));
    tcp.set_keepalive_retries(Some(KERNEL_PROBES));
    tcp.set_tcp_user_timeout(Some(PING_AFTER + PONG_WITHIN));
    tcp
}

/// A request in flight. Dropped before its answer begins, it takes its connection out of use.
struct GivenUp(Option<CaptureConnection>);

impl GivenUp {
    fn answered(mut self) {
        self.0 = None;
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        if let Some(connection) = &self.0
            && let Some(connected) = &*connection.connection_metadata()
        {
            connected.poison();
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Uri;
    use tokio::net::TcpListener;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn nothing_waits_for_an_acknowledgement() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri: Uri = format!("https://{}", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let stream = tcp().oneshot(uri).await.unwrap();
        assert!(stream.inner().nodelay().unwrap());
    }
}
