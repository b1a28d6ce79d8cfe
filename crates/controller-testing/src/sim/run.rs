//! A run: what is in flight, and the checks at each step.

use std::time::Duration;

use controller_core::api::CLOCK_TOLERANCE;
use controller_core::controller::{
    Completed, Controller, Effect, LoopEvent, Notification, Now, Polled, RequestOf,
};
use controller_core::time::saturating_add;
use derive_where::derive_where;
use jiff::SignedDuration;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::failure::SimFailure;
use super::flying::{Flying, pick};
use super::model::{MOST_OPS, Model, NOW, Op, StepOf, op};
use super::permits::Trickle;
use super::phrased;
use super::process::{Process, ProcessBug, Role};
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

/// [`run`] with a process in each of these roles, the first of which leads; each of `steps` is taken by the process with
/// its number.
pub fn run_among<M: Model>(model: M, roles: &[Role], steps: &[StepOf<M::Act>]) {
    let mut sim = Sim::among(model, roles);
    for (number, op) in steps {
        let number = number % roles.len();
        if let Op::Act(action) = op
            && roles.len() > 1
            && !sim.model.may_act(action, &sim.processes().collect::<Vec<_>>())
        {
            continue;
        }
        sim.step_by(number, op);
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
            sim.process.no_progress = 0;
        }
    }
    sim.end(Order::Answers);
}

/// A world, and the processes in it.
#[derive_where(Clone; M, <M::Controller as Controller>::Stores)]
pub struct Sim<M: Model> {
    pub(super) model: M,
    /// The one that takes steps at the moment.
    pub(super) process: Process<M>,
    pub(super) others: Vec<Process<M>>,
    /// The process that has the term.
    pub(super) term: Option<usize>,
    /// The API server's.
    pub(super) clock: Now,
    /// Writes that were sent.
    pub(super) written: usize,
    pub(super) last_write: Option<<M::Controller as Controller>::Write>,
    /// Number of queries and of writes that arrived; `None` where none of them is sent to [`Model::server`], too.
    pub(super) phrased: Option<[usize; 2]>,
}

impl<M: Model> Sim<M> {
    /// A process that has just started and leads.
    pub fn new(model: M) -> Self {
        Self::among(model, &[Role::Elected])
    }

    /// A process in each of these roles has just started, and the first leads.
    pub(super) fn among(mut model: M, roles: &[Role]) -> Self {
        let numbered = roles.iter().copied().enumerate();
        let mut processes: Vec<_> = numbered
            .map(|numbered| Process::started(numbered, &mut model, NOW))
            .collect();
        let mut sim = Self {
            process: processes.remove(0),
            model,
            others: processes,
            term: None,
            clock: NOW,
            written: 0,
            last_write: None,
            phrased: Some([0; 2]),
        };
        for (number, role) in roles.iter().enumerate() {
            sim.switch_to(number);
            if number == 0 || *role != Role::Elected {
                sim.lead(true);
            }
            sim.turn();
        }
        sim.switch_to(0);
        sim
    }

    /// The process with this number takes the next steps.
    pub(super) fn switch_to(&mut self, number: usize) {
        if let Some(other) = self.others.iter_mut().find(|other| other.number == number) {
            std::mem::swap(&mut self.process, other);
            self.pass(Duration::ZERO);
        }
        for (_, watch) in self.model.watches() {
            watch.serve(number);
        }
    }

