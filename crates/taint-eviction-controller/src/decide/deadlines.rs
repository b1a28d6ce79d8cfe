//! When a pod is evicted: since when each taint of its node counts, how long the pod tolerates the taint, and what
//! happens to deadlines that pass while we see nothing.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-1 | `judge` | `tests/decide_table.rs::no_taint_never_evicts` |
//! | TE-3 | `judge` | `tests/decide_table.rs::a_pod_on_a_tainted_node_is_judged_by_its_tolerations` |
//! | TE-4 | `judge`, `since`, `bound`, `Sight` | `tests/decide_table.rs::a_toleration_runs_from_the_later_of_taint_and_binding` |
//! | TE-5 | `Term::of_stay` | `tests/decide_table.rs::each_taint_keeps_its_own_deadline` |
//! | TE-20 | `judge` | `tests/decide_table.rs::each_taint_keeps_its_own_deadline`, `tests/decide_table.rs::a_longer_toleration_counts_where_extensions_do` |
//! | TE-7 | `judge` | `tests/decide_table.rs::a_pod_that_is_being_deleted_is_left_alone` |
//! | TE-8 | `clock_ahead`, `Moment` | `tests/decide_table.rs::a_fast_clock_evicts_nobody_early`, `tests/decide_table.rs::a_clock_counts_as_ahead_from_more_than_a_second` |

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::CLOCK_TOLERANCE;
use controller_core::meta::{ObjectKey, Uid};
use controller_core::time::saturating_add;
use jiff::{SignedDuration, Timestamp};

use super::moment::{Moment, after_jump};
use super::taints::TaintStay;
use super::tolerations::used_tolerations;
use crate::view::{PodView, Taint, Toleration};

/// The settings that the rules depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The gate `TaintTolerationComparisonOperators`: tolerations with `Lt` and `Gt` are expected.
    pub comparison_operators: bool,
    /// `--catch-up-grace`.
    pub catch_up_grace: Duration,
    /// `--toleration-extensions`: a toleration that comes or grows after the taint counts.
    pub toleration_extensions: bool,
}

/// The time of a judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JudgementTime {
    pub ours: Timestamp,
    /// How far `ours` is ahead of the API server's clock, as far as we know; never negative.
    pub ahead: SignedDuration,
    /// How far `ours` is behind it, as far as we know; never negative.
    pub behind: SignedDuration,
    pub sight: Sight,
}

/// What is remembered of a pod for one stay of a taint on its node: the toleration that ended first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tolerated {
    /// The [`TaintStay::stay`].
    pub stay: u64,
    /// The [`TaintStay::since`] when this toleration was used.
    pub since: Moment,
    /// The toleration's `tolerationSeconds`, at least 0.
    pub seconds: i64,
}

/// The verdict on a pod, and what its next judgement must remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub verdict: Verdict,
    /// One entry per stay of a taint that the pod tolerates for a limited time, ordered by stay.
    pub remembered: Vec<Tolerated>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Keep(KeepReason),
    Evict(PendingEviction),
}

/// Why a pod stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepReason {
    /// The pod has a deletionTimestamp.
    BeingDeleted,
    /// Its node has no `NoExecute` taint, or is gone.
    Untainted,
    /// It tolerates every taint for ever.
    ToleratesForEver,
}

/// Why and when a pod is evicted. Times are by our clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingEviction {
    /// The taint that evicts the pod.
    pub taint: Arc<Taint>,
    /// When the toleration ends; without a toleration, when the taint began to count.
    pub deadline: Timestamp,
    /// When to act: at the deadline, or later if the deadline passed while we saw nothing; `None` while we still see
    /// nothing.
    pub at: Option<Timestamp>,
}

/// The plan: the two writes that evict one pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Eviction {
    pub pod: ObjectKey,
    pub uid: Uid,
    /// The pod's `metadata.generation`.
    pub generation: i64,
    pub node: Arc<str>,
    pub taint: Arc<Taint>,
    /// By our clock.
    pub deadline: Timestamp,
}

/// True if [`bound`](super::bound) will need the time at which this pod, seen now, was seen first.
pub fn first_sight_counts(pod: &PodView, now: Timestamp) -> bool {
    pod.bound.is_none_or(|bound| bound > now)
}

