//! Which pods and groups are known to be deleted or done (RC-14).

use std::collections::{BTreeSet, VecDeque};

use controller_core::meta::{ObjectKey, Uid};

use super::{Gates, MAX_UID_CACHE_ENTRIES, claimant_kind};
use crate::view::{ClaimView, ClaimantKind, ClaimantView, Consumer, in_namespace_of};

/// Identity of a pod or group. The uid alone would not do: the owner reference of a claim may hold the uid of any
/// object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimantId {
    pub kind: ClaimantKind,
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
}

/// Deleted pods and groups, and pods that a read has found done: those to whose uids a claim refers, and the last
/// [`MAX_UID_CACHE_ENTRIES`] of the others, because a claim that is not seen yet may be reserved for one.
///
/// Forgetting costs a live read, or a reservation that is taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Departed {
    held: BTreeSet<ClaimantId>,
    /// In the order of their deletions.
    order: VecDeque<ClaimantId>,
    sweep_at: usize,
}

impl ClaimantId {
    pub fn of(claimant: &ClaimantView) -> Self {
        Self {
            kind: claimant.kind,
            key: claimant.key.clone(),
            uid: claimant.uid.clone(),
        }
    }

    /// The identity of a consumer of the claim; `None` for kinds that we do not watch.
    pub fn of_consumer(claim: &ObjectKey, consumer: &Consumer, gates: Gates) -> Option<Self> {
        Some(Self {
            kind: claimant_kind(consumer.kind, gates)?,
            key: in_namespace_of(claim, &consumer.name),
            uid: consumer.uid.clone(),
        })
    }

    /// The identity of the pod that controls the claim, if one does.
    pub fn of_owner(claim: &ClaimView) -> Option<Self> {
        let pod = claim.owning_pod()?;
        Some(Self {
            kind: ClaimantKind::Pod,
            key: in_namespace_of(&claim.key, &pod.name),
            uid: pod.uid.clone(),
        })
    }
}

impl Departed {
    /// Notes that `gone` was deleted. Entries that no claim refers to are dropped only when the set has doubled,
    /// because that check is expensive.
    pub fn deleted(&mut self, gone: ClaimantId, is_referred_to: impl Fn(&Uid) -> bool) {
        if !self.held.insert(gone.clone()) {
            return;
        }
        self.order.push_back(gone);
        if self.held.len() <= self.sweep_at.max(2 * MAX_UID_CACHE_ENTRIES) {
            return;
        }
        let old = self.order.len().saturating_sub(MAX_UID_CACHE_ENTRIES);
        let mut place = 0;
        let held = &mut self.held;
        self.order.retain(|gone| {
            let stays = place >= old || is_referred_to(&gone.uid);
            place += 1;
            if !stays {
                held.remove(gone);
            }
            stays
        });
        self.sweep_at = self.held.len().saturating_mul(2);
    }

    /// Returns whether this pod or group is known to be deleted.
    pub fn contains(&self, identity: &ClaimantId) -> bool {
        self.held.contains(identity)
    }

    pub fn len(&self) -> usize {
        self.held.len()
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}
