//! What the log said recently, so that it does not repeat itself.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Add;
use std::time::Duration;

use derive_where::derive_where;

/// Messages already logged, each with its time. A value: the caller passes the time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[derive_where(Default)]
pub struct LogThrottle<K, T = Duration>(BTreeMap<K, T>);

impl<K: Ord, T: Copy + Ord + Add<Duration, Output = T>> LogThrottle<K, T> {
    /// Returns whether to log `what` now: false if it was logged less than `every` ago. If true, `what` counts as
    /// logged at `now`.
    pub fn is_due<Q>(&mut self, what: &Q, every: Duration, now: T) -> bool
    where
        K: Borrow<Q>,
        Q: Ord + ToOwned<Owned = K> + ?Sized,
    {
        let is_old = |at: &T| now >= *at + every;
        let is_due = self.0.get(what).is_none_or(is_old);
        if is_due {
            // Only when something is due: otherwise a thousand calls about a thousand messages would scan a thousand
            // each.
            self.0.retain(|_, at| !is_old(at));
            self.0.insert(what.to_owned(), now);
        }
        is_due
    }

    /// Forgets `what`, which is over: the next occurrence is due at once.
    pub fn forget<Q: Ord + ?Sized>(&mut self, what: &Q)
    where
        K: Borrow<Q>,
    {
        self.0.remove(what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_same_is_said_once_in_a_while_and_something_else_at_once() {
        let mut said: LogThrottle<String> = LogThrottle::default();
        assert!(said.is_due("a", at(60), at(0)));
        assert!(!said.is_due("a", at(60), at(59)));
        assert!(said.is_due("b", at(60), at(59)));
        assert!(said.is_due("a", at(60), at(60)));
        // Counted from the last time it was logged.
        assert!(!said.is_due("a", at(60), at(119)));
    }

    #[test]
    fn what_is_over_is_said_again() {
        let mut said: LogThrottle<String> = LogThrottle::default();
        assert!(said.is_due("a", at(60), at(0)));
        said.forget("a");
        assert!(said.is_due("a", at(60), at(1)));
    }

    #[test]
    fn nothing_old_is_kept() {
        let mut said: LogThrottle<u64> = LogThrottle::default();
        for what in 0..1_000 {
            assert!(said.is_due(&what, at(10), at(what)));
        }
        assert_eq!(said.0.len(), 10);
    }
}
