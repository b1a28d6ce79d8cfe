//! A pod and a `PodGroup`: each entry gets its claim, all of them are recorded, and those that are allocated are reserved
//! (RC-2 to RC-8, RC-17). An error is the step to take first.

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::Outcome as Answered;
use controller_core::controller::{Failed, Outcome, Step, Wake};
use controller_core::informer::Freshness;
use controller_core::meta::ObjectKey;

use super::{Key, Next, Note, SIDE_BY_SIDE, Turn};
use crate::decide::{
    Answer as Entitled, Claimant, ClaimantId, Create, Group, Reservation, Reserve, Seen, answer, group_of,
    reservation, statuses, wants_claims,
};
use crate::error::{self, EntryError};
use crate::memory::{Failing, WriteKey};
use crate::requests::{Answer, Question, Record, Write};
use crate::view::{ClaimSource, ClaimView, ClaimantKind, ClaimantView, Entry, beside};

/// How many names of a claim are tried in one pass.
const NAMES_A_PASS: usize = 8;

/// What became of the entries of one object.
#[derive(Debug, Default)]
struct Settled {
    /// The claims of the entries that have one made for them.
    names: Vec<(Arc<str>, Arc<str>)>,
    failures: Vec<(Arc<str>, EntryError)>,
    /// How long to leave what another keeps undoing.
    left: Option<Duration>,
}

/// What becomes of one entry.
enum Settling {
    /// It is to have no claim.
    None,
    /// The claim of this name was made for it, now or before.
    Has(Arc<str>),
    Ask(Question),
    Create(Create),
    Fails(EntryError),
}

impl<'a> Turn<'a> {
    pub(super) fn of_pod(self, key: &ObjectKey) -> Result<Next, Next> {
        let Some(pod) = self.wanting(ClaimantKind::Pod, key) else {
            return Ok(Step::Done(vec![]));
        };
        let group = self.look.stores.group_of(&pod);
        let claimant = Claimant {
            view: &pod,
            group: group_of(&pod, group.as_deref(), self.gates),
        };
        let mut settled = self.settle(&claimant)?;
        self.record(&claimant, &mut settled)?;
        let told = settled.failures.len();
        self.reserve_all(&claimant, &mut settled)?;
        self.tell(&claimant, &settled.failures[..told])?;
        Ok(settled.end(Key::Pod(key.clone())))
    }

    pub(super) fn of_group(self, key: &ObjectKey) -> Result<Next, Next> {
        let Some(group) = self.wanting(ClaimantKind::PodGroup, key) else {
            return Ok(Step::Done(vec![]));
        };
        let claimant = Claimant {
            view: &group,
            group: Group::None,
        };
        let mut settled = self.settle(&claimant)?;
        self.tell(&claimant, &settled.failures)?;
        self.record(&claimant, &mut settled)?;
        Ok(settled.end(Key::PodGroup(key.clone())))
    }

    /// The pod or the group of this name, if it wants claims.
    fn wanting(self, kind: ClaimantKind, key: &ObjectKey) -> Option<Arc<ClaimantView>> {
        let claimant = self.look.stores.claimant(kind, key)?;
        (wants_claims(&claimant) && !self.has_departed(&ClaimantId::of(&claimant))).then_some(claimant)
    }

    /// Every entry gets its claim, or a reason why not (RC-6).
    fn settle(self, claimant: &Claimant<'_>) -> Result<Settled, Next> {
        self.check_recorded(claimant)?;
        let mut settled = Settled::default();
        let (mut questions, mut creates) = (Vec::new(), Vec::new());
        for entry in &*claimant.view.entries {
            let name = Arc::clone(&entry.name);
            match self.settle_entry(claimant, entry) {
                Settling::None => {}
                Settling::Has(claim) => settled.names.push((name, claim)),
                Settling::Ask(question) => questions.push(question),
                Settling::Create(create) => creates.push(Write::Create(create)),
                Settling::Fails(error) => settled.failures.push((name, error)),
            }
        }
        // The first of those that are not answered, be they on their way already: so many are at a time.
        questions.truncate(SIDE_BY_SIDE);
        creates.truncate(SIDE_BY_SIDE);
        if !questions.is_empty() {
            return Err(Step::Read(questions));
        }
        if creates.is_empty() {
            return Ok(settled);
        }
        // A standby's cache may not show yet what the leader before has recorded.
        if claimant.view.statuses.is_empty() && self.look.memory.may_be_late(self.look.now.uptime) {
            self.read_claimant(claimant)?;
        }
        // What we recorded last may name claims that are gone already: their names must not be used again.
        if self.is_unknown(claimant) {
            self.read_claimant(claimant)?;
            // It became so after that read.
            return Err(Step::Read(vec![question_about(claimant)]));
        }
        Err(Step::Write(creates))
    }

