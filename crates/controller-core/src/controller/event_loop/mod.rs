//! The loop as a value: what has happened, what is in flight, what must be performed.

mod fingerprint;
mod inspect;
mod inspector;
mod times;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use derive_where::derive_where;
use jiff::Timestamp;

use super::answers::Answers;
use super::effect::{Completed, Effect, Notification, Polled};
use super::key_queue::KeyQueue;
use super::permit_queue::{Limit, PermitQueue};
use super::plans::Plans;
use super::requests::{InFlight, Requests};
use super::retry::RetryShare;
use super::seating::Seating;
use super::timers::Timers;
use super::{
    Action, AnswerOf, Context, ContextMut, Controller, LoopEvent, Now, Outcome, Output, Pass, Reply,
    RequestOf, Requeue, ResultOf, StoreOf, Watches,
};
use crate::cache::{Delta, SourceEvent, Store, Taken, View};
use crate::workqueue::QueueMetrics;

pub use self::inspector::Inspector;

/// One running controller: its caches, queues, passes and requests in flight.
#[derive_where(Clone; C::Stores)]
pub struct Loop<C: Controller> {
    pub(super) controller: Arc<C>,
    stores: C::Stores,
    state: C::State,
    queues: Vec<KeyQueue<C::Key>>,
    pub(super) retry_share: RetryShare,
    pub(super) passes: BTreeMap<C::Key, Pass<C>>,
    /// Passes to reconcile at once: something that they waited for has come.
    pub(super) runnable: VecDeque<C::Key>,
    /// Passes that wait for a permit.
    pub(super) line: PermitQueue<C::Key>,
    /// When a pass that waits for answers gives up its worker, or one that waits for its turn is next reported as not
    /// stuck.
    pub(super) deadlines: Timers<C::Key, Duration>,
    pub(super) requests: Requests<C>,
    pub(super) answers: Answers<C>,
    /// The writes that a dry run would send.
    pub(super) plans: Plans<C::Key, C::Write>,
    last_pass: u64,
    stage: Stage,
    leading: bool,
    pub(super) dry_run: bool,
    enqueued: bool,
    /// [`Now::wall_at_start`] of the last turn.
    wall_at_start: Option<Timestamp>,
    pub(super) effects: Vec<Effect<C>>,
    pub(super) told: Vec<Notification<C>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The caches are not full.
    Starting,
    Working,
    /// Passes that have begun run to their end.
    Draining,
}

