//! The brake: how many pods, and pods of how many nodes, may be evicted within a window.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-18 | `BrakeRules::decide`, `BrakeLimit::of` | `tests/brake_table.rs::pods_go_while_the_demand_is_within_the_limits`, `tests/brake_table.rs::a_percentage_rounds_down_and_lets_one_go` |

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use controller_core::meta::ObjectKey;
use controller_core::time::saturating_add;
use jiff::Timestamp;

use crate::view::Taint;

/// How far ahead `eviction-brake-off-until` may lie.
pub const LONGEST_OFF: Duration = Duration::from_hours(24);

/// The settings of the brake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrakeRules {
    /// `--eviction-brake-pods`; `None`: any number.
    pub pods: Option<BrakeLimit>,
    /// `--eviction-brake-nodes`; `None`: any number.
    pub nodes: Option<BrakeLimit>,
    /// `--eviction-brake-window`.
    pub window: Duration,
    /// `--eviction-brake-exempt-taints`.
    pub exempt: Vec<TaintSelector>,
    /// `--eviction-brake-release-after`; `None`: never.
    pub release_after: Option<Duration>,
    /// The Lease whose annotations tell of the brake; `None` without leader election.
    pub lease: Option<ObjectKey>,
}

/// A limit: a number, or a percentage of what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrakeLimit {
    /// This many.
    Number(u32),
    /// This percentage, from 1 to 100.
    Percent(u8),
}

/// Selects taints by their key, or by key and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaintSelector {
    key: String,
    value: Option<String>,
}

/// A number of pods, and of the nodes that they are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodsAndNodes {
    pub pods: usize,
    pub nodes: usize,
}

/// What the annotations of the Lease say of the brake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeaseNotes {
    /// Until when a person has switched the brake off; as text, because a person writes it.
    pub off_until: Option<String>,
    /// Until when the last leader said that it may evict.
    pub evicting_until: Option<Timestamp>,
    /// Since when the last leader holds pods back.
    pub engaged_since: Option<Timestamp>,
}

/// What a decision of the brake depends on. Times are by the API server's clock, durations by the process's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrakeSituation<'a> {
    pub now: Timestamp,
    /// Pods that are due, may go now, or have gone within the window.
    pub demand: PodsAndNodes,
    /// All pods that are bound, and the nodes that they are on.
    pub all: PodsAndNodes,
    pub lease: &'a LeaseNotes,
    /// Until when this process has said that it may evict.
    pub ours: Option<Timestamp>,
    /// How long the pods have been held back; `None` if they are not.
    pub held_for: Option<Duration>,
    /// Held pods were released, and the demand has exceeded the limits since then.
    pub released: bool,
}

/// Whether the pods that are due may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BrakeDecision {
    Admit(Because),
    /// The demand exceeds a limit.
    Hold,
    /// Until this time nobody knows how many pods another leader has evicted within the window.
    Wait(Timestamp),
}

/// Why the pods may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Because {
    /// The demand is within the limits.
    WithinLimits,
    /// A person has switched the brake off until this time.
    Off(Timestamp),
    /// They were held back for as long as `--eviction-brake-release-after` says.
    HeldLongEnough,
}

impl BrakeLimit {
    /// The limit for `all` things; a percentage rounds down, but to no less than 1.
    pub fn of(self, all: usize) -> usize {
        match self {
            Self::Number(number) => number as usize,
            Self::Percent(percent) => (all.saturating_mul(percent.into()) / 100).max(1),
        }
    }
}

impl TaintSelector {
    pub fn selects(&self, taint: &Taint) -> bool {
        let Self { key, value } = self;
        *key == *taint.key && value.as_ref().is_none_or(|value| *value == *taint.value)
    }
}

impl BrakeRules {
    /// True if the brake lets go whatever this taint evicts.
    pub fn exempts(&self, taint: &Taint) -> bool {
        self.exempt.iter().any(|exempt| exempt.selects(taint))
    }

    /// The limits for `all` pods and nodes; the highest number where there is none.
    pub fn limits(&self, all: PodsAndNodes) -> PodsAndNodes {
        let limit = |limit: Option<BrakeLimit>, all| limit.map_or(usize::MAX, |limit| limit.of(all));
        PodsAndNodes {
            pods: limit(self.pods, all.pods),
            nodes: limit(self.nodes, all.nodes),
        }
    }

    /// Decides on the pods that are due.
    pub fn decide(&self, situation: &BrakeSituation<'_>) -> BrakeDecision {
        if let Ok(Some(until)) = off_until(situation.lease, situation.now) {
            return BrakeDecision::Admit(Because::Off(until));
        }
        let of_another = situation.lease.evicting_until;
        let known_from = of_another
            .filter(|_| of_another != situation.ours)
            .map(|until| saturating_add(until, self.window));
        let limits = self.limits(situation.all);
        if situation.demand.is_within(limits) {
            return match known_from.filter(|from| situation.now < *from) {
                Some(from) => BrakeDecision::Wait(from),
                None => BrakeDecision::Admit(Because::WithinLimits),
            };
        }
        let long_enough = |held: Duration| self.release_after.is_some_and(|after| held >= after);
        if situation.released || situation.held_for.is_some_and(long_enough) {
            BrakeDecision::Admit(Because::HeldLongEnough)
        } else {
            BrakeDecision::Hold
        }
    }
}

/// Until when a person has switched the brake off, if that time lies ahead. An error says why the annotation does not
/// count.
pub fn off_until(lease: &LeaseNotes, now: Timestamp) -> Result<Option<Timestamp>, String> {
    let Some(text) = &lease.off_until else {
        return Ok(None);
    };
    let until: Timestamp = text
        .parse()
        .map_err(|_| format!("{text:?} is no time such as 2026-01-02T15:04:05Z"))?;
    if until > saturating_add(now, LONGEST_OFF) {
        return Err(format!("{text:?} is more than 24 h ahead"));
    }
    Ok(Some(until).filter(|until| *until > now))
}

impl FromStr for BrakeLimit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let percent = |text: &str| text.parse().ok().filter(|percent| (1..=100).contains(percent));
        let limit = match text.strip_suffix('%') {
            Some(number) => percent(number).map(Self::Percent),
            None => text.parse().ok().map(Self::Number),
        };
        limit.ok_or("expected a whole number, or a percentage from 1% to 100%")
    }
}

impl FromStr for TaintSelector {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (text, None),
        };
        if key.is_empty() || text.contains([':', ',']) || text.contains(char::is_whitespace) {
            return Err("expected the key of a taint, or key=value");
        }
        Ok(Self {
            key: key.to_owned(),
            value,
        })
    }
}

impl PodsAndNodes {
    pub(crate) const fn is_within(self, limits: Self) -> bool {
        self.pods <= limits.pods && self.nodes <= limits.nodes
    }
}

impl fmt::Display for PodsAndNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |number| if number == 1 { "" } else { "s" };
        let Self { pods, nodes } = self;
        write!(f, "{pods} pod{} of {nodes} node{}", plural(*pods), plural(*nodes))
    }
}
