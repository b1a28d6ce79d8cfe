//! The rules: which pod is evicted from which node, and when.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-1 | `judge` | `tests/decide_table.rs::no_taint_never_evicts` |
//! | TE-2 | `Toleration::tolerates`, `used_toleration` | `tests/decide_table.rs::a_toleration_matches_a_taint` |
//! | TE-3 | `judge` | `tests/decide_table.rs::a_pod_on_a_tainted_node_is_judged_by_its_tolerations` |
//! | TE-4 | `judge`, `since`, `bound`, `Sight` | `tests/decide_table.rs::a_toleration_runs_from_the_later_of_taint_and_binding` |
//! | TE-5 | `Tolerated`, `seen` | `tests/decide_table.rs::each_taint_keeps_its_own_deadline` |
//! | TE-7 | `judge` | `tests/decide_table.rs::a_pod_that_is_being_deleted_is_left_alone` |
//! | TE-8 | `clock_ahead`, `Moment` | `tests/decide_table.rs::a_fast_clock_evicts_nobody_early` |
//! | TE-10 | `retry_wait` | `tests/decide_table.rs::failures_are_retried_fast_then_ever_more_slowly` |
//! | TE-17 | `TaintMemory::forget` | `tests/decide_table.rs::a_node_that_is_gone_has_no_taints` |

mod moment;
mod sight;
mod taints;
mod toleration;

use std::sync::Arc;
use std::time::Duration;

use controller_core::clock::saturating_add;
use controller_core::meta::{ObjectKey, Uid};
use jiff::{SignedDuration, Timestamp};

pub use self::moment::{Moment, bound, clock_ahead, first_sight_counts, since};
pub use self::sight::Sight;
pub use self::taints::{Seen, TAINTS_OF_A_FAILED_NODE, TaintMemory, seen};
pub use self::toleration::used_toleration;
use crate::view::{PodView, Taint};

/// Tries that follow a failed one at once. Source: `taint_eviction.go`, `retries`.
pub const RETRIES: u32 = 5;
/// How far apart they are. Source: `taint_eviction.go`, `deletePodHandler`.
pub const RETRY_PERIOD: Duration = Duration::from_millis(10);
/// The wait after the last of them; doubles with each further failure.
pub const FIRST_BACKOFF: Duration = Duration::from_millis(100);
/// Up to here the wait doubles; from then on it is an eighth of the time that the failures have gone on, so
/// that the end of a trouble is noticed within an eighth of its length.
pub const STEADY_BACKOFF: Duration = Duration::from_secs(5);
/// The longest wait.
pub const MAX_BACKOFF: Duration = Duration::from_mins(5);

/// What the flags say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The gate `TaintTolerationComparisonOperators`: whether tolerations with `Lt` and `Gt` are expected.
    pub comparison_operators: bool,
    /// `--catch-up-grace`.
    pub catch_up_grace: Duration,
}

/// The time of a judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Our clock.
    pub ours: Timestamp,
    /// How far it is ahead of the API server's, as far as we know; never negative.
    pub ahead: SignedDuration,
    /// Since when we see what happens.
    pub sight: Sight,
}

/// What is remembered of a pod for one stay of a taint on its node: the toleration that ended first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tolerated {
    /// Of [`Seen::stay`].
    pub stay: u64,
    /// Of [`Seen::since`] when this toleration was used.
    pub since: Moment,
    /// Its `tolerationSeconds`, at least 0.
    pub seconds: i64,
}

/// What becomes of a pod, and what is to be remembered for its next judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What becomes of it.
    pub verdict: Verdict,
    /// For each taint that it tolerates for a time.
    pub remembered: Vec<Tolerated>,
}

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep(Because),
    /// It goes.
    Evict(PendingEviction),
}

/// Why a pod stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// It has a deletionTimestamp.
    BeingDeleted,
    /// Its node has no `NoExecute` taint, or is gone.
    Untainted,
    /// It tolerates every taint for ever.
    ToleratesForEver,
}

/// Why and when a pod goes. Times are of our clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingEviction {
    /// The taint that it goes for.
    pub taint: Arc<Taint>,
    /// When its toleration ends; without a toleration, since when it does not tolerate.
    pub deadline: Timestamp,
    /// When to act: the deadline, or later if it passed while we saw nothing; `None` while we still see nothing.
    pub at: Option<Timestamp>,
}

/// The plan: the two writes that evict one pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Eviction {
    /// Which pod.
    pub pod: ObjectKey,
    /// Of which uid.
    pub uid: Uid,
    /// Its `metadata.generation`.
    pub generation: i64,
    /// From which node.
    pub node: Arc<str>,
    /// Why.
    pub taint: Arc<Taint>,
    /// When it was due, by our clock.
    pub deadline: Timestamp,
}

impl Tolerated {
    fn deadline(&self, bound: Moment, ahead: SignedDuration) -> Timestamp {
        let start = self.since.by_our_clock(ahead).max(bound.by_our_clock(ahead));
        saturating_add(start, whole_seconds(self.seconds))
    }

    /// Whether the pod has met its taint: not if the other one of a failed node had taken its place before the pod was
    /// bound, which the cache had not shown yet when the pod was judged.
    fn was_met(&self, taints: &[Seen], bound: Moment, ahead: SignedDuration) -> bool {
        let mut of_stay = taints.iter().filter(|seen| seen.stay == self.stay);
        of_stay.any(|seen| {
            let since = seen.since.by_our_clock(ahead);
            since <= self.since.by_our_clock(ahead) || bound.by_our_clock(ahead) < since
        })
    }
}

