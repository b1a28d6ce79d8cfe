//! What this process has written to objects, until the watch shows it: so that no write is made twice
//! because the cache lags, and none is repeated blindly after an answer was lost.
//!
//! | standing | means | so |
//! |---|---|---|
//! | [`Standing::Settled`] | the cache can be trusted | decide on it |
//! | [`Standing::InFlight`] | accepted, the watch has not shown it yet | wait, do not write it again |
//! | [`Standing::Confirmed`] | the watch has shown our value | a difference now is another writer's doing |
//! | [`Standing::Unknown`] | sent, no answer; or accepted and never shown | read the object before writing |

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::clock::Clock;

/// How long an accepted write may stay unseen before the cache is no longer believed.
pub const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// What is known of our last write to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing<V> {
    /// Nothing was written, or nothing that still matters.
    Settled,
    /// The API server accepted this value; the watch has this long to show it.
    InFlight(V, Duration),
    /// The watch showed this value after we wrote it.
    Confirmed(V),
    /// The write's fate is unknown.
    Unknown,
}

/// The last write to each object; `V` is the value written.
#[derive(Debug)]
pub struct OwnWrites<K, V> {
    clock: Clock,
    last: Mutex<HashMap<K, Last<V>>>,
}

/// A write that is on its way. Dropped, also by cancelling the sync that made it, its fate stays unknown.
#[must_use = "a write whose end is not told counts as one whose fate is unknown"]
#[derive(Debug)]
pub struct Sending<'a, K, V> {
    writes: &'a OwnWrites<K, V>,
    key: K,
    before: Option<Last<V>>,
}

#[derive(Clone, Debug)]
enum Last<V> {
    Accepted {
        value: V,
        at: Instant,
    },
    Confirmed {
        value: V,
    },
    /// On its way, or without an answer; and what the watch has shown since: it can be faster than the answer.
    Sent {
        shown: Option<V>,
    },
}

impl<K: Clone + Eq + Hash, V: Clone + PartialEq> OwnWrites<K, V> {
    /// No writes yet.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            last: Mutex::default(),
        }
    }

    /// A write to `key` is about to be sent.
    pub fn sending(&self, key: &K) -> Sending<'_, K, V> {
        let before = self.last.lock().insert(key.clone(), Last::Sent { shown: None });
        Sending {
            writes: self,
            key: key.clone(),
            before,
        }
    }

    /// The watch shows that `key` has `value`.
    pub fn shown(&self, key: &K, value: &V) {
        let mut last = self.last.lock();
        let Some(last) = last.get_mut(key) else { return };
        match last {
            Last::Sent { shown } => *shown = Some(value.clone()),
            Last::Accepted { value: written, .. } if written == value => {
                *last = Last::Confirmed { value: value.clone() };
            }
            Last::Accepted { .. } | Last::Confirmed { .. } => {}
        }
    }

    /// Nothing of ours matters any more: a read of the object answered what the cache could not, or it is gone.
    pub fn settle(&self, key: &K) {
        self.last.lock().remove(key);
    }

    /// How our last write to `key` stands.
    pub fn standing(&self, key: &K) -> Standing<V> {
        match self.last.lock().get(key) {
            None => Standing::Settled,
            Some(Last::Sent { .. }) => Standing::Unknown,
            Some(Last::Confirmed { value }) => Standing::Confirmed(value.clone()),
            Some(Last::Accepted { value, at }) => match SEEN_WITHIN.checked_sub(self.clock.instant() - *at) {
                Some(left) if !left.is_zero() => Standing::InFlight(value.clone(), left),
                _ => Standing::Unknown,
            },
        }
    }
}

impl<K: Eq + Hash, V: PartialEq> Sending<'_, K, V> {
    /// The API server accepted `value`.
    pub fn accepted(self, value: V) {
        let at = self.writes.clock.instant();
        let mut last = self.writes.last.lock();
        let shown = matches!(last.get(&self.key), Some(Last::Sent { shown: Some(shown) }) if *shown == value);
        last.insert(
            self.key,
            if shown {
                Last::Confirmed { value }
            } else {
                Last::Accepted { value, at }
            },
        );
    }

    /// The write certainly had no effect: what was known before still is.
    pub fn refused(self) {
        let mut last = self.writes.last.lock();
        match self.before {
            Some(before) => last.insert(self.key, before),
            None => last.remove(&self.key),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes() -> (Clock, OwnWrites<&'static str, i64>) {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        (clock.clone(), OwnWrites::new(clock))
    }

    #[tokio::test(start_paused = true)]
    async fn an_accepted_write_is_in_flight_until_the_watch_shows_it() {
        let (clock, writes) = writes();
        assert_eq!(writes.standing(&"a"), Standing::Settled);
        writes.sending(&"a").accepted(15);
        clock.sleep(Duration::from_secs(10)).await;
        assert_eq!(
            writes.standing(&"a"),
            Standing::InFlight(15, Duration::from_secs(20))
        );
        writes.shown(&"a", &7);
        assert_eq!(
            writes.standing(&"a"),
            Standing::InFlight(15, Duration::from_secs(20))
        );
        writes.shown(&"a", &15);
        assert_eq!(writes.standing(&"a"), Standing::Confirmed(15));
    }

    #[tokio::test(start_paused = true)]
    async fn the_watch_may_be_faster_than_the_answer() {
        let (_, writes) = writes();
        let sending = writes.sending(&"a");
        writes.shown(&"a", &7);
        writes.shown(&"a", &15);
        sending.accepted(15);
        assert_eq!(writes.standing(&"a"), Standing::Confirmed(15));
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_the_watch_never_shows_ends_unknown() {
        let (clock, writes) = writes();
        writes.sending(&"a").accepted(15);
        clock.sleep(SEEN_WITHIN).await;
        assert_eq!(writes.standing(&"a"), Standing::Unknown);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_answer_stays_unknown_until_the_object_is_read_or_written() {
        let (_, writes) = writes();
        drop(writes.sending(&"a"));
        writes.shown(&"a", &15);
        assert_eq!(writes.standing(&"a"), Standing::Unknown);
        writes.sending(&"a").accepted(15);
        assert_eq!(writes.standing(&"a"), Standing::InFlight(15, SEEN_WITHIN));
        drop(writes.sending(&"a"));
        writes.settle(&"a");
        assert_eq!(writes.standing(&"a"), Standing::Settled);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_write_leaves_what_was_known_before() {
        let (_, writes) = writes();
        writes.sending(&"a").refused();
        assert_eq!(writes.standing(&"a"), Standing::Settled);
        writes.sending(&"a").accepted(15);
        writes.shown(&"a", &15);
        writes.sending(&"a").refused();
        assert_eq!(writes.standing(&"a"), Standing::Confirmed(15));
    }
}
