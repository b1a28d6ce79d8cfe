//! Writes of ours that another writer may undo.

use std::sync::Arc;

use controller_core::meta::{ObjectKey, Uid};

use crate::decide::Reserve;
use crate::view::{ClaimStatus, ClaimView, ClaimantKind};

/// A write that another writer may undo.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WriteKey {
    /// The status of the object of this uid names this claim for this entry.
    Recorded {
        kind: ClaimantKind,
        claimant: Uid,
        entry: Arc<str>,
        claim: Arc<str>,
    },
    /// The claim is reserved for the consumer.
    Reserved { claim: Uid, consumer: Uid },
    /// This entry of the pod, which is done, has no claim.
    Deleted { pod: Uid, entry: Arc<str> },
}

/// A write that another writer may have undone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contested {
    pub write: WriteKey,
    /// The pod, the group or the claim that was written.
    pub object: ObjectKey,
    pub uid: Uid,
}

impl WriteKey {
    /// The uid of the object that the write is about: once that object is gone, nothing can be undone.
    pub(crate) fn subject(&self) -> &Uid {
        match self {
            Self::Recorded { claimant, .. } => claimant,
            Self::Reserved { claim, .. } => claim,
            Self::Deleted { pod, .. } => pod,
        }
    }

    /// None if the status names no claim.
    pub(crate) fn recorded(kind: ClaimantKind, claimant: &Uid, status: &ClaimStatus) -> Option<Self> {
        Some(Self::Recorded {
            kind,
            claimant: claimant.clone(),
            entry: Arc::clone(&status.entry),
            claim: Arc::clone(status.claim.as_ref()?),
        })
    }

    pub(crate) fn reserved(reserve: &Reserve) -> Self {
        Self::Reserved {
            claim: reserve.uid.clone(),
            consumer: reserve.consumer.uid.clone(),
        }
    }

    /// None if the claim was not made for an entry of a pod.
    pub(crate) fn deleted(claim: &ClaimView) -> Option<Self> {
        Some(Self::Deleted {
            pod: claim.owning_pod()?.uid.clone(),
            entry: Arc::clone(claim.entry.as_ref()?),
        })
    }
}
