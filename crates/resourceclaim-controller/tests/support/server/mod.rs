//! The API server as tables, with everybody but us ([`others`]). It asserts at each write of ours what must never
//! happen.

pub(crate) mod others;
mod stored;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{AnswerClass, CallFailed};
use controller_core::controller::{Accepted, Completed, RequestOf};
use controller_core::meta::{ObjectKey, Uid};
use controller_testing::sim::{self, ProcessBug, SimObject, SimResource};
use jiff::Timestamp;
use resourceclaim_controller::decide::{
    Being, ClaimPlan, ClaimantId, Create, RESERVED_FOR_MAX_SIZE, Reserve,
};
use resourceclaim_controller::pod_group::GroupVersion;
use resourceclaim_controller::requests::{Answer, Query, Record, Write};
use resourceclaim_controller::view::{
    ClaimOrigin, ClaimSource, ClaimView, ClaimantView, ConsumerKind, Entry, TemplateView,
};
use resourceclaim_controller::{ResourceClaimController, Stores};

use self::others::Act;
use crate::support::{claim, key, owner_ref};

/// The claims of the user that all pods may name: one that many others use, with room for one more, and one of nobody.
pub(crate) const CROWDED: &str = "crowded";
pub(crate) const FREE: &str = "free";
/// The group of all pods that are in one.
pub(crate) const GROUP: &str = "g";
/// More claims than go in a short run.
const LATELY: usize = 30;

type Table<V> = SimResource<ResourceClaimController, V>;

#[derive(Clone)]
pub(crate) struct Server {
    pub pods: Table<ClaimantView>,
    pub groups: Table<ClaimantView>,
    pub claims: Table<ClaimView>,
    pub templates: Table<TemplateView>,
    /// `PodGroups` count.
    pub has_groups: bool,
    pub permit_every: Duration,
    /// Each request arrives while the process that sent it lives, or never.
    pub is_prompt: bool,
    /// What was recorded at any time: uid of the pod, name of the claim.
    pub recorded: BTreeSet<(Uid, Arc<str>)>,
    /// The claims that were reserved since they were allocated.
    pub used: BTreeSet<Uid>,
    /// The claims that went last.
    pub gone: VecDeque<ObjectKey>,
    /// What others may do in an exploration.
    pub acts: Vec<Act>,
    pub bug: Option<Bug>,
}

/// What an API server must not do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bug {
    /// A claim is given back, whatever has become of it.
    NoVersion,
    /// It says that it has recorded a claim, and has not.
    RecordsNothing,
    /// What a process must not do.
    Process(ProcessBug),
}

/// What comes of a write.
type Answered = Result<Accepted, CallFailed>;

/// Whether its claim is made for it.
pub(crate) fn is_made(entry: &Entry) -> bool {
    matches!(entry.source, ClaimSource::Template(_))
}

/// Whether this is the name of a group, not of a pod.
fn is_group(key: &ObjectKey) -> bool {
    key.name.starts_with('g')
}

/// Whether it may need its claims: a group does as long as it exists, a pod while it runs or may run. By hand, not by the
/// controller's rule.
pub(crate) fn lives(claimant: &ClaimantView) -> bool {
    is_group(&claimant.key) || !claimant.over && (!claimant.deleting || claimant.node.is_some())
}

fn accepted(claim: &ClaimView) -> Accepted {
    Accepted {
        uid: Some(claim.uid.clone()),
        version: claim.version.parse().ok(),
        deleting: claim.deleting.is_some(),
    }
}

impl Server {
    /// With a template.
    pub(crate) fn new(is_prompt: bool) -> Self {
        let mut server = Self {
            pods: SimResource::new(|stores: &mut Stores| &mut stores.pods),
            groups: SimResource::new(|stores: &mut Stores| &mut stores.groups),
            claims: SimResource::new(|stores: &mut Stores| &mut stores.claims),
            templates: SimResource::new(|stores: &mut Stores| &mut stores.templates),
            has_groups: true,
            permit_every: Duration::ZERO,
            is_prompt,
            recorded: BTreeSet::new(),
            used: BTreeSet::new(),
            gone: VecDeque::new(),
            acts: Vec::new(),
            bug: None,
        };
        server.make_template("early");
        server
    }

    /// Grows with every change.
    pub(crate) fn version(&self) -> u64 {
        let claimants = self.pods.next_version() + self.groups.next_version();
        claimants + self.claims.next_version() + self.templates.next_version()
    }

    pub(crate) fn claim(&self, key: &ObjectKey) -> Option<&ClaimView> {
        self.claims.objects().get(key).map(|claim| &claim.view)
    }

    pub(crate) fn all_claims(&self) -> impl Iterator<Item = &ClaimView> + Clone {
        self.claims.objects().values().map(|claim| &claim.view)
    }

    fn claimants(&mut self, key: &ObjectKey) -> &mut Table<ClaimantView> {
        if is_group(key) {
            &mut self.groups
        } else {
            &mut self.pods
        }
    }

    fn held(&self, key: &ObjectKey) -> Option<&SimObject<ClaimantView>> {
        let claimants = if is_group(key) { &self.groups } else { &self.pods };
        claimants.objects().get(key)
    }

    /// The pod of this name, or the group.
    pub(crate) fn claimant(&self, key: &ObjectKey) -> Option<&ClaimantView> {
        self.held(key).map(|held| &held.view)
    }

    pub(crate) fn put_pod(&mut self, pod: ClaimantView) {
        let uid = pod.uid.clone();
        self.claimants(&pod.key).put(pod, uid);
    }

