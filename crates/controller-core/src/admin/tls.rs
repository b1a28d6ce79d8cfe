//! The server certificate, read again when its files change.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{Error, TlsPaths};
use crate::clock::Clock;
use crate::error::Chain;

/// A usable pair of certificate and key. A newer one takes its place as soon as it is usable too.
pub(super) struct Tls {
    paths: TlsPaths,
    clock: Clock,
    check_every: Duration,
    current: Mutex<Current>,
}

struct Current {
    /// What `config` was made of.
    files: Files,
    config: Arc<ServerConfig>,
    next_check: Instant,
    /// Why the files that are there now are not used; said once for each reason.
    complaint: Option<String>,
}

#[derive(PartialEq, Eq)]
struct Files {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl Tls {
    pub(super) async fn load(paths: TlsPaths, clock: Clock, check_every: Duration) -> Result<Self, Error> {
        let files = Files::read(&paths).await?;
        let current = Current {
            config: files.server_config(&paths)?,
            files,
            next_check: clock.instant() + check_every,
            complaint: None,
        };
        Ok(Self {
            paths,
            clock,
            check_every,
            current: Mutex::new(current),
        })
    }

    /// The handshake, with the certificate of now.
    pub(super) async fn accept(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        if self.is_check_due() {
            self.check().await;
        }
        let config = Arc::clone(&self.current.lock().config);
        TlsAcceptor::from(config).accept(stream).await
    }

    /// Whether to look at the files. A `true` counts as the look, so that of several connections one looks.
    fn is_check_due(&self) -> bool {
        let now = self.clock.instant();
        let mut current = self.current.lock();
        let due = current.next_check <= now;
        if due {
            current.next_check = now + self.check_every;
        }
        due
    }

    async fn check(&self) {
        let result = Files::read(&self.paths).await;
        let mut current = self.current.lock();
        let result = result.and_then(|files| {
            if files == current.files {
                return Ok(());
            }
            current.config = files.server_config(&self.paths)?;
            current.files = files;
            tracing::info!(cert = %self.paths.cert.display(), "took the new certificate of the admin server");
            Ok(())
        });
        let complaint = result.err().map(|error| Chain(&error).to_string());
        if let Some(why) = complaint.as_ref().filter(|_| complaint != current.complaint) {
            tracing::warn!("kept the old certificate of the admin server: {why}");
        }
        current.complaint = complaint;
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The private key stays out of every log.
        f.debug_struct("Tls")
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl Files {
    async fn read(paths: &TlsPaths) -> Result<Self, Error> {
        Ok(Self {
            cert: read(&paths.cert).await?,
            key: read(&paths.key).await?,
        })
    }

    fn server_config(&self, paths: &TlsPaths) -> Result<Arc<ServerConfig>, Error> {
        let pem_error = |what, path: &Path, source| Error::Pem {
            what,
            path: path.to_owned(),
            source,
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&self.cert)
            .collect::<Result<_, _>>()
            .map_err(|source| pem_error("the certificate chain", &paths.cert, source))?;
        if chain.is_empty() {
            return Err(pem_error("a certificate", &paths.cert, pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|source| pem_error("the private key", &paths.key, source))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|source| Error::Pair {
                paths: paths.clone(),
                source,
            })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, Error> {
    tokio::fs::read(path).await.map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}
