//! For whom a claim must be reserved (RC-8).

use std::sync::Arc;

use controller_core::meta::{ObjectKey, Uid};

use super::{Claimant, Group, RESERVED_FOR_MAX_SIZE, binds_to, is_for, wants_claims};
use crate::view::{ClaimSource, ClaimView, ClaimantView, Consumer, ConsumerKind, Entry};

/// What to do for one entry of a pod that is on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// Nothing, while the claim stays as it is.
    Nothing,
    /// The claim has no room for one more; when it has, it enqueues the pod.
    Full,
    Write(Reserve),
}

/// The plan: one more entry in `status.reservedFor`, if the claim is still in the state that was judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    pub claim: ObjectKey,
    pub uid: Uid,
    pub version: Arc<str>,
    pub consumer: Consumer,
}

/// Decides whether to reserve `claim` for `entry` of the pod: only if the pod is on a node and needs the claim, and the
/// claim is not being deleted, which the API server would refuse. A group is never on a node.
pub fn reservation(claimant: &Claimant<'_>, entry: &Entry, claim: &ClaimView) -> Reservation {
    let pod = claimant.view;
    let may_use = match entry.source {
        ClaimSource::Claim(_) => true,
        // Unless groups count, nobody knows whether a group's claim is this pod's.
        ClaimSource::Template(_) if matches!(claimant.group, Group::Off(_)) => {
            claim.is_controlled_by(&pod.uid)
        }
        ClaimSource::Template(_) => is_for(claimant, claim),
        ClaimSource::Unknown => false,
    };
    let wanted = pod.node.is_some()
        && wants_claims(pod)
        && may_use
        && claim.allocated
        && claim.deleting.is_none()
        && !is_reserved_for(pod, claim);
    match binds_to(claimant, entry) {
        Some(_) if wanted && claim.reserved.len() >= RESERVED_FOR_MAX_SIZE => Reservation::Full,
        Some(consumer) if wanted => Reservation::Write(Reserve {
            claim: claim.key.clone(),
            uid: claim.uid.clone(),
            version: Arc::clone(&claim.version),
            consumer,
        }),
        _ => Reservation::Nothing,
    }
}

/// True if `claim` is reserved for the pod, or for its group; the pod knows only the group's name.
pub(super) fn is_reserved_for(pod: &ClaimantView, claim: &ClaimView) -> bool {
    claim.reserved.iter().any(|consumer| {
        let of_group = consumer.kind == ConsumerKind::PodGroup && pod.group.as_ref() == Some(&consumer.name);
        consumer.uid == pod.uid || of_group
    })
}
