//! The API server as a few maps, with everybody but us: users, scheduler, kubelets, garbage collector. Every write of
//! ours is watched for what must never happen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use controller_core::api::{AnswerClass, CallFailed};
use controller_core::cache::Versioned;
use controller_core::controller::{Accepted, Completed, RequestOf};
use controller_core::meta::{ObjectKey, Uid};
use controller_testing::sim;
use jiff::Timestamp;
use resourceclaim_controller::ResourceClaimController;
use resourceclaim_controller::decide::{
    Being, ClaimPlan, ClaimantId, Create, RESERVED_FOR_MAX_SIZE, Reserve, claim_name,
};
use resourceclaim_controller::pod_group::GroupVersion;
use resourceclaim_controller::requests::{Answer, Query, Record, Write};
use resourceclaim_controller::view::{
    ClaimOrigin, ClaimSource, ClaimView, ClaimantKind, ClaimantView, Consumer, ConsumerKind, Entry,
    TemplateView,
};

use crate::support::{a_pod, claim, key, owner_ref, pod_with, template, templated, users};

/// The claims of the user that all pods may name: one that many others use, with room for one more, and one of nobody.
pub(crate) const CROWDED: &str = "crowded";
pub(crate) const FREE: &str = "free";

/// What a watch shows.
#[derive(Clone, Debug)]
pub(crate) struct Event<V> {
    pub key: ObjectKey,
    pub uid: Uid,
    pub version: u64,
    /// Nothing: it was deleted.
    pub now: Option<Arc<V>>,
}

#[derive(Default)]
pub(crate) struct Server {
    /// And the groups: see [`is_group`].
    pub pods: BTreeMap<ObjectKey, Arc<ClaimantView>>,
    pub claims: BTreeMap<ObjectKey, Arc<ClaimView>>,
    pub templates: BTreeMap<ObjectKey, Arc<TemplateView>>,
    pub pod_events: Vec<Event<ClaimantView>>,
    pub claim_events: Vec<Event<ClaimView>>,
    pub version: u64,
    /// The version of each pod.
    versions: BTreeMap<ObjectKey, u64>,
    /// Whether each request arrives while the process that sent it lives.
    pub is_prompt: bool,
    /// What was recorded at any time: uid of the pod, name of the claim.
    recorded: BTreeSet<(Uid, Arc<str>)>,
    /// The claims that were reserved since they were allocated.
    used: BTreeSet<Uid>,
}

/// Whether its claim is made for it.
pub(crate) fn is_made(entry: &Entry) -> bool {
    matches!(entry.source, ClaimSource::Template(_))
}

/// Whether this is the name of a group, not of a pod.
pub(crate) fn is_group(key: &ObjectKey) -> bool {
    key.name.starts_with('g')
}

/// What comes of a write.
type Answered = Result<Accepted, CallFailed>;

fn accepted(claim: &ClaimView) -> Accepted {
    Accepted {
        uid: Some(claim.uid.clone()),
        version: claim.version.parse().ok(),
        deleting: claim.deleting.is_some(),
    }
}

/// The claim as a list shows it.
pub(crate) fn observed_claim(claim: &ClaimView) -> Versioned<ClaimView> {
    Versioned {
        view: claim.clone(),
        uid: claim.uid.clone(),
        version: Some(Arc::clone(&claim.version)),
    }
}

/// The group of all pods that are in one.
pub(crate) const GROUP: &str = "g";

/// The entries of a pod: one template that is always there, one that may come later, the user's claims. Those of the group
/// are the first.
fn entries(shape: usize) -> Vec<Entry> {
    let (early, late) = (|| templated("a", "early"), || templated("b", "late"));
    match shape % 4 {
        0 => vec![early()],
        1 => vec![early(), late()],
        2 => vec![users("c", CROWDED), early()],
        _ => vec![users("c", FREE)],
    }
}

impl Server {
    pub(crate) fn new(is_prompt: bool) -> Self {
        let mut server = Self {
            is_prompt,
            ..Self::default()
        };
        server.make_template("early");
        server.make_users_claims();
        server
    }

