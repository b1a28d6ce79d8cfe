//! The rules: how many disruptions a budget allows, and what is written about it.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-7 | `decide`, `judged` | `tests/decide_table.rs::the_condition_moves_its_time_only_with_its_status` |
//! | DIS-8 | `decide`, `Write` | `tests/decide_table.rs::nothing_is_written_when_the_status_says_it_all`, `tests/sync/requests.rs::one_status_write_is_one_patch_with_every_number` |
//! | DIS-9 | `decide`, `SyncFailure` | `tests/decide_table.rs::what_cannot_be_computed_allows_nothing_and_says_why` |
//!
//! The other rules are in the modules: [`mod@demand`] (DIS-2, DIS-3), [`expected`] (DIS-2, DIS-11), [`scale`] (DIS-5),
//! [`owners`] (DIS-19, DIS-20),
//! [`mod@disrupted`] (DIS-4, DIS-6), [`mod@stale`] (DIS-15), [`mod@eviction`] and [`mod@outlook`] (DIS-17).

pub mod counts;
pub mod demand;
pub mod disrupted;
pub mod eviction;
pub mod expected;
pub mod failure;
pub mod outlook;
pub mod owners;
pub mod scale;
pub mod stale;

use std::sync::Arc;
use std::time::Duration;

use controller_core::meta::{OwnerRef, Uid};
use controller_core::time::saturating_add;
use jiff::Timestamp;

pub use self::counts::{Counts, Owned};
pub use self::demand::{Demand, demand};
pub use self::disrupted::{Disrupted, DisruptedPod, Fate, LiveRead, confirmed, disrupted, fate, overdue};
pub use self::eviction::{Refusal, Verdict, evicts};
pub use self::expected::expected_pods;
pub use self::failure::{Cause, MOST_READS, SyncFailure};
pub use self::outlook::{Best, Live, LiveOf, Never, Outlook, outlook};
pub use self::owners::{Above, GroupKind, OwnerRules, scale_under};
pub use self::scale::{Builtin, Reading, Scale, Scales, scale_of, ways};
pub use self::stale::stale;
use crate::view::{Condition, PdbView};

/// How long an approved eviction may take to delete its pod. Source: `disruption.go`, `DeletionTimeout`.
pub const DELETION_TIMEOUT: Duration = Duration::from_mins(2);
/// How often scales that no informer watches are read again (DIS-12).
pub const SCALE_REREAD: Duration = Duration::from_secs(30);
/// When a failure that only an event can fix is retried all the same (DIS-9).
pub const PERMANENT_RETRY: Duration = Duration::from_mins(5);
/// The longest message of a condition, in bytes: a proxy may answer with a whole page.
pub const MESSAGE_LENGTH: usize = 1024;
/// Source: `policy/v1`, `SufficientPodsReason`, `InsufficientPodsReason`, `SyncFailedReason`.
pub const SUFFICIENT_PODS: &str = "SufficientPods";
/// See [`SUFFICIENT_PODS`].
pub const INSUFFICIENT_PODS: &str = "InsufficientPods";
/// See [`SUFFICIENT_PODS`].
pub const SYNC_FAILED: &str = "SyncFailed";

/// What is known of a budget when it is computed.
#[derive(Clone, Debug)]
pub struct Situation {
    /// Its newest known version.
    pub pdb: Arc<PdbView>,
    pub counts: Counts,
    /// The entries of its `disruptedPods`, with their fates.
    pub entries: Vec<DisruptedPod>,
}

/// What to do about a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to write; `None` if the status is right already.
    pub plan: Option<StatusPatch>,
    /// When to compute again without an event, by wall time.
    pub look_again: Option<Timestamp>,
    /// The numbers, or why there are none.
    pub result: Result<Numbers, SyncFailure>,
    /// The number of healthy pods that were approved to go.
    pub going: i64,
}

/// A strategic merge patch of one state of a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusPatch {
    /// The budget that was judged: the patch names its uid and resourceVersion.
    pub pdb: Arc<PdbView>,
    /// `currentHealthy`, which needs no scale; the Eviction API judges unready pods by it.
    pub current: i32,
    /// `None` if they could not be computed: then nothing is allowed, and `expectedPods` and `desiredHealthy` stay.
    pub numbers: Option<Numbers>,
    /// The entries of `disruptedPods` to remove.
    pub dropped: Vec<Arc<str>>,
    /// The dropped entries whose pods were approved to go and stayed (DIS-6).
    pub overdue: Vec<(Arc<str>, Uid)>,
    pub condition: Condition,
}

/// The numbers of a budget's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// `disruptionsAllowed`.
    pub allowed: i32,
    /// `currentHealthy`.
    pub current: i32,
    /// `desiredHealthy`.
    pub desired: i32,
    /// `expectedPods`.
    pub expected: i32,
}

