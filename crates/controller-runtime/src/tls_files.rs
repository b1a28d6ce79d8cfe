//! A certificate and its private key in PEM files that are replaced while the process runs: in place, or behind the
//! symbolic link that a kubelet swaps in the volume of a secret.
//!
//! Two files cannot be replaced at once, so a check may find a new certificate next to the old key. Such a pair is
//! never used: the value made from the last usable pair stays, and a later check finds the second file.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use controller_core::error::Chain;
use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tokio::time::Instant;
use tower::BoxError;

use crate::clock::Clock;

/// The PEM files of a certificate. Both files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPaths {
    /// The certificate chain, the owner's own certificate first.
    pub cert: PathBuf,
    /// The private key of the first certificate.
    pub key: PathBuf,
}

/// Why a certificate and its key cannot be used. The messages name the file and quote none of its content.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("read TLS file {}", path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file does not hold the certificate or key it must hold.
    #[error("take {what} from TLS file {}: {why}", path.display())]
    Pem {
        /// What was looked for: certificate or key.
        what: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The defect of the file.
        why: &'static str,
    },
    /// The certificate and the key do not belong together, or the kind of key is unknown.
    #[error("use certificate {} with private key {}", paths.cert.display(), paths.key.display())]
    Pair {
        /// The paths of both files.
        paths: TlsPaths,
        /// The defect of the pair, from the TLS library.
        source: BoxError,
    },
}

#[derive(PartialEq, Eq)]
pub(crate) struct Pem {
    pub(crate) cert: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// A value made from a certificate and its key, made anew when the files change.
pub(crate) struct Reloading<T> {
    /// Names the certificate's owner in the log.
    owner: &'static str,
    paths: TlsPaths,
    clock: Clock,
    look_every: Duration,
    make: Box<Make<T>>,
    current: Mutex<Current<T>>,
}

type Make<T> = dyn Fn(&Pem, CertifiedKey) -> Result<T, BoxError> + Send + Sync;

struct Current<T> {
    value: T,
    /// The files' content that `value` was made from.
    pem: Pem,
    next_look: Instant,
    /// Why the present files are not used; logged once for each reason.
    complaint: Option<String>,
}

impl<T: Clone> Reloading<T> {
    /// Reads the files and passes them to `make`: now, and whenever a check finds that they changed. Checks are at
    /// least `look_every` apart.
    pub(crate) async fn load(
        owner: &'static str,
        paths: TlsPaths,
        clock: Clock,
        look_every: Duration,
        make: impl Fn(&Pem, CertifiedKey) -> Result<T, BoxError> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let pem = Pem::read(&paths).await?;
        let current = Current {
            value: pem.make(&paths, &make)?,
            pem,
            next_look: clock.instant() + look_every,
            complaint: None,
        };
        Ok(Self {
            owner,
            paths,
            clock,
            look_every,
            make: Box::new(make),
            current: Mutex::new(current),
        })
    }

    /// The value made from the last usable files, after a check if one is due.
    pub(crate) async fn current(&self) -> T {
        if self.is_look_due() {
            self.look().await;
        }
        self.current.lock().value.clone()
    }

    /// `true` claims the check, so that one of several callers checks and the others do not wait.
    fn is_look_due(&self) -> bool {
        let now = self.clock.instant();
        let mut current = self.current.lock();
        let due = current.next_look <= now;
        if due {
            current.next_look = now + self.look_every;
        }
        due
    }

    async fn look(&self) {
        let complaint = match self.take_changed().await {
            Ok(()) => None,
            Err(error) => Some(Chain(&error).to_string()),
        };
        let mut current = self.current.lock();
        if let Some(why) = complaint.as_ref().filter(|_| complaint != current.complaint) {
            tracing::warn!("kept the old certificate of {}: {why}", self.owner);
        }
        current.complaint = complaint;
    }

    async fn take_changed(&self) -> Result<(), Error> {
        let pem = Pem::read(&self.paths).await?;
        if pem == self.current.lock().pem {
            return Ok(());
        }
        let value = pem.make(&self.paths, &self.make)?;
        let mut current = self.current.lock();
        current.value = value;
        current.pem = pem;
        tracing::info!(cert = %self.paths.cert.display(), "took the new certificate of {}", self.owner);
        Ok(())
    }
}

impl<T> fmt::Debug for Reloading<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keeps the private key out of every log.
        f.debug_struct("Reloading")
            .field("owner", &self.owner)
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl Pem {
    async fn read(paths: &TlsPaths) -> Result<Self, Error> {
        Ok(Self {
            cert: read(&paths.cert).await?,
            key: read(&paths.key).await?,
        })
    }

    fn make<T>(
        &self,
        paths: &TlsPaths,
        make: impl Fn(&Self, CertifiedKey) -> Result<T, BoxError>,
    ) -> Result<T, Error> {
        let certified = self.certified(paths)?;
        make(self, certified).map_err(|source| pair_error(paths, source))
    }

    /// The certificate with its key, if the two belong together.
    fn certified(&self, paths: &TlsPaths) -> Result<CertifiedKey, Error> {
        let pem_error = |what, path: &Path, fault| Error::Pem {
            what,
            path: path.to_owned(),
            why: pem_fault(&fault),
        };
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&self.cert)
            .collect::<Result<_, _>>()
            .map_err(|fault| pem_error("the certificate chain", &paths.cert, fault))?;
        if chain.is_empty() {
            return Err(pem_error("a certificate", &paths.cert, pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|fault| pem_error("the private key", &paths.key, fault))?;
        CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(|source| pair_error(paths, source.into()))
    }
}

fn pair_error(paths: &TlsPaths, source: BoxError) -> Error {
    Error::Pair {
        paths: paths.clone(),
        source,
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, Error> {
    tokio::fs::read(path).await.map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

/// What is wrong with a PEM file, in our own words: the error itself quotes lines of the file, and in a key whose line
/// breaks were lost such a line is the key.
pub(crate) fn pem_fault(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no end",
        pem::Error::IllegalSectionStart { .. } => "a section does not start as it must",
        pem::Error::Base64Decode(_) => "a section is not base64",
        pem::Error::NoItemsFound => "no items found",
        pem::Error::SectionTooLarge => "a section is too large",
        _ => "it is not PEM",
    }
}
