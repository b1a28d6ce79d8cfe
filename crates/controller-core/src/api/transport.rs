//! The connections under a client: as kube makes them, but that every request leaves at once.
//!
//! kube leaves Nagle's algorithm on. The first request on a connection then waits until the API server acknowledges the
//! end of the handshake, which it puts off: on loopback 51 ms to the first byte of the answer instead of 7. Go's
//! clients, and so the built-in loops, do not wait.

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config, Error};
use tower::{BoxError, ServiceBuilder};

/// A client for `config`; its `connect_timeout` is the only one that counts.
///
/// Fails where `config` names a proxy: kube is built without.
pub(super) fn client(config: Config) -> Result<Client, Error> {
    if config.proxy_url.is_some() {
        // Says what it misses.
        return Client::try_from(config);
    }
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp())?);
    connector.set_connect_timeout(config.connect_timeout);
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

/// Connects to the host of a URI, whether TLS follows or not.
fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp
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

    #[test]
    fn a_proxy_is_refused_and_not_passed_by() {
        let mut config = Config::new(Uri::from_static("https://127.0.0.1"));
        config.proxy_url = Some(Uri::from_static("http://proxy.example.com:3128"));
        let error = client(config).err().unwrap();
        assert!(matches!(error, Error::ProxyProtocolDisabled { .. }), "{error}");
    }
}
