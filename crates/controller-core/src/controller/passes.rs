//! The pass of a key, from its queue to [`Action::Done`].

use std::time::Duration;

use super::cache::{Phase, ReadPhase, SentAt};
use super::held_write::HeldWrite;
use super::pass::PassFailed;
use super::permit_queue::{Limit, Rank, Turn};
use super::requests::{InFlight, SlotOf};
use super::{
    Action, Controller, Description, Effect, Failed, Loop, Notification, Now, Outcome, Pass, RequestOf,
    Requeue, ResultOf, Retry, Write,
};

/// A pass with more effects since its last accepted write makes no progress.
const MOST_EFFECTS: u32 = 1_000;
/// Passes that begin in one turn, at most; then other tasks get one.
const PASSES_A_TURN: usize = 1_024;
/// How often a pass that waits for its turn is reported as not stuck.
const SIGN_OF_LIFE: Duration = Duration::from_mins(1);

/// A request that takes longer no longer holds a worker: other passes get it.
const SLOW: Duration = Duration::from_secs(1);

/// How far an action has come.
enum Progress {
    /// Done: call `reconcile` again.
    Went,
    /// In flight.
    Waits,
    /// Lacks a permit.
    Lacks,
    /// Waits for a slot: the object is busy, or as many queries of the kind are in flight as may be.
    Blocked,
    /// Everything in it has been tried in this pass.
    Nothing,
}

impl<C: Controller> Loop<C> {
    /// Continues passes whose result has come, then those that wait for a permit.
    pub(super) fn resume(&mut self, now: Now, limit: &dyn Limit) {
        loop {
            while let Some(key) = self.runnable.pop_front() {
                self.advance(key, Turn::Last, now, limit);
            }
            if self.line.len() == 0 || !limit.wait().is_zero() {
                return;
            }
            if let Some(key) = self.line.pop() {
                if let Some(pass) = self.passes.get_mut(&key) {
                    pass.spot = None;
                }
                self.advance(key, Turn::First, now, limit);
            }
        }
    }

    /// Begins passes while there are keys and workers.
    pub(super) fn begin(&mut self, now: Now, limit: &dyn Limit) {
        for _ in 0..PASSES_A_TURN {
            let Some(key) = self.begin_pass(now) else { return };
            self.advance(key, Turn::Last, now, limit);
        }
    }

    /// Calls `reconcile` for a key in its pass until an action needs time.
    fn advance(&mut self, key: C::Key, turn: Turn, now: Now, limit: &dyn Limit) {
        let Some(mut pass) = self.passes.remove(&key) else {
            return;
        };
        pass.is_runnable = false;
        pass.forget_old_answers(now.uptime);
        self.requests.slots.leave(&mut pass.slots);
        loop {
            let step = self.reconcile(&key, &pass, now);
            let is_write = matches!(step, Action::Write(_));
            let rank = match (pass.writes(), &step) {
                (0, _) if pass.held_write == HeldWrite::TooLong => Rank::FollowUp,
                (0, Action::Read(_)) => Rank::Reads,
                (0, _) => Rank::Writes,
                (1, _) => Rank::FollowUp,
                _ => Rank::Begun,
            };
            let progress = match step {
                // Wait for the requests in flight.
                Action::Done(_) | Action::Fail(_) if pass.is_out() => Progress::Waits,
                Action::Done(requeues) => return self.finish(&key, pass, requeues, now),
                Action::Fail(failed) => return self.fail(&key, pass, failed, now),
                _ if pass.effects >= MOST_EFFECTS && pass.is_out() => Progress::Waits,
                _ if pass.effects >= MOST_EFFECTS => return self.get_nowhere(&key, pass, now),
                Action::Remember(note) => {
                    pass.effects += 1;
                    self.on_result(&key, ResultOf::Remembered(note), now);
                    Progress::Went
                }
                Action::Read(queries) => self.read(&key, &mut pass, queries, turn, now, limit),
                Action::Write(writes) => self.write(&key, &mut pass, writes, turn, now, limit),
            };
            let holds = is_write && matches!(progress, Progress::Lacks | Progress::Blocked);
            let is_out = pass.is_out();
            pass.held_write.observe(holds && !is_out, now.uptime);
            match progress {
                Progress::Went => continue,
                Progress::Nothing if !pass.is_out() => return self.stop(&key, pass, now),
                Progress::Lacks => {
                    if pass.slots.keeps_one() {
                        // Another that became free would take the place of the kept one.
                        self.requests.slots.leave(&mut pass.slots);
                    }
                    pass.lacks_since.get_or_insert(now.uptime);
                    let namespace = self.controller.namespace_of(&key);
                    self.line.push(key.clone(), namespace, rank, &mut pass.spot);
                }
                Progress::Waits | Progress::Nothing | Progress::Blocked => {
                    pass.lacks_since = None;
                    self.line.leave(&mut pass.spot);
                    self.give_up_slot(&mut pass);
                }
            }
            return self.keep(key, pass, now);
        }
    }

