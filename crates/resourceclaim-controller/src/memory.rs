//! What is remembered, and whom a change wakes.
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-14 | `Memory::departed`, `observe_gone` | `tests/sync/reservations.rs::a_deleted_pod_gives_its_claims_back_without_a_read`, `tests/sync/reservations.rs::a_pod_that_the_api_server_says_is_gone_gets_no_reservation_when_the_cache_shows_it` |
//! | RC-16 | `wake_pod`, `wake_users`, `wake_claims` | `tests/sync/claims.rs::what_no_rule_reads_wakes_nothing` |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controller_core::controller::{Context, Observed, Wake, Watches};
use controller_core::informer::{Change, Store};
use controller_core::meta::{ObjectKey, Uid};
use controller_core::rival::Contests;

use crate::decide::{
    ClaimantKind, Departed, Gates, Quiet, RESERVED_FOR_MAX_SIZE, Reserve, group_needs_work, group_of,
    pod_needs_work, wants_claims,
};
use crate::next::Key;
use crate::requests::Write;
use crate::route::{self, PodWakes, Users};
use crate::view::{ClaimStatus, ClaimView, PodGroupView, PodIndex, PodView, TemplateView, beside};
use crate::{ResourceClaimController, Stores};

type Cx<'a> = Context<'a, ResourceClaimController>;

/// What is remembered between steps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    pub(crate) departed: Departed,
    pub(crate) quiet: Quiet,
    /// What another writer keeps undoing (CORE-17).
    pub(crate) rivals: Contests<WriteKey>,
    /// Of these the other writer is to be named.
    pub(crate) unnamed: BTreeSet<Contested>,
    /// Why entries of the pod or the group of this uid have no claims, as it was last told.
    pub(crate) failing: BTreeMap<Uid, Failing>,
    /// The uids of the claims that were told to be full.
    pub(crate) full: BTreeSet<Uid>,
    /// The claims that we made, and the watch has never shown: they may have gone before it could.
    pub(crate) unshown: BTreeSet<ObjectKey>,
}

/// Why each of these entries has no claim.
pub type Failing = BTreeMap<Arc<str>, String>;

/// What we write and another may undo.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WriteKey {
    /// The status of the object of this uid names this claim for this entry.
    Recorded {
        /// What kind of object it is.
        kind: ClaimantKind,
        /// Its uid.
        claimant: Uid,
        /// Which entry.
        entry: Arc<str>,
        /// Which claim.
        claim: Arc<str>,
    },
    /// The claim is reserved for the consumer.
    Reserved {
        /// The claim's uid.
        claim: Uid,
        /// The consumer's.
        consumer: Uid,
    },
    /// This entry of the pod, which is done, has no claim.
    Deleted {
        /// The pod's uid.
        pod: Uid,
        /// Which entry.
        entry: Arc<str>,
    },
}

/// A write that another may have undone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Contested {
    /// Which one.
    pub write: WriteKey,
    /// The pod, the group or the claim that it was to.
    pub object: ObjectKey,
    /// Its uid.
    pub uid: Uid,
}

impl WriteKey {
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

impl Memory {
    /// The pod or the group of this uid was deleted (RC-14).
    fn departed(&mut self, uid: &Uid, claims: &Store<ClaimView>) {
        self.departed.deleted(uid, |uid| !claims.by_index(uid).is_empty());
    }

