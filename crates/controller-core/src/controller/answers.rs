//! What becomes of answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use derive_where::derive_where;
use jiff::Timestamp;

use super::mutation::Phase;
use super::{
    AnswerOf, Ask, Controller, Learnt, Loop, Now, Observed, Outcome, Pass, Question, Reply, Step, Told, Write,
};
use crate::api::CallFailed;

/// Below this many accepted writes a look for those that the watch has shown is not worth its time.
const SMALLEST_SWEEP: usize = 128;

/// Answers that serve other keys, too, each until its time.
#[derive_where(Default)]
pub(super) struct Answers<C: Controller> {
    known: BTreeMap<C::Question, (Reply<AnswerOf<C>>, Duration)>,
    until: BTreeSet<(Duration, C::Question)>,
}

impl<C: Controller> Answers<C> {
    pub(super) fn get(&self, question: &C::Question) -> Option<&Reply<AnswerOf<C>>> {
        self.known.get(question).map(|(reply, _)| reply)
    }

    fn keep(&mut self, question: C::Question, reply: Reply<AnswerOf<C>>) {
        let shared_for = question.serves_for(&reply.value);
        if shared_for.is_zero() {
            return;
        }
        let until = reply.answered.uptime.saturating_add(shared_for);
        if let Some((_, known)) = self.known.insert(question.clone(), (reply, until)) {
            self.until.remove(&(known, question.clone()));
        }
        self.until.insert((until, question));
    }

    pub(super) fn forget_before(&mut self, now: Duration) {
        while self.until.first().is_some_and(|(until, _)| *until <= now)
            && let Some((_, question)) = self.until.pop_first()
        {
            self.known.remove(&question);
        }
    }
}

impl<C: Controller> Loop<C> {
    pub(super) fn answered(
        &mut self,
        asker: &C::Key,
        question: C::Question,
        reply: Reply<AnswerOf<C>>,
        now: Now,
    ) {
        self.line.unblock();
        self.reading(&question, &reply.value, now);
        self.learn(asker, Learnt::Answer(&question, &reply), now);
        let askers = self.askers.remove(&question).unwrap_or_default();
        let failed = reply.value.as_ref().err();
        let ask = Ask::Question(question.clone());
        let failed = failed.filter(|failed| self.controller.is_failure(&ask, failed));
        for key in &askers {
            let pass = self.passes.get_mut(key);
            let Some(pass) = pass.filter(|pass| pass.asking.contains(&question)) else {
                continue;
            };
            pass.asking.retain(|asked| *asked != question);
            pass.answers.push((question.clone(), reply.clone()));
            if let Some(failed) = failed {
                pass.fail(failed);
            }
            if std::mem::replace(&mut pass.parked, false) {
                self.queue(key).goes_on(key, -1);
            }
            self.runnable.push_back(key.clone());
        }
        if let Some(failed) = failed {
            self.told.push(Told::Failed(asker.clone(), failed.clone()));
        }
        self.answers.keep(question, reply);
    }

    pub(super) fn wrote(&mut self, key: &C::Key, pass: u64, write: C::Write, outcome: Outcome, now: Now) {
        self.busy.remove(&write.object());
        self.line.unblock();
        let phase = match &outcome {
            Outcome::Accepted(accepted) => Phase::Accepted(accepted),
            Outcome::Failed(failed) if failed.fate_unknown() => Phase::Unknown,
            Outcome::Failed(_) | Outcome::Planned => Phase::Refused,
        };
        let is_pending = self.mutate(&write, phase, now);
        self.learn(key, Learnt::Outcome(&write, &outcome), now);
        if let Outcome::Accepted(accepted) = &outcome {
            let description = write.describe();
            self.told
                .push(Told::Wrote(key.clone(), write.object(), description));
            if let (true, Some(version)) = (is_pending, accepted.version) {
                self.forget_shown(now);
                self.last_id += 1;
                let shown_within = self.controller.shown_within(&write);
                let by = (now.uptime.saturating_add(shown_within), self.last_id);
                self.overdue.insert(by, (write.clone(), version));
            }
        }
        // The pass may have ended with its term.
        let Some(pass) = self.passes.get_mut(key).filter(|held| held.number == pass) else {
            return;
        };
        if let Outcome::Failed(failed) = &outcome
            && self.controller.is_failure(&Ask::Write(write.clone()), failed)
        {
            pass.fail(failed);
            self.told.push(Told::Failed(key.clone(), failed.clone()));
        }
        pass.sending.retain(|sent| *sent != write);
        pass.outcomes.push((write, outcome));
        self.runnable.push_back(key.clone());
    }

    /// The watch has not shown these writes in time: nobody knows whether they stand.
    pub(super) fn find_overdue(&mut self, now: Now) {
        while let Some(entry) = self.overdue.first_entry() {
            if entry.key().0 > now.uptime {
                return;
            }
            let (write, version) = entry.remove();
            if self.mutate(&write, Phase::Overdue(version), now) {
                self.observe(Observed::Overdue(&write), now);
            }
        }
    }

    /// Drops the writes that the watch has shown, whenever there are twice as many as after the last time: each holds
    /// what it was decided on.
    fn forget_shown(&mut self, now: Now) {
        if self.overdue.len() < self.overdue_sweep_at.max(SMALLEST_SWEEP) {
            return;
        }
        let mut overdue = std::mem::take(&mut self.overdue);
        overdue.retain(|_, (write, version)| self.mutate(write, Phase::Awaited(*version), now));
        self.overdue_sweep_at = overdue.len().saturating_mul(2);
        self.overdue = overdue;
    }

    /// What `next` would say of `key` in a new pass whose questions `answer` answers at once; for tests.
    pub fn next_answered(
        &self,
        key: &C::Key,
        now: Now,
        mut answer: impl FnMut(&C::Question) -> (Result<AnswerOf<C>, CallFailed>, Option<Timestamp>),
    ) -> Step<C> {
        let mut pass = Pass::default();
        loop {
            let step = self.next(key, &pass, now);
            let Step::Read(questions) = &step else { return step };
            let asked = pass.answers.len();
            for question in questions {
                if !pass.is_answered(question) {
                    let (value, date) = answer(question);
                    let reply = Reply {
                        value,
                        asked: now,
                        answered: now,
                        date,
                    };
                    pass.answers.push((question.clone(), reply));
                }
            }
            if pass.answers.len() == asked {
                return step;
            }
        }
    }
}
