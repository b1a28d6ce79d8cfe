//! Applies an accepted write to the cache, until the watch shows it (RC-4).

use std::sync::Arc;

use controller_core::controller::{Accepted, CacheWrite};
use controller_core::meta::{OwnerRef, Uid};

use crate::decide::{ClaimPlan, Create};
use crate::requests::{Record, Write};
use crate::view::{ClaimOrigin, ClaimStatus, ClaimView, ClaimantView, EXTENDED_ANNOTATION};
use crate::{ResourceClaimController, Stores};

pub(super) fn apply_to_cache(write: &Write, cache: &mut CacheWrite<'_, ResourceClaimController>) {
    let accepted = cache.accepted().cloned().unwrap_or_default();
    match write {
        Write::Create(create) => {
            cache.object(
                |stores| &mut stores.claims,
                &create.claim(),
                |uid, version| made(create, uid, version),
            );
        }
        Write::Record(Record {
            kind, key, statuses, ..
        }) => {
            let statuses: Box<[ClaimStatus]> = statuses.as_slice().into();
            cache.patch(Stores::store_of(*kind), key, move |claimant| ClaimantView {
                statuses: statuses.clone(),
                ..claimant.clone()
            });
        }
        Write::Reserve(reserve) => {
            let consumer = reserve.consumer.clone();
            cache.patch(
                |stores| &mut stores.claims,
                &reserve.claim,
                move |claim| {
                    let reserved = claim.reserved.iter().chain([&consumer]);
                    ClaimView {
                        reserved: reserved.cloned().collect(),
                        ..at(&accepted, claim)
                    }
                },
            );
        }
        Write::GiveBack(claim, step) if lets_go(step, claim, &accepted) => {
            cache.delete(|stores| &mut stores.claims, &claim.key, &claim.uid);
        }
        Write::GiveBack(claim, step) => {
            let step = step.clone();
            cache.patch(
                |stores| &mut stores.claims,
                &claim.key,
                move |claim| {
                    let after = step.done_to(claim);
                    at(&accepted, after.as_ref().unwrap_or(claim))
                },
            );
        }
    }
}

/// Returns whether the write ends the claim's existence.
fn lets_go(step: &ClaimPlan, judged: &ClaimView, accepted: &Accepted) -> bool {
    match step {
        ClaimPlan::Release { .. } => false,
        // A finalizer holds the claim: ours, whatever the answer, or another's, as the answer says.
        ClaimPlan::Delete => !judged.finalizer && !accepted.deleting,
        // The answer to the write that takes the last finalizer has the version before; others may have added more
        // finalizers.
        ClaimPlan::RemoveFinalizer => {
            judged.deleting.is_some() && accepted.version == judged.version.parse().ok()
        }
    }
}

/// The claim at the version in the answer.
fn at(accepted: &Accepted, claim: &ClaimView) -> ClaimView {
    let mut claim = claim.clone();
    if let Some(version) = accepted.version {
        claim.version = version.to_string().into();
    }
    claim
}

/// The claim that a create makes: all that a view keeps follows from the template.
fn made(create: &Create, uid: &Uid, version: u64) -> ClaimView {
    let (api_version, kind) = create.kind.type_meta();
    let extended = create.template.annotations.get(EXTENDED_ANNOTATION);
    ClaimView {
        key: create.claim(),
        uid: uid.clone(),
        version: version.to_string().into(),
        owner: Some(Arc::new(OwnerRef {
            api_version: api_version.into(),
            kind: kind.into(),
            name: Arc::clone(&create.claimant.name),
            uid: create.uid.clone(),
            controller: true,
        })),
        entry: Some(Arc::clone(&create.entry)),
        reserved: Box::default(),
        deleting: None,
        finalizer: false,
        allocated: false,
        admin_access: create.template.admin_access,
        origin: if extended.is_some_and(|extended| extended == "true") {
            ClaimOrigin::Extended
        } else {
            ClaimOrigin::Template
        },
    }
}
