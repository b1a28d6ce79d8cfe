//! A full list in progress, kept apart from the store until it is complete.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;

use derive_where::derive_where;

use super::event::Versioned;
use super::held::{ByKey, Held, Revision};
use super::view::View;
use crate::fingerprint::Fingerprint;
use crate::meta::{ObjectKey, Uid};

/// What the list has named so far.
///
/// An item equal to what the store holds shares the store's copy, so a relist of an unchanged cluster
/// costs no second set of views.
#[derive_where(Clone, Default)]
pub(super) struct Listing<V: View> {
    /// The step at which it began.
    pub(super) began: u64,
    /// The highest version that the list names.
    pub(super) told: u64,
    pub(super) objects: HashMap<ByKey<V>, Revision>,
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

    /// Adds an object of the list; `held` is what the store has under its name. If a name comes twice, the last object
    /// counts.
    pub(super) fn add(&mut self, observed: Versioned<V>, held: Option<Held<V>>) {
        let Versioned { view, uid, version } = observed;
        let view = match held {
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

    /// The list names an object that cannot be decoded; `held` is the uid of the object that the store has under `key`.
    pub(super) fn keep(&mut self, key: &ObjectKey, uid: Option<&Uid>, held: Option<&Uid>) {
        let is_held = uid.map_or(held.is_some(), |uid| held == Some(uid));
        if is_held && !self.objects.contains_key(key) {
            self.kept.insert(key.clone());
        }
    }

    pub(super) fn fingerprint(&self, out: &mut Fingerprint)
    where
        V: Debug,
    {
        out.add(&(self.began, self.told));
        out.add_all(self.objects.iter().map(|(ByKey(view), at)| (view, at)));
        out.add_all(&self.kept);
    }

    /// True if the list has named this key.
    pub(super) fn names(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key) || self.kept.contains(key)
    }
}
