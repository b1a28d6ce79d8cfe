//! Which changes enqueue which keys.
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-16 | `claimant_wakes`, `claim_wakes`, `users` | `tests/route_table.rs::a_pod_wakes_itself_until_it_is_done_and_its_claims_then`, `tests/route_table.rs::a_claim_wakes_the_pods_whose_answer_changed` |
//! | RC-14 | `is_deleted` | `tests/route_table.rs::a_pod_that_only_ceases_to_be_kept_is_not_deleted` |

use controller_core::cache::Change;
use controller_core::meta::Uid;

use crate::decide::RESERVED_FOR_MAX_SIZE;
use crate::view::{ClaimView, ClaimantKind, ClaimantView, ConsumerKind};

/// The keys that a change of a pod or a group enqueues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimantWakes {
    /// The pod or the group itself, if an entry needs work.
    Claimant,
    /// Its claims, which it no longer needs.
    Claims,
    Nobody,
}

/// The pods that use a claim and whose reconcile may change with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Users {
    None,
    All,
    /// The pods with these uids.
    Of(Vec<Uid>),
}

/// The keys that a change of a pod or a group enqueues. Everything in its view concerns a rule.
pub fn claimant_wakes(change: &Change<'_, ClaimantView>) -> ClaimantWakes {
    match change {
        Change::Deleted(_) => ClaimantWakes::Claims,
        Change::Added(new) if new.is_done() => ClaimantWakes::Claims,
        Change::Updated { old, new } if new.is_done() => {
            if old.is_done() && old.claims() == new.claims() {
                ClaimantWakes::Nobody
            } else {
                ClaimantWakes::Claims
            }
        }
        Change::Added(_) | Change::Updated { .. } => ClaimantWakes::Claimant,
    }
}

/// True if an object that the informer no longer shows is certainly deleted. A pod without entries may just have lost
/// the claim for its extended resources, and with it our interest. Entries never change.
pub fn is_deleted(last: &ClaimantView) -> bool {
    matches!(last.kind, ClaimantKind::PodGroup(_)) || !last.entries.is_empty()
}

/// True if a change of a claim enqueues the claim: not if only fields have changed that we do not read.
pub fn claim_wakes(change: &Change<'_, ClaimView>) -> bool {
    match change {
        Change::Deleted(_) => false,
        Change::Added(_) => true,
        Change::Updated { old, new } => {
            let as_before = ClaimView {
                version: old.version.clone(),
                ..(***new).clone()
            };
            as_before != ***old
        }
    }
}

/// The pods that use a claim and whose reconcile may change with it: whether it exists, whose it is, whether it can be
/// and is reserved.
pub fn users(change: &Change<'_, ClaimView>) -> Users {
    let (old, new) = match change {
        Change::Added(_) | Change::Deleted(_) => return Users::All,
        Change::Updated { old, new } => (old, new),
    };
    let is_full = |claim: &ClaimView| claim.reserved.len() >= RESERVED_FOR_MAX_SIZE;
    if old.owner != new.owner
        || old.entry != new.entry
        || old.deleting.is_some() != new.deleting.is_some()
        || (new.allocated && !old.allocated)
        || (is_full(old) && !is_full(new))
    {
        return Users::All;
    }
    let stays = |uid: &Uid| new.reserved.iter().any(|consumer| consumer.uid == *uid);
    let lost = old.reserved.iter().filter(|consumer| !stays(&consumer.uid));
    let lost: Vec<_> = lost.collect();
    if lost
        .iter()
        .any(|consumer| consumer.kind == ConsumerKind::PodGroup)
    {
        // The claim was reserved for each pod of the group.
        Users::All
    } else if lost.is_empty() {
        Users::None
    } else {
        Users::Of(lost.into_iter().map(|consumer| consumer.uid.clone()).collect())
    }
}

impl Users {
    /// Returns whether the pod with this uid is among them.
    pub(crate) fn include(&self, pod: &Uid) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Of(uids) => uids.contains(pod),
        }
    }
}
