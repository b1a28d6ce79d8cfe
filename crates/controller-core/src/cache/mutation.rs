//! Our own writes, until the watch shows them. client-go calls it `MutationCache`.
//!
//! A watch is late: a controller that decides on the cache alone would repeat what it has just done. So the [`Store`]
//! holds the result of each accepted write until the watch shows that write, or something newer.
//!
//! ```ignore
//! pods.begin_write(&key);
//! let delta = match mark(&key).await {
//!     Accepted { uid, version } => pods.accepted(&key, &uid, version, id, WriteEffect::Patch(marked)),
//!     Refused => { pods.refused(&key); None }
//!     NoAnswer => { pods.unknown(&key); None }
//! };
//! ```
//!
//! | then | our write to object U, answered with version N |
//! |---|---|
//! | the watch shows U below N | stays; a patch is applied to what is shown |
//! | the watch shows U at N or above | ends; a deletion ends above N, or never if the answer had no version |
//! | the watch shows that U is deleted | ends |
//! | the watch shows another object, U was shown | ends |
//! | the watch shows another object below N, U was never shown | steps aside until the watch shows U |
//! | the watch shows another object at N or above, U was never shown | ends |
//! | the store does not hold U, and the watch has come to N or above before the answer | never begins: U is gone |
//! | the watch shows an object that is known to be gone | stays |
//! | a list that began after the answer is complete | ends |
//! | a list that began before the answer leaves U out | ends if U was shown, or if the list has come to N |
//!
//! Versions are compared within one resource, and only to decide whether the watch shows our own write, or what we
//! read. No event of the watch is dropped because of its version. A list has come to its own version, or else to the
//! highest of its items. The answer to the write that removes the last finalizer has the version before the deletion.
//! No rule depends on time: see [`Store::overdue`].
//!
//! The rules rely on three things. A write names the uid of its object, or creates the object. Writes that are in
//! flight at the same time are about the same object. Lists have no `resourceVersion`.

use std::sync::Arc;

use super::changes::Delta;
use super::held::Held;
pub use super::overlay::Freshness;
use super::overlay::PendingObject;
pub use super::pending_write::Patch;
use super::pending_write::{PendingEffect, PendingWrite};
use super::store::Store;
use super::view::View;
use crate::meta::{ObjectKey, Uid};

/// What an accepted write has done to the view of its object.
pub enum WriteEffect<V> {
    /// The write made this object.
    Object(V),
    /// The write changed a part of the object. The rest is as the watch shows it.
    Patch(Patch<V>),
    /// The object is gone: it was deleted, or its last finalizer was removed.
    Deleted,
    /// The view does not show what the write changed.
    Nothing,
}

/// Our own writes: see [`mutation`](self). The caller passes each returned [`Delta`] on before the next call.
impl<V: View> Store<V> {
    /// Returns whether the store and the watch show our own writes to the object.
    pub fn freshness(&self, key: &ObjectKey) -> Freshness {
        let mutation = self.mutations.get(key);
        mutation.map_or(Freshness::Synced, PendingObject::freshness)
    }

    /// Returns whether a request is in flight that may change the object.
    pub fn is_writing(&self, key: &ObjectKey) -> bool {
        let mutation = self.mutations.get(key);
        mutation.is_some_and(|mutation| mutation.writes > 0)
    }

    /// Returns whether the object with this uid has stepped aside: a write or a read showed it, and since then the watch
    /// shows an older object of the same name. [`Change::Deleted`](super::Change::Deleted) does not mean that it is gone.
    pub fn is_aside(&self, key: &ObjectKey, uid: &Uid) -> bool {
        let mutation = self.mutations.get(key);
        mutation.is_some_and(|mutation| mutation.is_aside(uid))
    }

    /// The number of objects with recorded requests of ours. For metrics and tests.
    pub fn mutations(&self) -> usize {
        self.mutations.len()
    }

    /// A request that may change the object is being sent. [`accepted`](Self::accepted), [`refused`](Self::refused) or
    /// [`unknown`](Self::unknown) ends it.
    pub fn begin_write(&mut self, key: &ObjectKey) {
        let told = self.told;
        self.record(key, |mutation, held, step| mutation.begin_write(held, step, told));
    }

    /// The request certainly had no effect.
    pub fn refused(&mut self, key: &ObjectKey) {
        self.record(key, |mutation, _, step| mutation.end_write(step));
    }

