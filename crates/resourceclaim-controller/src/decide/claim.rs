//! What to do about a claim: remove reservations, give an allocation back, delete the claim (RC-9 to RC-13, RC-15).
//!
//! A doubt keeps the reservation and deletes nothing.

use std::time::Duration;

use controller_core::meta::Uid;

use super::{Gates, Groups, IDLE_FINALIZER_AGE};
use crate::view::{ClaimView, ClaimantKind, ClaimantView, Consumer, ConsumerKind};

/// A pod or a group, as far as its claims are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Being {
    /// `metadata.uid`.
    pub uid: Uid,
    /// It no longer needs its claims (RC-10).
    pub done: bool,
}

/// Which object has the name of a consumer or an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerLookup {
    /// The cache has this object, but may lag behind.
    Cached(Option<Being>),
    /// The API server has this object.
    Live(Option<Being>),
}

/// Whether a reservation is still needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its consumer needs it, or is of an unknown kind.
    Holds,
    /// Its consumer is done.
    Done,
    /// Its consumer was deleted, or another has its name.
    Gone,
    /// Only the API server can tell.
    Unsure,
}

/// Whether the pod that controls a claim still needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// The pod may need the claim, or no pod controls the claim. Or the pod is gone: then the garbage collector deletes
    /// the claim.
    Leave,
    /// The pod is done or replaced.
    Over,
    /// Only the API server can tell.
    Unsure,
}

/// What a claim is judged on, besides its own state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The consumers whose standing is [`Standing::Done`] or [`Standing::Gone`].
    pub gone: Vec<Uid>,
    pub owner: Ownership,
    /// How long we have seen the claim at this very resourceVersion.
    pub unchanged: Duration,
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    Leave,
    /// Nothing yet: judge again after this long.
    LookAgain(Duration),
    /// This change, then judge again.
    Do(ClaimPlan),
}

/// The plan: one write, if the claim is still in the state that was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimPlan {
    /// Take these uids off `status.reservedFor`, and clear `status.allocation` in the same write.
    Release {
        gone: Vec<Uid>,
        /// No reservation is left.
        all: bool,
        /// Clear the allocation, too.
        deallocate: bool,
    },
    RemoveFinalizer,
    Delete,
}

impl Being {
    pub fn of(claimant: &ClaimantView) -> Self {
        Self {
            uid: claimant.uid.clone(),
            done: claimant.is_done(),
        }
    }
}

/// The kind of object behind such a consumer; `None` for kinds that we do not watch.
pub const fn claimant_kind(kind: ConsumerKind, gates: Gates) -> Option<ClaimantKind> {
    match kind {
        ConsumerKind::Pod => Some(ClaimantKind::Pod),
        ConsumerKind::PodGroup => match gates.groups {
            Groups::On(version) => Some(ClaimantKind::PodGroup(version)),
            Groups::Off | Groups::Unserved => None,
        },
        ConsumerKind::Other => None,
    }
}

/// Whether the reservation for `consumer` is still needed; `departed` if its uid is known to be deleted or done.
///
/// The cache can prove that a consumer is done. It cannot prove that a consumer is gone: it may still show the pod that had
/// the name before, while the scheduler already knows the new one.
pub fn standing(consumer: &Consumer, departed: bool, sight: &ConsumerLookup, gates: Gates) -> Standing {
    if claimant_kind(consumer.kind, gates).is_none() {
        return Standing::Holds;
    }
    if departed {
        return Standing::Gone;
    }
    match sight {
        ConsumerLookup::Cached(Some(being)) | ConsumerLookup::Live(Some(being))
            if being.uid == consumer.uid =>
        {
            if being.done {
                Standing::Done
            } else {
                Standing::Holds
            }
        }
        ConsumerLookup::Cached(_) => Standing::Unsure,
        ConsumerLookup::Live(_) => Standing::Gone,
    }
}

/// Whether the pod that controls `claim` still needs it; `departed` if its uid is known to be deleted or done.
pub fn owner(claim: &ClaimView, departed: bool, sight: &ConsumerLookup) -> Ownership {
    let Some(pod) = claim.owning_pod() else {
        return Ownership::Leave;
    };
    match sight {
        ConsumerLookup::Cached(None) | ConsumerLookup::Live(None) => Ownership::Leave,
        ConsumerLookup::Cached(Some(being)) | ConsumerLookup::Live(Some(being)) if being.uid == pod.uid => {
            if being.done {
                Ownership::Over
            } else {
                Ownership::Leave
            }
        }
        // Replaced, unless the cache shows the pod before it.
        ConsumerLookup::Cached(Some(_)) if !departed => Ownership::Unsure,
        ConsumerLookup::Cached(Some(_)) | ConsumerLookup::Live(Some(_)) => Ownership::Over,
    }
}

/// The next change of `claim`.
pub fn next_step(claim: &ClaimView, evidence: &Evidence) -> Next {
    let is_gone = |consumer: &&Consumer| evidence.gone.contains(&consumer.uid);
    let gone: Vec<_> = claim.reserved.iter().filter(is_gone).collect();
    if !gone.is_empty() {
        let all = gone.len() == claim.reserved.len();
        return Next::Do(ClaimPlan::Release {
            gone: gone.into_iter().map(|consumer| consumer.uid.clone()).collect(),
            all,
            // Without the finalizer, something other than the scheduler has allocated the claim.
            deallocate: all && claim.finalizer && claim.allocated,
        });
    }
    if !claim.reserved.is_empty() {
        return Next::Leave;
    }
    let deleting = claim.deleting.is_some();
    if claim.finalizer && deleting && claim.allocated {
        return Next::Do(ClaimPlan::Release {
            gone: Vec::new(),
            all: true,
            deallocate: true,
        });
    }
    // Deleted first, so that nobody allocates the claim meanwhile.
    if evidence.owner == Ownership::Over && !deleting {
        return Next::Do(ClaimPlan::Delete);
    }
    if claim.finalizer && !claim.allocated {
        return match IDLE_FINALIZER_AGE.checked_sub(evidence.unchanged) {
            Some(left) if !left.is_zero() && !deleting => Next::LookAgain(left),
            _ => Next::Do(ClaimPlan::RemoveFinalizer),
        };
    }
    Next::Leave
}

impl ClaimPlan {
    /// The claim on the API server after the change, except for its resourceVersion; `None` if it is gone.
    pub fn done_to(&self, claim: &ClaimView) -> Option<ClaimView> {
        let mut claim = claim.clone();
        match self {
            Self::Release { gone, deallocate, .. } => {
                let stays = |consumer: &Consumer| !gone.contains(&consumer.uid);
                claim.reserved = claim.reserved.into_iter().filter(stays).collect();
                claim.allocated &= !deallocate;
            }
            Self::RemoveFinalizer => {
                claim.finalizer = false;
                if claim.deleting.is_some() {
                    return None;
                }
            }
            Self::Delete => {
                if !claim.finalizer {
                    return None;
                }
                // The watch will tell since when.
                claim.deleting = Some(jiff::Timestamp::MAX);
            }
        }
        Some(claim)
    }
}
