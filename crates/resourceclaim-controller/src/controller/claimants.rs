//! The sync of a pod and of a `PodGroup`: each entry gets its claim, all of them are recorded, and those that are
//! allocated are reserved (RC-2 to RC-8, RC-17).

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::CallFailed;
use controller_core::leader::Term;
use controller_core::meta::ObjectKey;
use controller_core::workers::Next;
use futures::stream::{self, StreamExt};

use super::rivals::Deed;
use super::{Controller, SIDE_BY_SIDE};
use crate::apply::{Applied, Created};
use crate::decide::{
    Answer, Claimant, ClaimantKind, Create, Known, Reservation, Seen, answer, group_of, reservation,
    statuses, wants_claims,
};
use crate::error::{EntryError, Error};
use crate::view::{ClaimSource, ClaimView, Entry, PodGroupView, PodView, beside};

/// How many names of a claim are tried in one sync.
const NAMES_A_SYNC: u32 = 8;

/// What became of the entries of one object.
#[derive(Debug, Default)]
struct Settled {
    /// The claims of the entries that have one made for them.
    names: Vec<(Arc<str>, Arc<str>)>,
    failures: Vec<(Arc<str>, EntryError)>,
    /// How long to leave what another keeps undoing.
    left: Option<Duration>,
}

impl Controller {
    pub(super) async fn sync_pod(&self, key: &ObjectKey, term: &Term) -> Result<Next, Error> {
        let Some(pod) = self.recorded_pod(key).await? else {
            self.notes.forget(ClaimantKind::Pod, key);
            return Ok(Next::Settled);
        };
        let group = self.group_of(&pod);
        let claimant = Claimant::pod(&pod, group_of(&pod, group.as_deref(), self.gates));
        let mut settled = self.settle(&claimant, term).await;
        let recorded = self.record(&claimant, &settled, term).await;
        let reserved = self.reserve_all(&pod, &claimant, &settled.names, term).await;
        self.notes.entries(&claimant, &settled.failures);
        settled.leave(recorded.map_err(Error::Record)?);
        for (entry, result) in reserved {
            match result {
                Ok(left) => settled.leave(left),
                Err(failed) => settled.failures.push((entry, EntryError::Reserve(failed))),
            }
        }
        settled.end()
    }

    pub(super) async fn sync_group(&self, key: &ObjectKey, term: &Term) -> Result<Next, Error> {
        let Some(group) = self.recorded_group(key).await? else {
            self.notes.forget(ClaimantKind::PodGroup, key);
            return Ok(Next::Settled);
        };
        let claimant = Claimant::group(&group);
        let mut settled = self.settle(&claimant, term).await;
        self.notes.entries(&claimant, &settled.failures);
        let recorded = self.record(&claimant, &settled, term).await;
        settled.leave(recorded.map_err(Error::Record)?);
        settled.end()
    }

    /// The pod, while it wants claims. Where a claim that the cache has recorded seems to be gone, another may have been
    /// recorded since, by the leader before: the API server tells, or a name that was used would be used again.
    async fn recorded_pod(&self, key: &ObjectKey) -> Result<Option<Arc<PodView>>, Error> {
        let Some(cached) = self.caches.pod(key).filter(|pod| wants_claims(pod)) else {
            return Ok(None);
        };
        let group = self.group_of(&cached);
        let claimant = Claimant::pod(&cached, group_of(&cached, group.as_deref(), self.gates));
        if !self.seems_gone(&claimant) {
            return Ok(Some(cached));
        }
        let live = self.live.pod(key).await.map_err(Error::Recorded)?;
        let same = live.filter(|pod| pod.uid == cached.uid && wants_claims(pod));
        Ok(same.map(Arc::new))
    }

    /// As for a pod.
    async fn recorded_group(&self, key: &ObjectKey) -> Result<Option<Arc<PodGroupView>>, Error> {
        let Some(cached) = self.caches.group(key).filter(|group| !group.deleting) else {
            return Ok(None);
        };
        if !self.seems_gone(&Claimant::group(&cached)) {
            return Ok(Some(cached));
        }
        let live = self.live.group(key).await.map_err(Error::Recorded)?;
        let same = live.filter(|group| group.uid == cached.uid && !group.deleting);
        Ok(same.map(Arc::new))
    }