    /// Nobody knows whether the request had an effect: no answer came, or the term was lost.
    ///
    /// The object is [`Freshness::Unknown`] until it is read, until another write to it is accepted, or until the watch
    /// or a list shows that the object of that time is gone.
    pub fn unknown(&mut self, key: &ObjectKey) {
        self.record(key, |mutation, _, step| {
            mutation.end_write(step);
            mutation.unknown = Some(step);
        });
    }

    /// The API server has accepted the request: the object with this uid now has this version. Returns what that
    /// changes.
    ///
    /// Nothing changes if the watch has shown that version, if the object is known to be gone, or if the store holds
    /// another. Without a version the object is [`Freshness::Unknown`], unless the effect is [`WriteEffect::Deleted`] or
    /// [`WriteEffect::Nothing`].
    ///
    /// `id` is the number of the request, by which the store reports that the watch has shown the write. A version that
    /// proves that the API server has been set back to an earlier state makes the informer list again.
    pub fn accepted(
        &mut self,
        key: &ObjectKey,
        uid: &Uid,
        version: Option<u64>,
        id: u64,
        effect: WriteEffect<V>,
    ) -> Option<Delta<V>> {
        let told = self.told;
        let mut is_set_back = false;
        let delta = self.mutate(key, |mutation, held, step| {
            let makes_object = matches!(effect, WriteEffect::Object(_));
            is_set_back = version.is_some_and(|version| mutation.is_set_back(uid, version, makes_object));
            mutation.end_write(step);
            let done = match effect {
                WriteEffect::Nothing => return held,
                WriteEffect::Deleted => PendingEffect::Deleted,
                _ if version.is_none() => {
                    mutation.unknown = Some(step);
                    return held;
                }
                WriteEffect::Object(view) => PendingEffect::Object(Arc::new(view)),
                WriteEffect::Patch(patch) => PendingEffect::Patch(patch),
            };
            mutation.accepted(held, uid, PendingWrite::new(version, done, step, id), told)
        });
        if is_set_back {
            self.tell_set_back();
        }
        delta
    }

    /// A read past the cache, without `resourceVersion`, has found this object with its uid and version, or none; no
    /// later answer [has overtaken](Self::has_overtaken) it. Returns what that changes.
    ///
    /// The object is no longer [`Freshness::Unknown`]. If the watch has not shown this version, the read counts like an
    /// accepted [`WriteEffect::Object`]. If it found none, an object that the watch has never shown is gone; the end of any
    /// other is left to the watch.
    pub fn read(&mut self, key: &ObjectKey, found: Option<(V, Uid, u64)>) -> Option<Delta<V>> {
        let told = self.told;
        self.mutate(key, |mutation, held, step| {
            let Some((view, uid, version)) = found else {
                return mutation.read_none(held, step);
            };
            // The watch has yet to show what was read, as it had to show the write before.
            let id = mutation.awaited().unwrap_or_default();
            let found = PendingWrite::new(Some(version), PendingEffect::Object(Arc::new(view)), step, id);
            mutation.read(held, &uid, found, told)
        })
    }

    /// Returns whether the object may have changed after a read that was sent at this step and found the object with this
    /// uid, or none: since then a write of ours has begun or ended, or another read has found something else.
    pub fn has_overtaken(&self, key: &ObjectKey, sent: u64, found: Option<&Uid>) -> bool {
        let mutation = self.mutations.get(key);
        mutation.is_some_and(|mutation| mutation.has_overtaken(sent, found))
    }

    /// The watch should have shown the write of this number by now.
    ///
    /// If that is the last write and still [`Freshness::Pending`], the object becomes [`Freshness::Unknown`] until it
    /// is read, written, or shown; returns whether it does. The store never goes back to what the watch shows.
    pub fn overdue(&mut self, key: &ObjectKey, id: u64) -> bool {
        let mutation = self.mutations.get_mut(key);
        mutation.is_some_and(|mutation| mutation.overdue(id))
    }

    /// Changes only what is recorded, not what is held.
    fn record(&mut self, key: &ObjectKey, change: impl FnOnce(&mut PendingObject<V>, Option<&Held<V>>, u64)) {
        self.mutate(key, |mutation, held, step| {
            change(mutation, held.as_ref(), step);
            held
        });
    }
}
