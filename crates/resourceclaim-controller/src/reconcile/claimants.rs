//! The next action for a pod or a `PodGroup`: each entry gets its claim, all claims are recorded, and allocated ones
//! are reserved (RC-2 to RC-8, RC-17). Errors are the action to take first.

use std::sync::Arc;

use controller_core::api::AnswerClass as Answered;
use controller_core::cache::{Freshness, Store};
use controller_core::controller::Outcome;
use controller_core::meta::ObjectKey;

use super::settled::Settled;
use super::{Action, Key, SIDE_BY_SIDE, StateChange, Turn};
use crate::contested::WriteKey;
use crate::decide::{
    Claimant, ClaimantId, Create, EntryVerdict as Entitled, Group, LiveClaim, REQUESTS_A_PASS, Reservation,
    Reserve, answer, group_of, made_after, reservation, statuses, wants_claims,
};
use crate::error::EntryError;
use crate::requests::{Answer, Query, Record, Write};
use crate::state::Failing;
use crate::view::{ClaimSource, ClaimView, ClaimantView, Entry, in_namespace_of};

/// Most names that are tried for a claim in one pass.
const NAMES_A_PASS: u32 = 8;

/// The next step for one entry.
enum Settling {
    /// The entry needs no claim.
    None,
    /// The claim of this name was made for the entry, now or before.
    Has(Arc<str>),
    Ask(Query),
    Create(Create),
    Fails(EntryError),
}

impl<'a> Turn<'a> {
    pub(super) fn of_pod(self, key: &ObjectKey) -> Result<Action, Action> {
        let Some(pod) = self.wanting(&self.cx.stores.pods, key) else {
            return Ok(Action::Done(vec![]));
        };
        let group = self.cx.stores.group_of(&pod);
        let claimant = Claimant {
            view: &pod,
            group: group_of(&pod, group.as_deref(), self.gates),
        };
        let mut settled = self.settle(&claimant)?;
        let told = settled.failures.len();
        if !settled.breaks_off {
            self.record(&claimant, &mut settled)?;
            self.reserve_all(&claimant, &mut settled)?;
        }
        self.tell(&claimant, &settled.failures[..told])?;
        Ok(settled.end(Key::Pod(key.clone())))
    }

    pub(super) fn of_group(self, key: &ObjectKey) -> Result<Action, Action> {
        let Some(group) = self.wanting(&self.cx.stores.groups, key) else {
            return Ok(Action::Done(vec![]));
        };
        let claimant = Claimant {
            view: &group,
            group: Group::None,
        };
        let mut settled = self.settle(&claimant)?;
        self.tell(&claimant, &settled.failures)?;
        if !settled.breaks_off {
            self.record(&claimant, &mut settled)?;
        }
        Ok(settled.end(Key::PodGroup(key.clone())))
    }

    /// The pod or the group of this name, if it wants claims.
    fn wanting(self, store: &Store<ClaimantView>, key: &ObjectKey) -> Option<Arc<ClaimantView>> {
        let claimant = store.get(key)?;
        (wants_claims(&claimant) && !self.has_departed(&ClaimantId::of(&claimant))).then_some(claimant)
    }

    /// Every entry gets its claim, or a reason why not (RC-6).
    ///
    /// Runs after every answer and every permit. While queries or creates are left, evaluating all entries each time
    /// would cost their square.
    fn settle(self, claimant: &Claimant<'_>) -> Result<Settled, Action> {
        self.check_recorded(claimant)?;
        let from = self.first_open(claimant);
        if from > 0 && !self.has_sent_enough() {
            self.settle_from(claimant, from)?;
        }
        self.settle_from(claimant, 0)
    }

    /// The first entry that may still be open in this pass: those before have their claims, or have failed. A guess: if
    /// nothing from there on is open, all entries are evaluated.
    fn first_open(self, claimant: &Claimant<'_>) -> usize {
        let position = |write: &Write| match write {
            Write::Create(create) => claimant.view.position(&create.entry),
            _ => None,
        };
        let pass = self.cx.pass;
        let ended = pass.outcomes().rev().take(SIDE_BY_SIDE).map(|(write, _)| write);
        ended
            .chain(pass.sending())
            .filter_map(position)
            .min()
            .unwrap_or(0)
    }

    fn has_sent_enough(self) -> bool {
        self.cx.pass.requests() >= REQUESTS_A_PASS
    }

