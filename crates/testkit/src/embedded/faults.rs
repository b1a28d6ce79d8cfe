//! Faults that a test asks for: what happens to which requests.

use std::fmt;
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use super::failure::Failure;
use super::request::{Request, Verb};

/// What goes wrong with a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// It is refused with a `Status`, before it has any effect: an API server or a webhook that says no.
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
    /// It is answered 404 in plain text and has no effect: a proxy that knows no such path. No object is missing.
    NoSuchPage,
    /// The connection breaks before the request has any effect: a load balancer or node that fails.
    DropBefore,
    /// The connection breaks after the request took effect, before its answer.
    DropAfterEffect,
    /// No answer comes until the connections are cut ([`Server::down`](super::Server::down)) or the client
    /// gives up: a server that hangs, a network that drops packets.
    NoAnswer {
        /// Whether it is carried out.
        takes_effect: bool,
    },
    /// It is answered 504 after this long, as kube-apiserver answers when etcd is slow (`--request-timeout`).
    Timeout {
        /// How long that takes.
        after: Duration,
        /// Whether it is carried out nevertheless, at once.
        takes_effect: bool,
    },
    /// It is carried out, and its answer breaks off in the middle of the first frame of its body: a
    /// connection that was cut while data was on its way.
    CutAnswer,
    /// It is carried out, and its answer is 200 with something that is not JSON: a proxy or a login page.
    Garbage,
    /// It is held back for this long, then treated as usual: a slow network or server.
    Delay(Duration),
    /// A watch that is accepted and ended at once, in good order, as by a proxy that does not know watches.
    /// Other requests are not harmed.
    WatchEnds,
    /// A watch that is accepted and tells nothing, no bookmark either, until its connection is cut: a
    /// network partition that nobody has noticed. Other requests are not harmed.
    WatchSilent,
    /// A watch whose events and bookmarks all come so much late: what is seen of one resource lags behind
    /// another. Other requests are not harmed.
    WatchLags(Duration),
    /// A get or a list that shows the past, as an API server does whose watch cache lags. Writes and watches
    /// are not harmed.
    Stale {
        /// How far in the past.
        by: Duration,
        /// Whether reads that ask for the most recent state (no `resourceVersion`) are shown the past too,
        /// which no API server may do; else only those that allow it (`resourceVersion=0` or older than).
        illegal: bool,
    },
}

/// Which requests meet a fault.
///
/// ```
/// # use testkit::embedded::{Fault, Rule, Verb};
/// // The third patch of a node, and each one after it with a chance of one in five.
/// Rule::new(Fault::DropBefore).verb(Verb::Patch).resource("nodes").nth(3);
/// Rule::new(Fault::DropBefore).verb(Verb::Patch).resource("nodes").after(3).probability(0.2);
/// ```
pub struct Rule {
    matches: Vec<Matcher>,
    skip: usize,
    left: usize,
    probability: f64,
    fault: Fault,
}

type Matcher = Box<dyn Fn(&Request) -> bool + Send + Sync>;

/// What is left to go wrong, in the order in which it was asked for.
pub(super) struct Faults {
    rules: Vec<Rule>,
    chance: ChaCha8Rng,
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

    /// Whether other faults of the same request come on top of it.
    const fn lets_others_follow(&self) -> bool {
        matches!(
            self,
            Self::Delay(_) | Self::WatchLags(_) | Self::WatchSilent | Self::Stale { .. }
        )
    }
}

impl Rule {
    /// `fault` for every request, for ever; the other methods narrow it down.
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
    pub fn verb(self, verb: Verb) -> Self {
        self.matching(move |request| request.verb == verb)
    }

    /// Only requests about this resource, by plural name.
    #[must_use]
    pub fn resource(self, plural: &'static str) -> Self {
        self.matching(move |request| request.resource == plural)
    }

    /// Only requests that `matches` picks.
    #[must_use]
    pub fn matching(mut self, matches: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.matches.push(Box::new(matches));
        self
    }

    /// Not the first `count` requests that match.
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

    /// Each request that matches with this chance, between 0 and 1, drawn from the server's seed.
    #[must_use]
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability.clamp(0.0, 1.0);
        self
    }

    fn strikes(&mut self, request: &Request, chance: &mut ChaCha8Rng) -> bool {
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
        // A rule for ever stays one.
        if self.left != usize::MAX {
            self.left -= 1;
        }
        true
    }
}

impl Faults {
    pub(super) fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// Starts the chances of [`Rule::probability`] from `seed`.
    pub(super) fn seed(&mut self, seed: u64) {
        self.chance = ChaCha8Rng::seed_from_u64(seed);
    }

    /// The faults of this request: those that others may follow, then at most one that decides it.
    pub(super) fn take(&mut self, request: &Request) -> Vec<Fault> {
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

impl fmt::Debug for Rule {
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

/// What it does to requests, as in "the next 3 writes to nodes lose their connection".
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
            Self::NoAnswer { takes_effect } => write!(f, "{} and are never answered", effect(*takes_effect)),
            Self::Timeout { after, takes_effect } => {
                write!(
                    f,
                    "{} and are answered 504 after {after:?}",
                    effect(*takes_effect)
                )
            }
            Self::CutAnswer => f.write_str("take effect, and their answer breaks off"),
            Self::Garbage => f.write_str("take effect, and their answer is not JSON"),
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

/// The refusal that a [`Fault::Status`] stands for.
pub(super) fn refusal(code: u16, reason: &str, retry_after: Option<Duration>) -> Failure {
    let failure = Failure::new(code, reason, format!("refused by the test: {reason}"));
    match retry_after {
        None => failure,
        Some(wait) => failure.retry_in(wait),
    }
}