    /// Where a claim that the cache has recorded seems to be gone, another may have been recorded since, by the leader
    /// before: the API server tells, or a name that was used would be used again. Its answer is in the store then.
    fn check_recorded(self, claimant: &Claimant<'_>) -> Result<(), Next> {
        let seems_gone = |entry| {
            let answered = answer(claimant, entry, self.look.stores, self.gates, Seen::Unasked);
            matches!(answered, Entitled::Ask(_))
        };
        if claimant.view.entries.iter().any(seems_gone) {
            self.read_claimant(claimant)
        } else {
            Ok(())
        }
    }

    /// Whether nobody knows what became of our last write to the pod or the group.
    fn is_unknown(self, claimant: &Claimant<'_>) -> bool {
        let store = self.look.stores.of(claimant.view.kind);
        store.is_some_and(|store| store.freshness(&claimant.view.key) == Freshness::Unknown)
    }

    /// Goes on when the API server has told of the pod or the group as it is now, and it is the one that the cache has.
    fn read_claimant(self, claimant: &Claimant<'_>) -> Result<(), Next> {
        let question = question_about(claimant);
        let is_same = match self.look.pass.answer(&question).map(|reply| &reply.value) {
            None => return Err(Step::Read(vec![question])),
            Some(Ok(Answer::Claimant(found))) => found.uid == claimant.view.uid && wants_claims(&found.view),
            Some(_) => false,
        };
        if is_same { Ok(()) } else { Err(Step::Done(vec![])) }
    }

    fn settle_entry(self, claimant: &Claimant<'_>, entry: &Entry) -> Settling {
        let entitled = |seen| answer(claimant, entry, self.look.stores, self.gates, seen);
        let mut answered = entitled(Seen::Unasked);
        if let Entitled::Ask(name) = &answered {
            answered = match self.look_for(beside(&claimant.view.key, name)) {
                Ok(found) => entitled(Seen::Found(found)),
                Err(settling) => return settling,
            };
        }
        match answered {
            Entitled::NotNeeded | Entitled::Users(_) | Entitled::OfGroup | Entitled::Ask(_) => Settling::None,
            Entitled::Keep(name) | Entitled::Adopt(name) => Settling::Has(name),
            Entitled::Failed(failure) => Settling::Fails(EntryError::Cannot(failure)),
            Entitled::Create(create) => self.create(create),
        }
    }

    /// Makes the claim, or finds the one that was made before: by another process, or by us when the answer was lost.
    /// Whoever else has the name, the store mostly shows by now.
    fn create(self, mut create: Create) -> Settling {
        let of_entry = |write: &Write| matches!(write, Write::Create(tried) if tried.entry == create.entry);
        let outcomes = self.look.pass.outcomes();
        let tried = outcomes.filter(|(write, _)| of_entry(write)).count();
        loop {
            let failed = match self.look.pass.outcome(&Write::Create(create.clone())) {
                None if tried < NAMES_A_PASS => return Settling::Create(create),
                None => return Settling::Fails(EntryError::NamesTaken(NAMES_A_PASS)),
                Some(Outcome::Accepted(_) | Outcome::Planned) => return Settling::Has(create.claim().name),
                Some(Outcome::Failed(failed)) => failed,
            };
            if failed.outcome() != Answered::AlreadyExists {
                return Settling::Fails(EntryError::Create(failed.clone()));
            }
            match self.look_for(create.claim()) {
                Ok(Some(found)) if create.is_met_by(found) => return Settling::Has(create.claim().name),
                Ok(_) => create = create.renamed(),
                Err(settling) => return settling,
            }
        }
    }

