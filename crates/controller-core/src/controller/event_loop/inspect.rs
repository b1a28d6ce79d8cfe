//! What the loop holds, for tests and metrics.

use jiff::Timestamp;

use super::super::{Action, AnswerOf, Controller, Now, Pass, Reply, StoreOf};
use super::{KeyQueue, Loop};
use crate::cache::{Store, View};

impl<C: Controller> Loop<C> {
    /// What `reconcile` returns for `key` in a new pass; for tests.
    pub fn action_of(&self, key: &C::Key, now: Now) -> Action<C> {
        self.reconcile(key, &Pass::default(), now)
    }

    /// Returns whether `key` is only handed out in a term.
    pub fn needs_term(&self, key: &C::Key) -> bool {
        self.queues[self.controller.queue_of(key)].queue.needs_term
    }

    /// The store that `of` names; for tests.
    pub fn store<V: View>(&mut self, of: StoreOf<C, V>) -> &Store<V> {
        self.store_of(of)
    }

    /// The answer to `query` that also serves other keys; for tests.
    pub fn shared(&self, query: &C::Query) -> Option<&Reply<AnswerOf<C>>> {
        self.answers.get(query)
    }

    /// True if an answer serves other keys, too; for tests.
    pub fn shares_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// True if `key` is in a pass or due for one; for tests.
    pub fn is_queued(&self, key: &C::Key, now: Now) -> bool {
        self.passes.contains_key(key) || self.queues[self.controller.queue_of(key)].is_queued(key, now)
    }

    /// The keys that wait for their pass, in order; for tests.
    pub fn waiting_keys(&self) -> Vec<C::Key> {
        self.queues.iter().flat_map(KeyQueue::ready_keys).collect()
    }

    /// True if `key` comes back by itself after a delay; for tests.
    pub fn is_waiting(&self, key: &C::Key) -> bool {
        self.queues[self.controller.queue_of(key)].is_waiting(key)
    }

    /// When `key` comes back by itself, by wall time; for tests.
    pub fn scheduled_at(&self, key: &C::Key) -> Option<Timestamp> {
        self.queues[self.controller.queue_of(key)].scheduled_at(key)
    }

    /// How many keys of the queue with this index come back at a set time.
    pub fn scheduled(&self, queue: usize) -> usize {
        self.queues.get(queue).map_or(0, KeyQueue::scheduled)
    }

    /// How many keys have writes that a dry run has planned for more than 5 minutes, for metrics.
    pub fn undone(&self) -> usize {
        self.plans.undone()
    }

    /// How many keys, passes, requests and plans the loop holds: 0 when everything is settled; for tests.
    pub fn held(&self) -> usize {
        let queues: usize = self.queues.iter().map(KeyQueue::held).sum();
        let passes = self.passes.len() + self.runnable.len() + self.line.len() + self.deadlines.len();
        queues + passes + self.requests.held() + self.plans.len()
    }
}
