//! The TLS handshake, with the certificate in the files at that time or with a self-signed one.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::BoxError;

use crate::clock::Clock;
use crate::tls_files::{self, Reloading, TlsPaths};

#[derive(Debug)]
pub(super) enum Tls {
    Files(Box<Reloading<Arc<ServerConfig>>>),
    SelfSigned(Arc<ServerConfig>),
}

/// Name in a self-signed certificate; clients cannot verify it. Source: controller-runtime.
const SELF_SIGNED_NAME: &str = "localhost";

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
        config.await.map(Box::new).map(Self::Files)
    }

    pub(super) fn self_signed() -> Result<Self, BoxError> {
        let made = rcgen::generate_simple_self_signed([SELF_SIGNED_NAME.to_owned()])?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let chain = vec![made.cert.der().clone()];
        let certified = CertifiedKey::from_der(chain, key.into(), &ring::default_provider())?;
        Ok(Self::SelfSigned(Arc::new(server_config(certified)?)))
    }

    pub(super) async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let config = match self {
            Self::Files(config) => config.current().await,
            Self::SelfSigned(config) => Arc::clone(config),
        };
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
