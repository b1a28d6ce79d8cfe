//! Who is told of a change.

use std::sync::Arc;

use derive_where::derive_where;

use super::store::{Content, Store};
use super::view::View;
use crate::meta::ObjectKey;

/// What happened to one object, in terms of its views.
#[derive(Debug)]
pub enum Change<'a, V> {
    /// It is new, or new under this name.
    Added(&'a Arc<V>),
    /// Something that a rule reads has changed; the uid has not.
    Updated {
        /// The view before.
        old: &'a Arc<V>,
        /// The view now in the store.
        new: &'a Arc<V>,
    },
    /// It is gone: its last state where the source told it, else the view that the store held.
    Deleted(&'a Arc<V>),
}

/// What has become of one object in a store: one [`Change`], or two.
#[derive(Debug)]
#[must_use = "handlers are to be told"]
pub struct Delta<V> {
    /// What was held before. If the object is gone: its last state where the source told it.
    pub old: Option<Arc<V>>,
    /// What is held now.
    pub new: Option<Arc<V>>,
    /// Whether both are the same object.
    pub(super) is_same: bool,
}

impl<V> Delta<V> {
    /// What handlers are told, in order.
    pub fn changes(&self) -> impl Iterator<Item = Change<'_, V>> {
        let (deleted, then) = match (&self.old, &self.new) {
            (Some(old), Some(new)) if self.is_same => (None, Some(Change::Updated { old, new })),
            (old, new) => (old.as_ref().map(Change::Deleted), new.as_ref().map(Change::Added)),
        };
        deleted.into_iter().chain(then)
    }

    /// Where it stands in the order of a relist's changes: deletions first.
    pub(super) fn order(&self) -> (bool, Option<&ObjectKey>)
    where
        V: View,
    {
        let view = self.new.as_ref().or(self.old.as_ref());
        (self.new.is_some(), view.map(|view| view.key()))
    }
}

/// What a store has just taken.
#[derive(Debug)]
#[derive_where(Default)]
#[must_use = "handlers are to be told"]
pub struct Applied<V> {
    /// In the order in which handlers are told.
    pub deltas: Vec<Delta<V>>,
    /// The numbers of our writes that the watch has shown, or that do not matter any more.
    pub(crate) shown: Vec<u64>,
}

impl<V> Applied<V> {
    pub(super) fn new(deltas: Vec<Delta<V>>, content: &mut Content<V>) -> Self
    where
        V: View,
    {
        let shown = content.take_shown();
        Self { deltas, shown }
    }

    /// What handlers are told, in order.
    pub fn changes(&self) -> impl Iterator<Item = Change<'_, V>> {
        self.deltas.iter().flat_map(Delta::changes)
    }
}

/// Who looks at a store, and is told of every change of it, in order.
///
/// An object deleted and made again under its name is `Deleted`, then `Added`, also when the two were
/// seen as one. A relist reports deletions first, then the rest, each ordered by key; the store then
/// holds all of it already.
pub trait Handler<V: View>: Send + Sync {
    /// Has the store take an event by `apply`, and hears what that changes, before anybody looks at the store again.
    fn handle(&self, store: &Store<V>, apply: &mut dyn FnMut() -> Applied<V>);

    /// Every object of the first list has been told. Called once, before [`Store::synced`] completes.
    fn on_synced(&self, store: &Store<V>) {
        let _ = store;
    }
}