    /// Settles the entries from this one on; an error reads or creates the first that are open.
    fn settle_from(self, claimant: &Claimant<'_>, from: usize) -> Result<Settled, Action> {
        let mut settled = Settled::default();
        let (mut queries, mut creates) = (Vec::new(), Vec::new());
        for entry in claimant.view.entries.iter().skip(from) {
            let name = Arc::clone(&entry.name);
            match self.settle_entry(claimant, entry) {
                Settling::None => {}
                Settling::Has(claim) => settled.names.push((name, claim)),
                Settling::Fails(error) => settled.fail(name, error),
                Settling::Ask(_) | Settling::Create(_) if self.has_sent_enough() => settled.breaks_off = true,
                Settling::Ask(query) => queries.push(query),
                Settling::Create(create) => creates.push(Write::Create(create)),
            }
            // The first unanswered entries, in flight or not: the limit counts both.
            if queries.len() + creates.len() == SIDE_BY_SIDE {
                break;
            }
        }
        if !queries.is_empty() {
            return Err(Action::Read(queries));
        }
        if creates.is_empty() {
            return Ok(settled);
        }
        // A standby's cache may lack what the previous leader has recorded.
        if claimant.view.statuses.is_empty() && self.cx.state.may_be_late(self.cx.now.uptime) {
            self.read_claimant(claimant)?;
        }
        // What we recorded last may name claims that are gone already, and their names must not be used again.
        if self.is_unknown(claimant) {
            self.read_claimant(claimant)?;
            // The fate became unknown after that read.
            return Err(Action::Read(vec![question_about(claimant)]));
        }
        Err(Action::Write(creates))
    }

    /// If a recorded claim seems to be gone, the previous leader may have recorded another one since. The API server
    /// must tell, or a used name would be used again. Its answer is in the store afterwards.
    fn check_recorded(self, claimant: &Claimant<'_>) -> Result<(), Action> {
        let seems_gone = |entry| {
            let answered = answer(claimant, entry, self.cx.stores, self.gates, LiveClaim::Unasked);
            matches!(answered, Entitled::Ask(_))
        };
        let view = claimant.view;
        let mut recorded = view
            .statuses
            .iter()
            .filter_map(|status| view.entry(&status.entry));
        if self.cx.pass.answer(&question_about(claimant)).is_some() || recorded.any(seems_gone) {
            self.read_claimant(claimant)
        } else {
            Ok(())
        }
    }

    /// Returns whether the fate of our last write to the pod or the group is unknown.
    fn is_unknown(self, claimant: &Claimant<'_>) -> bool {
        let store = self.cx.stores.of(claimant.view.kind);
        store.freshness(&claimant.view.key) == Freshness::Unknown
    }

    /// Reads the pod or the group. `Ok` once the API server has sent it, and it is the one in the cache.
    fn read_claimant(self, claimant: &Claimant<'_>) -> Result<(), Action> {
        let query = question_about(claimant);
        let is_same = match self.cx.pass.answer(&query).map(|reply| &reply.value) {
            None => return Err(Action::Read(vec![query])),
            Some(Ok(Answer::Claimant(found))) => found.uid == claimant.view.uid && wants_claims(&found.view),
            Some(_) => false,
        };
        if is_same {
            Ok(())
        } else {
            Err(Action::Done(vec![]))
        }
    }

