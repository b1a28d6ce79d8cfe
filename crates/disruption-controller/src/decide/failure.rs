//! Why a budget cannot be computed (DIS-9).

use std::sync::Arc;
use std::time::Duration;

use crate::scales::MOST_READS;

/// Why a budget cannot be computed. Prints as its cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{cause}")]
pub struct Failure {
    pub cause: Cause,
    /// Whether time alone may mend it: then it is tried again soon.
    pub transient: bool,
    /// How long the API server asks to wait before that.
    pub wait: Duration,
}

/// What is wrong. Prints as the message of the condition, which is the same for the same cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Cause {
    /// The selector cannot be compiled.
    #[error("invalid selector: {0}")]
    Selector(String),
    /// `minAvailable` or `maxUnavailable` is none that the API server accepts.
    #[error("{0}")]
    Spec(String),
    /// Pods name a controller that is not there: the first of them, by name, and how many more there are.
    #[error("found no controllers for pod {0:?}{more}", more = and_more(*.1))]
    NoController(Arc<str>, i64),
    /// The controller's kind, `resource.group`, has no `/scale`.
    #[error("{0} does not implement the scale subresource")]
    NoScale(String),
    /// The API server does not serve the controller's `kind` in this `apiVersion`.
    #[error("no matches for kind {0:?} in version {1:?}")]
    UnknownKind(Arc<str>, Arc<str>),
    /// The scale, or what there is to read it, could not be read: what was asked, and the answer.
    #[error("{0}")]
    Unreadable(String),
    /// Too many controllers have scales that must be read.
    #[error("the scales of more than {most} controllers must be read", most = MOST_READS)]
    TooManyControllers,
    /// Nobody has asked for the scale.
    #[error("the scale of a controller is not known yet")]
    NoScaleKnown,
}

impl Failure {
    /// One that only a change of an object mends.
    pub const fn permanent(cause: Cause) -> Self {
        Self {
            cause,
            transient: false,
            wait: Duration::ZERO,
        }
    }

    /// One that time may mend.
    pub const fn transient(cause: Cause) -> Self {
        Self {
            cause,
            transient: true,
            wait: Duration::ZERO,
        }
    }

    /// The one that is told: always the same of the same ones, transient if one of them is, and with the longest wait.
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
    /// Whether it is the same trouble, if perhaps with other pods.
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