/// Computes a budget at wall time `now`. `scales` are those of its pods' controllers, if [`Demand::needs_scales`].
/// `smallest_pod` returns the name of the first of the budget's pods, by name, that these controllers own; it is only
/// called when something fails.
pub fn decide(
    situation: &Situation,
    scales: &Scales,
    smallest_pod: impl Fn(&[&OwnerRef]) -> Option<Arc<str>>,
    now: Timestamp,
) -> Decision {
    let Situation { pdb, counts, entries } = situation;
    let expected = demand(pdb).map_err(SyncFailure::permanent).and_then(|demand| {
        let pods = expected_pods(demand, counts, scales, smallest_pod)?;
        Ok((demand, pods))
    });
    let disrupted = disrupted(entries, now);
    let current = counts.healthy - disrupted.healthy;
    let (demand, expected) = match expected {
        Ok(expected) => expected,
        Err(failure) => return fail_safe(pdb, failure, current, disrupted.look_again, now),
    };
    let numbers = Numbers::of(demand, expected, current);
    let way = if demand.needs_scales() {
        ways(scales)
    } else {
        String::new()
    };
    let (allowed, reason) = match numbers.allowed {
        1.. => (true, SUFFICIENT_PODS),
        _ => (false, INSUFFICIENT_PODS),
    };
    let write = StatusPatch {
        pdb: Arc::clone(pdb),
        current: numbers.current,
        numbers: Some(numbers),
        dropped: disrupted.dropped,
        overdue: disrupted.overdue,
        condition: judged(pdb, allowed, reason, bounded(&way)),
    };
    let is_live = |scale: &Scale| matches!(scale, Scale::Of { live: true, .. });
    let rereads = demand.needs_scales() && scales.values().any(is_live);
    let reread = rereads.then(|| saturating_add(now, SCALE_REREAD));
    Decision {
        plan: write.unless_said(now),
        look_again: [disrupted.look_again, reread].into_iter().flatten().min(),
        result: Ok(numbers),
        going: disrupted.healthy,
    }
}

/// Allows nothing, and says why (DIS-9). Entries of `disruptedPods` stay; the next of them ends at `entry_ends`.
fn fail_safe(
    pdb: &Arc<PdbView>,
    failure: SyncFailure,
    current: i64,
    entry_ends: Option<Timestamp>,
    now: Timestamp,
) -> Decision {
    let message = failure.to_string();
    let write = StatusPatch {
        pdb: Arc::clone(pdb),
        current: int32(current),
        numbers: None,
        dropped: Vec::new(),
        overdue: Vec::new(),
        condition: judged(pdb, false, SYNC_FAILED, bounded(&message)),
    };
    // The queue's backoff retries transient failures.
    let retry = (!failure.transient).then(|| saturating_add(now, PERMANENT_RETRY));
    Decision {
        plan: write.unless_said(now),
        look_again: [entry_ends, retry].into_iter().flatten().min(),
        result: Err(failure),
        going: 0,
    }
}

fn bounded(message: &str) -> &str {
    &message[..message.floor_char_boundary(MESSAGE_LENGTH)]
}

/// The condition of a budget. Its time moves only with its status (DIS-7); `None` stands for now.
fn judged(pdb: &PdbView, allowed: bool, reason: &str, message: &str) -> Condition {
    let held = pdb.status.condition.as_ref();
    let unchanged = held.filter(|held| held.allowed == allowed);
    Condition {
        allowed,
        reason: reason.into(),
        message: message.into(),
        observed_generation: pdb.generation,
        since: unchanged.and_then(|held| held.since),
    }
}

impl Numbers {
    /// DIS-4: healthy pods beyond the desired number may go, if pods are expected at all.
    pub fn of(demand: Demand, expected: i64, current: i64) -> Self {
        let desired = demand.desired_healthy(expected);
        let spare = if expected > 0 {
            current.saturating_sub(desired).max(0)
        } else {
            0
        };
        Self {
            allowed: int32(spare),
            current: int32(current),
            desired: int32(desired),
            expected: int32(expected),
        }
    }
}

/// Clamped to the range of the field.
fn int32(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

impl StatusPatch {
    /// This write at `now`; `None` if the status is right already.
    fn unless_said(mut self, now: Timestamp) -> Option<Self> {
        if self.applied_to(&self.pdb, None) == *self.pdb {
            return None;
        }
        // The API has whole seconds.
        let since = self.condition.since;
        self.condition.since = since.or(Timestamp::from_second(now.as_second()).ok());
        Some(self)
    }

    /// `disruptionsAllowed`.
    pub fn allowed(&self) -> i64 {
        self.numbers.map_or(0, |numbers| numbers.allowed.into())
    }

    /// True if the Eviction API lets more go after the write than now: it must wait while pods or workloads are not watched
    /// (DIS-4). Source: `pkg/registry/core/pod/storage/eviction.go`.
    pub fn allows_more(&self) -> bool {
        let held = &self.pdb.status;
        let desired = self
            .numbers
            .map_or(held.desired_healthy, |numbers| numbers.desired.into());
        // Then every pod that is not ready may go.
        let is_met = |current, desired| current >= desired && desired > 0;
        let is_observed = held.observed_generation >= self.condition.observed_generation;
        self.allowed() > held.disruptions_allowed
            || self.allowed() > 0 && !is_observed
            || is_met(self.current.into(), desired) && !is_met(held.current_healthy, held.desired_healthy)
    }

    /// The budget after this write, at the version in the API server's answer.
    pub fn applied_to(&self, pdb: &PdbView, version: Option<u64>) -> PdbView {
        let mut made = pdb.clone();
        if let Some(version) = version {
            made.version = version.to_string().into();
        }
        let status = &mut made.status;
        status.observed_generation = self.condition.observed_generation;
        status.disruptions_allowed = self.allowed();
        status.current_healthy = self.current.into();
        if let Some(numbers) = self.numbers {
            status.desired_healthy = numbers.desired.into();
            status.expected_pods = numbers.expected.into();
        }
        status
            .disrupted_pods
            .retain(|name, _| !self.dropped.contains(name));
        status.condition = Some(self.condition.clone());
        made
    }
}