    /// Whether the cache does not show a claim that is recorded.
    fn seems_gone(&self, claimant: &Claimant<'_>) -> bool {
        claimant.entries.iter().any(|entry| {
            let answered = answer(claimant, entry, &self.caches, self.gates, Seen::Unasked);
            matches!(answered, Answer::Ask(_))
        })
    }

    /// Every entry gets its claim, or a reason why not (RC-6).
    async fn settle(&self, claimant: &Claimant<'_>, term: &Term) -> Settled {
        let entries = claimant.entries.iter();
        let answers: Vec<_> = entries
            .map(|entry| self.settle_entry(claimant, entry, term))
            .collect();
        let answers: Vec<_> = stream::iter(answers).buffered(SIDE_BY_SIDE).collect().await;
        let mut settled = Settled::default();
        for (entry, answer) in claimant.entries.iter().zip(answers) {
            match answer {
                Ok(None) => {}
                Ok(Some(name)) => settled.names.push((Arc::clone(&entry.name), name)),
                Err(error) => settled.failures.push((Arc::clone(&entry.name), error)),
            }
        }
        settled
    }

    /// The name of the claim that was made for the entry, now or before; nothing if it is to have none.
    async fn settle_entry(
        &self,
        claimant: &Claimant<'_>,
        entry: &Entry,
        term: &Term,
    ) -> Result<Option<Arc<str>>, EntryError> {
        let mut answered = answer(claimant, entry, &self.caches, self.gates, Seen::Unasked);
        if let Answer::Ask(name) = &answered {
            let found = self
                .look(&beside(claimant.key, name))
                .await
                .map_err(EntryError::Look)?;
            let seen = Seen::Found(found.as_deref());
            answered = answer(claimant, entry, &self.caches, self.gates, seen);
        }
        match answered {
            Answer::NotNeeded | Answer::Users(_) | Answer::OfGroup | Answer::Ask(_) => Ok(None),
            Answer::Keep(name) | Answer::Adopt(name) => Ok(Some(name)),
            Answer::Failed(failure) => Err(EntryError::Cannot(failure)),
            Answer::Create(create) => self.create(create, term).await.map(Some),
        }
    }

    /// Makes the claim, or finds the one that was made before: by another process, or by us when the answer was lost.
    async fn create(&self, mut create: Create, term: &Term) -> Result<Arc<str>, EntryError> {
        let admin_access = create.template.admin_access;
        for _ in 0..NAMES_A_SYNC {
            let claim = create.claim();
            let sending = self.caches.written.claims.sending(&claim);
            match self.apply.create(&create, term).await {
                Ok(Created::Made(made)) => {
                    self.creates.count(true, admin_access);
                    sending.holds(&made);
                    return Ok(Arc::clone(&claim.name));
                }
                Ok(Created::Planned) => return Ok(Arc::clone(&claim.name)),
                Ok(Created::Exists) => {
                    drop(sending);
                    let found = self.look(&claim).await.map_err(EntryError::Look)?;
                    if found.is_some_and(|found| create.is_met_by(&found)) {
                        return Ok(Arc::clone(&claim.name));
                    }
                    create = create.renamed();
                }
                Err(failed) => {
                    self.creates.count(false, admin_access);
                    return Err(EntryError::Create(failed));
                }
            }
        }
        Err(EntryError::NamesTaken(NAMES_A_SYNC))
    }

    /// The claim as the API server has it now, which the cache may not show yet.
    async fn look(&self, key: &ObjectKey) -> Result<Option<Arc<ClaimView>>, CallFailed> {
        let reading = self.caches.written.claims.sending(key);
        let found = self.live.claim(key).await?.map(Arc::new);
        if let Some(found) = &found {
            reading.holds(found);
        }
        Ok(found)
    }

