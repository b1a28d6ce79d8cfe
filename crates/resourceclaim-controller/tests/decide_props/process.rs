//! A process of ours: its view of everything, which trails the API server's, what it remembers, and its syncs, which
//! stop before and after every request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::clock::Clock;
use controller_core::meta::{ObjectKey, Uid};
use resourceclaim_controller::decide::{
    Answer, Being, Claimant, Create, Departed, Evidence, Gates, Group, IDLE_FINALIZER_AGE, Known, Next,
    Ownership, Reservation, Seen, Sight, Stamp, Standing, Unshown, answer, next_step, owner, reservation,
    standing, statuses, wants_claims,
};
use resourceclaim_controller::view::{ClaimSource, ClaimStatus, ClaimView, PodView, TemplateView, beside};

use crate::server::{Call, Event, Reply, Server};

const GATES: Gates = Gates {
    admin_access: true,
    prioritized_list: true,
    workload_claims: false,
};

pub(crate) struct Process {
    clock: Clock,
    pub pods: BTreeMap<ObjectKey, Arc<PodView>>,
    claims: BTreeMap<ObjectKey, Arc<ClaimView>>,
    templates: BTreeMap<ObjectKey, Arc<TemplateView>>,
    pods_seen: usize,
    claims_seen: usize,
    written_claims: Unshown<Arc<ClaimView>>,
    written_pods: Unshown<Vec<ClaimStatus>>,
    departed: Departed,
    pub syncs: Vec<Sync>,
}

pub(crate) struct Sync {
    work: Work,
    pending: Pending,
}

enum Work {
    Pod(PodSync),
    Claim(ClaimSync),
}

#[derive(Clone, Debug)]
enum Pending {
    Nothing,
    Request(Call),
    Reply(Call, Reply),
}

/// What becomes of a step of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Luck {
    Good,
    /// The request is sent and done, and its answer is lost.
    Lost,
    /// The same, and the process ends.
    Crash,
}

struct PodSync {
    pod: Arc<PodView>,
    entry: usize,
    creating: Option<Create>,
    /// Whether the name of `creating` was taken.
    taken: bool,
    names: Vec<(Arc<str>, Arc<str>)>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Entries,
    Record,
    Reserve(usize),
}

struct ClaimSync {
    claim: Arc<ClaimView>,
    consumer: usize,
    owner_known: bool,
    evidence: Evidence,
}

impl Known for Process {
    fn claim(&self, key: &ObjectKey) -> Option<Arc<ClaimView>> {
        let written = self.written_claims.get(key, self.clock.instant());
        written.or_else(|| self.claims.get(key)).cloned()
    }

    fn controlled_by(&self, uid: &Uid) -> Vec<Arc<ClaimView>> {
        let written = self.written_claims.of(uid, self.clock.instant());
        let mut claims: BTreeMap<_, _> = self.claims.clone();
        claims.extend(written.map(|claim| (claim.key.clone(), Arc::clone(claim))));
        claims.retain(|_, claim| claim.is_controlled_by(uid));
        claims.into_values().collect()
    }

    fn template(&self, key: &ObjectKey) -> Option<Arc<TemplateView>> {
        self.templates.get(key).cloned()
    }
}

impl Process {
    /// One that has just listed everything.
    pub(crate) fn started(server: &Server) -> Self {
        Self {
            clock: Clock::system(),
            pods: server.pods.clone(),
            claims: server.claims.clone(),
            templates: server.templates.clone(),
            pods_seen: server.pod_events.len(),
            claims_seen: server.claim_events.len(),
            written_claims: Unshown::default(),
            written_pods: Unshown::default(),
            departed: Departed::default(),
            syncs: Vec::new(),
        }
    }

    fn pod(&self, key: &ObjectKey) -> Option<Arc<PodView>> {
        let pod = self.pods.get(key)?;
        Some(match self.written_pods.get(key, self.clock.instant()) {
            None => Arc::clone(pod),
            Some(statuses) => Arc::new(PodView {
                statuses: statuses.as_slice().into(),
                ..(**pod).clone()
            }),
        })
    }

    // ---- what the watches show

    pub(crate) fn see_templates(&mut self, server: &Server) {
        self.templates.clone_from(&server.templates);
    }

    pub(crate) fn see_pods(&mut self, server: &Server, events: usize) {
        let end = server.pod_events.len().min(self.pods_seen.saturating_add(events));
        for event in &server.pod_events[self.pods_seen..end] {
            self.see_pod(event);
        }
        self.pods_seen = end;
    }

