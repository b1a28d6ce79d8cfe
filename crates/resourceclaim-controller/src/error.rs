//! Why a sync failed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{CallFailed, Denial, Outcome};
use controller_core::workers::{Advice, SyncError};

use crate::decide::Failure;

/// Why the sync of one key failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Entries without a claim, or without a reservation; the others have theirs.
    #[error("{} without what it needs: {}", count(.0.len()), Listed(.0))]
    Entries(Vec<(Arc<str>, EntryError)>),
    /// A recorded claim seems to be gone, and what is recorded now could not be read.
    #[error("cannot read which claims are recorded")]
    Recorded(#[source] CallFailed),
    /// The statuses were not written; the claims are there.
    #[error("cannot record the claims")]
    Record(#[source] CallFailed),
    /// A consumer of the claim could not be looked up: everything stays.
    #[error("cannot tell whether the claim is still needed")]
    Look(#[source] CallFailed),
    /// The claim was not written or deleted.
    #[error("cannot give the claim back")]
    GiveBack(#[source] CallFailed),
}

/// Why an entry has no claim, or no reservation.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EntryError {
    /// Nothing can be done.
    #[error("{0}")]
    Cannot(Failure),
    /// Whether its claim is there could not be asked.
    #[error("cannot look for its ResourceClaim: {0}")]
    Look(CallFailed),
    /// The claim was not made.
    #[error("cannot create its ResourceClaim: {0}")]
    Create(CallFailed),
    /// Others have the names that the claim might have had.
    #[error("cannot create its ResourceClaim: {0} names are taken")]
    NamesTaken(u32),
    /// The claim was not reserved.
    #[error("cannot reserve its ResourceClaim: {0}")]
    Reserve(CallFailed),
}

impl EntryError {
    /// Whether something else has to happen first, which will wake who waits.
    pub const fn waits(&self) -> bool {
        matches!(self, Self::Cannot(failure) if failure.waits())
    }

    /// Whether it is worth an event: not what passes on its own, nor what no event can be written for.
    pub fn is_news(&self) -> bool {
        match self {
            Self::Cannot(_) | Self::NamesTaken(_) => true,
            Self::Reserve(_) => false,
            Self::Look(failed) | Self::Create(failed) => !matches!(
                (failed, failed.outcome()),
                (CallFailed::LeaseLost { .. }, _)
                    | (
                        _,
                        Outcome::Throttled(_)
                            | Outcome::Conflict
                            | Outcome::Forbidden(Denial::NamespaceTerminating)
                    )
            ),
        }
    }

    fn call(&self) -> Option<&CallFailed> {
        match self {
            Self::Look(failed) | Self::Create(failed) | Self::Reserve(failed) => Some(failed),
            Self::Cannot(_) | Self::NamesTaken(_) => None,
        }
    }
}

impl SyncError for Error {
    fn reason(&self) -> &'static str {
        match self {
            Self::Recorded(failed) | Self::Record(failed) | Self::Look(failed) | Self::GiveBack(failed) => {
                failed.reason()
            }
            Self::Entries(failures) => {
                let mut calls = failures.iter().filter_map(|(_, error)| error.call());
                calls.next().map_or("EntryFailed", CallFailed::reason)
            }
        }
    }

    fn advice(&self) -> Advice {
        match self {
            Self::Recorded(failed) | Self::Record(failed) | Self::Look(failed) | Self::GiveBack(failed) => {
                failed.into()
            }
            Self::Entries(failures) => {
                let calls = failures.iter().filter_map(|(_, error)| error.call());
                calls.map(Advice::from).fold(Advice::Backoff, later)
            }
        }
    }
}

fn later(a: Advice, b: Advice) -> Advice {
    let wait = |advice| match advice {
        Advice::Backoff => Duration::ZERO,
        Advice::NotBefore(wait) => wait,
        Advice::NextTerm => Duration::MAX,
    };
    if wait(a) >= wait(b) { a } else { b }
}

fn count(entries: usize) -> String {
    match entries {
        1 => "1 entry".to_owned(),
        entries => format!("{entries} entries"),
    }
}

struct Listed<'a>(&'a [(Arc<str>, EntryError)]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (entry, error)) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{entry}: {error}")?;
        }
        Ok(())
    }
}