    /// Keeps the pass for later. One that only waits for an answer, or for a slot to send a query, may give up its
    /// worker, and so does one whose requests take long.
    fn keep(&mut self, key: C::Key, mut pass: Pass<C>, now: Now) {
        let (queue, seats) = self.seated(&key);
        let only_reads = pass.sending.is_empty() && (pass.is_out() || pass.slots.waits_to_ask());
        let is_parked = only_reads && !queue.queue.reads_hold_workers;
        queue.park(&key, is_parked, pass.is_slow, &seats);
        queue.goes_on(&key);
        let since = *pass.quiet_since.get_or_insert(now.uptime);
        let after = match (pass.is_out(), is_parked) {
            (true, false) => Some(SLOW),
            // It holds no worker, and its requests have time limits of their own.
            (true, true) => None,
            (false, _) => Some(SIGN_OF_LIFE),
        };
        match after {
            Some(after) => self.deadlines.set(key.clone(), since.saturating_add(after)),
            None => self.deadlines.remove(&key),
        }
        self.passes.insert(key, pass);
    }

    /// Takes the workers from passes whose requests take long, and reports those that wait for their turn as not stuck.
    pub(super) fn expire(&mut self, now: Now) {
        while let Some(key) = self.deadlines.pop_due(now.uptime) {
            let Some(pass) = self.passes.get_mut(&key) else {
                continue;
            };
            if pass.is_out() {
                pass.is_slow = true;
                let (queue, seats) = self.seated(&key);
                queue.park(&key, true, true, &seats);
            } else {
                self.queue(&key).goes_on(&key);
                self.deadlines.set(key, now.uptime.saturating_add(SIGN_OF_LIFE));
            }
        }
    }

    /// Hands the slot that is kept for the pass to the next.
    fn give_up_slot(&mut self, pass: &mut Pass<C>) {
        if let Some(slot) = pass.slots.give_up() {
            self.free_slot(&slot);
        }
    }

    pub(super) fn free_slot(&mut self, slot: &SlotOf) {
        while let Some(key) = self.requests.slots.free(slot) {
            if let Some(pass) = self.passes.get_mut(&key) {
                // A pass keeps one slot at a time: another that becomes free goes to the next pass.
                self.requests.slots.leave(&mut pass.slots);
                pass.slots.keep(slot.clone());
                if !std::mem::replace(&mut pass.is_runnable, true) {
                    self.runnable.push_back(key);
                }
                return;
            }
        }
    }

    fn read(
        &mut self,
        key: &C::Key,
        pass: &mut Pass<C>,
        queries: Vec<C::Query>,
        turn: Turn,
        now: Now,
        limit: &dyn Limit,
    ) -> Progress {
        let (mut progress, mut is_full) = (Progress::Nothing, false);
        for query in queries {
            if pass.querying.contains(&query) {
                progress = Progress::Waits;
                continue;
            }
            if pass.is_answered(&query) {
                continue;
            }
            let mut stores = Vec::new();
            self.refresh_cache(&query, ReadPhase::Sent(&mut stores), now);
            if !self.requests.join(&query, key, &stores) {
                let slot = SlotOf::query(&query);
                if let Some((slot, at_most)) = &slot
                    && !self.requests.slots.is_free(slot, *at_most, &pass.slots)
                {
                    self.wait_for(slot.clone(), key, pass);
                    is_full = true;
                    continue;
                }
                if !self.line.permit(turn, limit) {
                    return Progress::Lacks;
                }
                if let Some((slot, _)) = slot {
                    self.requests.slots.take(slot, &mut pass.slots);
                }
                self.send(key, pass, RequestOf::Query(query.clone()), stores, now);
            }
            pass.goes_out();
            pass.querying.push(query);
            progress = Progress::Waits;
        }
        if is_full { Progress::Blocked } else { progress }
    }

