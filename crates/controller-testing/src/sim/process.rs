//! A process in a run: its loop, its clock and its requests.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::{Controller, Loop, LoopEvent, Now, RequestOf};
use controller_core::fingerprint::Fingerprint;
use derive_where::derive_where;
use jiff::SignedDuration;

use super::flying::{Flying, lost};
use super::model::Model;
use super::permits::retries;

/// What a process does in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It writes while it has the term, which one process has at a time.
    Elected,
    /// It leads, whether or not another does.
    Leader,
    /// It leads, and writes nothing.
    DryRun,
}

/// What a process must not do.
#[derive(Clone, Copy, Debug)]
pub enum ProcessBug {
    /// It writes in a dry run.
    WritesInDryRun,
    /// It does not notice that another process takes the term.
    KeepsItsTerm,
}

/// A process that runs the controller, with a clock of its own.
#[derive_where(Clone; <M::Controller as Controller>::Stores)]
pub struct Process<M: Model> {
    pub(super) number: usize,
    pub(super) role: Role,
    controller: Arc<M::Controller>,
    pub(super) event_loop: Loop<M::Controller>,
    pub(super) now: Now,
    /// How far its wall clock is ahead of the API server's.
    pub(super) ahead: SignedDuration,
    /// At some time its wall clock was wrong, or an answer with the time was slow.
    pub(super) is_unsure: bool,
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
    pub(super) fn started((number, role): (usize, Role), model: &mut M, now: Now) -> Self {
        let controller = Arc::new(model.controller());
        Self {
            number,
            role,
            event_loop: start((number, role), &controller, model, now),
            controller,
            now,
            ahead: SignedDuration::ZERO,
            is_unsure: false,
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
        self.forget_the_late();
    }

    /// What the API server's clock shows when this process's shows `now`.
    pub(super) fn servers(&self, now: Now) -> Now {
        let wall = now.wall.checked_sub(self.ahead).unwrap();
        Now { wall, ..now }
    }

    /// The process dies, and another starts in its place.
    pub(super) fn restart(&mut self, model: &mut M) {
        self.event_loop = start((self.number, self.role), &self.controller, model, self.now);
        self.away.clear();
        self.leading = false;
    }

    /// A term begins or ends.
    pub(super) fn lead(&mut self, leading: bool) {
        if std::mem::replace(&mut self.leading, leading) == leading {
            return;
        }
        self.event_loop.on_event(LoopEvent::Leading(leading), self.now);
        if !leading {
            // The shell drops the requests in flight, which may still arrive.
            let ids: Vec<_> = self.in_flight.iter_mut().filter_map(lost).collect();
            for (id, completed) in ids {
                self.event_loop.completed(id, completed, self.now);
            }
            self.forget_the_late();
        }
    }

    /// Forgets the requests whose sender is gone and that come too late to arrive.
    pub(super) fn forget_the_late(&mut self) {
        let now = self.now.uptime;
        self.in_flight
            .retain(|flying| flying.id.is_some() || now < flying.arrives_before);
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
    (number, role): (usize, Role),
    controller: &Arc<M::Controller>,
    model: &mut M,
    now: Now,
) -> Loop<M::Controller> {
    let metrics = controller.queues().into_iter().map(|_| None);
    let dry_run = role == Role::DryRun && !matches!(model.process_bug(), Some(ProcessBug::WritesInDryRun));
    let mut event_loop = Loop::new(Arc::clone(controller), metrics, dry_run).retrying_within(retries());
    for (resource, watch) in model.watches() {
        watch.serve(number);
        watch.restart();
        watch.deliver(&mut event_loop, now);
        event_loop.on_event(LoopEvent::Watching(resource, true), now);
    }
    event_loop.on_event(LoopEvent::Synced, now);
    event_loop
}
