//! The objects as they are now, by key and by index.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use derive_where::derive_where;

use super::changes::Delta;
use super::held::{ByKey, Held, Revision};
use super::listing::Listing;
use super::overlay::PendingObject;
use super::view::View;
use crate::fingerprint::Fingerprint;
use crate::meta::{ObjectKey, Uid};

/// Capacity for this many mutations stays allocated when there are none.
const FEW: usize = 1024;

/// The objects of one kind, and what is known about our own writes to them: plain data, which the loop owns.
///
/// It holds what the watch showed, and the results of our own writes: see [`mutation`](super::mutation).
#[derive_where(Clone, Default)]
pub struct Store<V: View> {
    objects: HashMap<ByKey<V>, Revision>,
    /// Always agrees with the objects.
    index: HashMap<V::Index, Posting<V>>,
    /// The list under way, if any.
    pub(super) listing: Option<Listing<V>>,
    /// Empty except around our own writes.
    pub(super) mutations: HashMap<ObjectKey, PendingObject<V>>,
    /// The version up to which the watch, or the last list, has shown every change.
    pub(super) told: u64,
    /// Counts lists that began and requests of ours, to say which was first.
    steps: u64,
    /// The numbers of our writes that the watch has shown, until they are taken.
    shown: Vec<u64>,
    when_set_back: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// The objects under one index value. Most values of an owner index have one: no set for those.
#[allow(
    clippy::box_collection,
    reason = "most have one object: no room for a set in those"
)]
#[derive_where(Clone)]
enum Posting<V> {
    One(Arc<V>),
    Many(Box<HashSet<ByKey<V>>>),
}

