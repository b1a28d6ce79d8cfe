//! One request of a controller: sent under a term, classified, with missing permissions made visible.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{AnswerClass, Call, CallFailed, Denial};
use controller_core::error::Chain;
use controller_core::log_throttle::LogThrottle;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::api::classify;
use crate::clock::Clock;
use crate::leader::Term;

/// Least time between two log lines about the same missing permission.
const NAMED_EVERY: Duration = Duration::from_mins(1);

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
    use controller_core::api::Verb;
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
    async fn a_broken_connection_is_reported_by_its_cause() {
        let broken = kube::Error::Service("connection reset".into());
        let failed = caller()
            .read(patch_node(), async { Err::<(), _>(broken) })
            .await
            .unwrap_err();
        assert_eq!(failed.to_string(), "patch nodes node-1: connection reset");
        assert_eq!(failed.outcome(), AnswerClass::retry(true));
    }
}
