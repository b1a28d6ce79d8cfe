//! The loop, a value: what has happened, what is in flight, what is to be performed.

mod inspect;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::answers::Answers;
use super::effect::{Completed, Effect, Polled, Told};
use super::line::{Limit, Line};
use super::mutation::{Mutation, Phase, Reading};
use super::plans::Plans;
use super::queue::KeyQueue;
use super::retry::RetryShare;
use super::{
    AnswerOf, Ask, Context, Controller, Learnt, Look, Now, Object, Observed, Outcome, Output, Pass, Reply,
    Step, Wake, Watches,
};
use crate::api::CallFailed;
use crate::informer::{Change, View};
use crate::workqueue::QueueMetrics;

/// The wall clock is looked at again after so long, so that one that is set delays nothing for longer.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Everything that one controller does.
pub struct Loop<C: Controller> {
    pub(super) controller: Arc<C>,
    stores: C::Stores,
    memory: C::Memory,
    queues: Vec<KeyQueue<C::Key>>,
    pub(super) retry_share: RetryShare,
    pub(super) passes: BTreeMap<C::Key, Pass<C>>,
    /// Passes to be asked about at once: an answer of theirs has come.
    pub(super) runnable: VecDeque<C::Key>,
    /// Passes that wait for a permit, or for their object.
    pub(super) line: Line<C::Key>,
    pub(super) in_flight: BTreeMap<u64, InFlight<C>>,
    pub(super) last_id: u64,
    /// Who waits for the answer to a question that is out.
    pub(super) askers: BTreeMap<C::Question, Vec<C::Key>>,
    pub(super) answers: Answers<C>,
    /// Objects that a write of ours is on its way to.
    pub(super) busy: BTreeSet<Object>,
    /// Accepted writes, with their versions, that the watch should have shown by then.
    pub(super) overdue: BTreeMap<(Duration, u64), (C::Write, u64)>,
    /// How many of these make a look for those that it has shown worth its time.
    pub(super) overdue_sweep_at: usize,
    /// Of a dry run.
    pub(super) plans: Plans<C::Key, C::Write>,
    last_pass: u64,
    stage: Stage,
    leading: bool,
    pub(super) dry_run: bool,
    woken: bool,
    pub(super) effects: Vec<Effect<C>>,
    pub(super) told: Vec<Told<C>>,
}

/// The life of a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The caches are not full.
    Starting,
    Working,
    /// Passes that have begun run to their end.
    Draining,
}

pub(super) struct InFlight<C: Controller> {
    pub(super) key: C::Key,
    /// The number of the pass.
    pub(super) pass: u64,
    pub(super) ask: Ask<C>,
    pub(super) sent: Now,
}

impl<C: Controller> Loop<C> {
    /// A loop in which nothing has happened yet. `metrics` are those of the queues, in their order.
    pub fn new(
        controller: Arc<C>,
        stores: C::Stores,
        metrics: impl IntoIterator<Item = Option<QueueMetrics>>,
        dry_run: bool,
    ) -> Self {
        let queues = controller.queues().into_iter().zip(metrics);
        Self {
            queues: queues
                .map(|(queue, metrics)| KeyQueue::new(queue, metrics))
                .collect(),
            controller,
            stores,
            memory: C::Memory::default(),
            retry_share: RetryShare::default(),
            passes: BTreeMap::new(),
            runnable: VecDeque::new(),
            line: Line::default(),
            in_flight: BTreeMap::new(),
            last_id: 0,
            askers: BTreeMap::new(),
            answers: Answers::default(),
            busy: BTreeSet::new(),
            overdue: BTreeMap::new(),
            overdue_sweep_at: 0,
            plans: Plans::default(),
            last_pass: 0,
            stage: Stage::Starting,
            leading: false,
            dry_run,
            woken: false,
            effects: Vec::new(),
            told: Vec::new(),
        }
    }

    /// The same loop, whose keys that fail again and again get no more than `share`.
    #[must_use]
    pub fn retrying_within(mut self, share: RetryShare) -> Self {
        self.retry_share = share;
        self
    }

