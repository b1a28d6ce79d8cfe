//! Who is told of a change.

use std::sync::Arc;

use derive_where::derive_where;
use tokio::sync::Notify;

use super::source::SourceEvent;
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

/// Who has a store, and is told of every change of it, in order.
///
/// An object deleted and made again under its name is `Deleted`, then `Added`, also when the two were
/// seen as one. A relist reports deletions first, then the rest, each ordered by key; the store then
/// holds all of it already.
pub trait Handler<V: View>: Send + Sync {
    /// Has the store take an event, and hears what that changes, before anybody looks at the store again.
    fn handle(&self, event: SourceEvent<V>) -> Taken;

    /// Completes a wait of the informer's when all is to be listed again.
    fn list_again(&self) -> Arc<Notify>;
}

/// What came of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// How many changes it made.
    pub changes: usize,
    /// How many objects the store holds now.
    pub objects: usize,
}
