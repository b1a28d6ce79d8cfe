//! Why a budget cannot be computed (DIS-9).

use std::sync::Arc;
use std::time::Duration;

/// A budget fails if its pods have more controllers than this whose scales must be read: anyone who makes pods can make
/// up owners.
pub const MOST_READS: usize = 500;

/// Why a budget cannot be computed. Prints as its cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{cause}")]
pub struct SyncFailure {
    pub cause: Cause,
    /// Time alone may fix the failure: it is retried soon.
    pub transient: bool,
    /// How long the API server asks to wait before the retry.
    pub wait: Duration,
}

/// What is wrong. Prints as the message of the condition: the same cause prints the same text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Cause {
    /// The selector cannot be compiled.
    #[error("invalid selector: {0}")]
    Selector(String),
    /// The API server would refuse `minAvailable` or `maxUnavailable`.
    #[error("{0}")]
    Spec(String),
    /// Pods name a controller that does not exist: the first of these pods, by name, and the number of the others.
    #[error("found no controllers for pod {0:?}{more}", more = and_more(*.1))]
    NoController(Arc<str>, i64),
    /// The controller's kind, `resource.group`, has no `/scale`.
    #[error("{0} does not implement the scale subresource")]
    NoScale(String),
    /// No owner above one of this kind, `resource.group`, has a `/scale`; and why the search ended.
    #[error("no scale above {0}: {1}")]
    NoScaleAbove(String, String),
    /// The API server does not serve the controller's `kind` in this `apiVersion`.
    #[error("no matches for kind {0:?} in version {1:?}")]
    UnknownKind(Arc<str>, Arc<str>),
    /// The scale, or discovery for it, could not be read: the request, and the answer.
    #[error("{0}")]
    Unreadable(String),
    /// Too many controllers have scales that must be read.
    #[error("the scales of more than {most} controllers must be read", most = MOST_READS)]
    TooManyControllers,
    /// The scale has not been queried.
    #[error("the scale of a controller is not known yet")]
    NoScaleKnown,
}

impl SyncFailure {
    /// A failure that only a change of an object fixes.
    pub const fn permanent(cause: Cause) -> Self {
        Self {
            cause,
            transient: false,
            wait: Duration::ZERO,
        }
    }

    /// A failure that time may fix.
    pub const fn transient(cause: Cause) -> Self {
        Self {
            cause,
            transient: true,
            wait: Duration::ZERO,
        }
    }

    /// The failure to report: the same for the same set, transient if any is, and with the longest wait.
    pub fn first(failures: Vec<Self>) -> Option<Self> {
        let transient = failures.iter().any(|failure| failure.transient);
        let wait = failures.iter().map(|failure| failure.wait).max()?;
        let Self { cause, .. } = failures.into_iter().min()?;
        Some(Self {
            cause,
            transient,
            wait,
        })
    }
}

impl Cause {
    /// True if both are the same problem, perhaps with other pods.
    pub fn is_like(&self, other: &Self) -> bool {
        matches!((self, other), (Self::NoController(..), Self::NoController(..))) || self == other
    }
}

fn and_more(others: i64) -> String {
    match others {
        0 => String::new(),
        others => format!(" and {others} more"),
    }
}
