//! A full list in progress, kept apart from the store until it is complete.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use derive_where::derive_where;

use super::handlers::Delta;
use super::source::{Skipped, Versioned};
use super::store::{ByKey, Held, Revision, Store};
use super::view::View;
use crate::meta::ObjectKey;

/// What the list has named so far.
///
/// An item equal to what the store holds shares the store's copy, so a relist of an unchanged cluster
/// costs no second set of views.
#[derive_where(Default)]
pub(super) struct Listing<V: View> {
    /// The step at which it began.
    began: u64,
    /// The highest version that the list names.
    told: u64,
    objects: HashMap<ByKey<V>, Revision>,
    /// Objects that exist but cannot be decoded: the last known view of each stays.
    kept: HashSet<ObjectKey>,
}

impl<V: View> Listing<V> {
    pub(super) fn new(began: u64) -> Self {
        Self {
            began,
            ..Self::default()
        }
    }

    /// Adds an object of the list. If a name comes twice, the last object counts.
    pub(super) fn add(&mut self, observed: Versioned<V>, store: &Store<V>) {
        let Versioned { view, uid, version } = observed;
        let view = match store.held(view.key()) {
            Some(held) if held.at.uid == uid && *held.view == view => held.view,
            _ => Arc::new(view),
        };
        let Held { view, at } = Held::new(view, uid, version.as_deref());
        // `insert` alone would keep the old view as the map's key.
        self.remove(view.key());
        self.objects.insert(ByKey(view), at);
    }

    /// The list names this version.
    pub(super) fn tells(&mut self, version: u64) {
        self.told = self.told.max(version);
    }

    /// The object is gone although the list may have named it.
    pub(super) fn remove(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
        self.kept.remove(key);
    }

    /// The list names an object that cannot be decoded.
    pub(super) fn keep(&mut self, skipped: &Skipped, store: &Store<V>) {
        let Some(key) = &skipped.key else { return };
        let is_held = |uid| store.uid(key) == Some(uid);
        let is_named = self.objects.contains_key(key);
        if !is_named && skipped.uid.as_ref().map_or(store.uid(key).is_some(), is_held) {
            self.kept.insert(key.clone());
        }
    }

    /// Brings the store to the complete list; returns what that changes, in the order in which handlers receive it.
    pub(super) fn finish(self, store: &mut Store<V>) -> Vec<Delta<V>> {
        let (began, told) = (self.began, self.told);
        store.told = told;
        let missing: Vec<_> = store.keys().filter(|key| !self.names(key)).cloned().collect();
        let mut deltas = Vec::new();
        for key in missing {
            deltas.extend(store.mutate(&key, |mutation, held, _| mutation.unlisted(held, began, told)));
        }
        for (ByKey(view), at) in self.objects {
            deltas.extend(store.applied(Held { view, at }, began));
        }
        deltas.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
        deltas
    }

    fn names(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key) || self.kept.contains(key)
    }
}
