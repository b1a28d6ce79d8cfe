//! The state, and which keys a change enqueues.
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-14 | `State::departed`, `observe_departed` | `tests/sync/reservations/mod.rs::a_deleted_pod_gives_its_claims_back_without_a_read`, `tests/sync/reservations/mod.rs::a_pod_that_the_api_server_says_is_gone_gets_no_reservation_when_the_cache_shows_it`, `tests/sync/reservations/mod.rs::a_pod_that_the_api_server_says_is_done_gets_no_reservation_when_the_cache_shows_it_running` |

mod requeues;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use controller_core::cache::{Change, Store};
use controller_core::controller::{ContextMut, LoopEvent, Requeue, Watches};
use controller_core::meta::{ObjectKey, Uid};
use controller_core::rival::Contests;
use k8s_openapi::Resource as _;
use k8s_openapi::api::scheduling::v1beta1::PodGroup;

use self::requeues::{enqueue, enqueue_all, enqueue_changed, enqueue_claims, enqueue_members, enqueue_users};
use crate::ResourceClaimController;
use crate::contested::{Contested, WriteKey};
use crate::decide::{ClaimantId, Departed, Gates, MANY_ENTRIES, Quiet, RESERVED_FOR_MAX_SIZE, wants_claims};
use crate::events::Event;
use crate::requests::Write;
use crate::route::{self, ClaimantWakes, Users};
use crate::view::{ClaimIndex, ClaimView, ClaimantIndex, ClaimantKind, ClaimantView, TemplateView};

/// A key of the queue `resource_claim`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A pod, which may need claims or reservations.
    Pod(ObjectKey),
    /// A claim, which may no longer be needed by all its consumers.
    Claim(ObjectKey),
    /// A `PodGroup`, which may need claims.
    PodGroup(ObjectKey),
    /// The check of the feature gates against the API server.
    Gates,
}

/// As in upstream's queue.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "pod:{key}"),
            Self::Claim(key) => write!(f, "claim:{key}"),
            Self::PodGroup(key) => write!(f, "podgroup:{key}"),
            Self::Gates => f.write_str("gates"),
        }
    }
}

/// Caches listed this shortly before a term already have what was written in the previous one.
const JUST_LISTED: Duration = Duration::from_secs(10);
/// How long into a term the caches may lack what was written in the previous one.
const LATE_FOR: Duration = Duration::from_mins(3);

/// The API server ends a request before this, whatever happens to the client.
const GIVEN_UP: Duration = Duration::from_mins(1);

/// Least time between warnings about pods of abusive size: who creates one creates many.
const TELL_OF_SIZE_EVERY: Duration = Duration::from_mins(1);

/// The smallest uid: uids that are UUIDs sort before others.
const NIL: &str = "00000000-0000-0000-0000-000000000000";

type Cx<'a> = ContextMut<'a, ResourceClaimController>;

/// What the controller remembers between actions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub(crate) departed: Departed,
    pub(crate) quiet: Quiet,
    /// Writes that another writer keeps undoing (CORE-17).
    pub(crate) rivals: Contests<WriteKey>,
    /// Contested writes whose other writer still has to be named.
    pub(crate) unnamed: BTreeSet<Contested>,
    /// The reason last reported why entries of the pod or the group with this uid have no claims.
    pub(crate) failing: BTreeMap<Uid, Failing>,
    /// The uids of claims reported as full.
    pub(crate) full: BTreeSet<Uid>,
    /// Claims that we made, or may have made, and that the watch has not shown: they may have gone before it could.
    pub(crate) pending: BTreeSet<ObjectKey>,
    /// When the caches were filled.
    synced: Option<Duration>,
    /// Until then the caches may lack what the previous leader has written.
    late_until: Duration,
    /// The API server has confirmed the gates in this term.
    has_gates: bool,
    /// The gates as they would be now, if different.
    outdated_by: Option<Gates>,
    /// No warning about a pod's size before this.
    told_of_size: Duration,
}

/// Why each of these entries has no claim.
pub type Failing = BTreeMap<Arc<str>, String>;

impl State {
    /// A term begins at `now`: caches that were listed long ago may be behind.
    fn begin_term(&mut self, now: Duration) {
        let age = now.saturating_sub(self.synced.unwrap_or(now));
        if age > JUST_LISTED {
            self.late_until = now.saturating_add(LATE_FOR);
        }
    }

