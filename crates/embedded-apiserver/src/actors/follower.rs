//! The changes to the objects of one resource, for an actor.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::resource::Resource;
use crate::store::{Store, Stored};

/// A position in the history of a resource; initially before the first write.
pub(super) struct Follower {
    pub(super) resource: &'static Resource,
    seen: Option<u64>,
    keys: BTreeSet<Arc<str>>,
}

impl Follower {
    pub(super) fn new(resource: &'static Resource) -> Self {
        Self {
            resource,
            seen: None,
            keys: BTreeSet::new(),
        }
    }

    /// The keys written since the last call, with their current values.
    pub(super) fn look(&mut self, store: &Store) -> Vec<(Arc<str>, Option<Stored>)> {
        let history = self
            .seen
            .and_then(|seen| store.changes_since(self.resource, seen).ok());
        self.seen = Some(store.version());
        let written: BTreeSet<Arc<str>> = match history {
            Some(changes) => changes.into_iter().map(|change| change.key).collect(),
            // History does not reach back: any object may have changed, and known ones may be gone.
            None => std::mem::take(&mut self.keys)
                .into_iter()
                .chain(store.all(self.resource, "").map(|(key, _)| key.clone()))
                .collect(),
        };
        written
            .into_iter()
            .map(|key| {
                let stored = store.get(self.resource, &key).cloned();
                if stored.is_some() {
                    self.keys.insert(key.clone());
                } else {
                    self.keys.remove(&key);
                }
                (key, stored)
            })
            .collect()
    }
}