fn whole_seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

impl PendingEviction {
    /// Whether both are for the same taint and deadline.
    pub fn is_for_the_same(&self, other: &Self) -> bool {
        self.taint == other.taint && self.deadline == other.deadline
    }

    /// Whether to act at `now`, by our clock.
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

/// What becomes of `pod`, bound to its node since `bound`, on a node with `taints`. `remembered` is what its
/// last judgement left, if that was of the same pod.
pub fn judge(
    pod: &PodView,
    bound: Moment,
    taints: &[Seen],
    remembered: &[Tolerated],
    now: &Now,
    rules: &Rules,
) -> Judgement {
    if pod.deleting {
        return Judgement::keep(Because::BeingDeleted);
    }
    if taints.is_empty() {
        return Judgement::keep(Because::Untainted);
    }
    let mut untolerated = None;
    let mut tolerated: Vec<Term> = Vec::new();
    for seen in taints {
        let Some(used) = used_toleration(&pod.tolerations, &seen.taint) else {
            untolerated = untolerated.or(Some(seen));
            continue;
        };
        let Some(seconds) = used.seconds else { continue };
        let fresh = Term::of(seen, seconds, bound, now);
        if let Some(term) = tolerated.iter_mut().find(|term| term.is_of_the_same_stay(seen)) {
            term.shorten(fresh);
        } else {
            let met = remembered
                .iter()
                .filter(|known| known.was_met(taints, bound, now.ahead));
            tolerated.push(fresh.after(met, bound, now));
        }
    }
    let remembered = tolerated.iter().map(|term| term.kept).collect();
    let pending = match untolerated {
        Some(seen) => Some(PendingEviction::at_once(seen, bound, now)),
        None => tolerated
            .iter()
            .map(|term| term.pending_eviction(now, rules))
            // `None` sorts last.
            .min_by_key(|pending| (pending.at.is_none(), pending.at)),
    };
    Judgement {
        verdict: pending.map_or(Verdict::Keep(Because::ToleratesForEver), Verdict::Evict),
        remembered,
    }
}

/// How long one stay of a taint, or of the two that are one, is tolerated.
struct Term<'a> {
    kept: Tolerated,
    deadline: Timestamp,
    /// The taint that the pod goes for.
    cause: &'a Seen,
    /// It is remembered: no taint that is there now would end it so soon.
    is_inherited: bool,
}

impl<'a> Term<'a> {
    fn of(seen: &'a Seen, seconds: i64, bound: Moment, now: &Now) -> Self {
        let kept = Tolerated::now(seen, seconds);
        Self {
            kept,
            deadline: kept.deadline(bound, now.ahead),
            cause: seen,
            is_inherited: false,
        }
    }

    fn is_of_the_same_stay(&self, seen: &Seen) -> bool {
        self.kept.stay == seen.stay
    }

    /// It ends no later than what is remembered of the stay (TE-5).
    fn after<'b>(
        mut self,
        remembered: impl Iterator<Item = &'b Tolerated>,
        bound: Moment,
        now: &Now,
    ) -> Self {
        let stay = self.kept.stay;
        for known in remembered.filter(|known| known.stay == stay) {
            let deadline = known.deadline(bound, now.ahead);
            if deadline < self.deadline {
                (self.kept, self.deadline, self.is_inherited) = (*known, deadline, true);
            }
        }
        self
    }

    /// The other taint of the same stay ends it as `other` says, if that is sooner.
    fn shorten(&mut self, other: Self) {
        let is_its_own = self.is_inherited && other.deadline == self.deadline;
        if other.deadline < self.deadline || is_its_own {
            *self = other;
        }
    }

    fn pending_eviction(&self, now: &Now, rules: &Rules) -> PendingEviction {
        PendingEviction {
            taint: Arc::clone(&self.cause.taint),
            deadline: self.deadline,
            at: now.sight.acts_at(self.deadline, self.kept.seconds, rules),
        }
    }
}

impl Judgement {
    const fn keep(because: Because) -> Self {
        Self {
            verdict: Verdict::Keep(because),
            remembered: Vec::new(),
        }
    }
}

impl Tolerated {
    fn now(seen: &Seen, seconds: i64) -> Self {
        Self {
            stay: seen.stay,
            since: seen.since,
            seconds: seconds.max(0),
        }
    }
}

impl PendingEviction {
    /// For a taint that nothing tolerates: it waits for no catching up.
    fn at_once(seen: &Seen, bound: Moment, now: &Now) -> Self {
        let start = Tolerated::now(seen, 0).deadline(bound, now.ahead).min(now.ours);
        Self {
            taint: Arc::clone(&seen.taint),
            deadline: start,
            at: Some(start),
        }
    }
}

/// How long to wait after the failure number `failures` (from 1) of an eviction, the first of which was
/// `failing_for` ago (TE-10).
pub fn retry_wait(failures: u32, failing_for: Duration) -> Duration {
    let Some(backoffs) = failures.checked_sub(RETRIES + 1) else {
        return RETRY_PERIOD;
    };
    let factor = 2_u32.checked_pow(backoffs).unwrap_or(u32::MAX);
    let slower = (failing_for / 8).clamp(STEADY_BACKOFF, MAX_BACKOFF);
    FIRST_BACKOFF.saturating_mul(factor).min(slower)
}

/// Whether an eviction that has failed so often is overdue, for the metric and the warning (TE-10).
pub const fn is_overdue(failures: u32) -> bool {
    failures > RETRIES
}
