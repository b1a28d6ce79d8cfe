//! What a budget can come to: the best state of its pods, and what it allows then.
//!
//! In that state every pod is ready, each controller has as many as it wants, and what is being deleted is gone, but for
//! a last pod that counts itself. More healthy pods never allow less, so no other state allows an eviction if this one
//! does not.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::meta::{OwnerRef, Uid};

use super::{Cause, Counts, Demand, Numbers, Scale, Scales, SyncFailure, demand, expected_pods};
use crate::view::PdbView;

/// The pods of one budget that are neither deleted nor over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Without a controller.
    pub unmanaged: i64,
    /// By controller.
    pub managed: BTreeMap<Arc<OwnerRef>, LiveOf>,
}

/// The live pods of one controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveOf {
    /// Those that the budget selects.
    pub selected: i64,
    /// The others. They take part in what the controller wants.
    pub others: i64,
}

/// What a budget can come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// Its numbers in the best state, which allow a disruption.
    Allows(Numbers),
    /// No state of its pods allows a disruption.
    Never(Never, Best),
    /// It cannot be found out.
    Unknown(SyncFailure),
}

/// Why no state of its pods allows a disruption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Never {
    /// `maxUnavailable` is 0 or 0 %.
    MaxUnavailableZero,
    /// `minAvailable` is at least the number of pods.
    MinAvailableTooHigh,
    /// The budget selects a part of the pods of a controller, and expects all of them.
    SelectorTooNarrow,
    /// It selects pods of no controller alone, and expects what controllers want.
    UnmanagedPods,
    /// The controllers of its pods want none.
    NothingExpected,
    /// Pods name a controller that does not exist.
    ControllerGone(Cause),
    /// The controller has no scale.
    NoScale(Cause),
    /// The API server would refuse its spec.
    InvalidBudget(Cause),
}

/// The best state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Best {
    /// Healthy pods.
    pub healthy: i64,
    /// `desiredHealthy`; 0 if it cannot be computed.
    pub desired: i64,
    /// `expectedPods`; 0 if it cannot be computed.
    pub expected: i64,
    /// What the controllers want, if each has a scale: what `maxUnavailable` is counted from.
    pub wanted: Option<i64>,
}

/// What the budget can come to, from its counts now, its live pods, and the scales of its controllers. `smallest_pod`
/// is that of [`decide`](super::decide).
pub fn outlook(
    pdb: &PdbView,
    counts: &Counts,
    live: &Live,
    scales: &Scales,
    smallest_pod: impl Fn(&[&OwnerRef]) -> Option<Arc<str>>,
) -> Outlook {
    let outlook = outlook_of(pdb, counts, live, scales, &smallest_pod);
    if matches!(outlook, Outlook::Allows(_)) {
        return outlook;
    }
    let (mut counts, mut live) = (counts.clone(), live.clone());
    for controller in may_leave(&counts, &live) {
        counts.controllers.remove(&controller);
        live.managed.remove(&controller);
        let without = outlook_of(pdb, &counts, &live, scales, &smallest_pod);
        if matches!(without, Outlook::Allows(_)) {
            return without;
        }
    }
    outlook
}

/// The controllers whose selected pods are all about to go, and that have others: the new ones may not be selected, and
/// then the controller counts no more. Those with the most others first.
pub(crate) fn may_leave(counts: &Counts, live: &Live) -> Vec<Arc<OwnerRef>> {
    let goes = |controller: &Arc<OwnerRef>| {
        let owned = counts.controllers.get(controller);
        owned.is_some_and(|owned| owned.pods == owned.terminating)
    };
    let leaving = live.managed.iter();
    let leaving = leaving.filter(|(controller, pods)| goes(controller) && pods.others > 0);
    let mut leaving: Vec<_> = leaving
        .map(|(controller, pods)| (Arc::clone(controller), pods.others))
        .collect();
    leaving.sort_by_key(|(_, others)| Reverse(*others));
    leaving.into_iter().map(|(controller, _)| controller).collect()
}

