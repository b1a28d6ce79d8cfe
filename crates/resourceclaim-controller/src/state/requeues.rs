//! Which keys a change enqueues.
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-16 | `enqueue`, `enqueue_users`, `enqueue_claims` | `tests/sync/claims/known.rs::what_no_rule_reads_wakes_nothing` |

use std::collections::BTreeSet;
use std::sync::Arc;

use controller_core::cache::Store;
use controller_core::controller::Requeue;
use controller_core::meta::{ObjectKey, Uid};

use super::Cx;
use crate::Stores;
use crate::decide::{Claimant, Gates, Groups, group_of, needs_work, needs_work_on};
use crate::route::Users;
use crate::state::Key;
use crate::view::{ClaimIndex, ClaimView, ClaimantIndex, ClaimantKind, ClaimantView, in_namespace_of};

/// Enqueues everything: a term begins, or has gone on for an hour.
pub(super) fn enqueue_all(cx: &mut Cx<'_>, gates: Gates) {
    let stores = cx.stores;
    let claims = stores
        .claims
        .snapshot()
        .into_iter()
        .map(|claim| claim.key.clone());
    for key in claims.chain(cx.state.pending.iter().cloned()) {
        cx.out.enqueue(Key::Claim(key));
    }
    for claimant in [&stores.groups, &stores.pods]
        .into_iter()
        .flat_map(Store::snapshot)
    {
        enqueue_changed(cx, &claimant, None, gates);
    }
}

/// Enqueues the pod or the group if it needs work; if a claim has changed, only about the entries for this claim. A pod
/// with thousands of entries must not be evaluated as a whole for each of its claims.
pub(super) fn enqueue(
    cx: &mut Cx<'_>,
    view: &ClaimantView,
    claim: Option<&ClaimView>,
    gates: Gates,
    when: Requeue,
) {
    let group = cx.stores.group_of(view);
    let group = group_of(view, group.as_deref(), gates);
    let claimant = Claimant { view, group };
    let needs_work = match claim {
        Some(claim) => needs_work_on(&claimant, claim, cx.stores, gates),
        None => needs_work(&claimant, cx.stores, gates),
    };
    // What was reported may be over.
    let is_told = cx
        .state
        .failing
        .get(&view.uid)
        .is_some_and(|failing| match claim {
            Some(claim) => view
                .entries_of(claim)
                .any(|entry| failing.contains_key(&entry.name)),
            None => true,
        });
    if needs_work || is_told {
        let key = view.key.clone();
        let key = match view.kind {
            ClaimantKind::Pod => Key::Pod(key),
            ClaimantKind::PodGroup(_) => Key::PodGroup(key),
        };
        cx.out.requeue(key, when);
    }
}

/// Enqueues the pod or the group if it needs work, after a change that concerns it; a group's earlier failures no
/// longer count.
pub(super) fn enqueue_changed(
    cx: &mut Cx<'_>,
    claimant: &ClaimantView,
    claim: Option<&ClaimView>,
    gates: Gates,
) {
    let when = match claimant.kind {
        ClaimantKind::Pod => Requeue::Now,
        ClaimantKind::PodGroup(_) => Requeue::Reset,
    };
    enqueue(cx, claimant, claim, gates, when);
}

/// Enqueues the pods and groups that use the claim and need work.
pub(super) fn enqueue_users(cx: &mut Cx<'_>, claim: &ClaimView, users: &Users, gates: Gates) {
    let stores = cx.stores;
    // The pod that controls the claim may not have recorded it.
    if let Some(owner) = claim.owning_pod()
        && let Some(pod) = stores.pods.get(&in_namespace_of(&claim.key, &owner.name))
        && pod.uid == owner.uid
        && users.include(&pod.uid)
    {
        enqueue_changed(cx, &pod, Some(claim), gates);
    }
    let index = ClaimantIndex::Claim(claim.key.clone());
    for pod in stores.pods.by_index(&index) {
        if users.include(&pod.uid) {
            enqueue_changed(cx, &pod, Some(claim), gates);
        }
    }
    let (Users::All, Groups::On(_)) = (users, gates.groups) else {
        return;
    };
    for group in stores.groups.by_index(&index) {
        enqueue_changed(cx, &group, Some(claim), gates);
    }
    if let Some(owner) = claim.owning_group() {
        let key = in_namespace_of(&claim.key, &owner.name);
        if let Some(group) = stores.groups.get(&key) {
            enqueue_changed(cx, &group, Some(claim), gates);
        }
        enqueue_members(cx, &key, Some(claim), gates);
    }
}

/// Enqueues the claims that a pod or a group names, and those that it owns or that are reserved for it, recorded or
/// not.
pub(super) fn enqueue_claims(cx: &mut Cx<'_>, claimant: &ObjectKey, uid: &Uid, named: &[Arc<str>]) {
    let named = named.iter().map(|name| in_namespace_of(claimant, name));
    let claims = cx
        .stores
        .claims
        .by_index(&ClaimIndex::Uid(uid.clone()))
        .into_iter();
    let refer = claims.map(|claim| claim.key.clone());
    for key in named.chain(refer).collect::<BTreeSet<_>>() {
        cx.out.enqueue(Key::Claim(key));
    }
}

/// Enqueues the pods of a group that need work; if a claim has changed, about this claim.
pub(super) fn enqueue_members(cx: &mut Cx<'_>, group: &ObjectKey, claim: Option<&ClaimView>, gates: Gates) {
    let stores: &Stores = cx.stores;
    for pod in stores.pods.by_index(&ClaimantIndex::Group(group.clone())) {
        enqueue_changed(cx, &pod, claim, gates);
    }
}
