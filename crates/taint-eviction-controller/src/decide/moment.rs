//! Times, and by which clock they were taken (TE-4, TE-8).

use std::time::Duration;

use controller_core::api::dated::CLOCK_TOLERANCE;
use controller_core::clock::saturating_add;
use jiff::{SignedDuration, Timestamp};

use crate::view::{PodView, Taint};

/// A time, and by which clock: the two may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Read from an object: the cluster's clock.
    Stamped(Timestamp),
    /// When we saw something for the first time: our clock.
    Observed(Timestamp),
}

/// Since when a taint that was seen first at `first_sight` counts: since its `timeAdded`, unless that is
/// missing or lies ahead (TE-4).
pub fn since(taint: &Taint, first_sight: Timestamp) -> Moment {
    stamped_or_observed(taint.time_added, first_sight)
}

/// Since when a pod that was seen first at `first_sight` counts as bound (TE-4).
pub fn bound(pod: &PodView, first_sight: Timestamp) -> Moment {
    stamped_or_observed(pod.bound, first_sight)
}

/// Whether `bound` will have to be told when this pod, seen now, was seen first.
pub fn first_sight_counts(pod: &PodView, now: Timestamp) -> bool {
    pod.bound.is_none_or(|bound| bound > now)
}

fn stamped_or_observed(stamped: Option<Timestamp>, first_sight: Timestamp) -> Moment {
    match stamped {
        Some(stamped) if stamped <= first_sight => Moment::Stamped(stamped),
        _ => Moment::Observed(first_sight),
    }
}

impl Moment {
    /// The same moment by our clock, which is `ahead` of the cluster's.
    pub fn by_our_clock(self, ahead: SignedDuration) -> Timestamp {
        match self {
            Self::Stamped(at) => saturating_add(at, Duration::try_from(ahead).unwrap_or_default()),
            Self::Observed(at) => at,
        }
    }

    /// Without knowledge of how the clocks differ.
    pub(super) fn earlier(self, other: Self) -> Self {
        let by = |moment: Self| moment.by_our_clock(SignedDuration::ZERO);
        if by(other) < by(self) { other } else { self }
    }
}

/// How far our clock counts as ahead of the API server's when a read found it `ahead`: not at all where that is
/// no more than [`CLOCK_TOLERANCE`] (TE-8).
pub fn clock_ahead(ahead: SignedDuration) -> SignedDuration {
    if ahead > CLOCK_TOLERANCE {
        ahead
    } else {
        SignedDuration::ZERO
    }
}