    fn next(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(crate) fn put_pod(&mut self, pod: ClaimantView) {
        let version = self.next();
        self.versions.insert(pod.key.clone(), version);
        self.pod_events.push(Event {
            key: pod.key.clone(),
            uid: pod.uid.clone(),
            version,
            now: Some(Arc::new(pod.clone())),
        });
        self.pods.insert(pod.key.clone(), pod.into());
    }

    fn put_claim(&mut self, mut claim: ClaimView) -> Arc<ClaimView> {
        claim.version = self.next().to_string().into();
        if !claim.allocated {
            self.used.remove(&claim.uid);
        } else if !claim.reserved.is_empty() {
            self.used.insert(claim.uid.clone());
        }
        assert!(claim.reserved.len() <= RESERVED_FOR_MAX_SIZE, "{claim:?}");
        assert!(claim.allocated || claim.reserved.is_empty(), "{claim:?}");
        let claim = Arc::new(claim);
        self.claim_events.push(Event {
            key: claim.key.clone(),
            uid: claim.uid.clone(),
            version: self.version,
            now: Some(Arc::clone(&claim)),
        });
        self.claims.insert(claim.key.clone(), Arc::clone(&claim));
        claim
    }

    pub(crate) fn remove_claim(&mut self, key: &ObjectKey) {
        if let Some(claim) = self.claims.remove(key) {
            let version = self.next();
            self.claim_events.push(Event {
                key: key.clone(),
                uid: claim.uid.clone(),
                version,
                now: None,
            });
        }
    }

    /// As a DELETE does it: with a finalizer it only begins.
    fn delete_claim(&mut self, claim: &ClaimView) -> Option<Arc<ClaimView>> {
        if !claim.finalizer {
            self.remove_claim(&claim.key);
            return None;
        }
        Some(self.put_claim(ClaimView {
            deleting: Some(Timestamp::UNIX_EPOCH),
            ..claim.clone()
        }))
    }

    /// Whether this pod is there and may need its claims.
    pub(crate) fn is_live(&self, pod: &ObjectKey, uid: &Uid) -> bool {
        self.pods
            .get(pod)
            .is_some_and(|pod| pod.uid == *uid && !pod.is_done())
    }

    fn owner_is_live(&self, claim: &ClaimView) -> bool {
        claim
            .owning_pod()
            .is_some_and(|owner| self.is_live(&key(&owner.name), &owner.uid))
    }

    /// The claims that were made for an entry of the pod.
    pub(crate) fn made_for(&self, pod: &Uid, entry: &str) -> Vec<&Arc<ClaimView>> {
        let claims = self.claims.values();
        claims
            .filter(|claim| claim.is_controlled_by(pod) && claim.entry.as_deref() == Some(entry))
            .collect()
    }

    pub(crate) fn is_unused_and_allocated(&self, claim: &ClaimView) -> bool {
        self.used.contains(&claim.uid) && claim.reserved.is_empty()
    }

    // ---- ours

    /// A request of ours arrives.
    pub(crate) fn answer(&mut self, ask: &RequestOf<ResourceClaimController>) -> Completed<Answer> {
        match ask {
            RequestOf::Query(query) => Completed::Read(self.read(query).ok_or_else(sim::gone), None),
            RequestOf::Write(write) => Completed::Wrote(match write {
                Write::Create(create) => self.create(create),
                Write::Record(record) => self.record(record),
                Write::Reserve(reserve) => self.reserve(reserve),
                Write::GiveBack(judged, step) => self.give(judged, step),
            }),
        }
    }

    /// The pod as a list shows it.
    pub(crate) fn observed_pod(&self, key: &ObjectKey) -> Option<Versioned<ClaimantView>> {
        let view = ClaimantView::clone(self.pods.get(key)?);
        let version = self.versions.get(key).map(|version| version.to_string().into());
        Some(Versioned {
            uid: view.uid.clone(),
            view,
            version,
        })
    }

    fn read(&self, query: &Query) -> Option<Answer> {
        Some(match query {
            Query::Claim(key) => Answer::Claim(observed_claim(self.claims.get(key)?)),
            Query::Claimant(_, key) => Answer::Claimant(self.observed_pod(key)?),
            Query::Being(ClaimantId { key, .. }) => Answer::Being(Being::of(self.pods.get(key)?)),
            Query::Rival(_) => Answer::Manager(None),
            Query::Served => Answer::Served(Some(GroupVersion::V1Beta1)),
            other => panic!("{other:?}"),
        })
    }

    fn create(&mut self, create: &Create) -> Answered {
        let key = create.claim();
        if self.claims.contains_key(&key) {
            return Err(sim::failed(AnswerClass::AlreadyExists, Some(409)));
        }
        if self.is_prompt && self.is_live(&create.claimant, &create.uid) {
            let before = self.made_for(&create.uid, &create.entry);
            assert!(before.is_empty(), "a second claim {key}: {before:?}");
            let name = (create.uid.clone(), Arc::clone(&key.name));
            assert!(!self.recorded.contains(&name), "made again as {key}");
        }
        let uid = format!("claim-{}", self.version);
        let claim = self.put_claim(ClaimView {
            uid: uid.as_str().into(),
            owner: Some(Arc::new(owner_ref(
                create.kind.type_meta().0,
                create.kind.type_meta().1,
                &create.claimant.name,
                create.uid.clone(),
            ))),
            entry: Some(Arc::clone(&create.entry)),
            origin: ClaimOrigin::Template,
            ..claim(&key.name)
        });
        Ok(accepted(&claim))
    }

    fn record(&mut self, record: &Record) -> Answered {
        let Record {
            key, uid, statuses, ..
        } = record;
        let mut pod = ClaimantView::clone(self.pods.get(key).ok_or_else(sim::gone)?);
        if pod.uid != *uid {
            return Err(sim::gone());
        }
        let names = statuses.iter().filter_map(|status| status.claim.clone());
        self.recorded.extend(names.map(|name| (uid.clone(), name)));
        // What changes nothing is no event.
        if *pod.statuses != **statuses {
            pod.statuses = statuses.as_slice().into();
            self.put_pod(pod);
        }
        Ok(Accepted {
            uid: Some(uid.clone()),
            version: self.versions.get(key).copied(),
            deleting: false,
        })
    }

    /// The claim, if it is still as it was judged.
    fn judged(&self, key: &ObjectKey, uid: &Uid, version: &Arc<str>) -> Result<Arc<ClaimView>, CallFailed> {
        let claim = self.claims.get(key).ok_or_else(sim::gone)?;
        if claim.uid != *uid {
            Err(sim::gone())
        } else if claim.version != *version {
            Err(sim::conflict())
        } else {
            Ok(Arc::clone(claim))
        }
    }

    fn reserve(&mut self, reserve: &Reserve) -> Answered {
        let claim = self.judged(&reserve.claim, &reserve.uid, &reserve.version)?;
        assert!(claim.allocated && claim.deleting.is_none(), "{claim:?}");
        let mut claim = ClaimView::clone(&claim);
        let twice = claim
            .reserved
            .iter()
            .any(|consumer| consumer.uid == reserve.consumer.uid);
        assert!(!twice, "reserved twice: {claim:?}");
        let consumers = claim.reserved.iter().chain([&reserve.consumer]);
        claim.reserved = consumers.cloned().collect();
        Ok(accepted(&self.put_claim(claim)))
    }

    fn give(&mut self, judged: &ClaimView, step: &ClaimPlan) -> Answered {
        let claim = self.judged(&judged.key, &judged.uid, &judged.version)?;
        let mut after = ClaimView::clone(&claim);
        let written = match step {
            ClaimPlan::Release {
                gone,
                all,
                deallocate,
            } => {
                let (goes, stays): (Vec<_>, Vec<_>) =
                    { claim.reserved.iter().cloned() }.partition(|consumer| gone.contains(&consumer.uid));
                for consumer in goes {
                    assert_ne!(consumer.kind, ConsumerKind::Other, "{consumer:?}");
                    let live = self.is_live(&key(&consumer.name), &consumer.uid);
                    assert!(!live, "the reservation of who is there: {consumer:?}");
                }
                assert_eq!(*all, stays.is_empty());
                assert!(!deallocate || (stays.is_empty() && claim.finalizer), "{claim:?}");
                after.reserved = stays.into();
                after.allocated &= !deallocate;
                Some(self.put_claim(after))
            }
            ClaimPlan::RemoveFinalizer => {
                assert!(!claim.allocated && claim.reserved.is_empty(), "{claim:?}");
                after.finalizer = false;
                if claim.deleting.is_some() {
                    self.remove_claim(&claim.key);
                    None
                } else {
                    Some(self.put_claim(after))
                }
            }
            ClaimPlan::Delete => {
                assert!(claim.reserved.is_empty(), "{claim:?}");
                assert!(claim.deleting.is_none(), "deleted twice: {claim:?}");
                assert!(!self.owner_is_live(&claim), "the claim of a live pod: {claim:?}");
                self.delete_claim(&claim)
            }
        };
        self.is_as_planned(&claim, step, written.as_deref());
        // The answer to what lets it go is the claim as it was before.
        Ok(accepted(&written.unwrap_or(claim)))
    }

    /// What a dry run goes on with is what comes.
    fn is_as_planned(&self, before: &ClaimView, step: &ClaimPlan, after: Option<&ClaimView>) {
        let planned = step.done_to(before).map(|planned| ClaimView {
            version: self.version.to_string().into(),
            deleting: planned.deleting.map(|_| Timestamp::UNIX_EPOCH),
            ..planned
        });
        assert_eq!(planned.as_ref(), after);
    }

    // ---- users, kubelets

    pub(crate) fn make_template(&mut self, name: &str) {
        let template = || Arc::new(template(name));
        self.templates.entry(key(name)).or_insert_with(template);
    }

    pub(crate) fn make_users_claims(&mut self) {
        let others = (1..RESERVED_FOR_MAX_SIZE).map(|number| Consumer {
            kind: ConsumerKind::Other,
            name: number.to_string().into(),
            uid: number.to_string().as_str().into(),
        });
        for (name, others) in [(CROWDED, others.collect()), (FREE, Box::default())] {
            if !self.claims.contains_key(&key(name)) {
                let crowded = name == CROWDED;
                self.put_claim(ClaimView {
                    uid: format!("{name}-{}", self.version).as_str().into(),
                    reserved: others,
                    finalizer: crowded,
                    allocated: crowded,
                    ..claim(name)
                });
            }
        }
    }

    /// A claim of somebody else that has one of our names, for good.
    pub(crate) fn squat(&mut self, pod: &ObjectKey, n: u32) {
        let Some(pod) = self.pods.get(pod) else { return };
        let name = claim_name(&pod.key.name, &pod.uid, "a", n);
        if self.claims.contains_key(&key(&name)) {
            return;
        }
        self.put_claim(claim(&name));
    }

    /// A claim whose owner reference has the name of one pod and the uid of another.
    pub(crate) fn forge(&mut self, victim: &ObjectKey, owner: &ObjectKey) {
        let Some(victim) = self.pods.get(victim) else {
            return;
        };
        let forged = format!("forged-{}", victim.uid);
        if !self.claims.contains_key(&key(&forged)) {
            let owner = owner_ref("v1", "Pod", &owner.name, victim.uid.clone());
            let uid = format!("forged-{}", self.version);
            self.put_claim(ClaimView {
                uid: uid.as_str().into(),
                owner: Some(Arc::new(owner)),
                ..claim(&forged)
            });
        }
    }

    /// From the fourth shape on, it is in the group.
    pub(crate) fn make_pod(&mut self, name: &ObjectKey, shape: usize) {
        if self.pods.contains_key(name) {
            return;
        }
        let uid = format!("{}-{}", name.name, self.version);
        self.put_pod(ClaimantView {
            key: name.clone(),
            uid: uid.as_str().into(),
            group: (shape >= 4).then(|| GROUP.into()),
            ..pod_with(entries(shape))
        });
    }

    pub(crate) fn make_group(&mut self) {
        if !self.pods.contains_key(&key(GROUP)) {
            let uid = format!("{GROUP}-{}", self.version);
            self.put_pod(ClaimantView {
                kind: ClaimantKind::PodGroup(GroupVersion::V1Beta1),
                key: key(GROUP),
                uid: uid.as_str().into(),
                ..pod_with(entries(0))
            });
        }
    }

    /// Who has the claim of the entry of the pod, and is it reserved for; none where the group is missing.
    pub(crate) fn holder(&self, pod: &Arc<ClaimantView>, entry: &Entry) -> Option<Arc<ClaimantView>> {
        let group = match &pod.group {
            Some(group) => self.pods.get(&key(group))?,
            None => pod,
        };
        let holder = if group.entries.contains(entry) { group } else { pod };
        Some(Arc::clone(holder))
    }

    /// Somebody takes a reservation off the claim that is still needed.
    pub(crate) fn unreserve(&mut self, name: &ObjectKey) {
        let Some(claim) = self.claims.get(name).cloned() else {
            return;
        };
        let holds = |consumer: &Consumer| self.is_live(&key(&consumer.name), &consumer.uid);
        if let Some(last) = claim.reserved.iter().rposition(holds) {
            let mut reserved = claim.reserved.to_vec();
            reserved.remove(last);
            self.put_claim(ClaimView {
                reserved: reserved.into(),
                ..(*claim).clone()
            });
            self.used.remove(&claim.uid);
        }
    }

    pub(crate) fn change_pod(&mut self, name: &ObjectKey, change: impl FnOnce(&mut ClaimantView)) {
        if let Some(pod) = self.pods.get(name) {
            let mut pod = ClaimantView::clone(pod);
            change(&mut pod);
            self.put_pod(pod);
        }
    }

    /// The API server lets nobody bind a pod that is being deleted.
    pub(crate) fn bind(&mut self, name: &ObjectKey) {
        self.change_pod(name, |pod| {
            if !pod.deleting && !pod.over {
                pod.node = Some("node".into());
            }
        });
    }

    pub(crate) fn remove_pod(&mut self, name: &ObjectKey) {
        if let Some(pod) = self.pods.remove(name) {
            let version = self.next();
            self.pod_events.push(Event {
                key: name.clone(),
                uid: pod.uid.clone(),
                version,
                now: None,
            });
        }
    }

    pub(crate) fn delete_claim_by_hand(&mut self, name: &ObjectKey) {
        if let Some(claim) = self.claims.get(name).cloned()
            && claim.deleting.is_none()
        {
            self.delete_claim(&claim);
        }
    }

    // ---- the scheduler: finalizer, allocation, reservations

    pub(crate) fn allocate(&mut self, name: &ObjectKey) {
        let Some(claim) = self.claims.get(name).cloned() else {
            return;
        };
        if claim.deleting.is_some() || claim.allocated {
            return;
        }
        let mut claim = ClaimView::clone(&claim);
        if claim.finalizer {
            claim.allocated = true;
        } else {
            claim.finalizer = true;
        }
        self.put_claim(claim);
    }

    /// The scheduler reserves all claims of a pod that waits, as far as it can, and binds it when all are.
    pub(crate) fn schedule(&mut self, name: &ObjectKey) {
        let Some(pod) = self.pods.get(name).cloned() else {
            return;
        };
        if pod.is_done() || pod.deleting || pod.node.is_some() || is_group(name) {
            return;
        }
        let mut ready = true;
        for entry in pod.entries.iter() {
            let claim = match &entry.source {
                ClaimSource::Claim(claim) => Some(claim),
                _ => { pod.statuses.iter() }
                    .find(|status| status.entry == entry.name)
                    .and_then(|status| status.claim.as_ref()),
            };
            let claim = claim.and_then(|name| self.claims.get(&key(name)).cloned());
            let held = claim.zip(self.holder(&pod, entry));
            let held = held.filter(|(claim, holder)| !is_made(entry) || claim.is_controlled_by(&holder.uid));
            let Some((claim, holder)) = held else {
                ready = false;
                continue;
            };
            let consumer = Consumer {
                kind: match holder.kind {
                    ClaimantKind::Pod => ConsumerKind::Pod,
                    ClaimantKind::PodGroup(_) => ConsumerKind::PodGroup,
                },
                uid: holder.uid.clone(),
                ..a_pod(&holder.key.name)
            };
            if claim.reserved.contains(&consumer) {
                continue;
            }
            if claim.deleting.is_some() || claim.reserved.len() >= RESERVED_FOR_MAX_SIZE {
                ready = false;
                continue;
            }
            let consumers = claim.reserved.iter().cloned().chain([consumer]);
            self.put_claim(ClaimView {
                reserved: consumers.collect(),
                allocated: true,
                finalizer: true,
                ..(*claim).clone()
            });
        }
        if ready {
            self.bind(name);
        }
    }

    // ---- the garbage collector

    pub(crate) fn collect_garbage(&mut self) {
        let is_orphan = |claim: &&Arc<ClaimView>| {
            claim
                .owning_pod()
                .or_else(|| claim.owning_group())
                .is_some_and(|owner| {
                    let there = self.pods.get(&key(&owner.name));
                    there.is_none_or(|pod| pod.uid != owner.uid)
                })
        };
        let orphans = self.claims.values().filter(is_orphan).cloned();
        for claim in orphans.collect::<Vec<_>>() {
            if claim.deleting.is_none() {
                self.delete_claim(&claim);
            }
        }
    }
}
