//! The end of a run: nothing fails any more.

use controller_core::controller::Controller;

use super::explore::attempt;
use super::model::{Model, Op};
use super::process::Role;
use super::run::{MOST_TURNS, Sim};

/// Most turns of each process until nothing is written any more.
const MOST_ROUNDS: usize = 5;

/// What comes first once nothing fails any more.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Answers,
    Watches,
    LastAnswer,
}

/// Everything comes right and stays so, whatever comes first, and nothing is left of what is deleted.
pub(super) fn settles<M: Model + Clone>(sim: &Sim<M>) -> Result<(), String>
where
    <M::Controller as Controller>::Stores: Clone,
{
    for order in [Order::Answers, Order::Watches, Order::LastAnswer] {
        let mut fork = sim.clone();
        let settled = attempt(|| {
            fork.settle_all(order);
            fork.step(&Op::Resync);
            fork.end(order);
        });
        settled.map_err(|message| format!("once nothing fails any more, {order:?} first: {message}"))?;
    }
    Ok(())
}

impl<M: Model> Sim<M> {
    /// Delivers one event of each watch; returns whether there was any.
    fn hear(&mut self) -> bool {
        let mut heard = false;
        for which in 0..self.model.watches().len() {
            heard |= self.deliver(which);
        }
        heard
    }

    fn take_answer(&mut self, which: usize) -> bool {
        let is_one = which < self.process.in_flight.len();
        if is_one {
            self.answer(which);
            self.turn();
        }
        is_one
    }

    /// Lets everything finish, then deletes everything. Fails unless all is right, and nothing is left.
    pub(super) fn end(&mut self, order: Order) {
        self.settle_all(order);
        self.model.clear();
        self.settle_all(order);
        for number in 0..=self.others.len() {
            self.switch_to(number);
            self.check_held();
            self.check_writes();
            let state = self.process.event_loop.state();
            assert_eq!(self.model.remembered(state), 0, "left behind: {state:?}");
        }
    }

    /// Fails unless everything is as it should be in the end, and the loop and its caches are empty.
    pub(super) fn check(&mut self) {
        self.model.check(&self.process.event_loop, self.clock).unwrap();
        self.check_held();
        if !self.model.leaves_writes() {
            self.check_writes();
        }
    }

    pub(super) fn check_held(&self) {
        let held = self.process.event_loop.held() - self.model.rechecks(&self.process.event_loop);
        assert_eq!(held, 0, "left behind: keys, passes or requests");
    }

    /// Fails if a cache still remembers a write.
    pub(super) fn check_writes(&mut self) {
        for (resource, watch) in self.model.watches() {
            assert_eq!(
                watch.mutations(&mut self.process.event_loop),
                0,
                "left behind: writes of {resource}"
            );
        }
    }

    /// Each process leads in its turn, until none has anything to write. Fails unless each leaves all as it should be.
    pub(super) fn settle_all(&mut self, order: Order) {
        for _ in 0..MOST_ROUNDS {
            let written = self.written;
            for number in 0..=self.others.len() {
                self.switch_to(number);
                self.settle_in(order);
                // A dry run may want something else.
                if self.process.role != Role::DryRun {
                    self.check();
                }
            }
            let is_over = self.written == written
                && (0..=self.others.len()).all(|number| {
                    self.switch_to(number);
                    self.lag() == 0
                });
            if self.others.is_empty() || is_over || !self.model.leaders_agree() {
                return;
            }
        }
        panic!("something is written for ever: {:?}", self.last_write);
    }

    /// Number of events, at most, that a watch of the process has not shown.
    pub(super) fn lag(&mut self) -> usize {
        let watches = self.model.watches();
        watches
            .iter()
            .map(|(_, watch)| watch.lag())
            .max()
            .unwrap_or_default()
    }

    /// Nothing fails any more: everything arrives, as often as it takes.
    pub fn settle(&mut self) {
        self.settle_in(Order::Answers);
    }

    /// [`settle`](Self::settle), in this order.
    pub(super) fn settle_in(&mut self, order: Order) {
        self.lead(true);
        let mut left = M::SETTLES_WITHIN;
        for _ in 0..MOST_TURNS {
            self.turn();
            let went_on = match order {
                Order::Answers => {
                    while self.take_answer(0) {}
                    self.hear()
                }
                Order::Watches => self.hear() || self.take_answer(0),
                Order::LastAnswer => {
                    let heard = self.hear();
                    let last = self.process.in_flight.len().saturating_sub(1);
                    self.take_answer(last) || heard
                }
            };
            if went_on || self.model.come_to_rest() {
                continue;
            }
            let again = self.poll().again;
            if let Some(wait) = again.filter(|wait| *wait <= self.model.permit_every()) {
                self.pass(wait);
                continue;
            }
            if self.process.role != Role::DryRun {
                self.assert_idle(again);
            }
            match again {
                Some(wait) if wait <= left => {
                    left -= wait;
                    self.pass(wait);
                }
                _ => break,
            }
        }
    }
}