impl<C: Controller> Loop<C> {
    /// A loop in which nothing has happened yet. `metrics` are those of the queues, in the same order.
    pub fn new(
        controller: Arc<C>,
        metrics: impl IntoIterator<Item = Option<QueueMetrics>>,
        dry_run: bool,
    ) -> Self {
        let queues = controller.queues().into_iter().zip(metrics);
        Self {
            queues: queues
                .map(|(queue, metrics)| KeyQueue::new(queue, metrics))
                .collect(),
            controller,
            stores: C::Stores::default(),
            state: C::State::default(),
            retry_share: RetryShare::default(),
            passes: BTreeMap::new(),
            runnable: VecDeque::new(),
            line: PermitQueue::default(),
            deadlines: Timers::default(),
            requests: Requests::default(),
            answers: Answers::default(),
            plans: Plans::default(),
            last_pass: 0,
            stage: Stage::Starting,
            leading: false,
            dry_run,
            enqueued: false,
            wall_at_start: None,
            effects: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Limits the keys that keep failing to `share`.
    #[must_use]
    pub fn retrying_within(mut self, share: RetryShare) -> Self {
        self.retry_share = share;
        self
    }

    /// The controller's state.
    pub const fn state(&self) -> &C::State {
        &self.state
    }

    /// The caches.
    pub const fn stores(&self) -> &C::Stores {
        &self.stores
    }

    /// Calls `reconcile` for `key` in this pass.
    pub(super) fn reconcile(&self, key: &C::Key, pass: &Pass<C>, now: Now) -> Action<C> {
        let cx = Context {
            state: &self.state,
            stores: &self.stores,
            pass,
            now,
            answers: &self.answers,
        };
        self.controller.reconcile(&cx, key)
    }

    /// Passes changes of a store on to the controller.
    pub(super) fn tell<'a, V: View>(&mut self, deltas: impl IntoIterator<Item = &'a Delta<V>>, now: Now)
    where
        C: Watches<V>,
    {
        for change in deltas.into_iter().flat_map(Delta::changes) {
            self.with(now, |controller, cx| controller.on_change(cx, change));
        }
    }

    /// Applies an event of the watch to the store that `of` names.
    pub fn apply<V: View>(&mut self, of: StoreOf<C, V>, event: SourceEvent<V>, now: Now) -> Taken
    where
        C: Watches<V>,
    {
        let store = of(&mut self.stores);
        let applied = store.apply(event);
        let objects = store.len();
        self.tell(&applied.deltas, now);
        for write in &applied.shown {
            self.requests.awaited.remove(*write);
        }
        let changes = applied.deltas.len();
        Taken { changes, objects }
    }

    /// The store that `of` names.
    pub fn store_of<V: View>(&mut self, of: StoreOf<C, V>) -> &mut Store<V> {
        of(&mut self.stores)
    }

    /// Handles everything but changes of objects and ends of requests.
    pub fn on_event(&mut self, event: LoopEvent<'_, C>, now: Now) {
        match event {
            LoopEvent::Synced if self.stage == Stage::Starting => self.stage = Stage::Working,
            LoopEvent::Leading(leading) => self.lead(leading, now),
            LoopEvent::Synced
            | LoopEvent::Resync
            | LoopEvent::Watching(..)
            | LoopEvent::SetBack
            | LoopEvent::Overdue(_) => {}
        }
        self.with(now, |controller, cx| controller.on_event(cx, event));
    }

    /// Handles a change of the config file.
    pub fn reload(&mut self, change: C::StateChange, now: Now) {
        self.with(now, |controller, cx| controller.on_reload(cx, change));
    }

    /// Begins or ends a term. All passes that need one end with it; the results of their requests are still passed on.
    fn lead(&mut self, leading: bool, now: Now) {
        self.leading = leading;
        if leading {
            return;
        }
        let over: Vec<_> = self
            .passes
            .keys()
            .filter(|key| self.needs_term(key))
            .cloned()
            .collect();
        for key in over {
            if let Some(pass) = self.passes.remove(&key) {
                self.end(&key, pass);
                // The next term continues with the key.
                self.requeue_key(key, Requeue::Now, now);
            }
        }
        self.forget_the_ended();
    }

    fn forget_the_ended(&mut self) {
        let passes = &self.passes;
        self.runnable.retain(|key| passes.contains_key(key));
        self.requests.forget_askers(|key| passes.contains_key(key));
    }

    /// Takes no new keys; passes that have sent a request run to their end.
    pub fn drain(&mut self) {
        self.stage = Stage::Draining;
        let is_idle = |(_, pass): &(&C::Key, &Pass<C>)| !pass.is_out() && pass.writes() == 0;
        let idle: Vec<_> = self
            .passes
            .iter()
            .filter(is_idle)
            .map(|(key, _)| key.clone())
            .collect();
        for key in idle {
            if let Some(pass) = self.passes.remove(&key) {
                self.end(&key, pass);
            }
        }
        self.forget_the_ended();
    }

    /// Returns whether the loop drains and no pass is left.
    pub fn is_drained(&self) -> bool {
        self.stage == Stage::Draining && self.passes.is_empty()
    }

    /// The result of the controller; `None` while it works.
    pub fn finished(&self) -> Option<Result<(), String>> {
        self.controller.finished(&self.state)
    }

    /// Takes one turn: continues passes, begins new ones, and returns what must be performed.
    pub fn poll(&mut self, now: Now, limit: &dyn Limit) -> Polled<C> {
        let mut again = None;
        if self.stage != Stage::Starting {
            self.notice_jump(now);
            self.find_overdue(now);
            while let Some(key) = self.plans.pop_review(now.uptime) {
                self.requeue(vec![(key, Requeue::Now)], now);
            }
            self.answers.forget_before(now.uptime);
            self.expire(now);
            self.resume(now, limit);
            self.begin(now, limit);
            again = self.next_time(now, limit);
        }
        Polled {
            effects: std::mem::take(&mut self.effects),
            told: self.take_notifications(),
            again,
        }
    }

    /// Returns whether something since the last call makes a turn worthwhile.
    pub fn take_enqueued(&mut self) -> bool {
        std::mem::take(&mut self.enqueued)
    }

    /// Takes the notifications to emit.
    pub fn take_notifications(&mut self) -> Vec<Notification<C>> {
        std::mem::take(&mut self.told)
    }

    /// Handles the end of the request with this number.
    pub fn completed(&mut self, id: u64, completed: Completed<AnswerOf<C>>, now: Now) {
        let Some(ended) = self.requests.ended(id) else {
            return;
        };
        let InFlight {
            key,
            pass,
            ask,
            sent,
            stores,
        } = ended;
        match (ask, completed) {
            (RequestOf::Query(query), Completed::Read(value, date)) => {
                let reply = Reply {
                    value,
                    asked: sent,
                    answered: now,
                    date,
                };
                self.answered(id, &key, query, reply, &stores, now);
            }
            (RequestOf::Write(write), Completed::Wrote(answer)) => {
                let outcome = answer.map_or_else(Outcome::Failed, Outcome::Accepted);
                self.wrote(id, &key, pass, write, outcome, now);
            }
            // The result does not fit the request.
            _ => {}
        }
    }

    /// Begins the pass of the first key that a queue hands out.
    pub(super) fn begin_pass(&mut self, now: Now) -> Option<C::Key> {
        if self.stage != Stage::Working {
            return None;
        }
        let seats = Seating {
            controller: &*self.controller,
            state: &self.state,
            stores: &self.stores,
        };
        let mut open = self.queues.iter_mut().filter(|queue| queue.is_open(self.leading));
        let share = &mut self.retry_share;
        let key = open.find_map(|queue| queue.begin(now, share, &seats))?;
        self.last_pass += 1;
        self.passes.insert(key.clone(), Pass::new(self.last_pass));
        Some(key)
    }

    pub(super) fn queue(&mut self, key: &C::Key) -> &mut KeyQueue<C::Key> {
        self.seated(key).0
    }

    /// The queue of a key, and the priorities and namespaces of its keys.
    pub(super) fn seated<'a>(&'a mut self, key: &C::Key) -> (&'a mut KeyQueue<C::Key>, Seating<'a, C>) {
        let index = self.controller.queue_of(key).min(self.queues.len() - 1);
        let seats = Seating {
            controller: &*self.controller,
            state: &self.state,
            stores: &self.stores,
        };
        (&mut self.queues[index], seats)
    }

