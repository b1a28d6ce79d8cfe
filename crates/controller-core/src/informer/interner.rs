//! One copy of each string that many views share.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// Below this many strings a sweep is not worth its time.
const SMALLEST_SWEEP: usize = 1024;

/// Hands out one shared copy of equal strings, for as long as someone holds it.
///
/// Strings that nobody holds any more are swept when the pool has doubled since the last sweep, so it
/// never holds more than twice the strings in use (or 1024), and a call costs O(1) on average.
#[derive(Debug)]
pub struct Interner {
    pool: Mutex<Pool>,
}

#[derive(Debug)]
struct Pool {
    strings: HashSet<Arc<str>>,
    sweep_at: usize,
}

impl Interner {
    /// An empty pool, to be shared by the informers of a process.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            pool: Mutex::new(Pool {
                strings: HashSet::new(),
                sweep_at: SMALLEST_SWEEP,
            }),
        })
    }

    /// The shared copy of `text`.
    pub fn intern(&self, text: &str) -> Arc<str> {
        let mut pool = self.pool.lock();
        if let Some(shared) = pool.strings.get(text) {
            return Arc::clone(shared);
        }
        if pool.strings.len() >= pool.sweep_at {
            pool.strings.retain(|shared| Arc::strong_count(shared) > 1);
            pool.strings.shrink_to(SMALLEST_SWEEP);
            pool.sweep_at = pool.strings.len().saturating_mul(2).max(SMALLEST_SWEEP);
        }
        let shared: Arc<str> = text.into();
        pool.strings.insert(Arc::clone(&shared));
        shared
    }

    /// How many different strings are held.
    pub fn len(&self) -> usize {
        self.pool.lock().strings.len()
    }

    /// Whether no string is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
}
