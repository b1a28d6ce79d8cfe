//! What becomes of a store when its source tells something.

use std::sync::Arc;

use derive_where::derive_where;

use super::handlers::Delta;
use super::listing::Listing;
use super::overlay::Mutation;
use super::source::{Removed, Skipped, SourceEvent};
use super::store::{Content, Held, Store, number};
use super::view::View;

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
    pub fn apply(&mut self, event: SourceEvent<V>) -> Vec<Delta<V>> {
        let store = &self.store;
        let version = number(event.version());
        if let Some(listing) = &mut self.listing {
            listing.tells(version);
        }
        let delta = match (event, &mut self.listing) {
            (SourceEvent::Init, listing) => {
                *listing = Some(Listing::new(store.content_mut().step()));
                None
            }
            (SourceEvent::InitDone { .. }, listing) => {
                // Without its beginning a list cannot say what is missing from it.
                let listing = listing.take();
                return listing.map_or_else(Vec::new, |listing| listing.finish(store));
            }
            (SourceEvent::InitItem(observed) | SourceEvent::Applied(observed), Some(listing)) => {
                listing.add(observed, &store.content());
                None
            }
            (SourceEvent::Deleted(removed), Some(listing)) => {
                listing.remove(&removed.key);
                None
            }
            (SourceEvent::Skipped(skipped), Some(listing)) => {
                listing.keep(&skipped, &store.content());
                None
            }
            (SourceEvent::InitItem(observed) | SourceEvent::Applied(observed), None) => {
                let held = Held::new(Arc::new(observed.view), observed.uid, observed.version.as_deref());
                store.content_mut().telling(version).applied(held, NO_LIST)
            }
            (SourceEvent::Deleted(removed), None) => store.content_mut().telling(version).removed(removed),
            (SourceEvent::Skipped(skipped), None) => store.content_mut().telling(version).skipped(skipped),
            (SourceEvent::Healthy | SourceEvent::Failed(_), _) => None,
        };
        delta.into_iter().collect()
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
        let told = self.told;
        self.mutate(&key, |mutation, held, _| mutation.removed(held, &uid, told))
    }
}
