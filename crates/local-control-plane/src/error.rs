//! Errors of real processes.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a control plane, or a process next to it, does not do what a test asked for.
///
/// `Debug` prints the whole chain as text, logs with their line breaks: it is what a failed `unwrap` shows.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A binary is missing.
    #[error(
        "find {program} in {}: build it with `cargo xtask control-plane`, or name a directory that has it in $KUBEBUILDER_ASSETS",
        dir.display()
    )]
    NoAssets {
        /// The first missing program.
        program: &'static str,
        /// The directory that was searched.
        dir: PathBuf,
    },
    /// A file of the test could not be read or written.
    #[error("{doing} {}", path.display())]
    File {
        /// The verb: `read`, `write`, `create`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A line of the audit log is not an event.
    #[error("decode line {line} of the audit log")]
    AuditLog {
        /// Number of the line, from 1.
        line: usize,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// The audit log was asked for, but [`Options::audit`](super::Options::audit) is off.
    #[error("read the audit log: it is switched off in the options")]
    NoAudit,
    /// The key that signs service account tokens could not be generated.
    #[error("generate the service account signing key")]
    SigningKey,
    /// A program does not report a release of Kubernetes 1.
    #[error("find a release of Kubernetes 1 in what {} --version says: {said:?}", program.display())]
    NoVersion {
        /// Path of the program.
        program: PathBuf,
        /// Its output.
        said: String,
    },
    /// No port is free.
    #[error("find a free port on loopback")]
    NoFreePort,
    /// A process could not be started, signalled or waited for.
    #[error("{doing} {program}")]
    Process {
        /// The verb: `start`, `signal`, `wait for`.
        doing: &'static str,
        /// The file name of the program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// A process ended before it was ready.
    #[error("{program} ended early with {status}; the end of its log:\n{log}")]
    EndedEarly {
        /// The file name of the program.
        program: String,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// A process runs, but does not do its work.
    #[error("{program} is not ready after {within:?}; the end of its log:\n{log}")]
    NotReady {
        /// The file name of the program.
        program: String,
        /// How long it had.
        within: Duration,
        /// The end of its log.
        log: String,
    },
    /// What `/proc` says of a process could not be read.
    #[error("read the usage of process {pid}")]
    Usage {
        /// The process.
        pid: u32,
        /// Why.
        source: io::Error,
    },
    /// A kubeconfig file could not be used.
    #[error("read kubeconfig {}", path.display())]
    Kubeconfig {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: Box<kube::config::KubeconfigError>,
    },
    /// A request failed.
    #[error("{doing}")]
    Request {
        /// What it was for.
        doing: &'static str,
        /// Why.
        source: Box<kube::Error>,
    },
    /// etcd could not be read or written.
    #[error("{doing} etcd")]
    Etcd {
        /// The verb: `connect to`, `ask`.
        doing: &'static str,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A condition did not come true.
    #[error("wait {within:?} for: {what}")]
    NotInTime {
        /// The condition, as the caller named it.
        what: String,
        /// How long it had.
        within: Duration,
    },
}

impl Error {
    pub(super) fn request(doing: &'static str, source: kube::Error) -> Self {
        let source = Box::new(source);
        Self::Request { doing, source }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        let mut next = self.source();
        while let Some(error) = next {
            write!(f, ": {error}")?;
            next = error.source();
        }
        Ok(())
    }
}