    /// Returns whether the caches may lack what the previous leader has written.
    pub(crate) fn may_be_late(&self, now: Duration) -> bool {
        now < self.late_until
    }

    /// Returns whether another warning about a pod of abusive size is due, and starts the next wait.
    fn may_tell_of_size(&mut self, now: Duration) -> bool {
        let may = now >= self.told_of_size;
        if may {
            self.told_of_size = now.saturating_add(TELL_OF_SIZE_EVERY);
        }
        may
    }

    /// Returns whether the gates are known to be right in this term.
    pub(crate) const fn has_gates(&self) -> bool {
        self.has_gates
    }

    /// The gates that a process starting now would have, if different.
    pub(crate) const fn outdated_by(&self) -> Option<Gates> {
        self.outdated_by
    }

    /// The number of entries about objects; 0 once no object is left, except for the last uids that departed, which
    /// stay on purpose and do not count. For tests.
    pub fn held(&self) -> usize {
        let told = self.unnamed.len() + self.failing.len() + self.full.len() + self.pending.len();
        self.quiet.len() + self.rivals.held() + told
    }

    /// Notes that a pod or a group was deleted (RC-14).
    fn departed(&mut self, gone: ClaimantId, claims: &Store<ClaimView>) {
        self.departed.deleted(gone, |uid| {
            !claims.by_index(&ClaimIndex::Uid(uid.clone())).is_empty()
        });
    }

    /// Drops what is known of the claim's reservations.
    fn forget_reserved(&mut self, gone: &Uid) {
        let first = WriteKey::Reserved {
            claim: gone.clone(),
            consumer: Uid::from(NIL),
        };
        self.rivals.forget_from(&first, |key| key.subject() == gone);
        self.unnamed.retain(|contested| contested.uid != *gone);
    }

    /// Drops what is known of the statuses of a pod or a group.
    fn forget_recorded(&mut self, gone: &ClaimantView) {
        let none: Arc<str> = "".into();
        let recorded = WriteKey::Recorded {
            kind: gone.kind,
            claimant: gone.uid.clone(),
            entry: Arc::clone(&none),
            claim: Arc::clone(&none),
        };
        let deleted = WriteKey::Deleted {
            pod: gone.uid.clone(),
            entry: none,
        };
        for first in [recorded, deleted] {
            self.rivals
                .forget_from(&first, |key| key.subject() == first.subject());
        }
        self.unnamed.retain(|contested| contested.uid != gone.uid);
    }
}

impl Watches<ClaimantView> for ResourceClaimController {
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, ClaimantView>) {
        let (Change::Added(claimant) | Change::Updated { new: claimant, .. } | Change::Deleted(claimant)) =
            &change;
        let is_gone = matches!(change, Change::Deleted(_));
        let is_aside = || cx.stores.of(claimant.kind).is_aside(&claimant.key, &claimant.uid);
        if is_gone && route::is_deleted(claimant) && !is_aside() {
            cx.state.departed(ClaimantId::of(claimant), &cx.stores.claims);
        }
        if is_gone {
            cx.state.forget_recorded(claimant);
        }
        if is_gone || !wants_claims(claimant) {
            cx.state.failing.remove(&claimant.uid);
        }
        if !cx.leading {
            return;
        }
        let entries = claimant.entries.len();
        if matches!(change, Change::Added(_))
            && entries > MANY_ENTRIES
            && cx.state.may_tell_of_size(cx.now.uptime)
        {
            cx.out.record(Event::Large {
                kind: claimant.kind,
                claimant: (claimant.key.clone(), claimant.uid.clone()),
                entries,
            });
        }
        match route::claimant_wakes(&change) {
            ClaimantWakes::Claimant => enqueue_changed(cx, claimant, None, self.gates),
            ClaimantWakes::Claims => enqueue_claims(cx, &claimant.key, &claimant.uid, &claimant.claims()),
            ClaimantWakes::Nobody => {}
        }
        if matches!(claimant.kind, ClaimantKind::PodGroup(_)) {
            enqueue_members(cx, &claimant.key, None, self.gates);
        }
    }
}

