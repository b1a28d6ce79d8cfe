//! Why a budget cannot be computed (DIS-9).

use std::fmt;
use std::sync::Arc;

/// Why a budget cannot be computed. Prints as its cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// The cause.
    pub cause: Cause,
    /// Whether time alone may mend it: then it is tried again soon.
    pub transient: bool,
}

/// What is wrong. Prints as the message of the condition, which is the same for the same cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The selector cannot be compiled.
    Selector(String),
    /// `minAvailable` or `maxUnavailable` is none that the API server accepts.
    Spec(String),
    /// Pods name a controller that is not there.
    NoController {
        /// The first of them, by name.
        pod: Arc<str>,
        /// How many more there are.
        others: i64,
    },
    /// The controller's kind has no `/scale`.
    NoScale {
        /// `resource.group`.
        resource: String,
    },
    /// The API server does not serve the controller's kind.
    UnknownKind {
        /// `kind`.
        kind: Arc<str>,
        /// `apiVersion`.
        api_version: Arc<str>,
    },
    /// The scale, or what there is to read it, could not be read.
    Unreadable {
        /// What was asked, and the answer.
        message: String,
    },
    /// Nobody has asked for the scale.
    NoScaleKnown,
}

impl Failure {
    /// One that only a change of an object mends.
    pub const fn permanent(cause: Cause) -> Self {
        Self {
            cause,
            transient: false,
        }
    }

    /// One that time may mend.
    pub const fn transient(cause: Cause) -> Self {
        Self {
            cause,
            transient: true,
        }
    }

    /// The one that is told: always the same of the same ones, and transient if one of them is.
    pub fn first(failures: Vec<Self>) -> Option<Self> {
        let transient = failures.iter().any(|failure| failure.transient);
        let first = failures.into_iter().min()?;
        Some(Self { transient, ..first })
    }
}

impl Cause {
    /// Whether it is the same trouble, if perhaps with other pods.
    pub fn is_like(&self, other: &Self) -> bool {
        matches!(
            (self, other),
            (Self::NoController { .. }, Self::NoController { .. })
        ) || self == other
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selector(problem) => write!(f, "invalid selector: {problem}"),
            Self::Spec(problem) => f.write_str(problem),
            Self::NoController { pod, others: 0 } => write!(f, "found no controllers for pod {pod:?}"),
            Self::NoController { pod, others } => {
                write!(f, "found no controllers for pod {pod:?} and {others} more")
            }
            Self::NoScale { resource } => write!(f, "{resource} does not implement the scale subresource"),
            Self::UnknownKind { kind, api_version } => {
                write!(f, "no matches for kind {kind:?} in version {api_version:?}")
            }
            Self::Unreadable { message } => f.write_str(message),
            Self::NoScaleKnown => f.write_str("the scale of a controller is not known yet"),
        }
    }
}