    pub const fn model(&self) -> &M {
        &self.model
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &Process<M>> {
        self.others.iter().chain([&self.process])
    }

    /// Takes a step, and does what is due then.
    pub fn step(&mut self, op: &Op<M::Act>) {
        self.take(op);
        self.pass(self.model.permit_every());
        self.turn();
    }

    /// The process with this number takes a step.
    pub(super) fn step_by(&mut self, number: usize, op: &Op<M::Act>) {
        self.switch_to(number);
        self.step(op);
    }

    fn created(&mut self) -> usize {
        let watches = self.model.watches();
        watches.iter().map(|(_, watch)| watch.created()).sum()
    }

    pub(super) fn poll(&mut self) -> Polled<M::Controller> {
        let limit = Trickle {
            every: self.model.permit_every(),
            now: self.process.now.uptime,
            permit: &self.process.permit,
        };
        self.process.event_loop.poll(self.process.now, &limit)
    }

    fn take(&mut self, op: &Op<M::Act>) {
        match op {
            Op::Act(action) => self.model.act(action, self.clock),
            Op::Deliver(which) => {
                let count = self.model.watches().len();
                self.deliver(which % count);
            }
            Op::BeginList(which) => {
                let mut watches = self.model.watches();
                let which = which % watches.len();
                watches[which]
                    .1
                    .begin_list(&mut self.process.event_loop, self.process.now);
                self.process.away.insert(which);
                self.watching(which, false);
            }
            Op::Arrive(which) => {
                if let Some(flying) = pick(&mut self.process.in_flight, *which) {
                    phrased::arrive(&mut self.model, flying, self.clock, &mut self.phrased);
                }
            }
            Op::Answer(which) => self.answer(*which),
            Op::Lose(which, failure) => self.fail(*which, *failure, true),
            Op::Refuse(which, failure) => self.fail(*which, *failure, false),
            Op::Hang(which) => {
                let at = self.process.now.uptime + HANGS;
                if let Some(flying) =
                    pick(&mut self.process.in_flight, *which).filter(|flying| flying.answer.is_none())
                {
                    flying.fails_at.get_or_insert(at);
                }
            }
            Op::Pass(time) => self.pass(*time),
            Op::Clock(_) if !M::CLOCKS_JUMP => {}
            Op::Clock(ahead) => {
                self.process.ahead = SignedDuration::from_secs(*ahead);
                self.process.is_unsure = true;
                self.process.read_clock(self.clock);
            }
            Op::Lead(leading) => self.lead(*leading),
            Op::Resync if self.process.leading => self
                .process
                .event_loop
                .on_event(LoopEvent::Resync, self.process.now),
            Op::Resync => {}
            Op::Crash => self.crash(),
        }
    }

    /// Polls until the loop has no more work at this time.
    pub(super) fn turn(&mut self) {
        for _ in 0..MOST_TURNS {
            let polled = self.poll();
            let without_progress = |told: &&_| matches!(told, Notification::NoProgress(_));
            self.process.no_progress += polled.told.iter().filter(without_progress).count();
            assert!(
                self.process.no_progress <= MOST_REPEATS,
                "the loop repeats the same action"
            );
            for Effect { id, ask, .. } in polled.effects {
                if let RequestOf::Write(write) = &ask {
                    self.assert_may_write(write);
                    self.written += 1;
                    self.last_write = Some(write.clone());
                }
                self.process.in_flight.push(Flying {
                    id: Some(id),
                    ask,
                    answer: None,
                    fails_at: None,
                    arrives_before: self.clock.uptime.saturating_add(self.model.arrives_within()),
                });
            }
            self.process.again = polled.again;
            if polled.again == Some(Duration::ZERO) {
                continue;
            }
            let Some(Err(_)) = self.process.event_loop.finished() else {
                return;
            };
            // The process ends, and is started again.
            self.crash();
        }
        panic!("the loop has no end at {:?}", self.process.now);
    }

    pub(super) fn deliver(&mut self, which: usize) -> bool {
        // A dry run looks at what it has planned from time to time.
        let before = if self.process.role == Role::DryRun {
            Vec::new()
        } else {
            self.steps()
        };
        let watch = &mut self.model.watches()[which].1;
        let heard = watch.deliver(&mut self.process.event_loop, self.process.now);
        self.assert_enqueued(&before);
        if self.process.away.remove(&which) {
            self.watching(which, true);
        }
        heard
    }

    fn watching(&mut self, which: usize, stands: bool) {
        let resource = self.model.watches()[which].0;
        self.process
            .event_loop
            .on_event(LoopEvent::Watching(resource, stands), self.process.now);
    }

    pub(super) fn answer(&mut self, which: usize) {
        let Some(flying) = pick(&mut self.process.in_flight, which) else {
            return;
        };
        if flying.fails_at.is_some() {
            let count = self.process.in_flight.len();
            return self.end_hanging(which % count);
        }
        phrased::arrive(&mut self.model, flying, self.clock, &mut self.phrased);
        let flying = self
            .process
            .in_flight
            .swap_remove(which % self.process.in_flight.len());
        if let (Some(id), Some(answer)) = (flying.id, flying.answer) {
            if let Completed::Read(_, Some(date)) = &answer {
                self.process.is_unsure |= self.clock.wall.duration_since(*date) > CLOCK_TOLERANCE;
            }
            self.process.event_loop.completed(id, answer, self.process.now);
        }
    }

    /// Loses the answer to a request, or refuses a request that has not arrived.
    fn fail(&mut self, which: usize, failure: SimFailure, may_arrive: bool) {
        let count = self.process.in_flight.len();
        let Some(flying) = pick(&mut self.process.in_flight, which) else {
            return;
        };
        if may_arrive && self.model.arrives_within().is_zero() {
            phrased::arrive(&mut self.model, flying, self.clock, &mut self.phrased);
        }
        let arrived = flying.answer.is_some();
        // A request that has arrived cannot be refused.
        let Some(id) = flying.id.take_if(|_| may_arrive || !arrived) else {
            return;
        };
        let completed = self.model.told(failure).answer::<M>(&flying.ask);
        if arrived || !may_arrive {
            self.process.in_flight.swap_remove(which % count);
        }
        self.process.event_loop.completed(id, completed, self.process.now);
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.clock.uptime += time;
        self.clock.wall = saturating_add(self.clock.wall, time);
        self.process.read_clock(self.clock);
        let now = self.process.now.uptime;
        let is_over = |flying: &Flying<M>| flying.fails_at.is_some_and(|at| at <= now);
        while let Some(which) = self.process.in_flight.iter().position(is_over) {
            self.end_hanging(which);
        }
    }

    fn end_hanging(&mut self, which: usize) {
        let Flying { id, ask, .. } = self.process.in_flight.swap_remove(which);
        if let Some(id) = id {
            self.process.event_loop.completed(
                id,
                SimFailure::Status(504, 0).answer::<M>(&ask),
                self.process.now,
            );
        }
    }

    /// A term of the process begins, and that of another ends; or its own ends.
    pub(super) fn lead(&mut self, leading: bool) {
        let number = self.process.number;
        match self.process.role {
            Role::DryRun if !leading => return,
            Role::DryRun | Role::Leader => {}
            Role::Elected => {
                let holder = self.term.filter(|holder| leading && *holder != number);
                let hears = !matches!(self.model.process_bug(), Some(ProcessBug::KeepsItsTerm));
                let mut others = self.others.iter_mut();
                if let Some(other) = others.find(|other| Some(other.number) == holder && hears) {
                    other.read_clock(self.clock);
                    other.lead(false);
                }
                if leading || self.term == Some(number) {
                    self.term = leading.then_some(number);
                }
            }
        }
        self.process.lead(leading);
    }

    fn crash(&mut self) {
        for flying in &mut self.process.in_flight {
            flying.id = None;
        }
        self.process.forget_the_late();
        let leading = self.process.leading;
        self.process.restart(&mut self.model);
        self.lead(leading);
    }
}
