//! One request of a controller: sent under a term, classified, with missing permissions made visible.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::outcome::{AnswerClass, Denial, Verb, classify};
use crate::clock::Clock;
use crate::error::Chain;
use crate::leader::{LeaseLost, Term};
use crate::log_throttle::LogThrottle;

/// Least time between two log lines about the same missing permission.
const NAMED_EVERY: Duration = Duration::from_mins(1);

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

/// Sends a controller's requests and remembers which permissions were found missing.
#[derive(Clone, Debug)]
pub struct Caller {
    clock: Clock,
    missing: Arc<Mutex<Missing>>,
}

/// Messages about missing permissions, by verb and resource.
#[derive(Clone, Debug, Default)]
struct Missing {
    messages: BTreeMap<(&'static str, &'static str), String>,
    named: LogThrottle<(&'static str, &'static str), Instant>,
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

impl Caller {
    /// A caller that knows of no missing permission.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            missing: Arc::default(),
        }
    }

    /// The clock that the caller uses.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Sends a write; fails with [`CallFailed::LeaseLost`] once `term` ends.
    pub async fn write<T>(
        &self,
        term: &Term,
        call: Call,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, CallFailed> {
        match term.run(request).await {
            Ok(answer) => self.judge(call, answer),
            Err(source) => Err(CallFailed::LeaseLost { call, source }),
        }
    }

    /// Sends a read, which needs no term.
    pub async fn read<T>(
        &self,
        call: Call,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, CallFailed> {
        let answer = request.await;
        self.judge(call, answer)
    }

    /// The permissions that were missing in the latest request for each, one line per verb and resource, for
    /// `/readyz?verbose`.
    pub fn missing_permissions(&self) -> Vec<String> {
        self.missing.lock().messages.values().cloned().collect()
    }

    fn judge<T>(&self, call: Call, answer: kube::Result<T>) -> Result<T, CallFailed> {
        let key = (call.verb.as_str(), call.resource);
        match answer {
            Ok(answer) => {
                let mut missing = self.missing.lock();
                if missing.messages.remove(&key).is_some() {
                    missing.named.forget(&key);
                    tracing::info!(verb = key.0, resource = key.1, "permission granted");
                }
                Ok(answer)
            }
            Err(error) => {
                let outcome = classify(call.verb, &error);
                let message = text_of(&error);
                if outcome == AnswerClass::Forbidden(Denial::MissingPermission) {
                    self.name_missing_permission(key, &message);
                }
                Err(CallFailed::Answered {
                    call,
                    outcome,
                    code: match &error {
                        kube::Error::Api(status) => Some(status.code),
                        _ => None,
                    },
                    message,
                })
            }
        }
    }

    fn name_missing_permission(&self, (verb, resource): (&'static str, &'static str), message: &str) {
        let mut missing = self.missing.lock();
        let now = self.clock.instant();
        if missing.named.is_due(&(verb, resource), NAMED_EVERY, now) {
            tracing::error!(verb, resource, "permission denied: {message}");
            let message = format!("{verb} {resource}: {message}");
            missing.messages.insert((verb, resource), message);
        }
    }
}

/// The server's message, or the transport's chain of errors; kube's own text repeats the whole answer twice.
fn text_of(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("{} {}", status.code, status.reason),
        kube::Error::Service(source) => Chain(source.as_ref()).to_string(),
        other => Chain(other).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::leader::Leadership;

    fn caller() -> Caller {
        Caller::new(Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()))
    }

    fn patch_node() -> Call {
        Call {
            verb: Verb::Patch,
            resource: "nodes",
            target: "node-1".into(),
        }
    }

    fn refusal() -> kube::Error {
        let message = "nodes \"node-1\" is forbidden: User \"u\" cannot patch resource \"nodes\" in API group \"\" at the cluster scope";
        let status = json!({"code": 403, "reason": "Forbidden", "message": message});
        kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_says_what_was_asked_and_what_the_server_answered_once() {
        let caller = caller();
        let term = Leadership::always().lead().await;
        let failed = caller
            .write(&term, patch_node(), async { Err::<(), _>(refusal()) })
            .await
            .unwrap_err();
        assert_eq!(
            failed.to_string(),
            "patch nodes node-1: nodes \"node-1\" is forbidden: User \"u\" cannot patch resource \"nodes\" in API group \"\" at the cluster scope"
        );
        assert_eq!(
            failed.outcome(),
            AnswerClass::Forbidden(Denial::MissingPermission)
        );
        assert_eq!(failed.reason(), "Forbidden");
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_permission_is_shown_until_it_is_granted() {
        let caller = caller();
        caller
            .read(patch_node(), async { Err::<(), _>(refusal()) })
            .await
            .unwrap_err();
        assert_eq!(caller.missing_permissions().len(), 1);
        assert!(caller.missing_permissions()[0].starts_with("patch nodes: nodes \"node-1\" is forbidden"));
        caller.read(patch_node(), async { Ok(()) }).await.unwrap();
        assert_eq!(caller.missing_permissions(), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_connection_is_told_by_its_cause() {
        let broken = kube::Error::Service("connection reset".into());
        let failed = caller()
            .read(patch_node(), async { Err::<(), _>(broken) })
            .await
            .unwrap_err();
        assert_eq!(failed.to_string(), "patch nodes node-1: connection reset");
        assert_eq!(failed.outcome(), AnswerClass::retry(true));
    }
}
