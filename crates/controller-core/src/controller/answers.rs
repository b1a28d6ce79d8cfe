//! What the loop does with the answer to a query and with the end of a write.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use derive_where::derive_where;
use jiff::Timestamp;

use super::cache::{Phase, ReadPhase, SentAt};
use super::requests::{Asker, SlotOf};
use super::{
    Action, AnswerOf, Controller, Description, Loop, LoopEvent, Notification, Now, Outcome, Pass, Query,
    Reply, RequestOf, ResultOf, Write,
};
use crate::api::CallFailed;

/// Answers that also serve other keys, each for a time.
#[derive_where(Clone, Debug, Default)]
pub(super) struct Answers<C: Controller> {
    known: BTreeMap<C::Query, (Reply<AnswerOf<C>>, Duration)>,
    until: BTreeSet<(Duration, C::Query)>,
}

impl<C: Controller> Answers<C> {
    pub(super) fn get(&self, query: &C::Query) -> Option<&Reply<AnswerOf<C>>> {
        self.known.get(query).map(|(reply, _)| reply)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn keep(&mut self, query: C::Query, reply: Reply<AnswerOf<C>>) {
        let shared_for = query.serves_for(&reply.value);
        if shared_for.is_zero() {
            return;
        }
        let until = reply.answered.uptime.saturating_add(shared_for);
        if let Some((_, known)) = self.known.insert(query.clone(), (reply, until)) {
            self.until.remove(&(known, query.clone()));
        }
        self.until.insert((until, query));
    }

    pub(super) fn forget_before(&mut self, now: Duration) {
        while self.until.first().is_some_and(|(until, _)| *until <= now)
            && let Some((_, query)) = self.until.pop_first()
        {
            self.known.remove(&query);
        }
    }
}

impl<C: Controller> Loop<C> {
    /// Handles the answer to the query with this number. If one of our writes has overtaken the answer, it is out of
    /// date: keys that need it send the query again. So do keys that joined late.
    pub(super) fn answered(
        &mut self,
        id: u64,
        asker: &C::Key,
        query: C::Query,
        reply: Reply<AnswerOf<C>>,
        sent: &[SentAt],
        now: Now,
    ) {
        if let Some((slot, _)) = SlotOf::query(&query) {
            self.free_slot(&slot);
        }
        let mut is_overtaken = false;
        let phase = ReadPhase::Answered {
            answer: &reply.value,
            sent: sent.iter(),
            is_overtaken: &mut is_overtaken,
        };
        self.refresh_cache(&query, phase, now);
        let keys = self.requests.answered(id, &query);
        let failed = reply.value.as_ref().err();
        let ask = RequestOf::Query(query.clone());
        let failed = failed.filter(|failed| self.controller.is_failure(&ask, failed));
        if !is_overtaken {
            self.on_result(asker, ResultOf::Answer(&query, &reply), now);
        }
        for Asker { key, is_late } in keys {
            let pass = self.passes.get_mut(&key);
            let Some(pass) = pass.filter(|pass| pass.querying.contains(&query)) else {
                continue;
            };
            if is_overtaken || is_late {
                pass.querying.retain(|asked| *asked != query);
                pass.has_a_sign_of_life();
            } else {
                pass.answered(query.clone(), reply.clone());
            }
            if let Some(failed) = failed {
                pass.fail(failed);
            }
            if !std::mem::replace(&mut pass.is_runnable, true) {
                self.runnable.push_back(key);
            }
        }
        if let Some(failed) = failed {
            self.told
                .push(Notification::Failed(asker.clone(), failed.clone()));
        }
        if !is_overtaken {
            self.answers.keep(query, reply);
        }
    }

    pub(super) fn wrote(
        &mut self,
        id: u64,
        key: &C::Key,
        pass: u64,
        write: C::Write,
        outcome: Outcome,
        now: Now,
    ) {
        self.free_slot(&SlotOf::Object(write.object()));
        let phase = match &outcome {
            Outcome::Accepted(accepted) => Phase::Accepted(accepted),
            Outcome::Failed(failed) if failed.fate_unknown() => Phase::Unknown,
            Outcome::Failed(_) | Outcome::Planned => Phase::Refused,
        };
        let is_pending = self.apply_to_cache(id, &write, phase, now);
        self.on_result(key, ResultOf::Outcome(&write, &outcome), now);
        if let Outcome::Accepted(accepted) = &outcome {
            let description = Description::of(&write);
            self.told
                .push(Notification::Wrote(key.clone(), write.object(), description));
            if is_pending && accepted.version.is_some() {
                let by = now.uptime.saturating_add(self.controller.watch_timeout(&write));
                self.requests.awaited.push(id, by, write.clone());
            }
        }
        // The pass may have ended with its term.
        let Some(pass) = self.passes.get_mut(key).filter(|held| held.number == pass) else {
            return;
        };
        if let Outcome::Failed(failed) = &outcome
            && self
                .controller
                .is_failure(&RequestOf::Write(write.clone()), failed)
        {
            pass.fail(failed);
            self.told.push(Notification::Failed(key.clone(), failed.clone()));
        }
        pass.ended(write, outcome);
        if !std::mem::replace(&mut pass.is_runnable, true) {
            self.runnable.push_back(key.clone());
        }
    }

    /// Finds accepted writes that the watch has not shown in time: their fate is unknown.
    pub(super) fn find_overdue(&mut self, now: Now) {
        while let Some((id, write)) = self.requests.awaited.pop_overdue(now.uptime) {
            if self.apply_to_cache(id, &write, Phase::Overdue, now) {
                self.on_event(LoopEvent::Overdue(&write), now);
            }
        }
    }

    /// What `reconcile` returns for `key` in a new pass whose queries `answer` answers at once; for tests.
    pub fn action_answered(
        &self,
        key: &C::Key,
        now: Now,
        mut answer: impl FnMut(&C::Query) -> (Result<AnswerOf<C>, CallFailed>, Option<Timestamp>),
    ) -> Action<C> {
        let mut pass = Pass::default();
        loop {
            let step = self.reconcile(key, &pass, now);
            let Action::Read(queries) = &step else {
                return step;
            };
            let asked = pass.requests;
            for query in queries {
                if !pass.is_answered(query) {
                    let (value, date) = answer(query);
                    let reply = Reply {
                        value,
                        asked: now,
                        answered: now,
                        date,
                    };
                    pass.answered(query.clone(), reply);
                }
            }
            if pass.requests == asked {
                return step;
            }
        }
    }
}
