//! The end of a run: nothing fails any more.

use controller_core::controller::Controller;

use super::explore::attempt;
use super::model::{Model, Op};
use super::run::{MOST_TURNS, Sim};

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
            fork.settle_in(order);
            fork.check();
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
            self.assert_idle(again);
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
