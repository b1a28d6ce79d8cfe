//! Which keys a change of a Job wakes.

use controller_core::informer::Change;

use crate::view::JobView;

/// What a change asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Judge the Job: it is new, or something that a rule reads has changed.
    Judge,
    /// Forget the Job: it is gone, is being deleted, or has no ttl any more (TAF-9).
    Forget,
}

/// What `change` asks for. Every change of a view concerns a rule: what concerns none is not in it.
pub fn wake(change: &Change<'_, JobView>) -> Wake {
    match change {
        Change::Added(_) | Change::Updated { .. } => Wake::Judge,
        Change::Deleted(_) => Wake::Forget,
    }
}
