//! What is recorded about our own requests under one name, and the rules of [`mutation`](super::mutation) as plain
//! functions. Each takes the object that the store holds under the name, and returns the one that it should hold.

use std::sync::Arc;

use derive_where::derive_where;

use super::held::{Held, Revision};
use super::pending_write::{PendingEffect, PendingWrite};
use super::view::View;
use crate::meta::Uid;

/// Whether the cache shows our own writes to an object. Requests in flight do not count: see
/// [`Store::is_writing`](super::Store::is_writing).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Freshness {
    /// The watch has shown all writes.
    Synced,
    /// The store shows all writes, the watch does not yet.
    Pending,
    /// The answer to a write was lost, or the watch should have shown it by now. Read the object before the next write.
    Unknown,
}

/// What is recorded under one name.
#[derive(Debug)]
#[derive_where(Clone, Default)]
pub(super) struct PendingObject<V> {
    /// The number of requests in flight that may change the object.
    pub(super) writes: usize,
    /// The step at which the last write began or ended.
    wrote_at: u64,
    /// The object that was held when the last write began.
    about: Option<Revision>,
    /// The version that the watch had reached then.
    told_before: u64,
    /// The step since which the fate of a write is unknown.
    pub(super) unknown: Option<u64>,
    /// Objects that are gone. A late answer does not bring them back; nor does a late watch while there is an overlay.
    gone: Vec<Uid>,
    overlay: Option<Overlay<V>>,
}

/// Accepted writes to one object that the watch has not shown.
#[derive(Debug)]
#[derive_where(Clone)]
struct Overlay<V> {
    uid: Uid,
    /// In the order of their versions.
    writes: Vec<PendingWrite<V>>,
    /// The object as the watch showed it last.
    shown: Option<Held<V>>,
    /// True if the watch has shown another object before this one: the store holds the other one for now.
    aside: bool,
    /// The step of the first answer.
    since: u64,
    /// The lowest version that an answer named; 0 if none did.
    first: u64,
    /// True if the watch should have shown the last write by now.
    overdue: bool,
}

impl<V: View> PendingObject<V> {
    pub(super) fn freshness(&self) -> Freshness {
        match &self.overlay {
            _ if self.unknown.is_some() => Freshness::Unknown,
            Some(overlay) if overlay.overdue => Freshness::Unknown,
            Some(_) => Freshness::Pending,
            None => Freshness::Synced,
        }
    }

    /// Returns whether nothing is recorded.
    pub(super) fn is_idle(&self) -> bool {
        self.writes == 0 && self.unknown.is_none() && self.overlay.is_none()
    }

    /// Returns whether the object with this uid is in the overlay, or is gone.
    pub(super) fn knows(&self, uid: &Uid) -> bool {
        self.is_ours(uid) || self.gone.contains(uid)
    }

    fn is_ours(&self, uid: &Uid) -> bool {
        self.overlay.as_ref().is_some_and(|overlay| overlay.uid == *uid)
    }

    pub(super) fn is_aside(&self, uid: &Uid) -> bool {
        self.is_ours(uid) && self.overlay.as_ref().is_some_and(|overlay| overlay.aside)
    }

    pub(super) fn begin_write(&mut self, held: Option<&Held<V>>, step: u64, told: u64) {
        self.writes += 1;
        self.wrote_at = step;
        self.about = held.map(|held| held.at.clone());
        self.told_before = told;
    }

    pub(super) fn end_write(&mut self, step: u64) {
        self.writes = self.writes.saturating_sub(1);
        self.wrote_at = step;
    }

    /// Returns whether the API server has been set back: a write has made a version older than what was known before it
    /// was sent. A write that changes nothing keeps the version of the object.
    pub(super) fn is_set_back(&self, uid: &Uid, version: u64, makes_object: bool) -> bool {
        let known = match &self.about {
            Some(about) if about.uid == *uid => about.version,
            None if makes_object => self.told_before.saturating_add(1),
            _ => 0,
        };
        version != 0 && version < known
    }

    /// The number of the last write that the watch has yet to show.
    pub(super) fn awaited(&self) -> Option<u64> {
        let ours = |write: &&PendingWrite<V>| write.id != 0;
        self.overlay
            .as_ref()?
            .writes
            .iter()
            .rev()
            .find(ours)
            .map(|write| write.id)
    }