    fn see_pod(&mut self, event: &Event<PodView>) {
        let old = self.pods.get(&event.key);
        let same = { old.zip(event.now.as_ref()) }.is_some_and(|(old, new)| old.statuses == new.statuses);
        if !same {
            self.written_pods.shown(&event.key, &Stamp::last(&event.uid));
        }
        if let Some(pod) = &event.now {
            self.pods.insert(event.key.clone(), Arc::clone(pod));
            return;
        }
        self.pods.remove(&event.key);
        let claims = &self.claims;
        self.departed.deleted(&event.uid, |uid| {
            let is_reserved = |claim: &ClaimView| claim.reserved.iter().any(|consumer| consumer.uid == *uid);
            { claims.values() }.any(|claim| claim.is_controlled_by(uid) || is_reserved(claim))
        });
    }

    pub(crate) fn see_claims(&mut self, server: &Server, events: usize) {
        let end = { server.claim_events.len() }.min(self.claims_seen.saturating_add(events));
        for event in &server.claim_events[self.claims_seen..end] {
            let stamp = match &event.now {
                Some(claim) => Stamp::shown(&claim.uid, &claim.version),
                None => Stamp::last(&event.uid),
            };
            self.written_claims.shown(&event.key, &stamp);
            match &event.now {
                Some(claim) => _ = self.claims.insert(event.key.clone(), Arc::clone(claim)),
                None => _ = self.claims.remove(&event.key),
            }
        }
        self.claims_seen = end;
    }

    /// The watch of the claims breaks, and a list shows what is there now, not what was in between.
    pub(crate) fn list_claims(&mut self, server: &Server) {
        self.written_claims.list_began();
        for (key, old) in &self.claims {
            if server.claims.get(key).is_none_or(|new| new.uid != old.uid) {
                self.written_claims.shown(key, &Stamp::last(&old.uid));
            }
        }
        for (key, new) in &server.claims {
            if self.claims.get(key) != Some(new) {
                self.written_claims
                    .shown(key, &Stamp::shown(&new.uid, &new.version));
            }
        }
        self.claims.clone_from(&server.claims);
        self.claims_seen = server.claim_events.len();
        self.written_claims.list_finished();
    }

    /// Whether everything that this process may still act on shows that the claim is recorded.
    pub(crate) fn sees_recorded(&self, pod: &ObjectKey, uid: &Uid, claim: &str) -> bool {
        let shows = |pod: &PodView| {
            pod.uid == *uid && { pod.statuses.iter() }.any(|status| status.claim.as_deref() == Some(claim))
        };
        let in_sync = self.syncs.iter().all(|sync| match &sync.work {
            Work::Pod(sync) if sync.pod.key == *pod => shows(&sync.pod),
            _ => true,
        });
        in_sync && self.pods.get(pod).is_some_and(|pod| shows(pod))
    }

    // ---- syncs

    pub(crate) fn sync_pod(&mut self, key: &ObjectKey) {
        let busy = |sync: &Sync| matches!(&sync.work, Work::Pod(sync) if sync.pod.key == *key);
        if self.syncs.iter().any(busy) {
            return;
        }
        let Some(pod) = self.pod(key).filter(|pod| wants_claims(pod)) else {
            return;
        };
        self.syncs.push(Sync::of(Work::Pod(PodSync {
            pod,
            entry: 0,
            creating: None,
            taken: false,
            names: Vec::new(),
            stage: Stage::Entries,
        })));
    }

    /// `long_unchanged`: the claim is seen as it is for long enough.
    pub(crate) fn sync_claim(&mut self, key: &ObjectKey, long_unchanged: bool) {
        let busy = |sync: &Sync| matches!(&sync.work, Work::Claim(sync) if sync.claim.key == *key);
        if self.syncs.iter().any(busy) {
            return;
        }
        let Some(claim) = self.claim(key) else { return };
        self.syncs.push(Sync::of(Work::Claim(ClaimSync {
            claim,
            consumer: 0,
            owner_known: false,
            evidence: Evidence {
                gone: Vec::new(),
                owner: Ownership::Leave,
                unchanged: if long_unchanged {
                    IDLE_FINALIZER_AGE
                } else {
                    Duration::ZERO
                },
            },
        })));
    }

