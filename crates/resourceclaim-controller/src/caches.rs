//! What is known: the informers' stores, what we wrote and they do not show yet, and which uids are gone for good.
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-4 | `Outbox`, `Caches` | `tests/sync/claims.rs::a_claim_that_the_watch_has_not_shown_is_not_made_twice`, `tests/sync/claims.rs::an_answer_that_comes_after_the_watch_is_not_remembered`, `tests/sync/claims.rs::what_a_later_list_does_not_show_is_remembered_no_more` |
//! | RC-14 | `Caches::departed` | `tests/sync/reservations.rs::a_deleted_pod_gives_its_claims_back_without_a_read` |

use std::sync::Arc;

use controller_core::clock::Clock;
use controller_core::informer::Store;
use controller_core::meta::{ObjectKey, Uid};
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::decide::{Departed, Known, Stamp, Unshown};
use crate::lists::Lists;
use crate::view::{ClaimStatus, ClaimView, PodGroupView, PodView, TemplateView};

/// What is known of pods, groups, claims and templates.
pub struct Caches {
    pods: Store<PodView>,
    claims: Store<ClaimView>,
    templates: Store<TemplateView>,
    /// Where groups count.
    groups: Option<Store<PodGroupView>>,
    /// What we wrote.
    pub written: Written,
    departed: Mutex<Departed>,
}

/// What we wrote and the informers have not shown yet.
#[derive(Clone, Debug)]
pub struct Written {
    /// Claims.
    pub claims: Arc<Outbox<Unseen>>,
    /// What was recorded in pods.
    pub pods: Arc<Outbox<Arc<[ClaimStatus]>>>,
    /// What was recorded in groups.
    pub groups: Arc<Outbox<Arc<[ClaimStatus]>>>,
}

/// What we know of a claim and the informer has not shown yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// It is so.
    Is(Arc<ClaimView>),
    /// The one of this uid is gone.
    Gone(Uid),
}

/// What we wrote and a later list does not show: the informer tells nobody that it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// This claim was as it is here.
    Claim(Arc<ClaimView>),
    /// Claims were recorded in this pod.
    Pod(ObjectKey),
    /// Claims were recorded in this group.
    PodGroup(ObjectKey),
}

/// An [`Unshown`] that many use.
#[derive(Debug)]
pub struct Outbox<V> {
    clock: Clock,
    unshown: Mutex<Unshown<V>>,
    lost: UnboundedSender<Lost>,
    as_lost: fn(ObjectKey, V) -> Option<Lost>,
}

/// A write that is on its way, or a read of what may not be shown yet. Dropped, nothing of it is remembered.
#[must_use]
pub struct Sending<'a, V> {
    outbox: &'a Outbox<V>,
    key: &'a ObjectKey,
}

impl Written {
    /// Nothing was written; and what is lost of it.
    pub fn new(clock: &Clock) -> (Self, UnboundedReceiver<Lost>) {
        let (lost, losses) = unbounded_channel();
        let written = Self {
            claims: Arc::new(Outbox::new(clock, &lost, |_, unseen| match unseen {
                Unseen::Is(claim) => Some(Lost::Claim(claim)),
                Unseen::Gone(_) => None,
            })),
            pods: Arc::new(Outbox::new(clock, &lost, |pod, _| Some(Lost::Pod(pod)))),
            groups: Arc::new(Outbox::new(clock, &lost, |group, _| Some(Lost::PodGroup(group)))),
        };
        (written, losses)
    }
}

impl<V> Outbox<V> {
    fn new(clock: &Clock, lost: &UnboundedSender<Lost>, as_lost: fn(ObjectKey, V) -> Option<Lost>) -> Self {
        Self {
            clock: clock.clone(),
            unshown: Mutex::default(),
            lost: lost.clone(),
            as_lost,
        }
    }

    /// The object `key` is about to be written, or read.
    pub fn sending<'a>(&'a self, key: &'a ObjectKey) -> Sending<'a, V> {
        self.unshown.lock().sending(key);
        Sending { outbox: self, key }
    }

    /// The informer shows a change of the object.
    pub fn shown(&self, key: &ObjectKey, stamp: &Stamp) {
        self.unshown.lock().shown(key, stamp);
    }

    /// How many writes are not shown yet.
    pub fn len(&self) -> usize {
        self.unshown.lock().len()
    }

    /// Whether all are shown.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<V: Clone> Outbox<V> {
    fn get(&self, key: &ObjectKey) -> Option<V> {
        let unshown = self.unshown.lock();
        unshown.get(key, self.clock.instant()).cloned()
    }

    fn of(&self, owner: &Uid) -> Vec<V> {
        let unshown = self.unshown.lock();
        unshown.of(owner, self.clock.instant()).cloned().collect()
    }
}

impl<V: Send + Sync + 'static> Lists for Outbox<V> {
    fn list_began(&self) {
        self.unshown.lock().list_began();
    }

    fn list_finished(&self) {
        let forgotten = self.unshown.lock().list_finished();
        for (key, value) in forgotten {
            if let Some(lost) = (self.as_lost)(key, value) {
                // Nobody listens any more when the process ends.
                let _ = self.lost.send(lost);
            }
        }
    }
}