    /// The claim that the API server has under this name.
    fn look_for(self, claim: ObjectKey) -> Result<Option<&'a ClaimView>, Settling> {
        let question = Question::Claim(claim);
        match self.look.pass.answer(&question).map(|reply| &reply.value) {
            None => Err(Settling::Ask(question)),
            Some(Ok(found)) => Ok(found.claim().map(|found| &found.view)),
            Some(Err(failed)) if failed.is_gone() => Ok(None),
            Some(Err(failed)) => Err(Settling::Fails(EntryError::Look(failed.clone()))),
        }
    }

    /// Records all claims at once, if anything is new about them (RC-5), whatever comes of it. Not as long as each of
    /// them is left to another writer: all go in one write.
    fn record(self, claimant: &Claimant<'_>, settled: &mut Settled) -> Result<(), Next> {
        let Some(statuses) = statuses(claimant, &settled.names) else {
            return Ok(());
        };
        let ClaimantView { key, uid, .. } = claimant.view;
        let changed = statuses.iter();
        let changed = changed.filter(|status| !claimant.view.statuses.contains(status));
        let write = Write::Record(Record {
            kind: claimant.view.kind,
            key: key.clone(),
            uid: uid.clone(),
            changed: changed.cloned().collect(),
            statuses,
        });
        if self.look.pass.outcome(&write).is_some() {
            return Ok(());
        }
        let keys = write.keys().into_iter();
        let waits = keys.map(|write| self.contested(write, key, uid));
        let waits: Vec<_> = waits.collect::<Result<_, _>>()?;
        if waits.is_empty() || waits.contains(&None) {
            return Err(Step::Write(vec![write]));
        }
        settled.leave(waits.into_iter().flatten().min());
        Ok(())
    }

    /// What is new about the entries that fail is told.
    fn tell(self, claimant: &Claimant<'_>, failures: &[(Arc<str>, EntryError)]) -> Result<(), Next> {
        let news = failures.iter().filter(|(_, error)| error.is_news());
        let failing: Failing = news
            .map(|(entry, error)| (Arc::clone(entry), error.to_string()))
            .collect();
        let is_new = match self.look.memory.failing.get(&claimant.view.uid) {
            // What failed only for a moment is no end of what was told.
            Some(_) if failing.is_empty() => failures.is_empty(),
            Some(told) => *told != failing,
            None => !failing.is_empty(),
        };
        if !is_new {
            return Ok(());
        }
        Err(Step::Note(Note::Failing {
            kind: claimant.view.kind,
            claimant: (claimant.view.key.clone(), claimant.view.uid.clone()),
            failing,
        }))
    }

    /// Reserves the claims of a pod that is on a node (RC-8).
    fn reserve_all(self, claimant: &Claimant<'_>, settled: &mut Settled) -> Result<(), Next> {
        let mut writes = Vec::new();
        for entry in &*claimant.view.entries {
            let Some(reserve) = self.reserve(claimant, entry, settled)? else {
                continue;
            };
            let write = Write::Reserve(reserve.clone());
            match self.look.pass.outcome(&write) {
                None => match self.contested(WriteKey::reserved(&reserve), &reserve.claim, &reserve.uid)? {
                    None => writes.push(write),
                    wait => settled.leave(wait),
                },
                Some(Outcome::Failed(failed)) if !failed.is_gone() => {
                    let error = EntryError::Reserve(failed.clone());
                    settled.failures.push((Arc::clone(&entry.name), error));
                }
                Some(_) => {}
            }
        }
        writes.truncate(SIDE_BY_SIDE);
        if writes.is_empty() {
            Ok(())
        } else {
            Err(Step::Write(writes))
        }
    }

    /// The reservation that the entry lacks.
    fn reserve(
        self,
        claimant: &Claimant<'_>,
        entry: &Entry,
        settled: &Settled,
    ) -> Result<Option<Reserve>, Next> {
        let mut made = settled.names.iter().filter(|(of, _)| *of == entry.name);
        let name = match &entry.source {
            ClaimSource::Claim(name) => Some(name),
            ClaimSource::Template(_) | ClaimSource::Unknown => made.next().map(|(_, name)| name),
        };
        let pod = claimant.view;
        let claim = name.and_then(|name| self.look.stores.claims.get(&beside(&pod.key, name)));
        let Some(claim) = claim else { return Ok(None) };
        match reservation(claimant, entry, &claim, self.gates) {
            Reservation::Nothing => Ok(None),
            Reservation::Full if self.look.memory.full.contains(&claim.uid) => Ok(None),
            Reservation::Full => Err(Step::Note(Note::Full {
                claim: (claim.key.clone(), claim.uid.clone()),
                pod: (pod.key.clone(), pod.uid.clone()),
            })),
            Reservation::Write(reserve) => {
                let of = ClaimantId::of_consumer(&claim.key, &reserve.consumer, self.gates);
                let has_departed = of.is_some_and(|of| self.has_departed(&of));
                Ok((!has_departed).then_some(reserve))
            }
        }
    }
}

fn question_about(claimant: &Claimant<'_>) -> Question {
    Question::Claimant(claimant.view.kind, claimant.view.key.clone())
}

impl Settled {
    fn leave(&mut self, wait: Option<Duration>) {
        self.left = self.left.into_iter().chain(wait).min();
    }

    /// What only waits for something else is no failure. A request that failed has been told already.
    fn end(self, key: Key) -> Next {
        let wakes = self.left.map(|wait| (key, Wake::Within(wait)));
        let wakes = wakes.into_iter().collect();
        let failures = self.failures;
        let is_told = failures.iter().any(|(_, error)| error.is_of_a_request());
        if is_told || failures.iter().all(|(_, error)| error.waits()) {
            return Step::Done(wakes);
        }
        Step::Fail(Failed {
            reason: "EntryFailed",
            text: error::told(&failures),
            not_before: Duration::ZERO,
            wakes,
        })
    }
}