    /// The write with this number is overdue; returns whether it is the last one, and was pending.
    pub(super) fn overdue(&mut self, id: u64) -> bool {
        let is_overdue = self.freshness() == Freshness::Pending && self.awaited() == Some(id);
        if let Some(overlay) = self.overlay.as_mut().filter(|_| is_overdue) {
            overlay.overdue = true;
        }
        is_overdue
    }

    /// A read that was sent at this step has found the object with this uid, or none; returns whether a later answer
    /// counts instead.
    pub(super) fn has_overtaken(&self, sent: u64, found: Option<&Uid>) -> bool {
        let overlay = self.overlay.as_ref();
        self.wrote_at > sent
            || overlay.is_some_and(|overlay| overlay.exists() != found && overlay.answered() > sent)
    }

    /// The store now holds the object with this uid. The fate of a write does not matter to another object.
    pub(super) fn settle(&mut self, held: Option<&Uid>) {
        let is_aside = self.overlay.as_ref().is_some_and(|overlay| overlay.aside);
        let may_be_there = |uid: &Uid| is_aside && self.is_ours(uid);
        let about = self.about.as_ref().map(|about| &about.uid);
        if about != held && !about.is_some_and(may_be_there) {
            self.unknown = None;
        }
    }

    /// The API server has accepted this write to the object with this uid. The watch has come to version `told`.
    pub(super) fn accepted(
        &mut self,
        held: Option<Held<V>>,
        uid: &Uid,
        write: PendingWrite<V>,
        told: u64,
    ) -> Option<Held<V>> {
        self.unknown = None;
        let is_another = match &held {
            Some(held) => held.at.uid != *uid,
            // The watch has come further and has not shown the object.
            None => is_told(write.version, told),
        };
        if !self.is_ours(uid) && (is_another || self.gone.contains(uid)) {
            return held;
        }
        let before = self.overlay.take_if(|overlay| overlay.uid != *uid);
        self.gone.extend(before.map(|before| before.uid));
        let mut overlay = self.overlay.take().unwrap_or_else(|| Overlay {
            uid: uid.clone(),
            writes: Vec::new(),
            shown: held.clone(),
            aside: false,
            since: write.answered,
            first: write.version,
            overdue: false,
        });
        overlay.first = overlay.first.min(write.version);
        overlay.add(write);
        self.put(overlay, held)
    }

    /// A read that was sent after our last write has found this object. The watch has come to version `told`.
    pub(super) fn read(
        &mut self,
        held: Option<Held<V>>,
        uid: &Uid,
        found: PendingWrite<V>,
        told: u64,
    ) -> Option<Held<V>> {
        if let Some(overlay) = &mut self.overlay {
            overlay.overdue = false;
            if overlay.uid == *uid {
                // The object exists, whatever the answer to our delete was.
                overlay.writes.retain(|write| !write.is_deleted());
            }
        }
        self.accepted(held, uid, found, told)
    }

    /// A read that was sent after our last write has found nothing.
    pub(super) fn read_none(&mut self, held: Option<Held<V>>, step: u64) -> Option<Held<V>> {
        self.unknown = None;
        let id = self.awaited().unwrap_or_default();
        let Some(mut overlay) = self.overlay.take() else {
            return held;
        };
        let overdue = std::mem::take(&mut overlay.overdue);
        if overlay.shown.is_none() {
            overlay.writes = vec![PendingWrite {
                version: overlay.last().unwrap_or_default(),
                ..PendingWrite::new(None, PendingEffect::Deleted, step, id)
            }];
            if overdue {
                // The object came and went between two lists: the watch will never show it.
                overlay.writes.clear();
            }
        }
        self.put(overlay, held)
    }

    /// The watch, or the list that began at step `began`, shows this object; either has come to version `told`.
    pub(super) fn applied(
        &mut self,
        held: Option<Held<V>>,
        new: Held<V>,
        began: u64,
        told: u64,
    ) -> Option<Held<V>> {
        let (uid, version) = (new.at.uid.clone(), new.at.version);
        match self.overlay.take() {
            Some(mut overlay) if overlay.uid == uid => {
                overlay
                    .writes
                    .retain(|write| write.answered > began && write.shown_at > version);
                (overlay.shown, overlay.aside) = (Some(new), false);
                let other = held.map(|held| held.at.uid);
                self.gone.extend(other.filter(|other| *other != uid));
                self.put(overlay, None)
            }
            Some(overlay) if self.gone.contains(&uid) => {
                self.overlay = Some(overlay);
                held
            }
            overlay => {
                // If the watch has not shown our object, it may yet show it.
                self.overlay = overlay;
                self.has_gone(held.filter(|held| held.at.uid != uid), |overlay| {
                    overlay.may_be_shown(told)
                });
                self.gone.retain(|gone| *gone != uid);
                if let Some(overlay) = &mut self.overlay {
                    overlay.aside = true;
                }
                Some(new)
            }
        }
    }