fn outlook_of(
    pdb: &PdbView,
    counts: &Counts,
    live: &Live,
    scales: &Scales,
    smallest_pod: impl Fn(&[&OwnerRef]) -> Option<Arc<str>>,
) -> Outlook {
    let mut best = Best {
        healthy: most_healthy(live, scales),
        ..Best::default()
    };
    let demand = match demand(pdb) {
        Ok(demand) => demand,
        Err(cause) => return Outlook::Never(Never::InvalidBudget(cause), best),
    };
    let then = settled(counts, best.healthy, scales);
    // `maxUnavailable` stands for all demands that need scales.
    let wanted = expected_pods(Demand::Unavailable(0), &then, scales, |_| None);
    best.wanted = wanted.ok().filter(|_| !then.controllers.is_empty());
    best.expected = match expected_pods(demand, &then, scales, smallest_pod) {
        Ok(expected) => expected,
        Err(failure) => {
            return match failure.cause {
                Cause::NoController(..) => Outlook::Never(Never::ControllerGone(failure.cause), best),
                Cause::NoScale(_) | Cause::NoScaleAbove(..) | Cause::UnknownKind(..) => {
                    Outlook::Never(Never::NoScale(failure.cause), best)
                }
                _ => Outlook::Unknown(failure),
            };
        }
    };
    // Of the pods that count themselves, the last to go is expected until then.
    let mut owned = counts.controllers.iter();
    let is_expected = owned.any(|(controller, owned)| {
        owned.existing() > 0 && scales.get(controller).is_some_and(Scale::counts_pods)
    });
    let least = i64::from(is_expected);
    let numbers = Numbers::of(demand, best.expected.max(least), best.healthy);
    if numbers.allowed > 0 {
        return Outlook::Allows(numbers);
    }
    best.desired = numbers.desired.into();
    let never = match demand {
        _ if best.expected <= 0 && then.controllers.is_empty() => Never::UnmanagedPods,
        _ if best.expected <= 0 => Never::NothingExpected,
        Demand::Unavailable(0) | Demand::UnavailablePercent(0) => Never::MaxUnavailableZero,
        Demand::Available(_) => Never::MinAvailableTooHigh,
        Demand::AvailablePercent(_) if best.desired >= best.expected => Never::MinAvailableTooHigh,
        _ => Never::SelectorTooNarrow,
    };
    Outlook::Never(never, best)
}

/// How many of the budget's pods can be healthy at a time. A controller with a scale makes as many pods as it wants,
/// those apart that the budget does not select; of others only the pods count that exist.
fn most_healthy(live: &Live, scales: &Scales) -> i64 {
    let mut by_uid = BTreeMap::<&Uid, (LiveOf, i64)>::new();
    for (controller, pods) in &live.managed {
        let (uid, replicas) = match scales.get(controller) {
            Some(Scale::Of { uid, replicas, .. }) => (uid, *replicas),
            _ => (&controller.uid, 0),
        };
        let (sum, wanted) = by_uid.entry(uid).or_default();
        sum.selected += pods.selected;
        sum.others += pods.others;
        *wanted = replicas.max(*wanted);
    }
    let managed = by_uid.into_values();
    let managed = managed.map(|(pods, wanted)| pods.selected.max(wanted.saturating_sub(pods.others)));
    managed.fold(live.unmanaged, i64::saturating_add)
}

/// The counts once what is being deleted is gone. A controller with a scale makes its pods again.
fn settled(counts: &Counts, healthy: i64, scales: &Scales) -> Counts {
    let mut then = counts.clone();
    then.controllers.retain(|controller, owned| {
        let scale = scales.get(controller);
        let comes_again = matches!(scale, Some(Scale::Of { .. }));
        let stays = owned.pods > owned.terminating || comes_again;
        owned.terminating = 0;
        if scale.is_some_and(Scale::counts_pods) {
            // What has failed may go, too.
            (owned.pods, owned.succeeded) = (owned.live, 0);
        }
        stays
    });
    then.matched = healthy;
    then.healthy = healthy;
    then
}

impl Never {
    /// As JSON and metrics have it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::MaxUnavailableZero => "MaxUnavailableZero",
            Self::MinAvailableTooHigh => "MinAvailableTooHigh",
            Self::SelectorTooNarrow => "SelectorTooNarrow",
            Self::UnmanagedPods => "UnmanagedPods",
            Self::NothingExpected => "NothingExpected",
            Self::ControllerGone(_) => "ControllerGone",
            Self::NoScale(_) => "NoScale",
            Self::InvalidBudget(_) => "InvalidBudget",
        }
    }
}

impl Live {
    /// The live pods among these. `others` is the number of live pods of a controller that the budget does not select,
    /// given those that it selects.
    pub fn of(counts: &Counts, others: impl Fn(&OwnerRef, i64) -> i64) -> Self {
        let managed = counts.controllers.iter().map(|(controller, owned)| {
            let others = others(controller, owned.live);
            let selected = owned.live;
            (Arc::clone(controller), LiveOf { selected, others })
        });
        Self {
            unmanaged: counts.live_unmanaged,
            managed: managed.collect(),
        }
    }
}

impl Best {
    /// The least `maxUnavailable` that lets a pod go; `None` if none does.
    pub fn max_unavailable(&self) -> Option<i64> {
        let wanted = self.wanted.filter(|wanted| *wanted > 0)?;
        Some(wanted.saturating_sub(self.healthy).saturating_add(1).max(1))
    }

    /// The greatest `minAvailable`, in pods, that lets a pod go.
    pub fn min_available(&self) -> i64 {
        self.healthy.saturating_sub(1).max(0)
    }
}
