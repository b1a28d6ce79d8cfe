//! What a dry run would write, by key.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

use derive_where::derive_where;

use super::Write;
use super::timers::Timers;

/// A key with a plan is asked again after so long: no change wakes the key of an object that is gone. What is still
/// planned then is written by nobody else: the built-in loop takes seconds.
const REVIEW_AFTER: Duration = Duration::from_mins(5);

#[derive_where(Default)]
pub(super) struct Plans<K, W> {
    plans: BTreeMap<K, Plan<W>>,
    /// When to ask again, by uptime.
    reviews: Timers<K, Duration>,
}

struct Plan<W> {
    /// What the last pass that succeeded would have written, and those since.
    writes: Vec<W>,
    /// The first pass with a plan, since the last one without.
    since: Duration,
    /// It was still planned after [`REVIEW_AFTER`].
    undone: bool,
}

impl<K: Clone + Ord + Hash, W: Write> Plans<K, W> {
    /// A pass of `key` would send `write`; whether that is new.
    pub(super) fn add(&mut self, key: &K, write: &W, now: Duration) -> bool {
        let plan = self.plans.entry(key.clone()).or_insert_with(|| {
            self.reviews.set(key.clone(), now + REVIEW_AFTER);
            Plan {
                writes: Vec::new(),
                since: now,
                undone: false,
            }
        });
        let is_new = !plan.writes.contains(write);
        if is_new {
            plan.writes.push(write.clone());
        }
        is_new
    }

    /// A pass of `key` has succeeded, and would have sent these.
    pub(super) fn set(&mut self, key: &K, writes: Vec<W>, now: Duration) {
        if writes.is_empty() {
            self.plans.remove(key);
            self.reviews.remove(key);
        } else if let Some(plan) = self.plans.get_mut(key) {
            let is_old = now.saturating_sub(plan.since) >= REVIEW_AFTER;
            plan.undone = is_old && writes.iter().any(Write::is_planned);
            plan.writes = writes;
        }
    }

    /// A key that is to be asked again now.
    pub(super) fn pop_review(&mut self, now: Duration) -> Option<K> {
        let key = self.reviews.pop_due(now)?;
        self.reviews.set(key.clone(), now + REVIEW_AFTER);
        Some(key)
    }

    /// When the next key is to be asked again.
    pub(super) fn next_review(&self) -> Option<Duration> {
        self.reviews.first()
    }

    pub(super) fn undone(&self) -> usize {
        self.plans.values().filter(|plan| plan.undone).count()
    }

    pub(super) fn len(&self) -> usize {
        self.plans.len()
    }
}
