//! The two properties that hold for every controller at each step of a run.

use std::time::Duration;

use controller_core::api::CLOCK_TOLERANCE;
use controller_core::controller::{Action, Completed, Controller, Now, RequestOf, Requeue};
use controller_core::time::saturating_add;

use super::flying::answer_of;
use super::model::{KeyOf, Model};
use super::process::{Process, Role};
use super::run::Sim;

impl<M: Model> Sim<M> {
    pub(super) fn steps(&self) -> Vec<(KeyOf<M>, Action<M::Controller>)> {
        let (keys, process) = (self.model.keys().into_iter(), &self.process);
        keys.map(|key| (key.clone(), process.event_loop.action_of(&key, process.now)))
            .collect()
    }

    pub(super) fn assert_enqueued(&mut self, before: &[(KeyOf<M>, Action<M::Controller>)]) {
        for (key, before) in before {
            let after = self.process.event_loop.action_of(key, self.process.now);
            if *before == after
                || self.model.is_left(key, self.process.event_loop.stores())
                || (self.process.event_loop.needs_term(key) && !self.process.leading)
            {
                continue;
            }
            let covers = self.model.covers(key);
            let is_enqueued = |key: &KeyOf<M>| self.process.event_loop.is_queued(key, self.process.now);
            assert!(
                is_enqueued(key)
                    || covers.iter().any(is_enqueued)
                    || self.is_kept(key, &after, self.process.now),
                "a change made {after:?} of {before:?} for {key}, and did not enqueue it"
            );
        }
    }

    /// A dry run sends no write, nor does a process without the term.
    pub(super) fn assert_may_write(&self, write: &<M::Controller as Controller>::Write) {
        let Process { role, number, .. } = self.process;
        assert_ne!(role, Role::DryRun, "a dry run sends {write:?}");
        let has_term = role == Role::Leader || self.term == Some(number);
        assert!(has_term, "sent without the term: {write:?}");
    }

    /// The done contract: no key has anything to do; each comes back at the time that it names, and says the same until
    /// something is due.
    pub(super) fn assert_idle(&mut self, again: Option<Duration>) {
        let half = again.unwrap_or(Duration::from_secs(1)) / 2;
        let meanwhile = Now {
            wall: saturating_add(self.process.now.wall, half),
            uptime: self.process.now.uptime + half,
        };
        for (key, step) in self.steps() {
            assert!(
                self.is_kept(&key, &step, self.process.now),
                "nothing is on its way, and for {key:?} there is {step:?}"
            );
            let later = self.process.event_loop.action_of(&key, meanwhile);
            assert!(
                self.is_kept(&key, &later, meanwhile),
                "nothing happens, and for {key:?} there is {later:?} after {step:?}"
            );
        }
    }

    /// True if `key` comes back through another key.
    fn is_covered(&self, key: &KeyOf<M>) -> bool {
        let covers = self.model.covers(key);
        covers
            .iter()
            .any(|key| self.process.event_loop.scheduled_at(key).is_some())
    }

    /// Returns whether `key` comes back at the time that `step` names for it at `now`, if any. If `step` sends queries,
    /// the action after their answers counts; no watch reports new answers, so the key may also come back through
    /// another key.
    fn is_kept(&mut self, key: &KeyOf<M>, step: &Action<M::Controller>, now: Now) -> bool {
        if let Action::Read(_) = step {
            let (model, event_loop) = (&mut self.model, &self.process.event_loop);
            let servers = self.process.servers(now);
            let answer = |query: &_| match answer_of(model, &RequestOf::Query(Clone::clone(query)), servers) {
                Completed::Read(value, date) => (value, date),
                Completed::Wrote(_) => panic!("the answer to a write"),
            };
            let answered = event_loop.action_answered(key, now, answer);
            return self.is_covered(key)
                || (!matches!(answered, Action::Read(_)) && self.is_kept(key, &answered, now));
        }
        // A key whose pass failed is retried after a wait, or waits for its turn among those that keep failing.
        let is_retried = self.process.event_loop.is_waiting(key)
            || self.process.event_loop.is_queued(key, now)
            // An answer that another key got is as new to this key as one of its own.
            || self.process.event_loop.shares_answers() && self.is_covered(key);
        // What a wrong clock or a slow answer has put off waits until the key comes back.
        let is_retried =
            is_retried || self.process.is_unsure && self.process.event_loop.scheduled_at(key).is_some();
        let Action::Done(requeues) = step else {
            return is_retried;
        };
        let own = requeues.iter().find(|(enqueued, _)| enqueued == key);
        match own {
            None | Some((_, Requeue::Cancel)) => true,
            Some((_, Requeue::At(at))) => {
                let keys = [Some(key.clone()), self.model.twin(key)].into_iter().flatten();
                let known = keys
                    .filter_map(|key| self.process.event_loop.scheduled_at(&key))
                    .min();
                // `Date` has whole seconds.
                let latest = at.saturating_add(CLOCK_TOLERANCE).unwrap();
                is_retried || known.is_some_and(|known| known <= latest)
            }
            Some((_, Requeue::Now | Requeue::Reset | Requeue::After(_))) => is_retried,
        }
    }
}
