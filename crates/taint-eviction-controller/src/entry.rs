//! A pod that must be evicted, and how far its eviction has come.

use std::time::Duration;

use controller_core::controller::{Now, Requeue};
use controller_core::meta::Uid;
use controller_core::time::saturating_add;
use jiff::Timestamp;

use crate::decide::{self, PendingEviction, Tolerated};

/// A pod that must be evicted. The entry lives from that judgement until the pod is kept or gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) uid: Uid,
    pub(crate) remembered: Box<[Tolerated]>,
    pub(crate) pending: PendingEviction,
    /// Nothing is left to do, although the cache still shows the pod.
    pub(crate) done: bool,
    /// Set once the eviction was tried: most entries only wait, and must not cost RAM for this.
    pub(crate) tries: Option<Box<Tries>>,
}

/// How far an eviction has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tries {
    /// The event has been published.
    pub(crate) announced: bool,
    /// The condition has been written, or refused for good.
    pub(crate) marked: bool,
    failures: u32,
    first_failure: Option<Duration>,
    /// After a failure: no try before this time.
    not_before: Option<Timestamp>,
    /// No try before this time either, for this taint and deadline.
    pub(crate) put_off: Option<Timestamp>,
}

impl Entry {
    pub(crate) fn judged_again(mut self, remembered: Box<[Tolerated]>, pending: PendingEviction) -> Self {
        if !self.pending.is_for_the_same(&pending)
            && let Some(tries) = &mut self.tries
        {
            tries.put_off = None;
        }
        Self {
            remembered,
            pending,
            ..self
        }
    }

    /// When to evict the pod for `pending`, including waits after failures; `None` while we see nothing.
    pub(crate) fn at(&self, pending: &PendingEviction) -> Option<Timestamp> {
        let is_same = self.pending.is_for_the_same(pending);
        let tries = self.tries.iter();
        let later = tries.flat_map(|tries| [tries.not_before, tries.put_off.filter(|_| is_same)]);
        pending.at.map(|at| later.flatten().fold(at, Timestamp::max))
    }

    /// When to reconcile the eviction again, for `pending`.
    pub(crate) fn requeue(&self, pending: &PendingEviction) -> Requeue {
        let at = self.at(pending).filter(|_| !self.done);
        at.map_or(Requeue::Cancel, Requeue::At)
    }

    /// The eviction is tried again, and need not wait for anything but the deadline.
    pub(crate) fn forget_waits(&mut self) {
        self.done = false;
        if let Some(tries) = &mut self.tries {
            (tries.put_off, tries.not_before) = (None, None);
        }
    }

    pub(crate) fn tries(&mut self) -> &mut Tries {
        self.tries.get_or_insert_default()
    }

    pub(crate) fn is_marked(&self) -> bool {
        self.tries.as_ref().is_some_and(|tries| tries.marked)
    }

    pub(crate) fn failures(&self) -> u32 {
        self.tries.as_ref().map_or(0, |tries| tries.failures)
    }

    /// Counts a failed try after which the API server wants a wait of at least `wait` (TE-10). Returns the number of
    /// failures.
    pub(crate) fn failed(&mut self, wait: Duration, now: Now) -> u32 {
        let tries = self.tries();
        tries.failures = tries.failures.saturating_add(1);
        let first = *tries.first_failure.get_or_insert(now.uptime);
        let backoff = decide::retry_wait(tries.failures, now.uptime.saturating_sub(first));
        tries.not_before = Some(saturating_add(now.wall, backoff.max(wait)));
        tries.failures
    }
}
