//! The election as the rest of the process sees it.

use tokio::sync::watch;

use super::term::{Fence, Term};

/// Gives access to the current [`Term`] and to the state of the election. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// `None` without an election.
    fence: Option<Fence>,
    status: watch::Receiver<Status>,
    set_backs: watch::Receiver<SetBacks>,
}

/// How often etcd may have been set back to an earlier state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetBacks {
    /// The Lease has shown it: what the caches hold may no longer exist.
    pub noticed: u64,
    /// A term has begun, and the elector had looked away before.
    pub possible: u64,
}

/// The elector's report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// The holder when the Lease was last read.
    pub(super) holder: Option<String>,
    /// Why the last attempt failed.
    pub(super) failure: Option<AttemptFailed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AttemptFailed {
    /// The whole chain of errors.
    pub(super) text: String,
    /// True if the API server refused for lack of a permission.
    pub(super) forbidden: bool,
}

impl Leadership {
    pub(super) const fn new(
        fence: Fence,
        status: watch::Receiver<Status>,
        set_backs: watch::Receiver<SetBacks>,
    ) -> Self {
        Self {
            fence: Some(fence),
            status,
            set_backs,
        }
    }

    /// Leadership without an election (`--leader-elect=false`, dry run): one term that never ends.
    pub fn always() -> Self {
        Self {
            fence: None,
            status: watch::channel(Status::default()).1,
            set_backs: watch::channel(SetBacks::default()).1,
        }
    }

    /// The current term, if this process leads.
    pub fn current(&self) -> Option<Term> {
        match &self.fence {
            Some(fence) => fence.current(),
            None => Some(Term::endless()),
        }
    }

    /// Waits until this process leads; for ever once the elector has stopped. Cancel safe.
    pub async fn lead(&self) -> Term {
        match &self.fence {
            Some(fence) => fence.next().await,
            None => Term::endless(),
        }
    }

    /// How often etcd may have been set back, so that all caches must be listed again; never without an election.
    pub fn set_backs(&self) -> watch::Receiver<SetBacks> {
        self.set_backs.clone()
    }

    /// The holder when the Lease was last read; for display, not for decisions.
    pub fn holder(&self) -> Option<String> {
        self.status.borrow().holder.clone()
    }

    /// Why the last attempt to read or write the Lease failed; `None` if it succeeded.
    pub fn last_error(&self) -> Option<String> {
        let status = self.status.borrow();
        status.failure.as_ref().map(|failure| failure.text.clone())
    }

    /// [`last_error`](Self::last_error) if the permission to get, create or update the Lease is missing: the one
    /// election failure that makes the process not ready.
    pub fn missing_permission(&self) -> Option<String> {
        let status = self.status.borrow();
        let failure = status.failure.as_ref().filter(|failure| failure.forbidden);
        failure.map(|failure| failure.text.clone())
    }
}
