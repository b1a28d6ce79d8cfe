//! Why a run, or one sync, failed.

use controller_core::api::CallFailed;
use controller_core::workers::{Advice, SyncError};

/// Why the sync of one Job failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The fresh read did not succeed.
    #[error("cannot read the expired Job again")]
    Read(#[source] CallFailed),
    /// The delete did not succeed, or the Job had changed since it was read.
    #[error("cannot delete the expired Job")]
    Delete(#[source] CallFailed),
}

impl Error {
    fn call(&self) -> &CallFailed {
        match self {
            Self::Read(failed) | Self::Delete(failed) => failed,
        }
    }
}

impl SyncError for Error {
    fn reason(&self) -> &'static str {
        self.call().reason()
    }

    fn advice(&self) -> Advice {
        self.call().into()
    }
}
