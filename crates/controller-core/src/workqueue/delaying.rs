//! Keys that are to be added later: one entry a key, the earliest time wins.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;
use std::hash::Hash;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

/// Below this many entries a heap is not worth rebuilding.
const SMALL: usize = 64;

/// A heap of keys by time.
pub struct Delaying<K> {
    state: Mutex<State<K>>,
    sooner: Notify,
}

struct State<K> {
    /// The time that counts for each key, and the number of the entry that says so.
    times: HashMap<K, (Instant, u64)>,
    /// May hold entries that no longer count: those that `times` does not confirm.
    heap: BinaryHeap<Reverse<Entry<K>>>,
    sequence: u64,
}

struct Entry<K> {
    at: Instant,
    /// Keys of one time leave in the order they came.
    sequence: u64,
    key: K,
}

impl<K: Clone + Eq + Hash> Delaying<K> {
    /// Nothing is delayed.
    pub(super) fn new() -> Self {
        let state = State {
            times: HashMap::new(),
            heap: BinaryHeap::new(),
            sequence: 0,
        };
        Self {
            state: Mutex::new(state),
            sooner: Notify::new(),
        }
    }

    /// Remembers `key` for `at`, unless it is remembered for an earlier time.
    pub(super) fn insert(&self, key: K, at: Instant) {
        let mut state = self.state.lock();
        if state.times.get(&key).is_some_and(|(known, _)| *known <= at) {
            return;
        }
        let first = state.next();
        state.sequence += 1;
        let sequence = state.sequence;
        state.times.insert(key.clone(), (at, sequence));
        state.heap.push(Reverse(Entry { at, sequence, key }));
        state.compact();
        drop(state);
        if first.is_none_or(|first| at < first) {
            self.sooner.notify_waiters();
        }
    }

    /// A key whose time is `now` or before.
    pub(super) fn pop_due(&self, now: Instant) -> Option<K> {
        let mut state = self.state.lock();
        if state.next()? > now {
            return None;
        }
        let Reverse(entry) = state.heap.pop()?;
        state.times.remove(&entry.key);
        Some(entry.key)
    }

    /// The earliest time.
    pub(super) fn next(&self) -> Option<Instant> {
        self.state.lock().next()
    }

    /// Completes when the earliest time has moved forward.
    pub(super) fn sooner(&self) -> Notified<'_> {
        self.sooner.notified()
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        let mut state = self.state.lock();
        state.times.clear();
        state.heap.clear();
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    /// The earliest time, after dropping what no longer counts from the top of the heap.
    fn next(&mut self) -> Option<Instant> {
        while let Some(Reverse(entry)) = self.heap.peek() {
            if self.times.get(&entry.key) == Some(&entry.order()) {
                return Some(entry.at);
            }
            self.heap.pop();
        }
        None
    }

    /// Keeps the heap at no more than twice what counts.
    fn compact(&mut self) {
        if self.heap.len() > SMALL && self.heap.len() > 2 * self.times.len() {
            let times = &self.times;
            self.heap
                .retain(|Reverse(entry)| times.get(&entry.key) == Some(&entry.order()));
        }
    }
}

impl<K> Entry<K> {
    const fn order(&self) -> (Instant, u64) {
        (self.at, self.sequence)
    }
}

impl<K> PartialEq for Entry<K> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<K> Eq for Entry<K> {}

impl<K> PartialOrd for Entry<K> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Entry<K> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl<K> fmt::Debug for Delaying<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delaying").finish_non_exhaustive()
    }
}