impl<V: View> Store<V> {
    /// The object of this name.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        let held = self.objects.get_key_value(key);
        held.map(|(held, _)| Arc::clone(&held.0))
    }

    /// The uid of the object of this name.
    pub fn uid(&self, key: &ObjectKey) -> Option<&Uid> {
        self.objects.get(key).map(|at| &at.uid)
    }

    /// The objects found under this index value, ordered by key.
    pub fn by_index(&self, value: &V::Index) -> Vec<Arc<V>> {
        match self.index.get(value) {
            None => Vec::new(),
            Some(Posting::One(view)) => vec![Arc::clone(view)],
            Some(Posting::Many(views)) => sorted(views.iter()),
        }
    }

    /// The number of index values that have objects.
    pub fn index_len(&self) -> usize {
        self.index.len()
    }

    /// Every object, in any order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<V>> {
        self.objects.keys().map(|held| &held.0)
    }

    /// Every object, ordered by key.
    pub fn snapshot(&self) -> Vec<Arc<V>> {
        sorted(self.objects.keys())
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns whether the store holds no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The object held under `key`.
    pub(super) fn held(&self, key: &ObjectKey) -> Option<Held<V>> {
        let (held, at) = self.objects.get_key_value(key)?;
        Some(Held {
            view: Arc::clone(&held.0),
            at: at.clone(),
        })
    }

    /// The keys of the objects that are held, and of those with mutations.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        let mutated = self
            .mutations
            .keys()
            .filter(|key| !self.objects.contains_key(*key));
        self.objects.keys().map(|held| held.0.key()).chain(mutated)
    }

    /// Calls `act` whenever an answer shows that the API server has been set back to an earlier state: objects that are
    /// held may never have existed, so everything must be listed again.
    pub fn when_set_back(&mut self, act: impl Fn() + Send + Sync + 'static) {
        self.when_set_back = Some(Arc::new(act));
    }

    pub(super) fn tell_set_back(&self) {
        if let Some(act) = &self.when_set_back {
            act();
        }
    }

    /// The current step: it grows with each list that begins and each request of ours.
    pub const fn step(&self) -> u64 {
        self.steps
    }

    /// The version up to which the watch, or the last list, has shown every change.
    pub(crate) const fn told_version(&self) -> u64 {
        self.told
    }

    /// Advances by one step; returns its number.
    pub(super) const fn next_step(&mut self) -> u64 {
        self.steps += 1;
        self.steps
    }

    /// The numbers of our writes that the watch has shown since the last call.
    pub(super) fn take_shown(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.shown)
    }

    /// Changes what is recorded about our own requests, and holds the object that `change` returns for the one that is
    /// held.
    pub(super) fn mutate(
        &mut self,
        key: &ObjectKey,
        change: impl FnOnce(&mut PendingObject<V>, Option<Held<V>>, u64) -> Option<Held<V>>,
    ) -> Option<Delta<V>> {
        let step = self.next_step();
        let mut mutation = self.mutations.remove(key).unwrap_or_default();
        let awaited = mutation.awaited();
        let new = change(&mut mutation, self.held(key), step);
        let delta = self.set(key, new);
        mutation.settle(self.uid(key));
        self.shown
            .extend(awaited.filter(|id| mutation.awaited() != Some(*id)));
        if !mutation.is_idle() {
            self.mutations.insert(key.clone(), mutation);
        } else if self.mutations.is_empty() {
            self.mutations.shrink_to(FEW);
        }
        delta
    }

    /// Holds `new` under `key`, or nothing; returns what that changes. An equal view of the same object stays, at its
    /// new version.
    pub(super) fn set(&mut self, key: &ObjectKey, new: Option<Held<V>>) -> Option<Delta<V>> {
        let old = self.held(key);
        let mut is_same = false;
        if let (Some(old), Some(new)) = (&old, &new) {
            is_same = old.at.uid == new.at.uid;
            if is_same && (Arc::ptr_eq(&old.view, &new.view) || *old.view == *new.view) {
                if let Some(at) = self.objects.get_mut(key) {
                    at.version = new.at.version;
                }
                return None;
            }
        }
        let old = old.map(|old| old.view);
        if let Some(old) = &old {
            self.remove(old);
        }
        let new = new.map(|new| {
            self.insert(&new.view, new.at);
            new.view
        });
        let is_change = old.is_some() || new.is_some();
        is_change.then_some(Delta { old, new, is_same })
    }

    /// Adds everything that the store holds and remembers; for tests.
    pub fn fingerprint(&self, out: &mut Fingerprint)
    where
        V: fmt::Debug,
    {
        out.add_all(self.objects.iter().map(|(ByKey(view), at)| (view, at)));
        out.add(&(self.told, self.steps, &self.shown));
        out.add_all(&self.mutations);
        if let Some(listing) = &self.listing {
            listing.fingerprint(out);
        }
    }

    fn insert(&mut self, view: &Arc<V>, at: Revision) {
        let mut values = Vec::new();
        view.index(&mut values);
        for value in values {
            match self.index.entry(value) {
                Entry::Vacant(entry) => {
                    entry.insert(Posting::One(Arc::clone(view)));
                }
                Entry::Occupied(mut entry) => entry.get_mut().insert(view),
            }
        }
        self.objects.insert(ByKey(Arc::clone(view)), at);
    }

    fn remove(&mut self, view: &Arc<V>) {
        let mut values = Vec::new();
        view.index(&mut values);
        for value in values {
            if let Entry::Occupied(mut entry) = self.index.entry(value)
                && entry.get_mut().remove(view.key())
            {
                entry.remove();
            }
        }
        self.objects.remove(view.key());
    }
}

impl<V: View> Posting<V> {
    fn insert(&mut self, view: &Arc<V>) {
        match self {
            Self::One(only) if only.key() == view.key() => *only = Arc::clone(view),
            Self::One(only) => {
                let both = HashSet::from([ByKey(Arc::clone(only)), ByKey(Arc::clone(view))]);
                *self = Self::Many(Box::new(both));
            }
            Self::Many(views) => {
                views.replace(ByKey(Arc::clone(view)));
            }
        }
    }

    /// Removes the object; returns whether nothing is left.
    fn remove(&mut self, key: &ObjectKey) -> bool {
        match self {
            Self::One(only) => only.key() == key,
            Self::Many(views) => {
                views.remove(key);
                views.is_empty()
            }
        }
    }
}

impl<V: View> fmt::Debug for Store<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

fn sorted<'a, V: View>(held: impl Iterator<Item = &'a ByKey<V>>) -> Vec<Arc<V>> {
    let mut views: Vec<_> = held.map(|held| Arc::clone(&held.0)).collect();
    views.sort_unstable_by(|a, b| a.key().cmp(b.key()));
    views
}
