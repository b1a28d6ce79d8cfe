//! One request of a controller, and why it failed.

use std::fmt;

use super::outcome::{AnswerClass, Verb};

/// Describes a request to the API server, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The verb as RBAC sees the request.
    pub verb: Verb,
    /// The resource as RBAC spells it: `nodes`, `pods/status`, `poddisruptionbudgets.policy`.
    pub resource: &'static str,
    /// The object's name, or what the list selects; may be empty.
    pub target: String,
}

/// The term ended before the write was known to be done. A request in flight may have been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write under lease: the lease was lost")]
pub struct LeaseLost;

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFailed {
    /// The API server refused the request, or no answer came.
    #[error("{call}: {message}")]
    Answered {
        /// The request.
        call: Call,
        /// The classified answer.
        outcome: AnswerClass,
        /// The HTTP status code; `None` where no answer came.
        code: Option<u16>,
        /// The text of the server's `Status`, or of the transport's error.
        message: String,
    },
    /// The lease was lost before the answer came; the request was dropped.
    #[error("{call}: the lease was lost")]
    LeaseLost {
        /// The request.
        call: Call,
        /// Says whether the request may have reached the server.
        source: LeaseLost,
    },
}

impl Call {
    /// Verb and resource without the object: `patch pods/status`.
    pub fn kind(&self) -> String {
        format!("{} {}", self.verb.as_str(), self.resource)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind())?;
        if !self.target.is_empty() {
            write!(f, " {}", self.target)?;
        }
        Ok(())
    }
}

impl CallFailed {
    /// The request that failed.
    pub const fn call(&self) -> &Call {
        match self {
            Self::Answered { call, .. } | Self::LeaseLost { call, .. } => call,
        }
    }

    /// True if nothing is left to write to: the object is gone, or another object has its name.
    pub fn is_gone(&self) -> bool {
        matches!(self.outcome(), AnswerClass::Gone | AnswerClass::Done)
    }

    /// The HTTP status code of the answer; `None` if no answer came.
    pub const fn code(&self) -> Option<u16> {
        match self {
            Self::Answered { code, .. } => *code,
            Self::LeaseLost { .. } => None,
        }
    }

    /// The meaning of the failure; a lost lease leaves the fate of the write open.
    pub fn outcome(&self) -> AnswerClass {
        match self {
            Self::Answered { outcome, .. } => outcome.clone(),
            Self::LeaseLost { .. } => AnswerClass::retry(true),
        }
    }

    /// True if the server may have carried out the write even so.
    pub fn fate_unknown(&self) -> bool {
        matches!(
            self.outcome(),
            AnswerClass::Retry {
                fate_unknown: true,
                ..
            }
        )
    }

    /// One of a closed set of reasons, for metric labels and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::LeaseLost { .. } => "LeaseLost",
            Self::Answered { outcome, .. } => match outcome {
                AnswerClass::Done => "Done",
                AnswerClass::Gone => "Gone",
                AnswerClass::AlreadyExists => "AlreadyExists",
                AnswerClass::Conflict => "Conflict",
                AnswerClass::Forbidden(_) => "Forbidden",
                AnswerClass::Throttled(_) => "Throttled",
                AnswerClass::Invalid | AnswerClass::Retry { .. } => "Failed",
            },
        }
    }
}
