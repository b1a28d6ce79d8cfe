//! Keys by time; each key has one time.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use derive_where::derive_where;

#[derive(Clone)]
#[derive_where(Debug; K, T)]
#[derive_where(Default)]
pub(super) struct Timers<K, T> {
    by_time: BTreeSet<(T, K)>,
    #[derive_where(skip(Debug))]
    by_key: HashMap<K, T>,
}

impl<K: Clone + Ord + Hash, T: Copy + Ord> Timers<K, T> {
    pub(super) fn set(&mut self, key: K, at: T) {
        if let Some(known) = self.by_key.insert(key.clone(), at) {
            if known == at {
                return;
            }
            let entry = (known, key);
            self.by_time.remove(&entry);
            self.by_time.insert((at, entry.1));
        } else {
            self.by_time.insert((at, key));
        }
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some(at) = self.by_key.remove(key) {
            self.by_time.remove(&(at, key.clone()));
        }
    }

    pub(super) fn first(&self) -> Option<T> {
        self.by_time.first().map(|(at, _)| *at)
    }

    pub(super) fn pop_due(&mut self, now: T) -> Option<K> {
        self.by_time.first().filter(|(at, _)| *at <= now)?;
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    pub(super) fn get(&self, key: &K) -> Option<T> {
        self.by_key.get(key).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}