    fn wait_for(&mut self, slot: SlotOf, key: &C::Key, pass: &mut Pass<C>) {
        let namespace = self.controller.namespace_of(key);
        let slots = &mut self.requests.slots;
        slots.wait(slot, key.clone(), namespace, &mut pass.slots);
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
            let slot = SlotOf::Object(write.object());
            if !self.requests.slots.is_free(&slot, 1, &pass.slots) {
                self.wait_for(slot, key, pass);
                is_blocked = true;
                continue;
            }
            if !self.line.permit(turn, limit) {
                return Progress::Lacks;
            }
            self.requests.slots.take(slot, &mut pass.slots);
            self.apply_to_cache(0, &write, Phase::Begins, now);
            self.send(key, pass, RequestOf::Write(write.clone()), Vec::new(), now);
            pass.goes_out();
            pass.sending.push(write);
            progress = Progress::Waits;
        }
        if is_blocked { Progress::Blocked } else { progress }
    }

    /// Records a write of a dry run, which continues as if the write had been sent. Notifies once, until a successful
    /// pass no longer plans the write.
    fn plan(&mut self, key: &C::Key, pass: &mut Pass<C>, write: C::Write, now: Now) {
        if self.plans.add(key, &write, now.uptime) && write.is_planned() {
            let planned = Notification::Planned(key.clone(), write.object(), Description::of(&write));
            self.told.push(planned);
        }
        self.on_result(key, ResultOf::Outcome(&write, &Outcome::Planned), now);
        pass.ended(write, Outcome::Planned);
        pass.effects += 1;
    }

    fn send(&mut self, key: &C::Key, pass: &Pass<C>, ask: RequestOf<C>, stores: Vec<SentAt>, now: Now) {
        self.on_result(key, ResultOf::Sent(&ask), now);
        let attempt = self.queue(key).num_requeues(key);
        let waited = pass.lacks_since.map(|since| now.uptime.saturating_sub(since));
        let id = self.requests.send(InFlight {
            key: key.clone(),
            pass: pass.number,
            ask: ask.clone(),
            sent: now,
            stores,
        });
        self.effects.push(Effect {
            id,
            key: key.clone(),
            attempt,
            waited: waited.unwrap_or_default(),
            ask,
        });
    }

    /// Ends a pass that is done. If it failed, its queue retries the key where that is the policy; a requeue of the key
    /// itself does not count then.
    fn finish(&mut self, key: &C::Key, pass: Pass<C>, mut requeues: Vec<(C::Key, Requeue)>, now: Now) {
        if pass.failed.is_some() && matches!(self.queue(key).queue.retry, Retry::RateLimited(_)) {
            self.stop(key, pass, now);
            requeues.retain(|(enqueued, _)| enqueued != key);
        } else {
            self.succeed(key, pass, now);
        }
        self.requeue(requeues, now);
    }

    /// Ends a pass as failed, although none of its requests failed.
    fn fail(&mut self, key: &C::Key, mut pass: Pass<C>, failed: Failed<C>, now: Now) {
        let Failed {
            reason,
            text,
            not_before,
            requeues,
        } = failed;
        let failed = pass.failed.get_or_insert_default();
        failed.wait = failed.wait.max(not_before);
        self.told
            .push(Notification::PassFailed(key.clone(), reason, text));
        self.finish(key, pass, requeues, now);
    }

    /// Ends a pass in which everything that the controller would do has been tried.
    fn stop(&mut self, key: &C::Key, pass: Pass<C>, now: Now) {
        if let Some(failed) = pass.failed {
            self.retry(key, pass, failed, now);
        } else if pass.is_planned() || pass.has_failure {
            self.succeed(key, pass, now);
        } else {
            self.get_nowhere(key, pass, now);
        }
    }

    fn get_nowhere(&mut self, key: &C::Key, pass: Pass<C>, now: Now) {
        self.told.push(Notification::NoProgress(key.clone()));
        self.retry(key, pass, PassFailed::default(), now);
    }

    /// Retries the key; one that fails again pays for each request of its pass.
    fn retry(&mut self, key: &C::Key, pass: Pass<C>, failed: PassFailed, now: Now) {
        let requests = pass.requests;
        self.end(key, pass);
        let queue = self.queue(key);
        let fails_again = queue.is_failing(key);
        queue.retry(key.clone(), failed, now);
        if fails_again {
            self.retry_share.owe(requests.saturating_sub(1), now.uptime);
        }
    }

    fn succeed(&mut self, key: &C::Key, pass: Pass<C>, now: Now) {
        let (failed, planned) = (pass.failed, pass.planned());
        self.plans.set(key, planned, now.uptime);
        self.end(key, pass);
        let (queue, seats) = self.seated(key);
        let has_recovered = queue.is_failing(key) && failed.is_none();
        if failed.is_some() {
            queue.fail(key, now);
        } else {
            queue.forget(key, &seats);
        }
        if has_recovered {
            self.retry_share.give_back();
        }
    }

    /// Ends the pass and gives back what it holds.
    pub(super) fn end(&mut self, key: &C::Key, mut pass: Pass<C>) {
        self.deadlines.remove(key);
        self.line.leave(&mut pass.spot);
        self.requests.slots.leave(&mut pass.slots);
        self.give_up_slot(&mut pass);
        let (queue, seats) = self.seated(key);
        queue.done(key, &seats);
    }
}
