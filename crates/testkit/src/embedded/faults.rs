//! Faults that a test asks for: what happens to the next requests of some kind.

use std::fmt;
use std::time::Duration;

use super::failure::Failure;
use super::request::Request;

/// What goes wrong with a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// It is refused with a `Status`, before it has any effect.
    Status {
        /// HTTP code.
        code: u16,
        /// Reason of the Status, e.g. `ServiceUnavailable`.
        reason: String,
        /// Asks the client to wait, in header and details.
        retry_after: Option<Duration>,
    },
    /// It is refused as API Priority and Fairness does: 429 in plain text, with `Retry-After`.
    Throttled {
        /// How long the client is asked to wait.
        retry_after: Duration,
    },
    /// The connection breaks before the request has any effect.
    DropBefore,
    /// The connection breaks after the request took effect, before its answer.
    DropAfterEffect,
    /// It is held back for this long, then treated as usual.
    Delay(Duration),
}

/// What is left to go wrong, in the order in which it was asked for.
#[derive(Default)]
pub(super) struct Faults {
    rules: Vec<Rule>,
}

struct Rule {
    left: usize,
    matches: Box<dyn Fn(&Request) -> bool + Send + Sync>,
    fault: Fault,
}

impl Fault {
    /// A refusal without a wish to wait.
    pub fn status(code: u16, reason: &str) -> Self {
        Self::Status {
            code,
            reason: reason.to_owned(),
            retry_after: None,
        }
    }
}

impl Faults {
    pub(super) fn add(
        &mut self,
        count: usize,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
        fault: Fault,
    ) {
        self.rules.push(Rule {
            left: count,
            matches: Box::new(matches),
            fault,
        });
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The faults of this request: delays, then at most one that decides it.
    pub(super) fn take(&mut self, request: &Request) -> Vec<Fault> {
        let mut taken = Vec::new();
        for rule in &mut self.rules {
            if rule.left == 0 || !(rule.matches)(request) {
                continue;
            }
            rule.left -= 1;
            taken.push(rule.fault.clone());
            if !matches!(rule.fault, Fault::Delay(_)) {
                break;
            }
        }
        self.rules.retain(|rule| rule.left > 0);
        taken
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.rules.iter().map(|rule| (rule.left, &rule.fault)))
            .finish()
    }
}

/// The refusal that a [`Fault::Status`] stands for.
pub(super) fn refusal(code: u16, reason: &str, retry_after: Option<Duration>) -> Failure {
    let failure = Failure::new(code, reason, format!("refused by the test: {reason}"));
    match retry_after {
        None => failure,
        Some(wait) => failure.retry_in(wait),
    }
}
