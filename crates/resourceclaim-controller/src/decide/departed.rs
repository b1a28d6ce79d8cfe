//! Which pods and groups are known to be deleted (RC-14).

use std::collections::{BTreeSet, VecDeque};

use controller_core::meta::{ObjectKey, Uid};

use super::{Gates, MAX_UID_CACHE_ENTRIES, claimant_kind};
use crate::view::{ClaimView, ClaimantKind, ClaimantView, Consumer, beside};

/// Which pod or group it is. Its uid alone would not do: the owner reference of a claim may go with the uid of any object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimantId {
    /// Whether it is a pod or a group.
    pub kind: ClaimantKind,
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
}

/// What was deleted: those to whose uids a claim refers, and the last [`MAX_UID_CACHE_ENTRIES`] of the others, of
/// which a claim that is not seen yet may be reserved for one.
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
    /// That of this pod or group.
    pub fn of(claimant: &ClaimantView) -> Self {
        Self {
            kind: claimant.kind,
            key: claimant.key.clone(),
            uid: claimant.uid.clone(),
        }
    }

    /// That of a consumer of the claim; `None` for kinds whose state we do not watch.
    pub fn of_consumer(claim: &ObjectKey, consumer: &Consumer, gates: Gates) -> Option<Self> {
        Some(Self {
            kind: claimant_kind(consumer.kind, gates)?,
            key: beside(claim, &consumer.name),
            uid: consumer.uid.clone(),
        })
    }

    /// That of the pod which controls the claim, if one does.
    pub fn of_owner(claim: &ClaimView) -> Option<Self> {
        let pod = claim.owning_pod()?;
        Some(Self {
            kind: ClaimantKind::Pod,
            key: beside(&claim.key, &pod.name),
            uid: pod.uid.clone(),
        })
    }
}

impl Departed {
    /// It was deleted. Whether a claim refers to an uid is asked now and then only: what nobody
    /// refers to is dropped when the memory has doubled.
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

    /// Whether it is known to be deleted.
    pub fn contains(&self, identity: &ClaimantId) -> bool {
        self.held.contains(identity)
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}
