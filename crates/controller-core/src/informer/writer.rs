//! What becomes of a store when its source tells something.

use std::sync::Arc;

use derive_where::derive_where;

use super::handlers::{Applied, Delta};
use super::listing::Listing;
use super::overlay::Mutation;
use super::source::{Removed, Skipped, SourceEvent};
use super::store::{Content, Held, Store, number};
use super::view::View;
use crate::meta::ObjectKey;

/// When the list began, for an object that the watch shows: before any answer.
const NO_LIST: u64 = 0;

/// Keeps a [`Store`] equal to what a source tells, event by event: an [`Informer`](super::Informer) without the source
/// and the handlers. kube-rs has one of the same name. Only our own writes change the store besides.
#[derive_where(Debug, Default)]
pub struct Writer<V: View> {
    store: Store<V>,
    /// The list under way, if any.
    #[derive_where(skip(Debug))]
    listing: Option<Listing<V>>,
}

impl<V: View> Writer<V> {
    /// The writer of a new, empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// A handle on the store.
    pub fn store(&self) -> Store<V> {
        self.store.clone()
    }

    /// Brings the store up to date. Returns what that changes, in the order in which handlers are told. Readers see all
    /// of it or nothing.
    ///
    /// A list counts once it is complete. An object that cannot be decoded neither changes nor disappears, unless its
    /// uid says that it is not the one that we knew.
    pub fn apply(&mut self, event: SourceEvent<V>) -> Applied<V> {
        let version = number(event.version());
        let mut content = self.store.content_mut();
        let Some(listing) = &mut self.listing else {
            let delta = match event {
                SourceEvent::Init => {
                    self.listing = Some(Listing::new(content.step()));
                    None
                }
                SourceEvent::InitItem(observed) | SourceEvent::Applied(observed) => {
                    content.told = content.told.max(version);
                    let held = Held::new(Arc::new(observed.view), observed.uid, observed.version.as_deref());
                    content.applied(held, NO_LIST)
                }
                SourceEvent::Deleted(removed) => {
                    content.told = content.told.max(version);
                    content.removed(removed)
                }
                SourceEvent::Skipped(skipped) => {
                    content.told = content.told.max(version);
                    content.skipped(skipped)
                }
                // Without its beginning a list cannot say what is missing from it.
                SourceEvent::InitDone { .. } | SourceEvent::Healthy | SourceEvent::Failed(_) => None,
            };
            return Applied::new(delta.into_iter().collect(), &mut content);
        };
        listing.tells(version);
        match event {
            SourceEvent::Init => *listing = Listing::new(content.step()),
            SourceEvent::InitDone { .. } => {
                let deltas = self.listing.take().map(|listing| listing.finish(&mut content));
                return Applied::new(deltas.unwrap_or_default(), &mut content);
            }
            SourceEvent::InitItem(observed) | SourceEvent::Applied(observed) => {
                listing.add(observed, &content);
            }
            SourceEvent::Deleted(removed) => listing.remove(&removed.key),
            SourceEvent::Skipped(skipped) => listing.keep(&skipped, &content),
            SourceEvent::Healthy | SourceEvent::Failed(_) => {}
        }
        Applied::default()
    }

    /// The first list is complete and the handlers have seen it, so [`Store::synced`] completes.
    pub fn set_synced(&self) {
        self.store.set_synced();
    }

    /// Whether a list is under way.
    pub(super) fn is_listing(&self) -> bool {
        self.listing.is_some()
    }
}

impl<V: View> Content<V> {
    /// The watch shows the object, or the list that began at step `began`.
    pub(super) fn applied(&mut self, new: Held<V>, began: u64) -> Option<Delta<V>> {
        let key = new.view.key().clone();
        if self.mutations.contains_key(&key) {
            let told = self.told;
            return self.mutate(&key, |mutation, held, _| mutation.applied(held, new, began, told));
        }
        self.set(&key, Some(new))
    }

    fn removed(&mut self, removed: Removed<V>) -> Option<Delta<V>> {
        let Removed { key, uid, view, .. } = removed;
        if !self.knows(&key) {
            return None;
        }
        // The final state of another object of this name says nothing about the one that we knew.
        let last = view.filter(|_| self.uid(&key) == Some(&uid)).map(Arc::new);
        let told = self.told;
        let delta = self.mutate(&key, |mutation, held, _| mutation.removed(held, &uid, told))?;
        let old = last.or(delta.old);
        Some(Delta { old, ..delta })
    }

    fn skipped(&mut self, skipped: Skipped) -> Option<Delta<V>> {
        let (key, uid) = (skipped.key?, skipped.uid?);
        let is_ours = |mutation: &Mutation<V>| mutation.knows(&uid);
        if self.uid(&key) == Some(&uid) || self.mutations.get(&key).is_some_and(is_ours) {
            return None;
        }
        if !self.knows(&key) {
            return None;
        }
        let told = self.told;
        self.mutate(&key, |mutation, held, _| mutation.removed(held, &uid, told))
    }

    /// Whether anything is held or recorded under this name: what is not kept costs nothing when it goes.
    fn knows(&self, key: &ObjectKey) -> bool {
        self.uid(key).is_some() || self.mutations.contains_key(key)
    }
}
