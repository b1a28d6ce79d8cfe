//! One writer at a time for a claim: pods that share it and its own sync would make each other's writes conflicts.

use std::collections::HashMap;
use std::sync::Arc;

use controller_core::meta::ObjectKey;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

type Places = Mutex<HashMap<ObjectKey, Arc<tokio::sync::Mutex<()>>>>;

/// Whose turn it is, by claim.
#[derive(Debug, Default)]
pub struct Turns(Places);

/// The claim is ours until this is dropped.
#[must_use]
pub struct Turn<'a> {
    places: &'a Places,
    key: ObjectKey,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits until nobody else writes to the claim `key`. Cancel safe.
    pub async fn take(&self, key: &ObjectKey) -> Turn<'_> {
        let place = Arc::clone(self.0.lock().entry(key.clone()).or_default());
        let mut turn = Turn {
            places: &self.0,
            key: key.clone(),
            guard: None,
        };
        turn.guard = Some(place.lock_owned().await);
        turn
    }

    /// How many claims are written to or waited for.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Whether nobody writes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.guard = None;
        let mut places = self.places.lock();
        // The map's own is the last: nobody waits.
        if places
            .get(&self.key)
            .is_some_and(|place| Arc::strong_count(place) == 1)
        {
            places.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use controller_core::clock::Clock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_claim_has_one_writer_at_a_time_and_leaves_nothing_behind() {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let turns = Turns::default();
        let (a, b) = (ObjectKey::namespaced("ns", "a"), ObjectKey::namespaced("ns", "b"));
        let first = turns.take(&a).await;
        let other = turns.take(&b).await;
        let minute = Duration::from_mins(1);
        assert!(clock.timeout(minute, turns.take(&a)).await.is_err());
        assert_eq!(turns.len(), 2);
        drop((first, other));
        assert!(turns.is_empty());
        drop(clock.timeout(minute, turns.take(&a)).await.unwrap());
        assert!(turns.is_empty());
    }
}
