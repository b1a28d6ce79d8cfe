//! Why a run, or one sync, failed.

use controller_core::api::CallFailed;
use controller_core::workers::{Advice, SyncError};

/// Why the sync of one node failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request to the API server did not succeed.
    #[error("cannot bring the node's TTL annotation up to date")]
    Api(#[from] CallFailed),
}

impl SyncError for Error {
    fn reason(&self) -> &'static str {
        match self {
            Self::Api(failed) => failed.reason(),
        }
    }

    fn advice(&self) -> Advice {
        match self {
            Self::Api(failed) => failed.into(),
        }
    }
}
