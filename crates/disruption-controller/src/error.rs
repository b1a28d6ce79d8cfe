//! Why a sync failed.

use std::time::Duration;

use controller_core::api::CallFailed;
use controller_core::workers::{Advice, SyncError};

use crate::decide::Failure;

/// Why the sync of one budget, or of one pod, failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The budget's status was not written; it may have changed since it was read.
    #[error("cannot write the budget's status")]
    Write(#[source] CallFailed),
    /// The pod's condition was not written.
    #[error("cannot reset the pod's stale DisruptionTarget condition")]
    Reset(#[source] CallFailed),
    /// The budget allows nothing because it cannot be computed now (DIS-9).
    #[error("cannot compute the budget, it allows nothing: {failure}")]
    Failed {
        /// Why.
        failure: Failure,
        /// How long the API server asks to wait.
        wait: Option<Duration>,
    },
}

impl SyncError for Error {
    fn reason(&self) -> &'static str {
        match self {
            Self::Write(failed) | Self::Reset(failed) => failed.reason(),
            Self::Failed { .. } => "SyncFailed",
        }
    }

    fn advice(&self) -> Advice {
        match self {
            Self::Write(failed) | Self::Reset(failed) => failed.into(),
            Self::Failed { wait: None, .. } => Advice::Backoff,
            Self::Failed { wait: Some(wait), .. } => Advice::NotBefore(*wait),
        }
    }
}