    /// The watch shows that the object with this uid is gone, and has come to version `told`.
    pub(super) fn removed(&mut self, held: Option<Held<V>>, uid: &Uid, told: u64) -> Option<Held<V>> {
        self.gone.push(uid.clone());
        self.has_gone(held, |overlay| overlay.may_be_shown(told) && overlay.uid != *uid)
    }

    /// A list that began at step `began`, and came to version `told`, leaves the object out.
    pub(super) fn unlisted(&mut self, held: Option<Held<V>>, began: u64, told: u64) -> Option<Held<V>> {
        self.unknown = self.unknown.filter(|since| *since > began);
        self.has_gone(held, |overlay| {
            overlay.may_be_shown(told) && overlay.since > began
        })
    }

    /// The object that the watch showed is gone. So is the object of the overlay, unless the watch may still show it.
    fn has_gone(
        &mut self,
        held: Option<Held<V>>,
        may_be_shown: impl FnOnce(&Overlay<V>) -> bool,
    ) -> Option<Held<V>> {
        let gone = self.overlay.take_if(|overlay| !may_be_shown(overlay));
        self.gone.extend(gone.map(|gone| gone.uid));
        let (ours, other) = match held {
            Some(held) if self.is_ours(&held.at.uid) => (Some(held), None),
            other => (None, other),
        };
        self.gone.extend(other.map(|other| other.at.uid));
        ours
    }

    /// Keeps the overlay if it has a write left. Returns what the store should hold.
    fn put(&mut self, overlay: Overlay<V>, held: Option<Held<V>>) -> Option<Held<V>> {
        let held = if overlay.aside { held } else { overlay.effective() };
        self.overlay = Some(overlay).filter(|overlay| !overlay.writes.is_empty());
        held
    }
}

impl<V: View> Overlay<V> {
    /// The object with our writes.
    fn effective(&self) -> Option<Held<V>> {
        self.writes.iter().fold(self.shown.clone(), |held, write| {
            let view = match &write.done {
                PendingEffect::Object(object) => Arc::clone(object),
                PendingEffect::Patch(patch) => Arc::new(patch(&held?.view)),
                PendingEffect::Deleted => return None,
            };
            let (uid, version) = (self.uid.clone(), write.version);
            let at = Revision { uid, version };
            Some(Held { view, at })
        })
    }

    /// Adds a write in the order of versions, unless the watch or another write includes it.
    fn add(&mut self, write: PendingWrite<V>) {
        let shown = self.shown.as_ref().map_or(0, |shown| shown.at.version);
        if shown >= write.shown_at || self.writes.iter().any(|other| other.includes(&write)) {
            return;
        }
        // A later write shows that the object exists, whatever the answer to our delete was.
        self.writes
            .retain(|other| !write.includes(other) && !other.is_deleted());
        self.writes.push(write);
        self.writes.sort_by_key(|write| write.version);
        self.overdue = false;
    }

    /// Returns whether the watch has never shown the object, and may still do so once it comes further than `told`.
    fn may_be_shown(&self, told: u64) -> bool {
        self.shown.is_none() && !is_told(self.first, told)
    }

    /// The uid; `None` if the last answer says that the object is gone.
    fn exists(&self) -> Option<&Uid> {
        let last = self.writes.last();
        last.is_some_and(|write| !write.is_deleted()).then_some(&self.uid)
    }

    /// The step of the last answer.
    fn answered(&self) -> u64 {
        let steps = self.writes.iter().map(|write| write.answered);
        steps.max().unwrap_or_default()
    }

    /// The version of the last write.
    fn last(&self) -> Option<u64> {
        self.writes.last().map(|write| write.version)
    }
}

/// Returns whether a source that has shown every change up to `told` has shown this version. 0 is no version.
const fn is_told(version: u64, told: u64) -> bool {
    version != 0 && version <= told
}
