//! A full list under way, kept aside until it is complete.

use std::collections::HashMap;
use std::sync::Arc;

use super::source::Skipped;
use super::store::{ByKey, Delta, Store};
use super::view::View;
use crate::meta::{ObjectKey, Uid};

/// What the list has told so far.
///
/// An item equal to what the store holds shares the store's copy, so a relist of an unchanged cluster
/// costs no second set of views.
pub(super) struct Listing<V: View> {
    objects: HashMap<ByKey<V>, Uid>,
    pub(super) skipped: SkippedVersions,
}

/// The version of each object that could not be decoded, so that each is logged once.
pub(super) type SkippedVersions = HashMap<Option<ObjectKey>, Option<Arc<str>>>;

impl<V: View> Listing<V> {
    pub(super) fn new() -> Self {
        Self {
            objects: HashMap::new(),
            skipped: HashMap::new(),
        }
    }

    /// The list names this object. The last word on a name counts.
    pub(super) fn add(&mut self, view: V, uid: Uid, store: &Store<V>) {
        let view = match store.held(view.key()) {
            Some((held, held_uid)) if held_uid == uid && *held == view => held,
            _ => Arc::new(view),
        };
        self.put(view, uid);
    }

    /// The object is gone although the list may have named it.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
    }

    /// The list names an object that cannot be decoded: it exists, so the last known view of it stays.
    pub(super) fn keep(&mut self, skipped: &Skipped, store: &Store<V>) {
        let Some(key) = &skipped.key else { return };
        if !self.objects.contains_key(key)
            && let Some((held, held_uid)) = store.held(key)
            && skipped.uid.as_ref().is_none_or(|uid| *uid == held_uid)
        {
            self.put(held, held_uid);
        }
    }

    /// The list is complete: what it takes to bring the store there, in the order handlers are told.
    pub(super) fn into_deltas(self, store: &Store<V>) -> Vec<Delta<V>> {
        let gone = store.held_where(|key| !self.objects.contains_key(key));
        let deleted = gone.into_iter().map(|old| Delta::Deleted {
            last: Arc::clone(&old),
            old,
        });
        let mut deltas: Vec<_> = deleted.collect();
        let named = self.objects.into_iter();
        deltas.extend(named.filter_map(|(view, uid)| store.compare(view.0, uid)));
        deltas.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
        deltas
    }

    fn put(&mut self, view: Arc<V>, uid: Uid) {
        // `insert` alone would keep the old view as the map's key.
        self.objects.remove(view.key());
        self.objects.insert(ByKey(view), uid);
    }
}