    /// What the controller remembers.
    pub const fn memory(&self) -> &C::Memory {
        &self.memory
    }

    /// The caches.
    pub const fn stores(&self) -> &C::Stores {
        &self.stores
    }

    /// What the controller says of `key` in this pass.
    pub(super) fn next(&self, key: &C::Key, pass: &Pass<C>, now: Now) -> Step<C> {
        let look = Look {
            memory: &self.memory,
            stores: &self.stores,
            pass,
            now,
            answers: &self.answers,
        };
        self.controller.next(&look, key)
    }

    /// The store holds another view of an object.
    pub fn changed<V: View>(&mut self, change: Change<'_, V>, now: Now)
    where
        C: Watches<V>,
    {
        self.with(now, |controller, cx| controller.changed(cx, change));
    }

    /// Something else has happened.
    pub fn observe(&mut self, observed: Observed<'_, C>, now: Now) {
        match observed {
            Observed::Synced if self.stage == Stage::Starting => self.stage = Stage::Working,
            Observed::Leading(leading) => self.lead(leading, now),
            Observed::Synced | Observed::Resync | Observed::Watching(..) | Observed::Overdue(_) => {}
        }
        self.with(now, |controller, cx| controller.observe(cx, observed));
    }

    /// A term begins, or is over: then so are all passes that need one. The ends of their requests are still told.
    fn lead(&mut self, leading: bool, now: Now) {
        self.leading = leading;
        if leading {
            return;
        }
        for key in self.passes.keys().cloned().collect::<Vec<_>>() {
            if self.queue(&key).queue.needs_term
                && let Some(pass) = self.passes.remove(&key)
            {
                // The next term goes on with it.
                self.end(&key, &pass).wake(key, Wake::Now, now);
            }
        }
        let passes = &self.passes;
        self.line.retain(|key| passes.contains_key(key));
        self.runnable.retain(|key| passes.contains_key(key));
        for askers in self.askers.values_mut() {
            askers.retain(|key| passes.contains_key(key));
        }
    }

    /// Takes no new keys; passes that have sent something run to their end.
    pub fn drain(&mut self) {
        self.stage = Stage::Draining;
        self.passes.retain(|_, pass| pass.is_out() || pass.has_begun());
        let passes = &self.passes;
        self.line.retain(|key| passes.contains_key(key));
    }

    /// Whether nothing is left to finish.
    pub fn is_drained(&self) -> bool {
        self.stage == Stage::Draining && self.passes.is_empty()
    }

    /// Whether the controller's work is over.
    pub fn finished(&self) -> Option<Result<(), String>> {
        self.controller.finished(&self.memory)
    }

    /// One turn.
    pub fn poll(&mut self, now: Now, limit: &dyn Limit) -> Polled<C> {
        let mut again = None;
        if self.stage != Stage::Starting {
            self.find_overdue(now);
            while let Some(key) = self.plans.pop_review(now.uptime) {
                self.wake(vec![(key, Wake::Now)], now);
            }
            self.answers.forget_before(now.uptime);
            self.resume(now, limit);
            self.begin(now, limit);
            self.give_up_waiting(now);
            self.line.give_back(limit);
            again = self.next_time(now);
        }
        Polled {
            effects: std::mem::take(&mut self.effects),
            told: self.take_told(),
            again,
        }
    }

    fn next_time(&self, now: Now) -> Option<Duration> {
        let queues = self.queues.iter();
        let open = queues.filter(|queue| self.stage == Stage::Working && queue.is_open(self.leading));
        let overdue = self.overdue.keys().next().map(|(at, _)| *at);
        let looks = overdue.into_iter().chain(self.plans.next_review());
        let looks = looks.map(|at| at.saturating_sub(now.uptime));
        let runnable = (!self.runnable.is_empty()).then_some(Duration::ZERO);
        let times = open
            .filter_map(|queue| queue.next_time(now, &self.retry_share))
            .chain(looks);
        let times = times.chain(runnable).chain(self.line.wait(now.uptime));
        times.min().map(|wait| wait.min(LOOK_AGAIN))
    }

    /// Whether something has happened since the last call that makes a turn worth it.
    pub fn take_woken(&mut self) -> bool {
        std::mem::take(&mut self.woken)
    }

    /// What people are to be told.
    pub fn take_told(&mut self) -> Vec<Told<C>> {
        std::mem::take(&mut self.told)
    }

    /// The request of this number has ended.
    pub fn completed(&mut self, id: u64, completed: Completed<AnswerOf<C>>, now: Now) {
        let Some(InFlight { key, pass, ask, sent }) = self.in_flight.remove(&id) else {
            return;
        };
        match (ask, completed) {
            (Ask::Question(question), Completed::Read(value, date)) => {
                let reply = Reply {
                    value,
                    asked: sent,
                    answered: now,
                    date,
                };
                self.answered(&key, question, reply, now);
            }
            (Ask::Write(write), Completed::Wrote(answer)) => {
                let outcome = answer.map_or_else(Outcome::Failed, Outcome::Accepted);
                self.wrote(&key, pass, write, outcome, now);
            }
            // Not what was asked for.
            _ => {}
        }
    }

    /// Begins the pass of the first key of the queues that may.
    pub(super) fn begin_pass(&mut self, now: Now) -> Option<C::Key> {
        let leading = self.leading;
        let queues = self.queues.iter_mut().filter(|_| self.stage == Stage::Working);
        let mut open = queues.filter(|queue| queue.is_open(leading));
        let share = &mut self.retry_share;
        let key = open.find_map(|queue| queue.begin(now, share))?;
        self.last_pass += 1;
        let pass = Pass {
            number: self.last_pass,
            ..Pass::default()
        };
        self.passes.insert(key.clone(), pass);
        Some(key)
    }

    pub(super) fn queue(&mut self, key: &C::Key) -> &mut KeyQueue<C::Key> {
        let index = self.controller.queue_of(key).min(self.queues.len() - 1);
        &mut self.queues[index]
    }

    pub(super) fn wake(&mut self, wakes: Vec<(C::Key, Wake)>, now: Now) {
        for (key, wake) in wakes {
            self.woken |= wake != Wake::Never;
            self.queue(&key).wake(key, wake, now);
        }
    }

    pub(super) fn learn(&mut self, key: &C::Key, learnt: Learnt<'_, C>, now: Now) {
        self.with(now, |controller, cx| controller.learn(cx, key, learnt));
    }

    /// Brings the store to where the write is; whether the watch has still to show it.
    pub(super) fn mutate(&mut self, write: &C::Write, phase: Phase<'_>, now: Now) -> bool {
        self.with(now, |controller, cx| {
            let stores = cx.stores;
            let mut mutation = Mutation {
                phase,
                controller,
                cx,
                is_pending: false,
            };
            controller.shows(stores, write, &mut mutation);
            mutation.is_pending
        })
    }

    /// Brings the store to what a question tells of it; no answer yet where it is only being asked.
    pub(super) fn reading(
        &mut self,
        question: &C::Question,
        answer: &Result<AnswerOf<C>, CallFailed>,
        now: Now,
    ) {
        self.with(now, |controller, cx| {
            let stores = cx.stores;
            controller.reads(
                stores,
                question,
                &mut Reading {
                    answer,
                    controller,
                    cx,
                },
            );
        });
    }

    /// Lets the controller change its memory, then does what it asks for.
    fn with<T>(&mut self, now: Now, act: impl FnOnce(&C, &mut Context<'_, C>) -> T) -> T {
        let mut cx = Context {
            memory: &mut self.memory,
            stores: &self.stores,
            leading: self.leading,
            now,
            out: Output::default(),
        };
        let result = act(&self.controller, &mut cx);
        let Output { wakes, events } = cx.out;
        if self.leading {
            self.told.extend(events.into_iter().map(Told::Event));
        }
        self.wake(wakes, now);
        result
    }
}
