//! What the rest of the process sees of the election.

use tokio::sync::watch;

use super::term::{Fence, Term};

/// Who leads, and the way to a [`Term`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// `None` without an election.
    fence: Option<Fence>,
    status: watch::Receiver<Status>,
}

/// What the elector reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// Who held the Lease when it was last read.
    pub(super) holder: Option<String>,
    /// Why the last attempt failed.
    pub(super) failure: Option<AttemptFailed>,
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AttemptFailed {
    /// The whole chain of causes.
    pub(super) text: String,
    /// Whether the API server refused for want of a right.
    pub(super) forbidden: bool,
}

impl Leadership {
    pub(super) const fn new(fence: Fence, status: watch::Receiver<Status>) -> Self {
        Self {
            fence: Some(fence),
            status,
        }
    }

    /// Leadership without an election (`--leader-elect=false`, dry run): one term that never ends.
    pub fn always() -> Self {
        Self {
            fence: None,
            status: watch::channel(Status::default()).1,
        }
    }

    /// The term that is valid now, if one is.
    pub fn current(&self) -> Option<Term> {
        match &self.fence {
            Some(fence) => fence.current(),
            None => Some(Term::endless()),
        }
    }

    /// Waits until this process leads; for ever once the elector is gone. Cancel safe.
    pub async fn lead(&self) -> Term {
        match &self.fence {
            Some(fence) => fence.next().await,
            None => Term::endless(),
        }
    }

    /// Who held the Lease when it was last read; for people, not for decisions.
    pub fn holder(&self) -> Option<String> {
        self.status.borrow().holder.clone()
    }

    /// Why the last attempt to read or write the Lease failed; `None` after one that did not.
    pub fn last_error(&self) -> Option<String> {
        let status = self.status.borrow();
        status.failure.as_ref().map(|failure| failure.text.clone())
    }

    /// [`last_error`](Self::last_error) where a right to get, create or update the Lease is missing: the one
    /// election failure that makes the process not ready.
    pub fn missing_right(&self) -> Option<String> {
        let status = self.status.borrow();
        let failure = status.failure.as_ref().filter(|failure| failure.forbidden);
        failure.map(|failure| failure.text.clone())
    }
}