/// How far our clock counts as ahead of the API server's when a read found it `ahead`: zero up to [`CLOCK_TOLERANCE`]
/// (TE-8).
pub fn clock_ahead(ahead: SignedDuration) -> SignedDuration {
    if ahead > CLOCK_TOLERANCE {
        ahead
    } else {
        SignedDuration::ZERO
    }
}

/// Since when we lead and the watch of nodes is established, by our clock. While either is missing we see nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sight {
    /// When we last stopped seeing.
    lost: Timestamp,
    /// When we began to see again; `None` while we see nothing.
    regained: Option<Timestamp>,
}

impl Default for Sight {
    fn default() -> Self {
        Self::none()
    }
}

impl Sight {
    /// The sight of a process that has just started and has seen nothing yet.
    pub const fn none() -> Self {
        Self {
            lost: Timestamp::MIN,
            regained: None,
        }
    }

    /// We see again from `now` on.
    #[must_use]
    pub fn regained(self, now: Timestamp) -> Self {
        Self {
            regained: self.regained.or(Some(now)),
            ..self
        }
    }

    /// We see nothing from `now` on. Within the grace after the last gap this is still the same gap, and keeps its
    /// beginning.
    #[must_use]
    pub fn lost(self, now: Timestamp, rules: &Rules) -> Self {
        match self.regained {
            None => self,
            Some(regained) if now < saturating_add(regained, rules.catch_up_grace) => Self {
                regained: None,
                ..self
            },
            Some(_) => Self {
                lost: now,
                regained: None,
            },
        }
    }

    /// The same after our clock has jumped by this much.
    #[must_use]
    pub fn after_jump(self, by: SignedDuration) -> Self {
        Self {
            lost: after_jump(self.lost, by),
            regained: self.regained.map(|regained| after_jump(regained, by)),
        }
    }

    /// Returns whether we see what happens.
    pub const fn sees(&self) -> bool {
        self.regained.is_some()
    }

    /// When to act on a deadline that has passed; `None` while we do not see what happened after it. A clock that is
    /// `behind` may not have reached a deadline that passed before we saw.
    fn acts_at(
        &self,
        deadline: Timestamp,
        seconds: i64,
        behind: SignedDuration,
        rules: &Rules,
    ) -> Option<Timestamp> {
        if deadline < self.lost {
            return Some(deadline);
        }
        let regained = self.regained?;
        if deadline >= after_jump(regained, behind) {
            return Some(deadline);
        }
        let grace = whole_seconds(seconds).min(rules.catch_up_grace);
        Some(saturating_add(regained, grace).max(deadline))
    }
}

impl PendingEviction {
    /// True if both are for the same taint and deadline.
    pub fn is_for_the_same(&self, other: &Self) -> bool {
        self.taint == other.taint && self.deadline == other.deadline
    }

    /// True if it is time to act at `now`, by our clock.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.at.is_some_and(|at| at <= now)
    }

    /// The plan that evicts `pod`.
    pub fn eviction(&self, pod: &PodView) -> Eviction {
        Eviction {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            generation: pod.generation,
            node: Arc::clone(&pod.node),
            taint: Arc::clone(&self.taint),
            deadline: self.deadline,
        }
    }
}

