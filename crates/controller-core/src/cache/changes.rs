//! Changes of a store.

use std::sync::Arc;

use derive_where::derive_where;

use super::view::View;
use crate::meta::ObjectKey;

/// What happened to one object, in terms of its views.
#[derive(Debug)]
pub enum Change<'a, V> {
    /// The object is new, or new under this name.
    Added(&'a Arc<V>),
    /// Something that a rule reads has changed; the uid has not.
    Updated {
        /// The view before.
        old: &'a Arc<V>,
        /// The view now in the store.
        new: &'a Arc<V>,
    },
    /// The object is gone, or [has stepped aside](super::Store::is_aside): its last state if the source delivered it, else
    /// the view that the store held.
    Deleted(&'a Arc<V>),
}

/// What happened to one object in a store: one [`Change`], or two.
#[derive(Debug)]
#[must_use = "handlers are to be told"]
pub struct Delta<V> {
    /// The view before. If the object is gone: its last state, if the source delivered it.
    pub old: Option<Arc<V>>,
    /// The view now.
    pub new: Option<Arc<V>>,
    /// True if both views are of the same object.
    pub(super) is_same: bool,
}

impl<V> Delta<V> {
    /// The changes for handlers, in order.
    pub fn changes(&self) -> impl Iterator<Item = Change<'_, V>> {
        let (deleted, then) = match (&self.old, &self.new) {
            (Some(old), Some(new)) if self.is_same => (None, Some(Change::Updated { old, new })),
            (old, new) => (old.as_ref().map(Change::Deleted), new.as_ref().map(Change::Added)),
        };
        deleted.into_iter().chain(then)
    }

    /// Sorts the changes of a relist: deletions first, then by key.
    pub(super) fn order(&self) -> (bool, Option<&ObjectKey>)
    where
        V: View,
    {
        let view = self.new.as_ref().or(self.old.as_ref());
        (self.new.is_some(), view.map(|view| view.key()))
    }
}

/// What an event has changed in a store.
#[derive(Debug)]
#[derive_where(Default)]
#[must_use = "handlers are to be told"]
pub struct Applied<V> {
    /// In the order in which handlers receive them.
    pub deltas: Vec<Delta<V>>,
    /// The numbers of our writes that the watch has shown, or that no longer matter.
    pub(crate) shown: Vec<u64>,
}

/// The result of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The number of changes that it made.
    pub changes: usize,
    /// The number of objects that the store holds now.
    pub objects: usize,
}