impl Watches<ClaimView> for ResourceClaimController {
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, ClaimView>) {
        let (Change::Added(claim) | Change::Updated { new: claim, .. } | Change::Deleted(claim)) = &change;
        let is_gone = matches!(change, Change::Deleted(_));
        if is_gone || matches!(change, Change::Added(_)) {
            cx.state.pending.remove(&claim.key);
        }
        if is_gone {
            cx.state.quiet.forget(&claim.uid);
            cx.state.forget_reserved(&claim.uid);
        } else {
            cx.state.quiet.observe(claim, cx.now.uptime);
        }
        if is_gone || claim.reserved.len() < RESERVED_FOR_MAX_SIZE {
            cx.state.full.remove(&claim.uid);
        }
        if !cx.leading {
            return;
        }
        if route::claim_wakes(&change) {
            cx.out.enqueue(Key::Claim(claim.key.clone()));
        }
        let users = route::users(&change);
        if users != Users::None {
            enqueue_users(cx, claim, &users, self.gates);
        }
    }
}

impl Watches<TemplateView> for ResourceClaimController {
    /// Every change of the view concerns the pods that wait for the template, because the view holds nothing else
    /// (RC-6).
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, TemplateView>) {
        let (Change::Added(template) | Change::Updated { new: template, .. }) = change else {
            return;
        };
        if !cx.leading {
            return;
        }
        let index = ClaimantIndex::Template(template.key.clone());
        for store in [&cx.stores.pods, &cx.stores.groups] {
            for claimant in store.by_index(&index) {
                enqueue(cx, &claimant, None, self.gates, Requeue::Reset);
            }
        }
    }
}

/// It is unknown whether the claim was made. The pod's pass finds out, unless the pod is gone by now, or the term is
/// over.
pub(crate) fn observe_lost(cx: &mut Cx<'_>, claim: ObjectKey) {
    cx.state.pending.insert(claim.clone());
    if cx.leading {
        cx.out.requeue(Key::Claim(claim), Requeue::After(GIVEN_UP));
    }
}

/// Handles every [`LoopEvent`]: all that happens besides changes of objects.
pub(crate) fn observe(cx: &mut Cx<'_>, event: LoopEvent<'_, ResourceClaimController>, gates: Gates) {
    match event {
        LoopEvent::Synced => cx.state.synced = Some(cx.now.uptime),
        LoopEvent::Leading(leads) => {
            cx.state.has_gates = false;
            if leads {
                cx.state.begin_term(cx.now.uptime);
                cx.out.enqueue(Key::Gates);
            }
        }
        LoopEvent::Resync => {
            cx.out.enqueue(Key::Gates);
            enqueue_all(cx, gates);
        }
        // From now on groups may be served in another version.
        LoopEvent::SetBack => cx.state.departed = Departed::default(),
        LoopEvent::Watching(PodGroup::URL_PATH_SEGMENT, false) => cx.out.enqueue(Key::Gates),
        LoopEvent::Overdue(Write::Create(create)) => {
            let claim = create.claim();
            // A claim that we have deleted since is no longer waited for.
            if cx.stores.claims.get(&claim).is_some() {
                cx.state.pending.insert(claim.clone());
                if cx.leading {
                    cx.out.enqueue(Key::Claim(claim));
                }
            }
        }
        // The watch will show any other object, or its end. Writes in the meantime name a version.
        LoopEvent::Overdue(_) | LoopEvent::Watching(..) => {}
    }
}

/// The API server says what the gates are: the process goes on if they are `begun_with`, else it must end.
pub(crate) fn observe_gates(cx: &mut Cx<'_>, now: Gates, begun_with: Gates) {
    if now != begun_with {
        cx.state.outdated_by = Some(now);
        return;
    }
    cx.state.has_gates = true;
    enqueue_all(cx, now);
}

/// The API server no longer has the pod or the group, or never had it, or says that it is done. The cache may still
/// show it running, or only show it now.
pub(crate) fn observe_departed(cx: &mut Cx<'_>, gone: ClaimantId) {
    if cx.leading {
        enqueue_claims(cx, &gone.key, &gone.uid, &[]);
    }
    cx.state.departed(gone, &cx.stores.claims);
}

#[cfg(test)]
mod tests;
