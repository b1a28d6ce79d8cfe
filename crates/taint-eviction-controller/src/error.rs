//! Why an eviction failed.

use std::time::Duration;

use controller_core::api::{CallFailed, Denial, Outcome};
use controller_core::workers::{Advice, SYNC_TIMEOUT, SyncError};

/// Why one try to evict a pod failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The condition could not be written.
    #[error("cannot write the pod's DisruptionTarget condition")]
    Mark(#[source] CallFailed),
    /// The delete did not succeed.
    #[error("cannot delete the pod")]
    Delete(#[source] CallFailed),
    /// It took too long and was cut off.
    #[error("cut off after {} s", SYNC_TIMEOUT.as_secs())]
    TimedOut,
}

impl Error {
    fn call(&self) -> Option<&CallFailed> {
        match self {
            Self::Mark(failed) | Self::Delete(failed) => Some(failed),
            Self::TimedOut => None,
        }
    }

    /// Whether it only says that this process leads no more.
    pub fn ends_the_term(&self) -> bool {
        self.advice() == Advice::NextTerm
    }

    /// How long the API server asks to wait at least.
    pub fn asked_wait(&self) -> Duration {
        match self.advice() {
            Advice::NotBefore(wait) => wait,
            Advice::Backoff | Advice::NextTerm => Duration::ZERO,
        }
    }

    /// Whether an event of the pod would be refused too.
    pub fn namespace_terminates(&self) -> bool {
        let outcome = self.call().map(CallFailed::outcome);
        outcome == Some(Outcome::Forbidden(Denial::NamespaceTerminating))
    }
}

impl SyncError for Error {
    fn reason(&self) -> &'static str {
        self.call().map_or("TimedOut", CallFailed::reason)
    }

    fn advice(&self) -> Advice {
        self.call().map_or(Advice::Backoff, Advice::from)
    }
}