impl<V> Sending<'_, V> {
    fn remember(self, stamp: Stamp, owner: Option<&Uid>, value: V) {
        let now = self.outbox.clock.instant();
        let mut unshown = self.outbox.unshown.lock();
        unshown.accepted(self.key, stamp, owner, value, now);
    }
}

impl Sending<'_, Arc<[ClaimStatus]>> {
    /// This was recorded in the object of this uid. The views of pods and groups have no version: whatever the informer
    /// shows of their statuses next counts as this.
    pub fn recorded(self, uid: &Uid, statuses: Vec<ClaimStatus>) {
        self.remember(Stamp::first(uid), None, statuses.into());
    }
}

impl Sending<'_, Unseen> {
    /// The API server has this claim.
    pub fn holds(self, claim: &Arc<ClaimView>) {
        let owner = claim.owner.as_ref().map(|owner| &owner.uid);
        let stamp = Stamp::written(&claim.uid, &claim.version);
        // The answer to the write that lets a claim go has the version that it had before.
        let goes = claim.deleting.is_some() && !claim.finalizer;
        let stamp = if goes { stamp.next() } else { stamp };
        self.remember(stamp, owner, Unseen::Is(Arc::clone(claim)));
    }

    /// The API server has this claim no more.
    pub fn is_gone(self, claim: &ClaimView) {
        let owner = claim.owner.as_ref().map(|owner| &owner.uid);
        self.remember(Stamp::last(&claim.uid), owner, Unseen::Gone(claim.uid.clone()));
    }
}

impl Unseen {
    /// Whether the claim that the informer shows is known to be otherwise.
    fn hides(&self, shown: &ClaimView) -> bool {
        match self {
            Self::Is(claim) => claim.key == shown.key,
            Self::Gone(uid) => *uid == shown.uid,
        }
    }
}

impl<V> Drop for Sending<'_, V> {
    fn drop(&mut self) {
        self.outbox.unshown.lock().sent(self.key);
    }
}

impl Caches {
    /// Over these stores.
    pub fn new(
        pods: Store<PodView>,
        claims: Store<ClaimView>,
        templates: Store<TemplateView>,
        groups: Option<Store<PodGroupView>>,
        written: Written,
    ) -> Self {
        Self {
            pods,
            claims,
            templates,
            groups,
            written,
            departed: Mutex::default(),
        }
    }

    /// The stores of pods, of claims and, where they count, of groups.
    pub const fn stores(&self) -> (&Store<PodView>, &Store<ClaimView>, Option<&Store<PodGroupView>>) {
        (&self.pods, &self.claims, self.groups.as_ref())
    }

    /// The pod of this name, with what we recorded in it.
    pub fn pod(&self, key: &ObjectKey) -> Option<Arc<PodView>> {
        Some(self.with_recorded(self.pods.get(key)?))
    }

    /// The pod, with what we recorded in it.
    pub fn with_recorded(&self, pod: Arc<PodView>) -> Arc<PodView> {
        match self.written.pods.get(&pod.key) {
            None => pod,
            Some(statuses) => Arc::new(PodView {
                statuses: (*statuses).into(),
                ..(*pod).clone()
            }),
        }
    }

    /// The group of this name, with what we recorded in it.
    pub fn group(&self, key: &ObjectKey) -> Option<Arc<PodGroupView>> {
        let group = self.groups.as_ref()?.get(key)?;
        Some(match self.written.groups.get(key) {
            None => group,
            Some(statuses) => Arc::new(PodGroupView {
                statuses: (*statuses).into(),
                ..(*group).clone()
            }),
        })
    }

    /// The pod or the group of this uid was deleted (RC-14).
    pub fn departed(&self, uid: &Uid) {
        let is_referred_to = |uid: &Uid| !self.claims.by_index(uid).is_empty();
        self.departed.lock().deleted(uid, is_referred_to);
    }

    /// Whether the pod or the group of this uid is known to be deleted.
    pub fn is_departed(&self, uid: &Uid) -> bool {
        self.departed.lock().contains(uid)
    }
}

impl Known for Caches {
    fn claim(&self, key: &ObjectKey) -> Option<Arc<ClaimView>> {
        match self.written.claims.get(key) {
            Some(Unseen::Is(claim)) => Some(claim),
            Some(unseen) => self.claims.get(key).filter(|shown| !unseen.hides(shown)),
            None => self.claims.get(key),
        }
    }

    fn controlled_by(&self, uid: &Uid) -> Vec<Arc<ClaimView>> {
        let unseen = self.written.claims.of(uid);
        let mut claims = self.claims.by_index(uid);
        claims.retain(|shown| !unseen.iter().any(|unseen| unseen.hides(shown)));
        claims.extend(unseen.into_iter().filter_map(|unseen| match unseen {
            Unseen::Is(claim) => Some(claim),
            Unseen::Gone(_) => None,
        }));
        claims.retain(|claim| claim.is_controlled_by(uid));
        claims.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        claims
    }

    fn template(&self, key: &ObjectKey) -> Option<Arc<TemplateView>> {
        self.templates.get(key)
    }
}