    fn put_claim(&mut self, mut claim: ClaimView) -> ClaimView {
        claim.version = self.claims.next_version().to_string().into();
        if !claim.allocated {
            self.used.remove(&claim.uid);
        } else if !claim.reserved.is_empty() {
            self.used.insert(claim.uid.clone());
        }
        assert!(claim.reserved.len() <= RESERVED_FOR_MAX_SIZE, "{claim:?}");
        assert!(claim.allocated || claim.reserved.is_empty(), "{claim:?}");
        self.claims.put(claim.clone(), claim.uid.clone());
        claim
    }

    pub(crate) fn remove_claim(&mut self, key: &ObjectKey) {
        self.claims.delete(key);
        self.gone.push_front(key.clone());
        self.gone.truncate(LATELY);
    }

    /// As a DELETE does it: with a finalizer it only begins.
    fn delete_claim(&mut self, claim: &ClaimView) -> Option<ClaimView> {
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
        self.claimant(pod)
            .is_some_and(|pod| pod.uid == *uid && lives(pod))
    }

    pub(crate) fn owner_is_live(&self, claim: &ClaimView) -> bool {
        claim
            .owning_pod()
            .is_some_and(|owner| self.is_live(&key(&owner.name), &owner.uid))
    }

    /// The claims that were made for an entry of the pod.
    pub(crate) fn made_for(&self, pod: &Uid, entry: &str) -> Vec<&ClaimView> {
        let claims = self.all_claims();
        claims
            .filter(|claim| claim.is_controlled_by(pod) && claim.entry.as_deref() == Some(entry))
            .collect()
    }

    pub(crate) fn is_unused_and_allocated(&self, claim: &ClaimView) -> bool {
        self.used.contains(&claim.uid) && claim.reserved.is_empty()
    }

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

    fn read(&self, query: &Query) -> Option<Answer> {
        Some(match query {
            Query::Claim(key) => Answer::Claim(sim::observed(self.claims.objects().get(key)?)),
            Query::Claimant(_, key) => Answer::Claimant(sim::observed(self.held(key)?)),
            Query::Being(ClaimantId { key, .. }) => Answer::Being(Being::of(self.claimant(key)?)),
            Query::Rival(_) => Answer::Manager(None),
            Query::Served => Answer::Served(Some(GroupVersion::V1Beta1)),
            other => panic!("{other:?}"),
        })
    }

    fn create(&mut self, create: &Create) -> Answered {
        let key = create.claim();
        if self.claim(&key).is_some() {
            return Err(sim::failed(AnswerClass::AlreadyExists, Some(409)));
        }
        if self.is_prompt && self.is_live(&create.claimant, &create.uid) {
            let before = self.made_for(&create.uid, &create.entry);
            assert!(before.is_empty(), "a second claim {key}: {before:?}");
            let name = (create.uid.clone(), Arc::clone(&key.name));
            assert!(!self.recorded.contains(&name), "made again as {key}");
        }
        let uid = format!("claim-{}", self.version());
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
        let held = self.held(key).filter(|held| held.uid == *uid);
        let held = held.ok_or_else(sim::gone)?;
        // What changes nothing is no event.
        let is_news = *held.view.statuses != **statuses && !matches!(self.bug, Some(Bug::RecordsNothing));
        let (unchanged, deleting) = (sim::accepted(uid.clone(), held.version), held.view.deleting);
        let names = statuses.iter().filter_map(|status| status.claim.clone());
        self.recorded.extend(names.map(|name| (uid.clone(), name)));
        let record = |claimant: &mut ClaimantView| claimant.statuses = statuses.as_slice().into();
        let changed = is_news.then(|| self.claimants(key).edit(key, record));
        Ok(Accepted {
            deleting,
            ..changed.flatten().unwrap_or(unchanged)
        })
    }

    /// The claim, if it is still as it was judged.
    fn judged(&self, key: &ObjectKey, version: &Arc<str>) -> Result<ClaimView, CallFailed> {
        let claim = self.claim(key).ok_or_else(sim::gone)?;
        if claim.version == *version {
            Ok(claim.clone())
        } else {
            Err(sim::conflict())
        }
    }

    fn reserve(&mut self, reserve: &Reserve) -> Answered {
        let mut claim = self.judged(&reserve.claim, &reserve.version)?;
        assert!(claim.allocated && claim.deleting.is_none(), "{claim:?}");
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
        let is_any = matches!(self.bug, Some(Bug::NoVersion));
        let version = self
            .claim(&judged.key)
            .filter(|_| is_any)
            .map(|claim| &claim.version);
        if *step == ClaimPlan::Delete {
            let held = self.claim(&judged.key).ok_or_else(sim::deleted_before)?;
            if held.uid != judged.uid {
                return Err(sim::gone());
            }
        }
        let claim = self.judged(&judged.key, version.unwrap_or(&judged.version))?;
        let (mut after, next_version) = (claim.clone(), self.claims.next_version());
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
                assert!(claim.reserved.is_empty(), "a claim in use is deleted: {claim:?}");
                assert!(claim.deleting.is_none(), "deleted twice: {claim:?}");
                assert!(claim.owning_pod().is_some(), "the claim of a user: {claim:?}");
                assert!(!self.owner_is_live(&claim), "the claim of a live pod: {claim:?}");
                self.delete_claim(&claim)
            }
        };
        // The answer to a delete has the version of the end, that to the last finalizer the claim as it was before.
        let mut end = accepted(&claim);
        if *step == ClaimPlan::Delete {
            end.version = Some(next_version);
        }
        let answer = written.as_ref().map_or(end, accepted);
        // A dry run goes on with what comes.
        let planned = step.done_to(&claim).map(|planned| ClaimView {
            version: Arc::clone(&written.as_ref().unwrap_or(&claim).version),
            deleting: planned.deleting.map(|_| Timestamp::UNIX_EPOCH),
            ..planned
        });
        assert_eq!(planned, written);
        Ok(answer)
    }
}