    /// Records all claims at once, if anything is new about them (RC-5); or how long that has to wait.
    async fn record(
        &self,
        claimant: &Claimant<'_>,
        settled: &Settled,
        term: &Term,
    ) -> Result<Option<Duration>, CallFailed> {
        let Some(statuses) = statuses(claimant, &settled.names) else {
            return Ok(None);
        };
        let changed = statuses
            .iter()
            .filter(|status| !claimant.statuses.contains(status));
        let changed: Vec<_> = changed.collect();
        if let Some(wait) = self.leave_statuses(claimant, &changed).await {
            return Ok(Some(wait));
        }
        let outbox = match claimant.kind {
            ClaimantKind::Pod => &self.caches.written.pods,
            ClaimantKind::PodGroup => &self.caches.written.groups,
        };
        let sending = outbox.sending(claimant.key);
        if let Applied::Written(()) = self.apply.record(claimant, &statuses, term).await? {
            let deeds = changed
                .iter()
                .filter_map(|status| Deed::recorded(claimant.uid, status));
            deeds.for_each(|deed| self.did(&deed));
            sending.recorded(claimant.uid, statuses);
        }
        Ok(None)
    }

    /// Reserves the claims of a pod that is on a node (RC-8): by entry what failed, or how long it has to wait.
    async fn reserve_all(
        &self,
        pod: &PodView,
        claimant: &Claimant<'_>,
        names: &[(Arc<str>, Arc<str>)],
        term: &Term,
    ) -> Vec<(Arc<str>, Result<Option<Duration>, CallFailed>)> {
        let claim_of = |entry: &Entry| {
            let mut made = names.iter().filter(|(of, _)| *of == entry.name);
            let name = match &entry.source {
                ClaimSource::Claim(name) => Some(name),
                ClaimSource::Template(_) | ClaimSource::Unknown => made.next().map(|(_, name)| name),
            };
            name.map(|name| beside(claimant.key, name))
        };
        let entries = claimant.entries.iter();
        let with_claims: Vec<_> = entries
            .filter_map(|entry| Some((entry, claim_of(entry)?)))
            .collect();
        let writes = with_claims
            .iter()
            .map(|(entry, claim)| self.reserve(pod, claimant, entry, claim, term));
        let writes: Vec<_> = writes.collect();
        let results: Vec<_> = stream::iter(writes).buffered(SIDE_BY_SIDE).collect().await;
        let by_entry = with_claims.iter().map(|(entry, _)| Arc::clone(&entry.name));
        by_entry.zip(results).collect()
    }

    async fn reserve(
        &self,
        pod: &PodView,
        claimant: &Claimant<'_>,
        entry: &Entry,
        claim: &ObjectKey,
        term: &Term,
    ) -> Result<Option<Duration>, CallFailed> {
        let judge = || {
            let claim = self.caches.claim(claim)?;
            let judged = reservation(pod, claimant, entry, &claim, self.gates);
            (judged != Reservation::Nothing).then_some((judged, claim))
        };
        if judge().is_none() {
            return Ok(None);
        }
        // What others have written while we waited for our turn counts.
        let _turn = self.turns.take(claim).await;
        match judge() {
            None | Some((Reservation::Nothing, _)) => {}
            Some((Reservation::Full, claim)) => self.notes.full(&claim, pod),
            Some((Reservation::Write(reserve), _)) => {
                if let Some(wait) = self.leave_unreserved(&reserve).await {
                    return Ok(Some(wait));
                }
                let sending = self.caches.written.claims.sending(claim);
                if let Applied::Written(written) = self.apply.reserve(&reserve, term).await? {
                    self.did(&Deed::reserved(&reserve));
                    sending.holds(&written);
                }
            }
        }
        Ok(None)
    }
}

impl Settled {
    fn leave(&mut self, wait: Option<Duration>) {
        self.left = self.left.into_iter().chain(wait).min();
    }

    /// What only waits for something else is no failure.
    fn end(self) -> Result<Next, Error> {
        if self.failures.iter().all(|(_, error)| error.waits()) {
            Ok(self.left.map_or(Next::Settled, Next::After))
        } else {
            Err(Error::Entries(self.failures))
        }
    }
}
