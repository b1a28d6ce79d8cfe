//! The passes of one queue, and the workers that they hold.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use derive_where::derive_where;

/// Keys that keep failing may hold one worker in this many, at least one. As many passes of one namespace may be slow:
/// each is a request that the API server works on.
const PART: usize = 4;

#[derive(Clone)]
#[derive_where(Debug; K)]
#[derive_where(Default)]
pub(super) struct Workers<K> {
    passes: BTreeMap<K, Pass>,
    /// How many workers are held.
    busy: usize,
    /// How many of these work for keys that keep failing.
    busy_failing: usize,
    /// How many passes of each namespace are slow.
    #[derive_where(skip(Debug))]
    slow: HashMap<Arc<str>, usize>,
}

#[derive(Clone, Copy, Debug)]
struct Pass {
    /// The number of its run in the metrics.
    run: u64,
    is_failing: bool,
    /// Holds no worker.
    is_parked: bool,
    /// Its requests take long.
    is_slow: bool,
}

/// Whether a namespace must begin no other pass, or may again.
pub(super) enum Suspend {
    Yes,
    No,
}

impl<K: Clone + Ord> Workers<K> {
    pub(super) fn has(&self, key: &K) -> bool {
        self.passes.contains_key(key)
    }

    pub(super) fn len(&self) -> usize {
        self.passes.len()
    }

    /// Returns whether one of `workers` is free.
    pub(super) const fn are_free(&self, workers: usize) -> bool {
        self.busy < workers
    }

    /// Returns whether one more of `workers` may work for a key that keeps failing.
    pub(super) fn may_fail(&self, workers: usize) -> bool {
        self.busy_failing < part(workers)
    }

    pub(super) fn begin(&mut self, key: &K, run: u64, is_failing: bool) {
        let pass = Pass {
            run,
            is_failing,
            is_parked: false,
            is_slow: false,
        };
        self.hold(pass, 1);
        self.passes.insert(key.clone(), pass);
    }

    /// Ends the pass of the key; returns its run.
    pub(super) fn end(&mut self, key: &K) -> Option<u64> {
        let pass = self.passes.remove(key)?;
        self.hold(pass, isize::from(pass.is_parked) - 1);
        Some(pass.run)
    }

    pub(super) fn run(&self, key: &K) -> Option<u64> {
        self.passes.get(key).map(|pass| pass.run)
    }

    /// Sets whether the pass of the key is parked or slow; in either case it holds no worker.
    pub(super) fn park(
        &mut self,
        key: &K,
        is_parked: bool,
        is_slow: bool,
        namespace: Option<&str>,
        workers: usize,
    ) -> Option<Suspend> {
        let pass = self.passes.get_mut(key)?;
        let is_parked = is_parked || is_slow;
        let was_parked = std::mem::replace(&mut pass.is_parked, is_parked);
        let was_slow = std::mem::replace(&mut pass.is_slow, is_slow);
        let pass = *pass;
        self.hold(pass, isize::from(was_parked) - isize::from(is_parked));
        (was_slow != is_slow).then(|| self.count_slow(namespace?, is_slow, part(workers)))?
    }

    /// A namespace with `most` slow passes begins no other.
    fn count_slow(&mut self, namespace: &str, is_more: bool, most: usize) -> Option<Suspend> {
        let slow = self.slow.entry(namespace.into()).or_default();
        *slow = slow.saturating_add_signed(if is_more { 1 } else { -1 });
        let slow = *slow;
        if slow == 0 {
            self.slow.remove(namespace);
        }
        match is_more {
            true if slow == most => Some(Suspend::Yes),
            false if slow + 1 == most => Some(Suspend::No),
            _ => None,
        }
    }

    fn hold(&mut self, pass: Pass, workers: isize) {
        self.busy = self.busy.saturating_add_signed(workers);
        if pass.is_failing {
            self.busy_failing = self.busy_failing.saturating_add_signed(workers);
        }
    }
}

fn part(workers: usize) -> usize {
    (workers / PART).max(1)
}