    /// Brings a sync to its next request, sends it, or takes the answer. Whether the process lives on.
    pub(crate) fn advance(&mut self, server: &mut Server, which: usize, luck: Luck) -> bool {
        if self.syncs.is_empty() {
            return true;
        }
        let mut sync = self.syncs.remove(which % self.syncs.len());
        match std::mem::replace(&mut sync.pending, Pending::Nothing) {
            Pending::Nothing => match sync.next(self) {
                None => return true,
                Some(call) => {
                    self.sending(&call);
                    sync.pending = Pending::Request(call);
                }
            },
            Pending::Request(call) => {
                let reply = server.execute(&call);
                match luck {
                    Luck::Good => sync.pending = Pending::Reply(call, reply),
                    Luck::Lost => {
                        self.sent(&call);
                        return true;
                    }
                    Luck::Crash => return false,
                }
            }
            Pending::Reply(call, reply) => {
                self.remember(&call, &reply);
                self.sent(&call);
                if !sync.take(self, &call, reply) {
                    return true;
                }
            }
        }
        self.syncs.push(sync);
        true
    }

    /// To its end, without trouble.
    pub(crate) fn run(&mut self, server: &mut Server) {
        for _ in 0..10_000 {
            if self.syncs.is_empty() {
                return;
            }
            self.advance(server, 0, Luck::Good);
        }
        panic!("a sync that does not end");
    }

    fn sending(&mut self, call: &Call) {
        match call {
            Call::Record { pod, .. } => self.written_pods.sending(pod),
            Call::GetPod(_) => {}
            call => self.written_claims.sending(&claim_of(call)),
        }
    }

    fn sent(&mut self, call: &Call) {
        match call {
            Call::Record { pod, .. } => self.written_pods.sent(pod),
            Call::GetPod(_) => {}
            call => self.written_claims.sent(&claim_of(call)),
        }
    }

    fn remember(&mut self, call: &Call, reply: &Reply) {
        let now = self.clock.instant();
        match (call, reply) {
            (_, Reply::Claim(Some(claim)) | Reply::Written(claim)) => {
                let owner = claim.owner.as_ref().map(|owner| &owner.uid);
                let value = Arc::clone(claim);
                self.written_claims.accepted(
                    &claim.key,
                    Stamp::written(&claim.uid, &claim.version),
                    owner,
                    value,
                    now,
                );
            }
            (Call::Record { pod, uid, statuses }, Reply::Recorded) => {
                self.written_pods
                    .accepted(pod, Stamp::first(uid), None, statuses.clone(), now);
            }
            _ => {}
        }
    }
}

fn claim_of(call: &Call) -> ObjectKey {
    match call {
        Call::GetClaim(key) | Call::GetPod(key) | Call::Record { pod: key, .. } => key.clone(),
        Call::Create(create) => create.claim(),
        Call::Reserve(reserve) => reserve.claim.clone(),
        Call::Give { judged, .. } => judged.key.clone(),
    }
}

impl Sync {
    fn of(work: Work) -> Self {
        Self {
            work,
            pending: Pending::Nothing,
        }
    }

    fn next(&mut self, process: &Process) -> Option<Call> {
        match &mut self.work {
            Work::Pod(sync) => sync.next(process),
            Work::Claim(sync) => sync.next(process),
        }
    }

    /// Whether it goes on.
    fn take(&mut self, process: &Process, call: &Call, reply: Reply) -> bool {
        match &mut self.work {
            Work::Pod(sync) => sync.take(process, call, reply),
            Work::Claim(sync) => sync.take(call, reply),
        }
    }
}

impl PodSync {
    fn next(&mut self, process: &Process) -> Option<Call> {
        let pod = Arc::clone(&self.pod);
        let claimant = Claimant::pod(&pod, Group::None);
        loop {
            match self.stage {
                Stage::Entries => {
                    if let Some(create) = &self.creating {
                        return Some(if self.taken {
                            Call::GetClaim(create.claim())
                        } else {
                            Call::Create(create.clone())
                        });
                    }
                    match pod.entries.get(self.entry) {
                        None => self.stage = Stage::Record,
                        Some(entry) => {
                            let answered = answer(&claimant, entry, process, GATES, Seen::Unasked);
                            if let Answer::Ask(name) = &answered {
                                return Some(Call::GetClaim(beside(&pod.key, name)));
                            }
                            self.settle(answered);
                        }
                    }
                }
                Stage::Record => {
                    self.stage = Stage::Reserve(0);
                    if let Some(statuses) = statuses(&claimant, &self.names) {
                        return Some(Call::Record {
                            pod: pod.key.clone(),
                            uid: pod.uid.clone(),
                            statuses,
                        });
                    }
                }
                Stage::Reserve(index) => {
                    let entry = pod.entries.get(index)?;
                    self.stage = Stage::Reserve(index + 1);
                    let name = match &entry.source {
                        ClaimSource::Claim(name) => Some(name),
                        _ => { self.names.iter() }
                            .find(|(of, _)| *of == entry.name)
                            .map(|(_, name)| name),
                    };
                    let claim = name.and_then(|name| process.claim(&beside(&pod.key, name)));
                    if let Some(claim) = claim
                        && let Reservation::Write(reserve) =
                            reservation(&pod, &claimant, entry, &claim, GATES)
                    {
                        assert!(!pod.is_done() && !pod.deleting, "{pod:?}");
                        return Some(Call::Reserve(reserve));
                    }
                }
            }
        }
    }

