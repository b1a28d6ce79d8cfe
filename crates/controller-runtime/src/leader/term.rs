//! The fence: no write starts or continues outside a term.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::task::Poll;

use controller_core::api::LeaseLost;
use prometheus::IntGauge;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::Clock;

/// One uninterrupted period of leading. Cheap to clone.
///
/// A term that is over never becomes valid again: losing the Lease and winning it back gives another number.
#[derive(Clone, Debug)]
pub struct Term {
    number: u64,
    /// `None` without an election.
    fence: Option<Fence>,
}

/// The reading end: the current term, and its deadline.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    held: watch::Receiver<Option<Held>>,
    clock: Clock,
}

/// The writing end, the elector's.
#[derive(Debug)]
pub(super) struct Terms {
    held: watch::Sender<Option<Held>>,
    clock: Clock,
    gauge: IntGauge,
    last: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    number: u64,
    /// Start of the last successful renewal + renew deadline.
    valid_until: Instant,
}

impl Term {
    /// The term of a process without an election.
    pub(super) const fn endless() -> Self {
        Self {
            number: 0,
            fence: None,
        }
    }

    /// Counts the terms of this process, from 1; 0 without an election.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether a write may start now. Reads the clock: a process that was stopped for long finds its term over
    /// even before the elector has run again.
    pub fn is_valid(&self) -> bool {
        self.fence.as_ref().is_none_or(|fence| {
            fence
                .valid_now(*fence.held.borrow())
                .is_some_and(|held| held.number == self.number)
        })
    }

    /// Completes when the term is over.
    pub async fn lost(&self) {
        let Some(fence) = &self.fence else {
            return pending().await;
        };
        let mut changes = fence.held.clone();
        loop {
            let held = fence.valid_now(*changes.borrow_and_update());
            let Some(held) = held.filter(|held| held.number == self.number) else {
                return;
            };
            tokio::select! {
                biased;
                open = changes.changed() => if open.is_err() { return },
                () = fence.clock.sleep_until(held.valid_until) => {}
            }
        }
    }

    /// Runs `write` inside the term: does not start it if the term is over, and drops it when the term ends.
    pub async fn run<T>(&self, write: impl Future<Output = T>) -> Result<T, LeaseLost> {
        let mut lost = pin!(self.lost());
        let mut write = pin!(write);
        poll_fn(|cx| {
            // Also `is_valid`: after a stop, the answer to the write can wake this task before the timer does.
            if !self.is_valid() || lost.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(LeaseLost));
            }
            write.as_mut().poll(cx).map(Ok)
        })
        .await
    }
}

impl Fence {
    /// The term that is valid now, if any.
    pub(super) fn current(&self) -> Option<Term> {
        let held = self.valid_now(*self.held.borrow())?;
        Some(self.term(held))
    }

    /// Waits for a valid term; for ever once the elector has stopped.
    pub(super) async fn next(&self) -> Term {
        let mut changes = self.held.clone();
        loop {
            let held = self.valid_now(*changes.borrow_and_update());
            if let Some(held) = held {
                return self.term(held);
            }
            if changes.changed().await.is_err() {
                pending::<()>().await;
            }
        }
    }

    /// Callers hold the channel's lock while this reads the clock: see [`Terms::extend`].
    fn valid_now(&self, held: Option<Held>) -> Option<Held> {
        held.filter(|held| self.clock.instant() < held.valid_until)
    }

    fn term(&self, held: Held) -> Term {
        Term {
            number: held.number,
            fence: Some(self.clone()),
        }
    }
}

impl Terms {
    pub(super) fn new(clock: Clock, gauge: IntGauge) -> Self {
        gauge.set(0);
        Self {
            held: watch::Sender::new(None),
            clock,
            gauge,
            last: 0,
        }
    }

    pub(super) fn fence(&self) -> Fence {
        Fence {
            held: self.held.subscribe(),
            clock: self.clock.clone(),
        }
    }

    /// The number of the newest term.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Starts a term; returns false if its deadline has already passed.
    pub(super) fn begin(&mut self, valid_until: Instant) -> bool {
        if self.clock.instant() >= valid_until {
            return false;
        }
        self.last = self.last.saturating_add(1);
        self.held.send_replace(Some(Held {
            number: self.last,
            valid_until,
        }));
        self.gauge.set(1);
        true
    }

    /// Moves the end of the term to `valid_until`; returns false if the term is over, because somebody may have seen it
    /// over.
    pub(super) fn extend(&mut self, valid_until: Instant) -> bool {
        let mut extended = false;
        self.held.send_if_modified(|held| {
            if let Some(held) = held
                && self.clock.instant() < held.valid_until
            {
                // Under the channel's lock, which every reader holds: a reader that saw the term over read the clock
                // before us.
                held.valid_until = valid_until;
                extended = true;
            }
            // Wakes nobody: a task that waits for the end of the term checks again at the old deadline. Tokio wakes
            // waiters on a channel in random order, and every renewal would wake every write.
            false
        });
        extended
    }

    /// Ends the current term; returns whether there was one.
    pub(super) fn end(&mut self) -> bool {
        self.gauge.set(0);
        self.held.send_replace(None).is_some()
    }
}

impl Drop for Terms {
    /// A dropped elector renews nothing.
    fn drop(&mut self) {
        self.end();
    }
}
