//! A run: what is in flight, and the checks at each step.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::{
    Controller, Effect, Loop, LoopEvent, Notification, Now, Polled, RequestOf,
};
use controller_core::time::saturating_add;
use derive_where::derive_where;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::flying::{Flying, arrive, failure, lost, pick};
use super::model::{MOST_OPS, Model, NOW, Op, op};
use super::permits::{Trickle, retries};
use super::settle::Order;

/// Most passes that may end without progress.
const MOST_REPEATS: usize = 20;
/// A run that takes more turns than this at one time never ends.
pub(super) const MOST_TURNS: usize = 10_000;
/// A hanging request fails after this time, as behind a webhook.
const HANGS: Duration = Duration::from_secs(10);

/// Takes `ops`, then lets everything finish. Panics if a property does not hold.
pub fn run<M: Model>(model: M, ops: &[Op<M::Act>]) {
    let mut sim = Sim::new(model);
    for op in ops {
        sim.step(op);
    }
    sim.end(Order::Answers);
}

/// Runs one process while `objects` objects, drawn by `action`, come and go; it must keep nothing about them.
pub fn run_through<M: Model>(model: M, objects: usize, action: impl Strategy<Value = M::Act> + 'static)
where
    M::Act: 'static,
{
    let (mut sim, op, mut runner) = (Sim::new(model), op(action), TestRunner::deterministic());
    let mut steps = 0;
    while sim.created() < objects {
        match op.new_tree(&mut runner).unwrap().current() {
            Op::Crash => {}
            op => sim.step(&op),
        }
        steps += 1;
        if steps % MOST_OPS == 0 {
            sim.no_progress = 0;
        }
    }
    sim.end(Order::Answers);
}

/// A process and the world around it.
#[derive_where(Clone; M, <M::Controller as Controller>::Stores)]
pub struct Sim<M: Model> {
    pub(super) model: M,
    controller: Arc<M::Controller>,
    pub(super) event_loop: Loop<M::Controller>,
    pub(super) now: Now,
    pub(super) leading: bool,
    pub(super) in_flight: Vec<Flying<M>>,
    /// Resources whose watch is broken.
    pub(super) away: BTreeSet<usize>,
    /// Passes that ended without progress: an answer that the watch has overtaken may cost one.
    no_progress: usize,
    /// Time of the next permit.
    permit: Cell<Duration>,
    /// Time until the loop has more to do by itself.
    pub(super) again: Option<Duration>,
}

impl<M: Model> Sim<M> {
    /// A process that has just started and leads.
    pub fn new(mut model: M) -> Self {
        let controller = Arc::new(model.controller());
        let event_loop = started(&controller, &mut model, NOW);
        let mut sim = Self {
            model,
            controller,
            event_loop,
            now: NOW,
            leading: false,
            in_flight: Vec::new(),
            away: BTreeSet::new(),
            no_progress: 0,
            permit: Cell::default(),
            again: None,
        };
        sim.lead(true);
        sim.turn();
        sim
    }

    pub const fn model(&self) -> &M {
        &self.model
    }

    pub fn stores(&self) -> &<M::Controller as Controller>::Stores {
        self.event_loop.stores()
    }

    /// The requests that have not arrived.
    pub fn on_their_way(&self) -> impl Iterator<Item = &RequestOf<M::Controller>> {
        let left = self.in_flight.iter().filter(|flying| flying.answer.is_none());
        left.map(|flying| &flying.ask)
    }

    /// Takes a step, and does what is due then.
    pub fn step(&mut self, op: &Op<M::Act>) {
        self.take(op);
        self.pass(self.model.permit_every());
        self.turn();
    }

    /// Fails unless everything is as it should be in the end, and the loop and its caches are empty.
    pub fn check(&mut self) {
        self.model.check(&self.event_loop, self.now).unwrap();
        let held = self.event_loop.held() - self.model.rechecks(&self.event_loop);
        assert_eq!(held, 0, "left behind: keys, passes or requests");
        if !self.model.leaves_writes() {
            self.check_writes();
        }
    }

    /// Fails if a cache still remembers a write.
    fn check_writes(&mut self) {
        for (resource, watch) in self.model.watches() {
            assert_eq!(
                watch.mutations(&mut self.event_loop),
                0,
                "left behind: writes of {resource}"
            );
        }
    }

    fn created(&mut self) -> usize {
        let watches = self.model.watches();
        watches.iter().map(|(_, watch)| watch.created()).sum()
    }

    /// Lets everything finish, then deletes everything. Fails unless all is right, and nothing is left.
    pub(super) fn end(&mut self, order: Order) {
        self.settle_in(order);
        self.check();
        self.model.clear();
        self.settle_in(order);
        self.check();
        self.check_writes();
        let state = self.event_loop.state();
        assert_eq!(self.model.remembered(state), 0, "left behind: {state:?}");
    }

    pub(super) fn poll(&mut self) -> Polled<M::Controller> {
        let limit = Trickle {
            every: self.model.permit_every(),
            now: self.now.uptime,
            permit: &self.permit,
        };
        self.event_loop.poll(self.now, &limit)
    }

    fn take(&mut self, op: &Op<M::Act>) {
        match op {
            Op::Act(action) => self.model.act(action, self.now),
            Op::Deliver(which) => {
                let count = self.model.watches().len();
                self.deliver(which % count);
            }
            Op::BeginList(which) => {
                let mut watches = self.model.watches();
                let which = which % watches.len();
                watches[which].1.begin_list(&mut self.event_loop, self.now);
                self.away.insert(which);
                self.watching(which, false);
            }
            Op::Arrive(which) => {
                if let Some(flying) = pick(&mut self.in_flight, *which) {
                    arrive(&mut self.model, flying, self.now);
                }
            }
            Op::Answer(which) => self.answer(*which),
            Op::Lose(which) => self.fail(*which, true),
            Op::Refuse(which) => self.fail(*which, false),
            Op::Hang(which) => {
                let at = self.now.uptime + HANGS;
                if let Some(flying) =
                    pick(&mut self.in_flight, *which).filter(|flying| flying.answer.is_none())
                {
                    flying.fails_at.get_or_insert(at);
                }
            }
            Op::Pass(time) => self.pass(*time),
            Op::Lead(leading) => self.lead(*leading),
            Op::Resync if self.leading => self.event_loop.on_event(LoopEvent::Resync, self.now),
            Op::Resync => {}
            Op::Crash => self.crash(),
        }
    }

    /// Polls until the loop has no more work at this time.
    pub(super) fn turn(&mut self) {
        for _ in 0..MOST_TURNS {
            let polled = self.poll();
            let without_progress = |told: &&_| matches!(told, Notification::NoProgress(_));
            self.no_progress += polled.told.iter().filter(without_progress).count();
            assert!(
                self.no_progress <= MOST_REPEATS,
                "the loop repeats the same action"
            );
            for Effect { id, ask, .. } in polled.effects {
                self.in_flight.push(Flying {
                    id: Some(id),
                    ask,
                    answer: None,
                    fails_at: None,
                });
            }
            self.again = polled.again;
            if polled.again != Some(Duration::ZERO) {
                return;
            }
        }
        panic!("the loop has no end at {:?}", self.now);
    }

    pub(super) fn deliver(&mut self, which: usize) -> bool {
        // Only a process alone shows what enqueues what: next to others it has too many steps.
        let before = if self.model.is_prompt() {
            Vec::new()
        } else {
            self.steps()
        };
        let watch = &mut self.model.watches()[which].1;
        let heard = watch.deliver(&mut self.event_loop, self.now);
        self.assert_enqueued(&before);
        if self.away.remove(&which) {
            self.watching(which, true);
        }
        heard
    }

    fn watching(&mut self, which: usize, stands: bool) {
        let resource = self.model.watches()[which].0;
        self.event_loop
            .on_event(LoopEvent::Watching(resource, stands), self.now);
    }

    pub(super) fn answer(&mut self, which: usize) {
        let Some(flying) = pick(&mut self.in_flight, which) else {
            return;
        };
        if flying.fails_at.is_some() {
            let count = self.in_flight.len();
            return self.end_hanging(which % count);
        }
        arrive(&mut self.model, flying, self.now);
        let flying = self.in_flight.swap_remove(which % self.in_flight.len());
        if let (Some(id), Some(answer)) = (flying.id, flying.answer) {
            self.event_loop.completed(id, answer, self.now);
        }
    }

    /// Loses the answer to a request, or refuses a request that has not arrived.
    fn fail(&mut self, which: usize, fate_unknown: bool) {
        let count = self.in_flight.len();
        let Some(flying) = pick(&mut self.in_flight, which) else {
            return;
        };
        if fate_unknown && self.model.is_prompt() {
            arrive(&mut self.model, flying, self.now);
        }
        let arrived = flying.answer.is_some();
        // A request that has arrived cannot be refused.
        let Some(id) = flying.id.take_if(|_| fate_unknown || !arrived) else {
            return;
        };
        let completed = failure::<M>(&flying.ask, fate_unknown);
        if arrived || !fate_unknown {
            self.in_flight.swap_remove(which % count);
        }
        self.event_loop.completed(id, completed, self.now);
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now.uptime += time;
        self.now.wall = saturating_add(self.now.wall, time);
        let now = self.now.uptime;
        let is_over = |flying: &Flying<M>| flying.fails_at.is_some_and(|at| at <= now);
        while let Some(which) = self.in_flight.iter().position(is_over) {
            self.end_hanging(which);
        }
    }

    fn end_hanging(&mut self, which: usize) {
        let Flying { id, ask, .. } = self.in_flight.swap_remove(which);
        if let Some(id) = id {
            self.event_loop.completed(id, failure::<M>(&ask, false), self.now);
        }
    }

    pub(super) fn lead(&mut self, leading: bool) {
        if self.leading == leading {
            return;
        }
        self.leading = leading;
        self.event_loop.on_event(LoopEvent::Leading(leading), self.now);
        if !leading {
            // The shell drops the requests in flight, which may still arrive.
            let ids: Vec<_> = self.in_flight.iter_mut().filter_map(lost).collect();
            for (id, completed) in ids {
                self.event_loop.completed(id, completed, self.now);
            }
            self.forget_the_dropped();
        }
    }

    fn forget_the_dropped(&mut self) {
        if self.model.is_prompt() {
            self.in_flight.retain(|flying| flying.id.is_some());
        }
    }

    fn crash(&mut self) {
        for flying in &mut self.in_flight {
            flying.id = None;
        }
        self.forget_the_dropped();
        let leading = self.leading;
        self.event_loop = started(&self.controller, &mut self.model, self.now);
        self.away.clear();
        self.leading = false;
        self.lead(leading);
    }
}

fn started<M: Model>(controller: &Arc<M::Controller>, model: &mut M, now: Now) -> Loop<M::Controller> {
    let metrics = controller.queues().into_iter().map(|_| None);
    let mut event_loop = Loop::new(Arc::clone(controller), metrics, false).retrying_within(retries());
    for (resource, watch) in model.watches() {
        watch.restart();
        watch.deliver(&mut event_loop, now);
        event_loop.on_event(LoopEvent::Watching(resource, true), now);
    }
    event_loop.on_event(LoopEvent::Synced, now);
    event_loop
}
