//! Run key K at time T (CORE-2): schedule, cancel, ask what is scheduled.
//!
//! An entry is *waiting* until its time has come and a runner takes it, *running* until the runner drops
//! its [`Running`], then done and forgotten. Each has a generation: what ends is that run and no newer
//! entry of the same key. However many entries wait, the runner sleeps on one timer.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::Clock;

/// How often a runner looks at the wall clock again: a clock that is set delays nothing for longer.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Below this many entries a heap is not worth rebuilding.
const SMALL: usize = 64;

/// Keys to be run at a wall time. Cheap to clone: clones share the entries.
pub struct TimedWorkers<K>(Arc<Inner<K>>);

struct Inner<K> {
    clock: Clock,
    state: Mutex<State<K>>,
    changed: Notify,
}

struct State<K> {
    entries: HashMap<K, Entry>,
    /// Waiting entries by time; may hold some that were cancelled or moved, which `entries` does not confirm.
    heap: BinaryHeap<Reverse<Due<K>>>,
    generation: Generation,
    waiting: usize,
}

/// Not zero: so that an option of one takes no more memory than one.
type Generation = NonZeroU64;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    waiting: Option<Waiting>,
    running: Option<Generation>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    at: Timestamp,
    generation: Generation,
}

struct Due<K> {
    at: Timestamp,
    generation: Generation,
    key: K,
}

/// A key whose time has come. Dropping it ends the run.
pub struct Running<K: Clone + Eq + Hash> {
    workers: Arc<Inner<K>>,
    key: K,
    at: Timestamp,
    generation: Generation,
}

impl<K: Clone + Eq + Hash> TimedWorkers<K> {
    /// Nothing is scheduled.
    pub fn new(clock: Clock) -> Self {
        let state = State {
            entries: HashMap::new(),
            heap: BinaryHeap::new(),
            generation: Generation::MIN,
            waiting: 0,
        };
        Self(Arc::new(Inner {
            clock,
            state: Mutex::new(state),
            changed: Notify::new(),
        }))
    }

    /// Runs `key` at wall time `at`, instead of when it was scheduled before. While `key` is running, the
    /// next run begins after that one has ended.
    pub fn schedule(&self, key: K, at: Timestamp) {
        let mut state = self.0.state.lock();
        state.generation = state.generation.saturating_add(1);
        let waiting = Waiting {
            at,
            generation: state.generation,
        };
        let entry = state.entries.entry(key.clone()).or_default();
        let running = entry.running.is_some();
        if entry.waiting.replace(waiting).is_none() {
            state.waiting += 1;
        }
        if !running {
            state.push(key, waiting);
            drop(state);
            self.0.changed.notify_waiters();
        }
    }

    /// Takes the waiting entry of `key` away; whether there was one. A run that has begun goes on.
    pub fn cancel(&self, key: &K) -> bool {
        let mut state = self.0.state.lock();
        let Some(entry) = state.entries.get_mut(key) else {
            return false;
        };
        let was_waiting = entry.waiting.take().is_some();
        let idle = entry.running.is_none();
        if idle {
            state.entries.remove(key);
        }
        state.waiting -= usize::from(was_waiting);
        was_waiting
    }

    /// When `key` will run next.
    pub fn scheduled_at(&self, key: &K) -> Option<Timestamp> {
        self.0
            .state
            .lock()
            .entries
            .get(key)?
            .waiting
            .map(|waiting| waiting.at)
    }

    /// How many entries wait.
    pub fn len(&self) -> usize {
        self.0.state.lock().waiting
    }

    /// Whether no entry waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for the entry that is due first and marks it as running. Cancel safe.
    pub async fn next_due(&self) -> Running<K> {
        let inner = &self.0;
        loop {
            // Registered before the heap is read: an entry that comes in between is not missed.
            let changed = inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let wait = match inner.state.lock().take_due(inner.clock.now()) {
                Ok(due) => return self.running(due),
                Err(None) => None,
                Err(Some(at)) => Some(inner.clock.until(at).min(LOOK_AGAIN)),
            };
            let time = async {
                match wait {
                    Some(wait) => inner.clock.sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = time => {}
                () = changed => {}
            }
        }
    }

    fn running(&self, due: Due<K>) -> Running<K> {
        Running {
            workers: Arc::clone(&self.0),
            key: due.key,
            at: due.at,
            generation: due.generation,
        }
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    fn push(&mut self, key: K, waiting: Waiting) {
        self.heap.push(Reverse(Due {
            at: waiting.at,
            generation: waiting.generation,
            key,
        }));
        if self.heap.len() > SMALL && self.heap.len() > 2 * self.waiting {
            let entries = &self.entries;
            self.heap.retain(|Reverse(due)| counts(entries, due));
        }
    }

    /// The entry that is due at `now`, else the time of the first one.
    fn take_due(&mut self, now: Timestamp) -> Result<Due<K>, Option<Timestamp>> {
        loop {
            let Some(Reverse(due)) = self.heap.peek() else {
                return Err(None);
            };
            let counts = counts(&self.entries, due);
            if counts && due.at > now {
                return Err(Some(due.at));
            }
            let Some(Reverse(due)) = self.heap.pop() else {
                return Err(None);
            };
            if counts && let Some(entry) = self.entries.get_mut(&due.key) {
                entry.waiting = None;
                entry.running = Some(due.generation);
                self.waiting -= 1;
                return Ok(due);
            }
        }
    }
}

fn counts<K: Eq + Hash>(entries: &HashMap<K, Entry>, due: &Due<K>) -> bool {
    let entry = entries.get(&due.key);
    entry
        .and_then(|entry| entry.waiting)
        .is_some_and(|waiting| waiting.generation == due.generation)
}

impl<K: Clone + Eq + Hash> Running<K> {
    /// The key.
    pub const fn key(&self) -> &K {
        &self.key
    }

    /// When it was due.
    pub const fn at(&self) -> Timestamp {
        self.at
    }
}

impl<K: Clone + Eq + Hash> Drop for Running<K> {
    fn drop(&mut self) {
        let mut state = self.workers.state.lock();
        let Some(entry) = state.entries.get_mut(&self.key) else {
            return;
        };
        if entry.running != Some(self.generation) {
            return;
        }
        entry.running = None;
        match entry.waiting {
            Some(waiting) => {
                state.push(self.key.clone(), waiting);
                drop(state);
                self.workers.changed.notify_waiters();
            }
            None => {
                state.entries.remove(&self.key);
            }
        }
    }
}

impl<K> Due<K> {
    const fn order(&self) -> (Timestamp, Generation) {
        (self.at, self.generation)
    }
}

impl<K> PartialEq for Due<K> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<K> Eq for Due<K> {}

impl<K> PartialOrd for Due<K> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Due<K> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl<K> Clone for TimedWorkers<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> fmt::Debug for TimedWorkers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimedWorkers").finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash + fmt::Debug> fmt::Debug for Running<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("key", &self.key)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}
