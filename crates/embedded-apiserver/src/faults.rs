//! Faults that a test injects, and the requests that meet them.

use std::fmt;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::failure::StatusError;
use super::request::{RecordedRequest, RequestVerb};

/// What goes wrong with a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// Refused with a `Status` before it takes effect: by an API server or a webhook.
    Status {
        /// HTTP code.
        code: u16,
        /// Reason of the Status, e.g. `ServiceUnavailable`.
        reason: String,
        /// The wait that the server asks for, in header and details.
        retry_after: Option<Duration>,
    },
    /// Refused as API Priority and Fairness does: 429 in plain text, with `Retry-After`.
    Throttled {
        /// The wait that the server asks for.
        retry_after: Duration,
    },
    /// Answered 404 in plain text without effect, as by a proxy that does not know the path. No object is missing.
    NoSuchPage,
    /// The connection breaks before the request takes effect: a load balancer or node fails.
    DropBefore,
    /// The connection breaks after the request took effect, before its answer.
    DropAfterEffect,
    /// The connection breaks, and the request takes effect this much later: it was on its way when its sender gave up,
    /// lost its Lease or died. Observers see it when it is sent. A server that is down by then does not carry it out.
    LateEffect(Duration),
    /// No answer until the connections are cut ([`Server::down`](super::Server::down)) or the client gives up: a
    /// hanging server, or a network that drops packets.
    NoAnswer {
        /// True if the request is carried out.
        takes_effect: bool,
    },
    /// Answered 504 after a while, as kube-apiserver answers if etcd is slow (`--request-timeout`).
    Timeout {
        /// Time until the answer.
        after: Duration,
        /// True if the request is carried out nevertheless, at once.
        takes_effect: bool,
    },
    /// Carried out, but the answer breaks off in the middle of the first frame of its body: the connection was cut
    /// during the transfer.
    CutAnswer,
    /// Answered 200 with JSON that is no object of the API: by a proxy or a login page.
    Garbage {
        /// True if the request is carried out.
        takes_effect: bool,
    },
    /// Delayed by this time, then treated as usual: a slow network or server.
    Delay(Duration),
    /// The watch is accepted and ends in good order at once, as through a proxy that does not know watches. Other
    /// requests are not affected.
    WatchEnds,
    /// The watch is accepted and reports nothing, not even bookmarks, until its connection is cut: a network partition
    /// that nobody has noticed. Other requests are not affected.
    WatchSilent,
    /// All events and bookmarks of the watch are this late: one resource lags behind another. Other requests are not
    /// affected.
    WatchLags(Duration),
    /// The get or list shows the past, like an API server whose watch cache lags; so do the existing objects with which
    /// a watch begins. Other requests are not affected.
    Stale {
        /// How far back the state is.
        by: Duration,
        /// True if reads that ask for the most recent state (no `resourceVersion`) see the past too, which no API
        /// server may do; false: only reads that allow it (`resourceVersion=0` or older).
        illegal: bool,
    },
}

/// Selects the requests that meet a fault.
///
/// ```
/// # use embedded_apiserver::{Fault, FaultRule, RequestVerb};
/// // The third patch of a node, and each one after it with a chance of one in five.
/// FaultRule::new(Fault::DropBefore).verb(RequestVerb::Patch).resource("nodes").nth(3);
/// FaultRule::new(Fault::DropBefore).verb(RequestVerb::Patch).resource("nodes").after(3).probability(0.2);
/// ```
pub struct FaultRule {
    matches: Vec<Matcher>,
    skip: usize,
    left: usize,
    probability: f64,
    fault: Fault,
}

type Matcher = Box<dyn Fn(&RecordedRequest) -> bool + Send + Sync>;

/// The rules still in force, in the order in which they were added.
pub(super) struct Faults {
    rules: Vec<FaultRule>,
    chance: ChaCha8Rng,
}

impl Fault {
    /// A refusal that asks for no wait.
    pub fn status(code: u16, reason: &str) -> Self {
        Self::Status {
            code,
            reason: reason.to_owned(),
            retry_after: None,
        }
    }

    /// True if the same request can meet further faults.
    const fn lets_others_follow(&self) -> bool {
        matches!(
            self,
            Self::Delay(_) | Self::WatchLags(_) | Self::WatchSilent | Self::Stale { .. }
        )
    }
}

impl FaultRule {
    /// `fault` for every request, for ever; the other methods narrow the rule down.
    pub fn new(fault: Fault) -> Self {
        Self {
            matches: Vec::new(),
            skip: 0,
            left: usize::MAX,
            probability: 1.0,
            fault,
        }
    }

    /// Only requests with this verb.
    #[must_use]
    pub fn verb(self, verb: RequestVerb) -> Self {
        self.matching(move |request| request.verb == verb)
    }

