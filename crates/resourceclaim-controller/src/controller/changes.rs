//! Whom a change of an object wakes (RC-16). Called on the informers' tasks: looks up, enqueues, returns.

use std::collections::BTreeSet;
use std::sync::Arc;

use controller_core::informer::{Change, Handler, Store};
use controller_core::meta::{ObjectKey, Uid};
use tokio::sync::mpsc::UnboundedReceiver;

use super::Controller;
use crate::caches::Lost;
use crate::decide::{ClaimantKind, RESERVED_FOR_MAX_SIZE, Stamp};
use crate::queues::Key;
use crate::route::{self, PodWakes, Users};
use crate::view::{ClaimView, PodGroupView, PodIndex, PodView, TemplateView, beside};

impl Handler<PodView> for Controller {
    fn on_change(&self, change: Change<'_, PodView>, _: &Store<PodView>) {
        let (Change::Added(pod) | Change::Updated { new: pod, .. } | Change::Deleted(pod)) = &change;
        let is_unrecorded = matches!(&change, Change::Updated { old, new } if old.statuses == new.statuses);
        if !is_unrecorded {
            self.caches.written.pods.shown(&pod.key, &Stamp::last(&pod.uid));
        }
        let deleted = matches!(change, Change::Deleted(_));
        if deleted && route::is_deleted(pod) {
            self.caches.departed(&pod.uid);
        }
        if deleted {
            self.forget_recorded(&pod.uid, &pod.statuses);
        }
        if deleted || pod.is_done() {
            self.notes.forget(ClaimantKind::Pod, &pod.key);
        }
        if !self.leads() {
            return;
        }
        match route::pod_wakes(&change) {
            PodWakes::Pod => self.wake_pod(pod),
            PodWakes::Claims => self.wake_claims(&pod.key, &pod.uid, &pod.claims()),
            PodWakes::Nobody => {}
        }
    }
}

impl Handler<ClaimView> for Controller {
    fn on_change(&self, change: Change<'_, ClaimView>, _: &Store<ClaimView>) {
        let (Change::Added(claim) | Change::Updated { new: claim, .. } | Change::Deleted(claim)) = &change;
        let deleted = matches!(change, Change::Deleted(_));
        let stamp = if deleted {
            Stamp::last(&claim.uid)
        } else {
            Stamp::shown(&claim.uid, &claim.version)
        };
        self.caches.written.claims.shown(&claim.key, &stamp);
        if deleted {
            self.quiet.lock().forget(&claim.key);
        }
        if deleted || claim.reserved.len() < RESERVED_FOR_MAX_SIZE {
            self.notes.has_room(&claim.key);
        }
        if !self.leads() {
            return;
        }
        if route::claim_wakes(&change) {
            self.queue.add(Key::Claim(claim.key.clone()));
        }
        let users = route::users(&change);
        if users != Users::None {
            self.wake_users(claim, &users);
        }
    }
}

impl Handler<TemplateView> for Controller {
    /// Every change of the view concerns the pods that wait for it: nothing else is in it (RC-6).
    fn on_change(&self, change: Change<'_, TemplateView>, _: &Store<TemplateView>) {
        let (Change::Added(template) | Change::Updated { new: template, .. }) = change else {
            return;
        };
        if !self.leads() {
            return;
        }
        let (pods, _, groups) = self.caches.stores();
        let index = PodIndex::Template(template.key.clone());
        for pod in pods.by_index(&index) {
            self.wake_pod_afresh(&pod);
        }
        for group in groups.iter().flat_map(|groups| groups.by_index(&index)) {
            self.wake_group(&group.key);
        }
    }
}

impl Handler<PodGroupView> for Controller {
    fn on_change(&self, change: Change<'_, PodGroupView>, _: &Store<PodGroupView>) {
        let (Change::Added(group) | Change::Updated { new: group, .. } | Change::Deleted(group)) = &change;
        let is_unrecorded = matches!(&change, Change::Updated { old, new } if old.statuses == new.statuses);
        if !is_unrecorded {
            let stamp = Stamp::last(&group.uid);
            self.caches.written.groups.shown(&group.key, &stamp);
        }
        let deleted = matches!(change, Change::Deleted(_));
        if deleted {
            self.caches.departed(&group.uid);
            self.forget_recorded(&group.uid, &group.statuses);
            self.notes.forget(ClaimantKind::PodGroup, &group.key);
        }
        if !self.leads() {
            return;
        }
        if deleted {
            self.wake_claims(&group.key, &group.uid, &group.claims());
        } else {
            self.wake_group(&group.key);
        }
        self.wake_members(&group.key);
    }
}

impl Users {
    fn include(&self, pod: &Uid) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Of(uids) => uids.contains(pod),
        }
    }
}

impl Controller {
    /// Wakes whom the loss of what we wrote concerns, for ever.
    pub async fn mind(&self, mut losses: UnboundedReceiver<Lost>) {
        while let Some(lost) = losses.recv().await {
            if !self.leads() {
                continue;
            }
            let (pods, ..) = self.caches.stores();
            match lost {
                Lost::Claim(claim) => {
                    self.queue.add(Key::Claim(claim.key.clone()));
                    self.wake_users(&claim, &Users::All);
                }
                Lost::Pod(key) => {
                    if let Some(pod) = pods.get(&key) {
                        self.wake_pod(&pod);
                    }
                }
                Lost::PodGroup(key) => self.wake_group(&key),
            }
        }
        // The informers, which tell of losses, are gone: so is the process, soon.
        std::future::pending::<()>().await;
    }

    /// Queues those of the pods and groups that use the claim that need work.
    fn wake_users(&self, claim: &ClaimView, users: &Users) {
        self.wake_owner(claim, users);
        let (pods, _, groups) = self.caches.stores();
        let index = PodIndex::Claim(claim.key.clone());
        for pod in pods.by_index(&index) {
            if users.include(&pod.uid) {
                self.wake_pod(&pod);
            }
        }
        let (Some(groups), Users::All) = (groups, users) else {
            return;
        };
        for group in groups.by_index(&index) {
            self.wake_group(&group.key);
        }
        if let Some(owner) = claim.owning_group() {
            let group = beside(&claim.key, &owner.name);
            self.wake_group(&group);
            self.wake_members(&group);
        }
    }

    /// Queues the claims that a pod or a group names, and those that are its own or reserved for it, recorded or not.
    fn wake_claims(&self, claimant: &ObjectKey, uid: &Uid, named: &[Arc<str>]) {
        let (_, claims, _) = self.caches.stores();
        let named = named.iter().map(|name| beside(claimant, name));
        let refer = claims.by_index(uid).into_iter().map(|claim| claim.key.clone());
        for key in named.chain(refer).collect::<BTreeSet<_>>() {
            self.queue.add(Key::Claim(key));
        }
    }

    /// The pod that controls the claim need not have recorded it.
    fn wake_owner(&self, claim: &ClaimView, users: &Users) {
        let (pods, ..) = self.caches.stores();
        if let Some(owner) = claim.owning_pod()
            && let Some(pod) = pods.get(&beside(&claim.key, &owner.name))
            && pod.uid == owner.uid
            && users.include(&pod.uid)
        {
            self.wake_pod(&pod);
        }
    }

    /// Queues the pods of a group that need work.
    fn wake_members(&self, group: &ObjectKey) {
        let (pods, ..) = self.caches.stores();
        for pod in pods.by_index(&PodIndex::Group(group.clone())) {
            self.wake_pod(&pod);
        }
    }
}
