//! The pass of a key, from its queue to [`Step::Done`].

use std::time::Duration;

use super::event_loop::InFlight;
use super::line::{Limit, Rank, Turn};
use super::mutation::Phase;
use super::pass::PassFailed;
use super::queue::KeyQueue;
use super::{
    Ask, Asking, Controller, Effect, Failed, Learnt, Loop, Now, Outcome, Pass, Question, Retry, Step, Told,
    Wake, Write,
};

/// A pass with more effects makes no progress.
const MOST_EFFECTS: u32 = 1_000;
/// So many passes begin in one turn; then others get one.
const PASSES_A_TURN: usize = 1_024;
/// A pass that waits longer for a permit goes back to its queue, so that no worker looks stuck.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// How far a step has come.
enum Progress {
    /// It is done: ask again.
    Went,
    /// It is on its way.
    Waits,
    /// It lacks a permit.
    Lacks,
    /// Its object is busy.
    Blocked,
    /// As many questions of its kind are out as may be.
    Full,
    /// All of it has been tried in this pass.
    Nothing,
}

impl<C: Controller> Loop<C> {
    /// Passes that have an answer, then those in the line.
    pub(super) fn resume(&mut self, now: Now, limit: &dyn Limit) {
        while let Some(key) = self.runnable.pop_front() {
            self.advance(key, Turn::Last, now, limit);
        }
        for _ in 0..self.line.len() {
            let is_there = self.line.wait(now.uptime).is_none_or(|wait| wait.is_zero());
            let Some(key) = is_there.then(|| self.line.pop()).flatten() else {
                return;
            };
            self.advance(key, Turn::First, now, limit);
        }
    }

    /// Begins passes while there are keys and workers.
    pub(super) fn begin(&mut self, now: Now, limit: &dyn Limit) {
        for _ in 0..PASSES_A_TURN {
            let Some(key) = self.begin_pass(now) else { return };
            self.advance(key, Turn::Last, now, limit);
        }
    }

    /// Asks what to do for a key in a pass until that needs time.
    fn advance(&mut self, key: C::Key, turn: Turn, now: Now, limit: &dyn Limit) {
        let Some(mut pass) = self.passes.remove(&key) else {
            return;
        };
        if turn == Turn::Last && pass.waits_since.is_some() {
            self.line.retain(|waiting| *waiting != key);
        }
        loop {
            let step = self.next(&key, &pass, now);
            let rank = match &step {
                _ if pass.has_begun() => Rank::Begun,
                Step::Read(_) => Rank::Reads,
                _ => Rank::Writes,
            };
            let progress = match step {
                // What is on its way is waited for.
                Step::Done(_) | Step::Fail(_) if pass.is_out() => Progress::Waits,
                Step::Done(wakes) => return self.finish(&key, &pass, wakes, now),
                Step::Fail(failed) => return self.fail(&key, pass, failed, now),
                _ if pass.effects >= MOST_EFFECTS && pass.is_out() => Progress::Waits,
                _ if pass.effects >= MOST_EFFECTS => return self.get_nowhere(&key, &pass, now),
                Step::Note(note) => {
                    pass.effects += 1;
                    self.learn(&key, Learnt::Noted(note), now);
                    Progress::Went
                }
                Step::Read(questions) => self.read(&key, &mut pass, questions, turn, now, limit),
                Step::Write(writes) => self.write(&key, &mut pass, writes, turn, now, limit),
            };
            match progress {
                Progress::Went => {}
                Progress::Nothing if !pass.is_out() => return self.stop(&key, &pass, now),
                Progress::Waits | Progress::Nothing => {
                    (pass.waits_since, pass.lacks_since) = (None, None);
                    return self.keep(key, pass, false);
                }
                Progress::Lacks => {
                    pass.waits_since.get_or_insert(now.uptime);
                    pass.lacks_since.get_or_insert(now.uptime);
                    self.line.push(key.clone(), rank, turn);
                    return self.keep(key, pass, false);
                }
                Progress::Blocked | Progress::Full => {
                    pass.waits_since.get_or_insert(now.uptime);
                    pass.lacks_since = None;
                    self.line.block(key.clone(), rank);
                    return self.keep(key, pass, matches!(progress, Progress::Full));
                }
            }
        }
    }

