//! The handshake, with the certificate that is in its files now.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::clock::Clock;
use crate::tls_files::{self, Reloading, TlsPaths};

#[derive(Debug)]
pub(super) struct Tls(Reloading<Arc<ServerConfig>>);

impl Tls {
    pub(super) async fn load(
        paths: TlsPaths,
        clock: Clock,
        check_every: Duration,
    ) -> Result<Self, tls_files::Error> {
        let config = Reloading::load(
            "the admin server",
            paths,
            clock,
            check_every,
            |_pem, certified| Ok(Arc::new(server_config(certified)?)),
        );
        config.await.map(Self)
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let config = self.0.current().await;
        TlsAcceptor::from(config).accept(stream).await
    }
}

fn server_config(certified: CertifiedKey) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