    fn settle(&mut self, answered: Answer) {
        match answered {
            Answer::Keep(name) | Answer::Adopt(name) => self.found(name),
            Answer::Create(create) => self.creating = Some(create),
            Answer::Ask(name) => panic!("asked again for {name}"),
            Answer::NotNeeded | Answer::Users(_) | Answer::OfGroup | Answer::Failed(_) => self.entry += 1,
        }
    }

    fn found(&mut self, name: Arc<str>) {
        let entry = Arc::clone(&self.pod.entries[self.entry].name);
        self.names.push((entry, name));
        self.creating = None;
        self.taken = false;
        self.entry += 1;
    }

    fn take(&mut self, process: &Process, call: &Call, reply: Reply) -> bool {
        match (call, reply) {
            (Call::GetClaim(key), Reply::Claim(found)) => match self.creating.take() {
                Some(create) if found.as_ref().is_some_and(|found| create.is_met_by(found)) => {
                    self.found(Arc::clone(&key.name));
                }
                Some(create) => {
                    self.creating = Some(create.renamed());
                    self.taken = false;
                }
                None => {
                    let pod = Arc::clone(&self.pod);
                    let seen = Seen::Found(found.as_deref());
                    let claimant = Claimant::pod(&pod, Group::None);
                    let entry = &pod.entries[self.entry];
                    self.settle(answer(&claimant, entry, process, GATES, seen));
                }
            },
            (Call::Create(_), Reply::Written(claim)) => self.found(Arc::clone(&claim.key.name)),
            (Call::Create(_), Reply::Exists) => self.taken = true,
            (Call::Record { .. }, Reply::Recorded) | (Call::Reserve(_), _) => {}
            _ => return false,
        }
        true
    }
}

impl ClaimSync {
    fn next(&mut self, process: &Process) -> Option<Call> {
        let cached = |key: &ObjectKey| Sight::Cached(process.pod(key).map(|pod| Being::pod(&pod)));
        while let Some(consumer) = self.claim.reserved.get(self.consumer) {
            let key = beside(&self.claim.key, &consumer.name);
            let departed = process.departed.contains(&consumer.uid);
            match standing(consumer, departed, &cached(&key), GATES) {
                Standing::Unsure => return Some(Call::GetPod(key)),
                judged => self.judged(judged),
            }
        }
        if self.claim.reserved.is_empty()
            && self.claim.deleting.is_none()
            && !self.owner_known
            && let Some(pod) = self.claim.owning_pod()
        {
            let key = beside(&self.claim.key, &pod.name);
            let departed = process.departed.contains(&pod.uid);
            match owner(&self.claim, departed, &cached(&key)) {
                Ownership::Unsure => return Some(Call::GetPod(key)),
                judged => self.evidence.owner = judged,
            }
        }
        match next_step(&self.claim, &self.evidence) {
            Next::Leave | Next::LookAgain(_) => None,
            Next::Do(step) => Some(Call::Give {
                judged: Arc::clone(&self.claim),
                step,
            }),
        }
    }

    fn judged(&mut self, judged: Standing) {
        let consumer = &self.claim.reserved[self.consumer];
        if matches!(judged, Standing::Done | Standing::Gone) {
            self.evidence.gone.push(consumer.uid.clone());
        }
        self.consumer += 1;
    }

    fn take(&mut self, call: &Call, reply: Reply) -> bool {
        match (call, reply) {
            (Call::GetPod(_), Reply::Pod(pod)) => {
                let sight = Sight::Live(pod.as_ref().map(Being::pod));
                if let Some(consumer) = self.claim.reserved.get(self.consumer) {
                    self.judged(standing(consumer, false, &sight, GATES));
                } else {
                    self.evidence.owner = owner(&self.claim, false, &sight);
                    self.owner_known = true;
                }
            }
            (Call::Give { .. }, Reply::Written(claim)) => {
                // The evidence is about those that were there.
                self.consumer = claim.reserved.len();
                self.claim = claim;
            }
            _ => return false,
        }
        true
    }
}