    /// The pass goes on later; one that only waits for an answer, or to ask, may give its worker up.
    fn keep(&mut self, key: C::Key, mut pass: Pass<C>, is_full: bool) {
        let parked = pass.sending.is_empty() && (!pass.asking.is_empty() || is_full);
        let more = isize::from(parked) - isize::from(pass.parked);
        pass.parked = parked;
        self.queue(&key).goes_on(&key, more);
        self.passes.insert(key, pass);
    }

    fn read(
        &mut self,
        key: &C::Key,
        pass: &mut Pass<C>,
        questions: Vec<C::Question>,
        turn: Turn,
        now: Now,
        limit: &dyn Limit,
    ) -> Progress {
        let (mut progress, mut is_full) = (Progress::Nothing, false);
        for question in questions {
            if pass.asking.contains(&question) {
                progress = Progress::Waits;
                continue;
            }
            if pass.is_answered(&question) {
                continue;
            }
            if let Some(askers) = self.askers.get_mut(&question) {
                askers.push(key.clone());
            } else {
                if self.is_full(&question) {
                    is_full = true;
                    continue;
                }
                if !self.line.permit(turn, now.uptime, limit) {
                    return Progress::Lacks;
                }
                self.askers.insert(question.clone(), vec![key.clone()]);
                self.send(key, pass, Ask::Question(question.clone()), now);
            }
            pass.effects += 1;
            pass.asking.push(question);
            progress = Progress::Waits;
        }
        if is_full { Progress::Full } else { progress }
    }

    fn is_full(&self, question: &C::Question) -> bool {
        let Asking { kind, at_most, .. } = question.asking();
        let of_the_kind = |out: &&C::Question| out.asking().kind == kind;
        at_most != usize::MAX && self.askers.keys().filter(of_the_kind).count() >= at_most
    }

    fn write(
        &mut self,
        key: &C::Key,
        pass: &mut Pass<C>,
        writes: Vec<C::Write>,
        turn: Turn,
        now: Now,
        limit: &dyn Limit,
    ) -> Progress {
        let (mut progress, mut is_blocked) = (Progress::Nothing, false);
        for write in writes {
            if pass.sending.contains(&write) {
                progress = Progress::Waits;
                continue;
            }
            if pass.outcome(&write).is_some() {
                continue;
            }
            if self.dry_run {
                self.plan(key, pass, write, now);
                return Progress::Went;
            }
            let object = write.object();
            if self.busy.contains(&object) {
                is_blocked = true;
                continue;
            }
            if !self.line.permit(turn, now.uptime, limit) {
                return Progress::Lacks;
            }
            self.busy.insert(object);
            self.mutate(&write, Phase::Begins, now);
            self.send(key, pass, Ask::Write(write.clone()), now);
            pass.effects += 1;
            pass.sending.push(write);
            progress = Progress::Waits;
        }
        if is_blocked { Progress::Blocked } else { progress }
    }

    /// A dry run goes on as if the write had been sent. Told once, until a pass that succeeds does not plan it any more.
    fn plan(&mut self, key: &C::Key, pass: &mut Pass<C>, write: C::Write, now: Now) {
        if self.plans.add(key, &write, now.uptime) && write.is_planned() {
            let planned = Told::Planned(key.clone(), write.object(), write.describe());
            self.told.push(planned);
        }
        self.learn(key, Learnt::Outcome(&write, &Outcome::Planned), now);
        pass.outcomes.push((write, Outcome::Planned));
        pass.effects += 1;
    }

    fn send(&mut self, key: &C::Key, pass: &Pass<C>, ask: Ask<C>, now: Now) {
        self.learn(key, Learnt::Sent(&ask), now);
        self.last_id += 1;
        let (id, key) = (self.last_id, key.clone());
        let attempt = self.queue(&key).num_requeues(&key);
        let in_flight = InFlight {
            key: key.clone(),
            pass: pass.number,
            ask: ask.clone(),
            sent: now,
        };
        let waited = pass.lacks_since.map(|since| now.uptime.saturating_sub(since));
        self.in_flight.insert(id, in_flight);
        self.effects.push(Effect {
            id,
            key,
            attempt,
            waited: waited.unwrap_or_default(),
            ask,
        });
    }

