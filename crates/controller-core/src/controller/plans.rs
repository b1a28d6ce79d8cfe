//! What a dry run would write, by key.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

use derive_where::derive_where;

use super::Write;
use super::timers::Timers;

/// Wait before a key with a plan is reconciled again: no change enqueues the key of an object that is gone. What is
/// still planned then, nobody else writes: the built-in loop takes seconds.
const REVIEW_AFTER: Duration = Duration::from_mins(5);

#[derive(Clone)]
#[derive_where(Default)]
pub(super) struct Plans<K, W> {
    plans: BTreeMap<K, Plan<W>>,
    /// When to reconcile again, by uptime.
    reviews: Timers<K, Duration>,
}

#[derive(Clone)]
struct Plan<W> {
    /// What the last successful pass would have written, and what passes since then would write.
    writes: Vec<W>,
    /// Time of the first pass with a plan since the last one without.
    since: Duration,
    /// True if still planned after [`REVIEW_AFTER`].
    undone: bool,
}

impl<K: Clone + Ord + Hash, W: Write> Plans<K, W> {
    /// Adds a write that a pass of `key` would send; returns whether it is new.
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

    /// Replaces the plan with what a successful pass of `key` would have sent.
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

    /// Takes a key that must be reconciled again now.
    pub(super) fn pop_review(&mut self, now: Duration) -> Option<K> {
        let key = self.reviews.pop_due(now)?;
        self.reviews.set(key.clone(), now + REVIEW_AFTER);
        Some(key)
    }

    /// When the next key must be reconciled again.
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