    pub(super) fn requeue(&mut self, requeues: Vec<(C::Key, Requeue)>, now: Now) {
        for (key, requeue) in requeues {
            self.requeue_key(key, requeue, now);
        }
    }

    pub(super) fn requeue_key(&mut self, key: C::Key, requeue: Requeue, now: Now) {
        self.enqueued |= requeue != Requeue::Cancel;
        if matches!(requeue, Requeue::Now | Requeue::Reset)
            && let Some(pass) = self.passes.get_mut(&key)
            && pass.only_reads()
            && !std::mem::replace(&mut pass.is_runnable, true)
        {
            // Its query may no longer matter.
            self.runnable.push_back(key.clone());
        }
        let (queue, seats) = self.seated(&key);
        queue.requeue(key, requeue, now, &seats);
    }

    pub(super) fn on_result(&mut self, key: &C::Key, result: ResultOf<'_, C>, now: Now) {
        self.with(now, |controller, cx| controller.on_result(cx, key, result));
    }

    /// Lets the controller change its state, then requeues its keys and, in a term, keeps its events.
    fn with<T>(&mut self, now: Now, act: impl FnOnce(&C, &mut ContextMut<'_, C>) -> T) -> T {
        let mut cx = ContextMut {
            state: &mut self.state,
            stores: &self.stores,
            leading: self.leading,
            now,
            out: Output::default(),
        };
        let result = act(&self.controller, &mut cx);
        let Output { requeues, events } = cx.out;
        if self.leading {
            self.told.extend(events.into_iter().map(Notification::Event));
        }
        self.requeue(requeues, now);
        result
    }
}