    /// The pass has come to its end. One that failed is retried by its queue, if that is its policy: what it names for
    /// the key itself does not count then.
    fn finish(&mut self, key: &C::Key, pass: &Pass<C>, mut wakes: Vec<(C::Key, Wake)>, now: Now) {
        if pass.failed.is_some() && matches!(self.queue(key).queue.retry, Retry::RateLimited(_)) {
            self.stop(key, pass, now);
            wakes.retain(|(woken, _)| woken != key);
        } else {
            self.succeed(key, pass, now);
        }
        self.wake(wakes, now);
    }

    /// The pass has failed without a request that has.
    fn fail(&mut self, key: &C::Key, mut pass: Pass<C>, failed: Failed<C>, now: Now) {
        let Failed {
            reason,
            text,
            not_before,
            wakes,
        } = failed;
        let failed = pass.failed.get_or_insert_default();
        failed.wait = failed.wait.max(not_before);
        self.told.push(Told::PassFailed(key.clone(), reason, text));
        self.finish(key, &pass, wakes, now);
    }

    /// Everything that the controller would do has been tried in this pass.
    fn stop(&mut self, key: &C::Key, pass: &Pass<C>, now: Now) {
        if let Some(failed) = pass.failed {
            self.retry(key, pass, failed, now);
        } else if pass.is_planned() || pass.has_failure() {
            self.succeed(key, pass, now);
        } else {
            self.get_nowhere(key, pass, now);
        }
    }

    fn get_nowhere(&mut self, key: &C::Key, pass: &Pass<C>, now: Now) {
        self.told.push(Told::NoProgress(key.clone()));
        self.retry(key, pass, PassFailed::default(), now);
    }

    /// A key that fails again pays for each request of its pass.
    fn retry(&mut self, key: &C::Key, pass: &Pass<C>, failed: PassFailed, now: Now) {
        let queue = self.end(key, pass);
        let fails_again = queue.is_failing(key);
        queue.retry(key.clone(), failed, now);
        if fails_again {
            self.retry_share
                .owe(pass.requests().saturating_sub(1), now.uptime);
        }
    }

    fn succeed(&mut self, key: &C::Key, pass: &Pass<C>, now: Now) {
        let planned = pass.outcomes.iter().filter(|_| pass.is_planned());
        let planned = planned.map(|(write, _)| write.clone()).collect();
        self.plans.set(key, planned, now.uptime);
        let queue = self.end(key, pass);
        let has_failed = queue.is_failing(key);
        if pass.failed.is_some() {
            queue.fail(key, now);
        } else {
            queue.forget(key);
            if has_failed {
                self.retry_share.give_back();
            }
        }
    }

    pub(super) fn end(&mut self, key: &C::Key, pass: &Pass<C>) -> &mut KeyQueue<C::Key> {
        let queue = self.queue(key);
        queue.goes_on(key, -isize::from(pass.parked));
        queue.done(key);
        queue
    }

    fn first_late(&self, now: Now) -> Option<C::Key> {
        let is_late = |pass: &Pass<C>| {
            let since = pass.waits_since.filter(|_| !pass.is_out());
            since.is_some_and(|since| now.uptime.saturating_sub(since) >= LONGEST_WAIT)
        };
        let mut first = self.line.first_fresh();
        first
            .find(|key| self.passes.get(*key).is_some_and(is_late))
            .cloned()
    }

    /// A pass that has waited so long, and has sent nothing, gives its place up.
    pub(super) fn give_up_waiting(&mut self, now: Now) {
        while let Some(key) = self.first_late(now)
            && let Some(pass) = self.passes.remove(&key)
        {
            self.line.retain(|waiting| *waiting != key);
            self.end(&key, &pass).wake(key, Wake::Now, now);
        }
    }
}
