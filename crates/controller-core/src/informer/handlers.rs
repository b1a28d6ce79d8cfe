//! Who is told of a change.

use std::sync::Arc;

use super::store::Store;
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

/// Is told of every change of a store, in order, one at a time, after the store holds the change.
///
/// An object deleted and made again under its name is `Deleted`, then `Added`, also when the two were
/// seen as one. A relist reports deletions first, then the rest, each ordered by key; the store then
/// holds all of it already.
///
/// Called on the informer's task: enqueue and return.
pub trait Handler<V: View>: Send + Sync {
    /// One change.
    fn on_change(&self, change: Change<'_, V>, store: &Store<V>);

    /// Every object of the first list has been told. Called once, before [`Store::synced`] completes.
    fn on_synced(&self, store: &Store<V>) {
        let _ = store;
    }
}
