//! One copy of each string, and of each other value, that many views share: one pool for the process.

use std::any::{Any, TypeId};
use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde::{Deserialize, Deserializer};

use crate::meta::read_text;

/// Below this many values a sweep is not worth the time.
const SMALLEST_SWEEP: usize = 1024;

static STRINGS: LazyLock<Mutex<Pool<str>>> = LazyLock::new(|| Mutex::new(Pool::new()));
/// A [`Pool`] for each type.
static VALUES: LazyLock<Mutex<HashMap<TypeId, Box<dyn Any + Send>>>> = LazyLock::new(Mutex::default);

/// A text that many objects share, such as the name of a node: decoded straight into the shared copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interned(Arc<str>);

/// Holds one shared copy of equal values, for as long as anyone else holds it.
///
/// Values that nobody else holds are swept when the pool has doubled since the last sweep. So the pool never holds more
/// than twice what is in use (or 1024), and a call costs O(1) on average.
struct Pool<T: ?Sized> {
    held: HashSet<Arc<T>>,
    sweep_at: usize,
}

/// The shared copy of `text`.
pub fn intern(text: &str) -> Arc<str> {
    STRINGS.lock().shared(text, Arc::from)
}

/// The shared copy of `value`; intern the values inside it first.
pub fn share<T: Eq + Hash + Send + Sync + 'static>(value: T) -> Arc<T> {
    let mut values = VALUES.lock();
    let pool = values
        .entry(TypeId::of::<T>())
        .or_insert_with(|| Box::new(Pool::<T>::new()));
    match pool.downcast_mut::<Pool<T>>() {
        Some(pool) => pool.shared(value, Arc::new),
        // Unreachable: the pool was made for this type.
        None => Arc::new(value),
    }
}

impl Deref for Interned {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Interned {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<Interned> for Arc<str> {
    fn from(text: Interned) -> Self {
        text.0
    }
}

impl<'de> Deserialize<'de> for Interned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_text(deserializer, |text| Self(intern(text)))
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

    fn pooled(pool: &mut Pool<str>, text: &str) -> Arc<str> {
        pool.shared(text, Arc::from)
    }

    #[test]
    fn equal_strings_share_one_copy_also_off_the_wire() {
        let shared = intern("node-1");
        assert!(Arc::ptr_eq(&shared, &intern("node-1")));
        for json in [r#""node-1""#, r#""node\u002d1""#] {
            let read: Interned = serde_json::from_str(json).unwrap();
            assert!(Arc::ptr_eq(&shared, &read.into()), "{json}");
        }
        let no_text = serde_json::from_str::<Interned>("7").unwrap_err();
        assert_eq!(
            no_text.to_string(),
            "invalid type: integer `7`, expected a string at line 1 column 1"
        );
    }

    #[test]
    fn strings_that_nobody_holds_are_dropped() {
        let mut pool = Pool::new();
        let held = pooled(&mut pool, "held");
        for n in 0..100_000 {
            pooled(&mut pool, &n.to_string());
        }
        assert!(pool.held.len() <= SMALLEST_SWEEP, "{}", pool.held.len());
        assert!(Arc::ptr_eq(&held, &pooled(&mut pool, "held")));
    }

    #[test]
    fn strings_in_use_survive_every_sweep() {
        let mut pool = Pool::new();
        let held: Vec<_> = (0..5_000).map(|n| pooled(&mut pool, &n.to_string())).collect();
        assert_eq!(pool.held.len(), 5_000);
        for text in &held {
            assert!(Arc::ptr_eq(text, &pooled(&mut pool, text)));
        }
    }

    #[test]
    fn equal_values_share_one_copy_type_by_type() {
        let (a, b) = (share(vec![1_u8, 2]), share(vec![1_u8, 2]));
        assert!(Arc::ptr_eq(&a, &b));
        assert!(!Arc::ptr_eq(&a, &share(vec![2_u8])));
        assert_eq!(*share(vec![1_u16, 2]), [1, 2]);
    }
}
