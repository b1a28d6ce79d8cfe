//! A process in a run: its loop, its clock and its requests.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::{Controller, Loop, LoopEvent, Now, RequestOf};
use controller_core::fingerprint::Fingerprint;
use derive_where::derive_where;
use jiff::SignedDuration;

use super::flying::Flying;
use super::model::Model;
use super::permits::retries;

/// A process that runs the controller, with a clock of its own.
#[derive_where(Clone; <M::Controller as Controller>::Stores)]
pub struct Process<M: Model> {
    pub(super) number: usize,
    controller: Arc<M::Controller>,
    pub(super) event_loop: Loop<M::Controller>,
    pub(super) now: Now,
    /// How far its wall clock is ahead of the API server's.
    pub(super) ahead: SignedDuration,
    /// Its wall clock was wrong at some time.
    pub(super) was_wrong: bool,
    pub(super) leading: bool,
    pub(super) in_flight: Vec<Flying<M>>,
    /// Resources whose watch is broken.
    pub(super) away: BTreeSet<usize>,
    /// Passes that ended without progress: an answer that the watch has overtaken may cost one.
    pub(super) no_progress: usize,
    /// Time of the next permit.
    pub(super) permit: Cell<Duration>,
    /// Time until the loop has more to do by itself.
    pub(super) again: Option<Duration>,
}

impl<M: Model> Process<M> {
    pub(super) fn started(number: usize, model: &mut M, now: Now) -> Self {
        let controller = Arc::new(model.controller());
        Self {
            number,
            event_loop: start(number, &controller, model, now),
            controller,
            now,
            ahead: SignedDuration::ZERO,
            was_wrong: false,
            leading: false,
            in_flight: Vec::new(),
            away: BTreeSet::new(),
            no_progress: 0,
            permit: Cell::default(),
            again: None,
        }
    }

    /// `clock` is the API server's.
    pub(super) fn read_clock(&mut self, clock: Now) {
        let wall = clock.wall.checked_add(self.ahead).unwrap();
        self.now = Now { wall, ..clock };
    }

    /// What the API server's clock shows when this process's shows `now`.
    pub(super) fn servers(&self, now: Now) -> Now {
        let wall = now.wall.checked_sub(self.ahead).unwrap();
        Now { wall, ..now }
    }

    /// The process dies, and another starts in its place.
    pub(super) fn restart(&mut self, model: &mut M) {
        self.event_loop = start(self.number, &self.controller, model, self.now);
        self.away.clear();
        self.leading = false;
    }

    /// Adds everything but the stores.
    pub(super) fn fingerprint(&self, out: &mut Fingerprint) {
        self.event_loop.fingerprint(out);
        out.add(&(&self.in_flight, self.now, self.leading, &self.away));
    }

    pub fn stores(&self) -> &<M::Controller as Controller>::Stores {
        self.event_loop.stores()
    }

    /// The requests that have not arrived.
    pub fn on_their_way(&self) -> impl Iterator<Item = &RequestOf<M::Controller>> {
        let left = self.in_flight.iter().filter(|flying| flying.answer.is_none());
        left.map(|flying| &flying.ask)
    }
}

fn start<M: Model>(
    number: usize,
    controller: &Arc<M::Controller>,
    model: &mut M,
    now: Now,
) -> Loop<M::Controller> {
    let metrics = controller.queues().into_iter().map(|_| None);
    let mut event_loop = Loop::new(Arc::clone(controller), metrics, false).retrying_within(retries());
    for (resource, watch) in model.watches() {
        watch.serve(number);
        watch.restart();
        watch.deliver(&mut event_loop, now);
        event_loop.on_event(LoopEvent::Watching(resource, true), now);
    }
    event_loop.on_event(LoopEvent::Synced, now);
    event_loop
}
