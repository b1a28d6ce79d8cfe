//! How events of the source change the store.

use std::sync::Arc;

use super::handlers::{Applied, Delta};
use super::listing::Listing;
use super::overlay::PendingObject;
use super::source::{Removed, Skipped, SourceEvent};
use super::store::{Held, Store, number};
use super::view::View;
use crate::meta::ObjectKey;

/// In place of a list's first step, for an object that the watch shows: before any answer.
const NO_LIST: u64 = 0;

impl<V: View> Store<V> {
    /// Applies an event. Returns what that changes, in the order in which handlers receive it.
    ///
    /// A list counts once it is complete. An object that cannot be decoded neither changes nor disappears, unless its
    /// uid differs from that of the known object.
    pub fn apply(&mut self, event: SourceEvent<V>) -> Applied<V> {
        let version = number(event.version());
        let deltas = match self.listing.take() {
            Some(listing) => self.go_on_listing(listing, event, version),
            None => self.told(event, version).into_iter().collect(),
        };
        let shown = self.take_shown();
        Applied { deltas, shown }
    }

    /// Applies an event outside a list.
    fn told(&mut self, event: SourceEvent<V>, version: u64) -> Option<Delta<V>> {
        match event {
            SourceEvent::Init => {
                self.listing = Some(Listing::new(self.next_step()));
                None
            }
            SourceEvent::InitItem(observed) | SourceEvent::Applied(observed) => {
                self.told = self.told.max(version);
                let held = Held::new(Arc::new(observed.view), observed.uid, observed.version.as_deref());
                self.applied(held, NO_LIST)
            }
            SourceEvent::Deleted(removed) => {
                self.told = self.told.max(version);
                self.removed(removed)
            }
            SourceEvent::Skipped(skipped) => {
                self.told = self.told.max(version);
                self.skipped(skipped)
            }
            // Without its beginning a list cannot say what is missing from it.
            SourceEvent::InitDone { .. } | SourceEvent::Healthy | SourceEvent::Failed(_) => None,
        }
    }

    fn go_on_listing(
        &mut self,
        mut listing: Listing<V>,
        event: SourceEvent<V>,
        version: u64,
    ) -> Vec<Delta<V>> {
        listing.tells(version);
        match event {
            SourceEvent::Init => listing = Listing::new(self.next_step()),
            SourceEvent::InitDone { .. } => return listing.finish(self),
            SourceEvent::InitItem(observed) | SourceEvent::Applied(observed) => listing.add(observed, self),
            SourceEvent::Deleted(removed) => listing.remove(&removed.key),
            SourceEvent::Skipped(skipped) => listing.keep(&skipped, self),
            SourceEvent::Healthy | SourceEvent::Failed(_) => {}
        }
        self.listing = Some(listing);
        Vec::new()
    }

    /// The watch, or the list that began at step `began`, shows the object.
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
        // The final state of another object of this name says nothing about the known one.
        let last = view.filter(|_| self.uid(&key) == Some(&uid)).map(Arc::new);
        let told = self.told;
        let delta = self.mutate(&key, |mutation, held, _| mutation.removed(held, &uid, told))?;
        let old = last.or(delta.old);
        Some(Delta { old, ..delta })
    }

    fn skipped(&mut self, skipped: Skipped) -> Option<Delta<V>> {
        let (key, uid) = (skipped.key?, skipped.uid?);
        let is_ours = |mutation: &PendingObject<V>| mutation.knows(&uid);
        if self.uid(&key) == Some(&uid) || self.mutations.get(&key).is_some_and(is_ours) {
            return None;
        }
        if !self.knows(&key) {
            return None;
        }
        let told = self.told;
        self.mutate(&key, |mutation, held, _| mutation.removed(held, &uid, told))
    }

    /// Returns whether anything is held or recorded under this name: the end of an object that is not kept costs
    /// nothing.
    fn knows(&self, key: &ObjectKey) -> bool {
        self.uid(key).is_some() || self.mutations.contains_key(key)
    }
}