    /// Only requests about this resource, by plural name.
    #[must_use]
    pub fn resource(self, plural: &'static str) -> Self {
        self.matching(move |request| request.resource == plural)
    }

    /// Only requests for which `matches` returns true.
    #[must_use]
    pub fn matching(mut self, matches: impl Fn(&RecordedRequest) -> bool + Send + Sync + 'static) -> Self {
        self.matches.push(Box::new(matches));
        self
    }

    /// Skips the first `count` requests that match.
    #[must_use]
    pub fn after(mut self, count: usize) -> Self {
        self.skip = count;
        self
    }

    /// Only `count` requests that match.
    #[must_use]
    pub fn times(mut self, count: usize) -> Self {
        self.left = count;
        self
    }

    /// Only the `number`-th request that matches, counted from 1.
    #[must_use]
    pub fn nth(self, number: usize) -> Self {
        self.after(number.saturating_sub(1)).times(1)
    }

    /// Only with this chance for each request that matches, between 0 and 1, drawn from the server's seed.
    #[must_use]
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability.clamp(0.0, 1.0);
        self
    }

    fn strikes(&mut self, request: &RecordedRequest, chance: &mut ChaCha8Rng) -> bool {
        if self.left == 0 || !self.matches.iter().all(|matches| matches(request)) {
            return false;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.probability < 1.0 && !chance.random_bool(self.probability) {
            return false;
        }
        // `usize::MAX` means for ever, so it is not counted down.
        if self.left != usize::MAX {
            self.left -= 1;
        }
        true
    }
}

impl Faults {
    pub(super) fn add(&mut self, rule: FaultRule) {
        self.rules.push(rule);
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// Seeds the chances of [`FaultRule::probability`].
    pub(super) fn seed(&mut self, seed: u64) {
        self.chance = ChaCha8Rng::seed_from_u64(seed);
    }

    /// The faults of this request: those that allow others, then at most one that decides the request.
    pub(super) fn take(&mut self, request: &RecordedRequest) -> Vec<Fault> {
        let mut taken = Vec::new();
        for rule in &mut self.rules {
            if rule.strikes(request, &mut self.chance) {
                taken.push(rule.fault.clone());
                if !rule.fault.lets_others_follow() {
                    break;
                }
            }
        }
        self.rules.retain(|rule| rule.left > 0);
        taken
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            chance: ChaCha8Rng::seed_from_u64(0),
        }
    }
}

impl fmt::Debug for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("fault", &self.fault)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.rules).finish()
    }
}

/// Completes a sentence such as "the next 3 writes to nodes lose their connection".
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = |takes_effect| {
            if takes_effect {
                "take effect"
            } else {
                "have no effect"
            }
        };
        match self {
            Self::Status {
                code,
                reason,
                retry_after: None,
            } => write!(f, "are answered {code} {reason}"),
            Self::Status {
                code,
                reason,
                retry_after: Some(wait),
            } => write!(
                f,
                "are answered {code} {reason}, retry after {} s",
                wait.as_secs()
            ),
            Self::Throttled { retry_after } => write!(
                f,
                "are throttled by priority and fairness, retry after {} s",
                retry_after.as_secs()
            ),
            Self::NoSuchPage => f.write_str("have no effect and are answered 404 by a proxy"),
            Self::DropBefore => f.write_str("lose their connection before they take effect"),
            Self::DropAfterEffect => f.write_str("take effect, and lose their connection before the answer"),
            Self::LateEffect(late) => write!(f, "lose their connection, and take effect {late:?} later"),
            Self::NoAnswer { takes_effect } => write!(f, "{} and are never answered", effect(*takes_effect)),
            Self::Timeout { after, takes_effect } => {
                write!(
                    f,
                    "{} and are answered 504 after {after:?}",
                    effect(*takes_effect)
                )
            }
            Self::CutAnswer => f.write_str("take effect, and their answer breaks off"),
            Self::Garbage { takes_effect } => write!(
                f,
                "{} and are answered with JSON that is no object of the API",
                effect(*takes_effect)
            ),
            Self::Delay(wait) => write!(f, "are held up for {wait:?}"),
            Self::WatchEnds => f.write_str("end at once"),
            Self::WatchSilent => f.write_str("tell nothing until they are cut"),
            Self::WatchLags(lag) => write!(f, "lag by {lag:?}"),
            Self::Stale { by, illegal: false } => {
                write!(f, "show the state of {by:?} ago where they allow an old one")
            }
            Self::Stale { by, illegal: true } => write!(f, "show the state of {by:?} ago"),
        }
    }
}

/// The refusal of a [`Fault::Status`].
pub(super) fn refusal(code: u16, reason: &str, retry_after: Option<Duration>) -> StatusError {
    let failure = StatusError::new(code, reason, format!("refused by the test: {reason}"));
    match retry_after {
        None => failure,
        Some(wait) => failure.retry_in(wait),
    }
}
