//! The next action for a claim (RC-9 to RC-15): remove stale reservations, then the allocation, the finalizer and at
//! last the claim. Errors of functions here are the action to take first.

use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::{Outcome, Requeue};
use controller_core::meta::{ObjectKey, Uid};

use super::{Action, Key, SIDE_BY_SIDE, Turn};
use crate::contested::WriteKey;
use crate::decide::{
    Being, ClaimPlan as Giving, ClaimantId, ConsumerLookup, Evidence, Next as GiveBack, Ownership, Standing,
    next_step, owner, standing,
};
use crate::requests::{Answer, Query, Write};
use crate::view::{ClaimView, Consumer};

impl Turn<'_> {
    pub(super) fn of_claim(self, key: &ObjectKey) -> Result<Action, Action> {
        if self.cx.state.pending.contains(key) {
            let query = Query::Claim(key.clone());
            return Ok(match self.cx.pass.answer(&query) {
                None => Action::Read(vec![query]),
                Some(_) => Action::Done(vec![]),
            });
        }
        let Some(mut claim) = self.cx.stores.claims.get(key) else {
            return Ok(Action::Done(vec![]));
        };
        let mut evidence = Evidence {
            gone: self.gone(&claim)?,
            owner: Ownership::Leave,
            unchanged: self.cx.state.quiet.unchanged(&claim, self.cx.now.uptime),
        };
        let again = |wait| Action::Done(vec![(Key::Claim(key.clone()), Requeue::After(wait))]);
        loop {
            if claim.reserved.is_empty() && claim.deleting.is_none() {
                evidence.owner = self.owner(&claim)?;
            }
            let step = match next_step(&claim, &evidence) {
                GiveBack::Leave => return Ok(Action::Done(vec![])),
                GiveBack::LookAgain(wait) => return Ok(again(wait)),
                GiveBack::Do(step) => step,
            };
            let write = Write::GiveBack(Arc::clone(&claim), step.clone());
            match self.cx.pass.outcome(&write) {
                None => {
                    return Ok(match self.leave_undeleted(&claim, &step)? {
                        None => Action::Write(vec![write]),
                        Some(wait) => again(wait),
                    });
                }
                // A dry run goes on as if the write were done. The version stays the one that was judged.
                Some(Outcome::Planned) => match step.done_to(&claim) {
                    Some(as_if) => claim = as_if.into(),
                    None => return Ok(Action::Done(vec![])),
                },
                Some(_) => return Ok(Action::Done(vec![])),
            }
            evidence.unchanged = Duration::ZERO;
        }
    }

    /// The consumers that no longer need the claim (RC-9). Nothing is written while one of them is unknown.
    fn gone(self, claim: &ClaimView) -> Result<Vec<Uid>, Action> {
        let (mut gone, mut queries) = (Vec::new(), Vec::new());
        for consumer in &claim.reserved {
            match self.standing(claim, consumer) {
                Ok(Standing::Done | Standing::Gone) => gone.push(consumer.uid.clone()),
                Ok(Standing::Holds | Standing::Unsure) => {}
                Err(Action::Read(asked)) => queries.extend(asked),
                Err(step) => return Err(step),
            }
        }
        queries.truncate(SIDE_BY_SIDE);
        if queries.is_empty() {
            Ok(gone)
        } else {
            Err(Action::Read(queries))
        }
    }

    fn standing(self, claim: &ClaimView, consumer: &Consumer) -> Result<Standing, Action> {
        let Some(of) = ClaimantId::of_consumer(&claim.key, consumer, self.gates) else {
            return Ok(Standing::Holds);
        };
        let departed = self.has_departed(&of);
        let judged = standing(consumer, departed, &self.cached(&of), self.gates);
        if judged != Standing::Unsure {
            return Ok(judged);
        }
        let live = self.live(of)?;
        Ok(standing(consumer, departed, &live, self.gates))
    }

    /// Whether the pod that controls the claim still needs it (RC-13).
    fn owner(self, claim: &ClaimView) -> Result<Ownership, Action> {
        let Some(of) = ClaimantId::of_owner(claim) else {
            return Ok(Ownership::Leave);
        };
        let departed = self.has_departed(&of);
        match owner(claim, departed, &self.cached(&of)) {
            Ownership::Unsure => {
                let live = self.live(of)?;
                Ok(owner(claim, departed, &live))
            }
            judged => Ok(judged),
        }
    }

    fn cached(self, of: &ClaimantId) -> ConsumerLookup {
        let cached = self.cx.stores.claimant(of.kind, &of.key);
        ConsumerLookup::Cached(cached.map(|claimant| Being::of(&claimant)))
    }

    /// The object that the API server has under this name. If the read fails, everything stays as it is, and the queue
    /// retries.
    fn live(self, of: ClaimantId) -> Result<ConsumerLookup, Action> {
        let query = Query::Being(of);
        match self.cx.pass.answer(&query).map(|reply| &reply.value) {
            None => Err(Action::Read(vec![query])),
            Some(Ok(Answer::Being(being))) => Ok(ConsumerLookup::Live(Some(being.clone()))),
            Some(Err(failed)) if failed.is_gone() => Ok(ConsumerLookup::Live(None)),
            Some(_) => Err(Action::Done(vec![])),
        }
    }

    /// How long to put off another deletion of the claim. A claim that holds a device is deleted at once.
    fn leave_undeleted(self, claim: &ClaimView, step: &Giving) -> Result<Option<Duration>, Action> {
        let deletion = WriteKey::deleted(claim).filter(|_| *step == Giving::Delete && !claim.allocated);
        deletion.map_or(Ok(None), |write| self.contested(write, &claim.key, &claim.uid))
    }
}