    /// The object of this uid is gone, and its statuses with it.
    fn forget_recorded(&mut self, kind: ClaimantKind, uid: &Uid, statuses: &[ClaimStatus]) {
        for status in statuses {
            if let Some(key) = WriteKey::recorded(kind, uid, status) {
                self.rivals.forget(&key);
            }
        }
        self.unnamed.retain(|contested| contested.uid != *uid);
    }
}

impl Watches<PodView> for ResourceClaimController {
    fn changed(&self, cx: &mut Context<'_, Self>, change: Change<'_, PodView>) {
        let (Change::Added(pod) | Change::Updated { new: pod, .. } | Change::Deleted(pod)) = &change;
        let is_gone = matches!(change, Change::Deleted(_));
        if is_gone && route::is_deleted(pod) {
            cx.memory.departed(&pod.uid, &cx.stores.claims);
        }
        if is_gone {
            cx.memory
                .forget_recorded(ClaimantKind::Pod, &pod.uid, &pod.statuses);
        }
        if is_gone || !wants_claims(pod) {
            cx.memory.failing.remove(&pod.uid);
        }
        if !cx.leading {
            return;
        }
        match route::pod_wakes(&change) {
            PodWakes::Pod => wake_pod(cx, pod, self.gates, Wake::Now),
            PodWakes::Claims => wake_claims(cx, &pod.key, &pod.uid, &pod.claims()),
            PodWakes::Nobody => {}
        }
    }
}

impl Watches<ClaimView> for ResourceClaimController {
    fn changed(&self, cx: &mut Context<'_, Self>, change: Change<'_, ClaimView>) {
        let (Change::Added(claim) | Change::Updated { new: claim, .. } | Change::Deleted(claim)) = &change;
        let is_gone = matches!(change, Change::Deleted(_));
        if is_gone {
            cx.memory.quiet.forget(&claim.uid);
            cx.memory.unshown.remove(&claim.key);
            cx.memory.unnamed.retain(|contested| contested.uid != claim.uid);
        } else {
            cx.memory.quiet.observe(claim, cx.now.uptime);
        }
        if is_gone || claim.reserved.len() < RESERVED_FOR_MAX_SIZE {
            cx.memory.full.remove(&claim.uid);
        }
        if !cx.leading {
            return;
        }
        if route::claim_wakes(&change) {
            cx.out.wake(Key::Claim(claim.key.clone()));
        }
        let users = route::users(&change);
        if users != Users::None {
            wake_users(cx, claim, &users, self.gates);
        }
    }
}

impl Watches<TemplateView> for ResourceClaimController {
    /// Every change of the view concerns the pods that wait for it: nothing else is in it (RC-6).
    fn changed(&self, cx: &mut Context<'_, Self>, change: Change<'_, TemplateView>) {
        let (Change::Added(template) | Change::Updated { new: template, .. }) = change else {
            return;
        };
        if !cx.leading {
            return;
        }
        let stores = cx.stores;
        let index = PodIndex::Template(template.key.clone());
        for pod in stores.pods.by_index(&index) {
            wake_pod(cx, &pod, self.gates, Wake::Afresh);
        }
        for group in stores.groups.iter().flat_map(|groups| groups.by_index(&index)) {
            wake_group(cx, &group.key, self.gates);
        }
    }
}

impl Watches<PodGroupView> for ResourceClaimController {
    fn changed(&self, cx: &mut Context<'_, Self>, change: Change<'_, PodGroupView>) {
        let (Change::Added(group) | Change::Updated { new: group, .. } | Change::Deleted(group)) = &change;
        let is_gone = matches!(change, Change::Deleted(_));
        if is_gone {
            cx.memory.departed(&group.uid, &cx.stores.claims);
            cx.memory
                .forget_recorded(ClaimantKind::PodGroup, &group.uid, &group.statuses);
        }
        if is_gone || group.deleting {
            cx.memory.failing.remove(&group.uid);
        }
        if !cx.leading {
            return;
        }
        if is_gone {
            wake_claims(cx, &group.key, &group.uid, &group.claims());
        } else {
            wake_group(cx, &group.key, self.gates);
        }
        wake_members(cx, &group.key, self.gates);
    }
}

/// Something besides an object has changed.
pub(crate) fn observe(cx: &mut Cx<'_>, observed: Observed<'_, ResourceClaimController>, gates: Gates) {
    match observed {
        Observed::Leading(true) => wake_all(cx, gates),
        Observed::Overdue(Write::Create(create)) => {
            let claim = create.claim();
            cx.memory.unshown.insert(claim.clone());
            if cx.leading {
                cx.out.wake(Key::Claim(claim));
            }
        }
        // Any other object is shown sooner or later, or its end is. What is written meanwhile insists on a version.
        Observed::Overdue(_) | Observed::Leading(false) | Observed::Synced | Observed::Watching(..) => {}
    }
}

/// The API server has no object of this uid any more. The cache may show it still, or only now.
pub(crate) fn observe_gone(cx: &mut Cx<'_>, key: &ObjectKey, uid: &Uid) {
    cx.memory.departed(uid, &cx.stores.claims);
    if cx.leading {
        wake_claims(cx, key, uid, &[]);
    }
}

/// A term begins.
fn wake_all(cx: &mut Cx<'_>, gates: Gates) {
    let stores = cx.stores;
    for claim in stores.claims.snapshot() {
        cx.out.wake(Key::Claim(claim.key.clone()));
    }
    for group in stores.groups.iter().flat_map(Store::snapshot) {
        wake_group(cx, &group.key, gates);
    }
    for pod in stores.pods.snapshot() {
        wake_pod(cx, &pod, gates, Wake::Now);
    }
}

/// Wakes the pod if it needs work.
fn wake_pod(cx: &mut Cx<'_>, pod: &PodView, gates: Gates, wake: Wake) {
    let group = cx.stores.group_of(pod);
    if pod_needs_work(pod, group_of(pod, group.as_deref(), gates), cx.stores, gates) {
        cx.out.wake_at(Key::Pod(pod.key.clone()), wake);
    }
}

/// Wakes the group of this name if it needs work; what failed before counts no more.
fn wake_group(cx: &mut Cx<'_>, key: &ObjectKey, gates: Gates) {
    let group = cx.stores.group(key);
    if group.is_some_and(|group| group_needs_work(&group, cx.stores, gates)) {
        cx.out.wake_at(Key::PodGroup(key.clone()), Wake::Afresh);
    }
}

/// Wakes those of the pods and groups that use the claim that need work.
fn wake_users(cx: &mut Cx<'_>, claim: &ClaimView, users: &Users, gates: Gates) {
    let stores = cx.stores;
    // The pod that controls the claim need not have recorded it.
    if let Some(owner) = claim.owning_pod()
        && let Some(pod) = stores.pods.get(&beside(&claim.key, &owner.name))
        && pod.uid == owner.uid
        && users.include(&pod.uid)
    {
        wake_pod(cx, &pod, gates, Wake::Now);
    }
    let index = PodIndex::Claim(claim.key.clone());
    for pod in stores.pods.by_index(&index) {
        if users.include(&pod.uid) {
            wake_pod(cx, &pod, gates, Wake::Now);
        }
    }
    let (Some(groups), Users::All) = (&stores.groups, users) else {
        return;
    };
    for group in groups.by_index(&index) {
        wake_group(cx, &group.key, gates);
    }
    if let Some(owner) = claim.owning_group() {
        let group = beside(&claim.key, &owner.name);
        wake_group(cx, &group, gates);
        wake_members(cx, &group, gates);
    }
}

/// Wakes the claims that a pod or a group names, and those that are its own or reserved for it, recorded or not.
fn wake_claims(cx: &mut Cx<'_>, claimant: &ObjectKey, uid: &Uid, named: &[Arc<str>]) {
    let named = named.iter().map(|name| beside(claimant, name));
    let claims = cx.stores.claims.by_index(uid).into_iter();
    let refer = claims.map(|claim| claim.key.clone());
    for key in named.chain(refer).collect::<BTreeSet<_>>() {
        cx.out.wake(Key::Claim(key));
    }
}

/// Wakes the pods of a group that need work.
fn wake_members(cx: &mut Cx<'_>, group: &ObjectKey, gates: Gates) {
    let stores: &Stores = cx.stores;
    for pod in stores.pods.by_index(&PodIndex::Group(group.clone())) {
        wake_pod(cx, &pod, gates, Wake::Now);
    }
}
