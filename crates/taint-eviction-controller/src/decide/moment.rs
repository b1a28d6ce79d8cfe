//! Since when a taint and a node count for a pod, and by whose clock.

use std::time::Duration;

use controller_core::time::saturating_add;
use jiff::{SignedDuration, Timestamp};

use crate::view::{PodView, Taint};

/// A time and its clock; clocks may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Read from an object, by the cluster's clock.
    Stamped(Timestamp),
    /// When we saw something first, by our clock.
    Observed(Timestamp),
}

/// Since when a taint counts that was seen first at `first_sight`: since its `timeAdded`, unless that is missing or
/// lies in the future (TE-4).
pub fn since(taint: &Taint, first_sight: Timestamp) -> Moment {
    stamped_or_observed(taint.time_added, first_sight)
}

/// Since when a pod counts as bound that was seen first at `first_sight` (TE-4).
pub fn bound(pod: &PodView, first_sight: Timestamp) -> Moment {
    stamped_or_observed(pod.bound, first_sight)
}

fn stamped_or_observed(stamped: Option<Timestamp>, first_sight: Timestamp) -> Moment {
    match stamped {
        Some(stamped) if stamped <= first_sight => Moment::Stamped(stamped),
        _ => Moment::Observed(first_sight),
    }
}

/// A time by our clock, after that has jumped by this much; positive: ahead.
pub fn after_jump(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(at)
}

impl Moment {
    /// This moment by our clock, which is `ahead` of the cluster's.
    pub fn by_our_clock(self, ahead: SignedDuration) -> Timestamp {
        match self {
            Self::Stamped(at) => saturating_add(at, Duration::try_from(ahead).unwrap_or_default()),
            Self::Observed(at) => at,
        }
    }

    /// The same moment after our clock has jumped by this much.
    #[must_use]
    pub fn after_jump(self, by: SignedDuration) -> Self {
        match self {
            Self::Stamped(at) => Self::Stamped(at),
            Self::Observed(at) => Self::Observed(after_jump(at, by)),
        }
    }

    /// Compares as if the clocks did not differ.
    pub(super) fn earlier(self, other: Self) -> Self {
        let by = |moment: Self| moment.by_our_clock(SignedDuration::ZERO);
        if by(other) < by(self) { other } else { self }
    }
}
