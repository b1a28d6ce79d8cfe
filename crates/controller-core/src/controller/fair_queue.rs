//! Keys that wait: namespaces take turns; within a namespace, first in, first out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use derive_where::derive_where;

/// Keys in the order in which they are served. Every call takes logarithmic time.
#[derive(Clone)]
#[derive_where(Default)]
pub(super) struct FairQueue<K> {
    lines: HashMap<Arc<str>, NamespaceQueue<K>>,
    /// Namespaces by their turn, the next one first.
    order: BTreeMap<u64, Arc<str>>,
    /// Namespaces whose keys are not handed out.
    suspended: HashSet<Arc<str>>,
    len: usize,
    last: u64,
}

#[derive(Clone, Debug)]
struct NamespaceQueue<K> {
    turn: u64,
    /// By arrival.
    keys: BTreeMap<u64, K>,
}

/// Where a key waits.
#[derive(Clone, Debug)]
pub(super) struct Place {
    namespace: Arc<str>,
    number: u64,
}

impl<K> FairQueue<K> {
    pub(super) fn push(&mut self, namespace: Option<&str>, key: K) -> Place {
        self.last += 1;
        let number = self.last;
        let namespace = namespace.unwrap_or_default();
        let known = self.lines.get_key_value(namespace);
        let namespace = known.map_or_else(|| Arc::from(namespace), |(known, _)| Arc::clone(known));
        let line = self.lines.entry(Arc::clone(&namespace)).or_insert_with(|| {
            if !self.suspended.contains(&namespace) {
                self.order.insert(number, Arc::clone(&namespace));
            }
            NamespaceQueue {
                turn: number,
                keys: BTreeMap::new(),
            }
        });
        line.keys.insert(number, key);
        self.len += 1;
        Place { namespace, number }
    }

    pub(super) fn pop(&mut self) -> Option<K> {
        let (_, namespace) = self.order.pop_first()?;
        let line = self.lines.get_mut(&namespace)?;
        let (_, key) = line.keys.pop_first()?;
        self.len -= 1;
        if line.keys.is_empty() {
            self.lines.remove(&namespace);
        } else {
            self.last += 1;
            line.turn = self.last;
            self.order.insert(self.last, namespace);
        }
        Some(key)
    }

    /// Removes the key at this place, if it still waits.
    pub(super) fn remove(&mut self, place: &Place) -> Option<K> {
        let line = self.lines.get_mut(&place.namespace)?;
        let key = line.keys.remove(&place.number)?;
        self.len -= 1;
        if line.keys.is_empty() {
            self.order.remove(&line.turn);
            self.lines.remove(&place.namespace);
        }
        Some(key)
    }

    /// Stops handing out the keys of this namespace, or starts again.
    pub(super) fn suspend(&mut self, namespace: &str, is_suspended: bool) {
        if is_suspended {
            self.suspended.insert(namespace.into());
        } else {
            self.suspended.remove(namespace);
        }
        if let Some(line) = self.lines.get_mut(namespace) {
            self.order.remove(&line.turn);
            if !is_suspended {
                self.last += 1;
                line.turn = self.last;
                self.order.insert(self.last, namespace.into());
            }
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no key can be handed out; those of suspended namespaces do not count.
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

impl<K: Clone> FairQueue<K> {
    /// The keys in the order of their turns; for tests.
    pub(super) fn in_order(&self) -> impl Iterator<Item = K> + use<K> {
        let mut rest = self.clone();
        std::iter::from_fn(move || rest.pop())
    }
}

impl<K: Clone + fmt::Debug> fmt::Debug for FairQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.in_order()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(turns: &FairQueue<&'static str>) -> Vec<&'static str> {
        turns.in_order().collect()
    }

    #[test]
    fn namespaces_take_turns_and_keys_of_one_go_in_the_order_in_which_they_came() {
        let mut turns = FairQueue::default();
        for key in ["a/1", "a/2", "a/3", "b/1", "c/1", "b/2"] {
            turns.push(key.split('/').next(), key);
        }
        assert_eq!(all(&turns), ["a/1", "b/1", "c/1", "a/2", "b/2", "a/3"]);
        assert_eq!(turns.pop(), Some("a/1"));
        turns.push(Some("d"), "d/1");
        assert_eq!(all(&turns), ["b/1", "c/1", "a/2", "d/1", "b/2", "a/3"]);
    }

    #[test]
    fn the_keys_of_a_namespace_that_is_suspended_wait() {
        let mut turns = FairQueue::default();
        turns.push(Some("a"), "a/1");
        turns.suspend("a", true);
        turns.push(Some("a"), "a/2");
        turns.suspend("b", true);
        turns.push(Some("b"), "b/1");
        assert!(turns.is_empty());
        turns.push(Some("c"), "c/1");
        assert_eq!(all(&turns), ["c/1"]);
        turns.suspend("a", false);
        turns.suspend("b", false);
        assert_eq!(all(&turns), ["c/1", "a/1", "b/1", "a/2"]);
    }

    #[test]
    fn without_namespaces_the_first_that_came_goes_first() {
        let mut turns = FairQueue::default();
        for key in ["c", "a", "b"] {
            turns.push(None, key);
        }
        assert_eq!(all(&turns), ["c", "a", "b"]);
    }

    #[test]
    fn a_key_that_is_taken_out_leaves_nothing_behind() {
        let mut turns = FairQueue::default();
        let first = turns.push(Some("a"), "a/1");
        let second = turns.push(Some("a"), "a/2");
        turns.push(Some("b"), "b/1");
        assert_eq!(turns.remove(&first), Some("a/1"));
        assert_eq!(turns.remove(&first), None);
        assert_eq!(turns.remove(&second), Some("a/2"));
        assert_eq!(all(&turns), ["b/1"]);
        assert_eq!(turns.pop(), Some("b/1"));
        assert!(turns.is_empty() && turns.lines.is_empty() && turns.order.is_empty());
    }
}