    fn settle_entry(self, claimant: &Claimant<'_>, entry: &Entry) -> Settling {
        let entitled = |seen| answer(claimant, entry, self.cx.stores, self.gates, seen);
        let mut answered = entitled(LiveClaim::Unasked);
        if let Entitled::Ask(name) = &answered {
            // The pod was read: see `check_recorded`.
            if let Some(after) = made_after(claimant, entry, name, self.cx.stores) {
                return Settling::Has(after);
            }
            answered = match self.look_for(in_namespace_of(&claimant.view.key, name)) {
                Ok(found) => entitled(LiveClaim::Found(found)),
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

    /// Creates the claim, or finds the one that was made before: by another process, or by us when the answer was lost.
    /// If something else has the name, the store mostly shows it by now.
    fn create(self, mut create: Create) -> Settling {
        loop {
            let failed = match self.cx.pass.outcome(&Write::Create(create.clone())) {
                None if self.has_tried_enough(&create) => {
                    return Settling::Fails(EntryError::NamesTaken(NAMES_A_PASS));
                }
                None => return Settling::Create(create),
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

    /// Returns whether all names before this one were tried in this pass.
    fn has_tried_enough(self, create: &Create) -> bool {
        let mut before = (1..=NAMES_A_PASS).map(|back| create.n.checked_sub(back));
        before.all(|n| {
            let tried = n.map(|n| Write::Create(Create { n, ..create.clone() }));
            tried.is_some_and(|tried| self.cx.pass.outcome(&tried).is_some())
        })
    }

    /// The claim that the API server has under this name.
    fn look_for(self, claim: ObjectKey) -> Result<Option<&'a ClaimView>, Settling> {
        let query = Query::Claim(claim);
        match self.cx.pass.answer(&query).map(|reply| &reply.value) {
            None => Err(Settling::Ask(query)),
            Some(Ok(found)) => Ok(found.claim().map(|found| &found.view)),
            Some(Err(failed)) if failed.is_gone() => Ok(None),
            Some(Err(failed)) => Err(Settling::Fails(EntryError::Look(failed.clone()))),
        }
    }

    /// Records all claims in one write if any of them is news (RC-5), whatever the result. Waits only while each news
    /// is contested by another writer.
    fn record(self, claimant: &Claimant<'_>, settled: &mut Settled) -> Result<(), Action> {
        let Some(statuses) = statuses(claimant, &settled.names) else {
            return Ok(());
        };
        let ClaimantView { key, uid, .. } = claimant.view;
        let changed = statuses.iter();
        let changed = changed.filter(|status| claimant.view.status(&status.entry) != Some(status));
        let write = Write::Record(Record {
            kind: claimant.view.kind,
            key: key.clone(),
            uid: uid.clone(),
            changed: changed.cloned().collect(),
            statuses,
        });
        if self.cx.pass.outcome(&write).is_some() {
            return Ok(());
        }
        let keys = write.keys().into_iter();
        let waits = keys.map(|write| self.contested(write, key, uid));
        let waits: Vec<_> = waits.collect::<Result<_, _>>()?;
        if waits.is_empty() || waits.contains(&None) {
            return Err(Action::Write(vec![write]));
        }
        settled.leave(waits.into_iter().flatten().min());
        Ok(())
    }

    /// Remembers, and so reports, what is new about failing entries.
    fn tell(self, claimant: &Claimant<'_>, failures: &[(Arc<str>, EntryError)]) -> Result<(), Action> {
        let news = failures.iter().filter(|(_, error)| error.is_news());
        let failing: Failing = news
            .map(|(entry, error)| (Arc::clone(entry), error.to_string()))
            .collect();
        let is_new = match self.cx.state.failing.get(&claimant.view.uid) {
            // A failure of a moment does not end what was reported.
            Some(_) if failing.is_empty() => failures.is_empty(),
            Some(told) => *told != failing,
            None => !failing.is_empty(),
        };
        if !is_new {
            return Ok(());
        }
        Err(Action::Remember(StateChange::Failing {
            kind: claimant.view.kind,
            claimant: (claimant.view.key.clone(), claimant.view.uid.clone()),
            failing,
        }))
    }

    /// Reserves the claims of a pod that is on a node (RC-8).
    fn reserve_all(self, claimant: &Claimant<'_>, settled: &mut Settled) -> Result<(), Action> {
        let mut writes = Vec::new();
        for entry in &*claimant.view.entries {
            let Some(reserve) = self.reserve(claimant, entry, settled)? else {
                continue;
            };
            let write = Write::Reserve(reserve.clone());
            match self.cx.pass.outcome(&write) {
                None if self.has_sent_enough() => settled.breaks_off = true,
                None => match self.contested(WriteKey::reserved(&reserve), &reserve.claim, &reserve.uid)? {
                    None => writes.push(write),
                    wait => settled.leave(wait),
                },
                Some(Outcome::Failed(failed)) if !failed.is_gone() => {
                    let error = EntryError::Reserve(failed.clone());
                    settled.fail(Arc::clone(&entry.name), error);
                }
                Some(_) => {}
            }
            if writes.len() == SIDE_BY_SIDE {
                break;
            }
        }
        if writes.is_empty() {
            Ok(())
        } else {
            Err(Action::Write(writes))
        }
    }

    /// The reservation that the entry lacks.
    fn reserve(
        self,
        claimant: &Claimant<'_>,
        entry: &Entry,
        settled: &Settled,
    ) -> Result<Option<Reserve>, Action> {
        let name = match &entry.source {
            ClaimSource::Claim(name) => Some(name),
            ClaimSource::Template(_) | ClaimSource::Unknown => settled.name_of(entry),
        };
        let pod = claimant.view;
        let claim = name.and_then(|name| self.cx.stores.claims.get(&in_namespace_of(&pod.key, name)));
        let Some(claim) = claim else { return Ok(None) };
        match reservation(claimant, entry, &claim) {
            Reservation::Nothing => Ok(None),
            Reservation::Full if self.cx.state.full.contains(&claim.uid) => Ok(None),
            Reservation::Full => Err(Action::Remember(StateChange::Full {
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

fn question_about(claimant: &Claimant<'_>) -> Query {
    Query::Claimant(claimant.view.kind, claimant.view.key.clone())
}
