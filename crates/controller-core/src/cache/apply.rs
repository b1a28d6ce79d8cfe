//! How events of the source change the store.

use std::sync::Arc;

use super::changes::{Applied, Delta};
use super::event::{Removed, Skipped, SourceEvent, number};
use super::held::{ByKey, Held};
use super::listing::Listing;
use super::overlay::PendingObject;
use super::store::Store;
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
            SourceEvent::InitDone { .. } => return self.finish(listing),
            SourceEvent::InitItem(observed) | SourceEvent::Applied(observed) => {
                let held = self.held(observed.view.key());
                listing.add(observed, held);
            }
            SourceEvent::Deleted(removed) => listing.remove(&removed.key),
            SourceEvent::Skipped(skipped) => {
                if let Some(key) = &skipped.key {
                    listing.keep(key, skipped.uid.as_ref(), self.uid(key));
                }
            }
            SourceEvent::Healthy | SourceEvent::Failed(_) => {}
        }
        self.listing = Some(listing);
        Vec::new()
    }

    /// Brings the store to the complete list; returns what that changes, in the order in which handlers receive it.
    fn finish(&mut self, listing: Listing<V>) -> Vec<Delta<V>> {
        let (began, told) = (listing.began, listing.told);
        self.told = told;
        let missing: Vec<_> = self.keys().filter(|key| !listing.names(key)).cloned().collect();
        let mut deltas = Vec::new();
        for key in missing {
            deltas.extend(self.mutate(&key, |mutation, held, _| mutation.unlisted(held, began, told)));
        }
        for (ByKey(view), at) in listing.objects {
            deltas.extend(self.applied(Held { view, at }, began));
        }
        deltas.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
        deltas
    }

    /// The watch, or the list that began at step `began`, shows the object.
    fn applied(&mut self, new: Held<V>, began: u64) -> Option<Delta<V>> {
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
