//! Why an entry has no claim, or no reservation.

use std::sync::Arc;

use controller_core::api::{AnswerClass, CallFailed, Denial};

use crate::decide::EntryFailure;

/// Why an entry has no claim, or no reservation.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EntryError {
    /// Nothing can be done.
    #[error("{0}")]
    Cannot(EntryFailure),
    /// The read that would find its claim has failed.
    #[error("cannot look for its ResourceClaim: {0}")]
    Look(CallFailed),
    /// The claim was not made.
    #[error("cannot create its ResourceClaim: {0}")]
    Create(CallFailed),
    /// Other objects have the names that the claim might have had.
    #[error("cannot create its ResourceClaim: {0} names are taken")]
    NamesTaken(u32),
    /// The claim was not reserved.
    #[error("cannot reserve its ResourceClaim: {0}")]
    Reserve(CallFailed),
}

impl EntryError {
    /// True if something else must happen first, which will enqueue the pod.
    pub const fn waits(&self) -> bool {
        matches!(self, Self::Cannot(failure) if failure.waits())
    }

    /// True if the cause is that `PodGroups` do not count.
    pub const fn is_of_groups(&self) -> bool {
        matches!(self, Self::Cannot(EntryFailure::GroupsOff(_)))
    }

    /// True if a request has failed.
    pub const fn is_of_a_request(&self) -> bool {
        matches!(self, Self::Look(_) | Self::Create(_) | Self::Reserve(_))
    }

    /// True if the error deserves an event: not if it passes on its own, or no event can be written for it.
    pub fn is_news(&self) -> bool {
        match self {
            Self::Cannot(_) | Self::NamesTaken(_) => true,
            Self::Reserve(_) => false,
            Self::Look(failed) | Self::Create(failed) => !matches!(
                (failed, failed.outcome()),
                (CallFailed::LeaseLost { .. }, _)
                    | (
                        _,
                        AnswerClass::Throttled(_)
                            | AnswerClass::Conflict
                            | AnswerClass::Forbidden(Denial::NamespaceTerminating)
                    )
            ),
        }
    }
}

/// Entries that have failed, for the log.
pub fn told(failures: &[(Arc<str>, EntryError)]) -> String {
    let count = failures.len();
    let entries = if count == 1 { "entry" } else { "entries" };
    let each = failures.iter().map(|(entry, error)| format!("{entry}: {error}"));
    let each = each.collect::<Vec<_>>().join("; ");
    format!("{count} {entries} without what it needs: {each}")
}