/// Judges `pod`, bound to its node since `bound`, on a node with `taints`. `remembered` is what the last judgement of
/// the same pod left.
pub fn judge(
    pod: &PodView,
    bound: Moment,
    taints: &[TaintStay],
    remembered: &[Tolerated],
    now: &JudgementTime,
    rules: &Rules,
) -> Judgement {
    let keep = |because| Judgement {
        verdict: Verdict::Keep(because),
        remembered: Vec::new(),
    };
    if pod.deleting {
        return keep(KeepReason::BeingDeleted);
    }
    if taints.is_empty() {
        return keep(KeepReason::Untainted);
    }
    let bound = bound.by_our_clock(now.ahead);
    let used = used_tolerations(&pod.tolerations, taints);
    let mut stays: Vec<_> = taints.iter().zip(used).collect();
    let untolerated = stays.iter().find(|(_, used)| used.is_none());
    // A taint that is not tolerated needs no grace.
    let at_once = untolerated.map(|(seen, _)| {
        let start = seen.since.by_our_clock(now.ahead).max(bound).min(now.ours);
        (&seen.taint, start, Some(start))
    });
    let remembered = if rules.toleration_extensions {
        &[]
    } else {
        remembered
    };
    stays.sort_by_key(|(seen, _)| seen.stay);
    let stays = stays.chunk_by(|(a, _), (b, _)| a.stay == b.stay);
    let terms: Vec<_> = stays
        .filter_map(|stay| Term::of_stay(stay, remembered, bound, now.ahead))
        .collect();
    let first_to_end = || {
        let ends = terms.iter().map(|term| {
            let at = now
                .sight
                .acts_at(term.deadline, term.kept.seconds, now.behind, rules);
            (term.taint, term.deadline, at)
        });
        // `None` sorts last.
        ends.min_by_key(|(_, deadline, at)| (at.is_none(), *at, *deadline))
    };
    let pending = at_once
        .or_else(first_to_end)
        .map(|(taint, deadline, at)| PendingEviction {
            taint: Arc::clone(taint),
            deadline,
            at,
        });
    Judgement {
        verdict: pending.map_or(Verdict::Keep(KeepReason::ToleratesForEver), Verdict::Evict),
        remembered: terms.iter().map(|term| term.kept).collect(),
    }
}

/// Judges by all taints. Of those that evict the pod by `now`, the one that is held back least is the reason: `holds` says
/// how much each is.
pub fn by_least_held(
    taints: &[TaintStay],
    holds: impl Fn(&Taint) -> u8,
    now: Timestamp,
    judge: impl Fn(&[TaintStay]) -> Judgement,
) -> Judgement {
    let mut judgement = judge(taints);
    let most = taints.iter().map(|seen| holds(&seen.taint)).max();
    for at_most in (0..most.unwrap_or(0)).rev() {
        let those = taints.iter().filter(|seen| holds(&seen.taint) <= at_most);
        let verdict = judge(&those.cloned().collect::<Vec<_>>()).verdict;
        if matches!(&verdict, Verdict::Evict(pending) if pending.is_due(now)) {
            judgement.verdict = verdict;
        }
    }
    judgement
}

/// How long the pod tolerates one stay of a taint, or of the two that count as one.
struct Term<'a> {
    kept: Tolerated,
    deadline: Timestamp,
    /// The taint that evicts the pod.
    taint: &'a Arc<Taint>,
}

impl<'a> Term<'a> {
    /// The toleration of the stay's taints that ends first, but no later than what is remembered of the stay (TE-5).
    /// `None` if the taints are tolerated for ever, or not at all.
    fn of_stay(
        stay: &[(&'a TaintStay, Option<&Toleration>)],
        remembered: &[Tolerated],
        bound: Timestamp,
        ahead: SignedDuration,
    ) -> Option<Self> {
        let ends = |kept: Tolerated, taint: &'a Arc<Taint>| Self {
            deadline: saturating_add(
                kept.since.by_our_clock(ahead).max(bound),
                whole_seconds(kept.seconds),
            ),
            kept,
            taint,
        };
        let own = stay.iter().filter_map(|(seen, used)| {
            let kept = Tolerated {
                stay: seen.stay,
                since: seen.since,
                seconds: (*used)?.seconds?.max(0),
            };
            Some(ends(kept, &seen.taint))
        });
        let own = own.min_by_key(|term| term.deadline)?;
        // Whether the pod has met the remembered taint. It has not if the other taint of a failed node replaced the
        // remembered one before the pod was bound, and the cache showed that too late for the last judgement.
        let was_met = |known: &Tolerated| {
            let mut since = stay.iter().map(|(seen, _)| seen.since.by_our_clock(ahead));
            since.any(|since| since <= known.since.by_our_clock(ahead) || bound < since)
        };
        let known = remembered.binary_search_by_key(&own.kept.stay, |known| known.stay);
        let known = known.ok().and_then(|at| remembered.get(at));
        let known = known.filter(|known| was_met(known));
        let known = known.map(|known| ends(*known, own.taint));
        Some(known.filter(|known| known.deadline < own.deadline).unwrap_or(own))
    }
}

fn whole_seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
