//! One copy of each string, and of each other value, that many views share.

use std::any::{Any, TypeId};
use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// Below this many values a sweep is not worth its time.
const SMALLEST_SWEEP: usize = 1024;

/// Hands out one shared copy of equal strings, or of other equal values, for as long as someone holds it.
///
/// What nobody holds any more is swept when its pool has doubled since the last sweep, so a pool never
/// holds more than twice what is in use (or 1024), and a call costs O(1) on average.
pub struct Interner {
    strings: Mutex<Pool<str>>,
    /// A [`Pool`] for each type.
    values: Mutex<HashMap<TypeId, Box<dyn Any + Send>>>,
}

struct Pool<T: ?Sized> {
    held: HashSet<Arc<T>>,
    sweep_at: usize,
}

impl Interner {
    /// An empty pool, to be shared by the informers of a process.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            strings: Mutex::new(Pool::new()),
            values: Mutex::default(),
        })
    }

    /// The shared copy of `text`.
    pub fn intern(&self, text: &str) -> Arc<str> {
        self.strings.lock().shared(text, Arc::from)
    }

    /// The shared copy of `value`; what it holds in turn is best interned before.
    pub fn share<T: Eq + Hash + Send + Sync + 'static>(&self, value: T) -> Arc<T> {
        let mut values = self.values.lock();
        let pool = values
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Box::new(Pool::<T>::new()));
        match pool.downcast_mut::<Pool<T>>() {
            Some(pool) => pool.shared(value, Arc::new),
            // Unreachable: the pool was made for this type.
            None => Arc::new(value),
        }
    }

    /// How many different strings are held.
    pub fn len(&self) -> usize {
        self.strings.lock().held.len()
    }

    /// Whether no string is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Eq + Hash + ?Sized> Pool<T> {
    fn new() -> Self {
        Self {
            held: HashSet::new(),
            sweep_at: SMALLEST_SWEEP,
        }
    }

    /// The shared copy of `value`, which is `make`'s if there is none.
    fn shared<V: Borrow<T>>(&mut self, value: V, make: impl FnOnce(V) -> Arc<T>) -> Arc<T> {
        match self.held.get(value.borrow()) {
            Some(shared) => Arc::clone(shared),
            None => self.keep(make(value)),
        }
    }

    fn keep(&mut self, new: Arc<T>) -> Arc<T> {
        if self.held.len() >= self.sweep_at {
            self.held.retain(|shared| Arc::strong_count(shared) > 1);
            self.held.shrink_to(SMALLEST_SWEEP);
            self.sweep_at = self.held.len().saturating_mul(2).max(SMALLEST_SWEEP);
        }
        self.held.insert(Arc::clone(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_one_copy() {
        let interner = Interner::new();
        let (a, b) = (interner.intern("node-1"), interner.intern("node-1"));
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(interner.len(), 1);
    }

    #[test]
    fn strings_that_nobody_holds_are_dropped() {
        let interner = Interner::new();
        let held = interner.intern("held");
        for n in 0..100_000 {
            interner.intern(&n.to_string());
        }
        assert!(interner.len() <= SMALLEST_SWEEP, "{}", interner.len());
        assert!(Arc::ptr_eq(&held, &interner.intern("held")));
    }

    #[test]
    fn strings_in_use_survive_every_sweep() {
        let interner = Interner::new();
        let held: Vec<_> = (0..5_000).map(|n| interner.intern(&n.to_string())).collect();
        assert_eq!(interner.len(), 5_000);
        for text in &held {
            assert!(Arc::ptr_eq(text, &interner.intern(text)));
        }
    }

    #[test]
    fn equal_values_share_one_copy_type_by_type() {
        let interner = Interner::new();
        let (a, b) = (interner.share(vec![1_u8, 2]), interner.share(vec![1_u8, 2]));
        assert!(Arc::ptr_eq(&a, &b));
        assert!(!Arc::ptr_eq(&a, &interner.share(vec![2_u8])));
        assert_eq!(*interner.share(vec![1_u16, 2]), [1, 2]);
    }
}
