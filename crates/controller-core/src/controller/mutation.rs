//! What an accepted write shows: from then on the store has it, until the watch shows it too.

use std::sync::Arc;

use super::{Accepted, Context, Controller, Watches};
use crate::informer::{Delta, Effect, Freshness, Store, View};
use crate::meta::{ObjectKey, Uid};

/// How far a write has come. [`Controller::shows`] declares its effect; this brings the store to it.
pub struct Mutation<'a, 'b, C: Controller> {
    pub(super) phase: Phase<'a>,
    pub(super) controller: &'a C,
    pub(super) cx: &'a mut Context<'b, C>,
    /// Whether the watch has still to show the write.
    pub(super) is_pending: bool,
}

/// The phases of a write.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase<'a> {
    Begins,
    Accepted(&'a Accepted),
    Refused,
    Unknown,
    Overdue(u64),
}

impl<C: Controller> Mutation<'_, '_, C> {
    /// The write makes `patch` of the object. It may name the object by its name alone: the answer says which it was.
    pub fn patch<V: View>(
        &mut self,
        store: &Store<V>,
        key: &ObjectKey,
        patch: impl Fn(&V) -> V + Send + Sync + 'static,
    ) where
        C: Watches<V>,
    {
        self.bring(store, key, || Effect::Patch(Arc::new(patch)));
    }

    /// The write deletes the object: it is as good as gone, also while a finalizer or its grace period holds it.
    pub fn delete<V: View>(&mut self, store: &Store<V>, key: &ObjectKey, uid: &Uid)
    where
        C: Watches<V>,
    {
        match self.phase {
            Phase::Accepted(Accepted { version, .. }) => {
                self.accept(store, key, uid, *version, Effect::Deleted);
                // It may take as long as its finalizers and its grace period do.
                self.is_pending = false;
            }
            Phase::Overdue(_) => {}
            Phase::Begins | Phase::Refused | Phase::Unknown => self.bring(store, key, || Effect::Deleted),
        }
    }

    fn bring<V: View>(&mut self, store: &Store<V>, key: &ObjectKey, effect: impl FnOnce() -> Effect<V>)
    where
        C: Watches<V>,
    {
        match self.phase {
            Phase::Begins => store.begin_write(key),
            Phase::Refused => store.refused(key),
            Phase::Overdue(version) => self.is_pending = store.overdue(key, version),
            Phase::Accepted(Accepted {
                uid: Some(uid),
                version,
            }) if store.uid(key).is_none_or(|held| held == *uid) => {
                self.accept(store, key, uid, *version, effect());
            }
            // No answer, or one that does not say which object it was, or says that it was not the one that is held.
            Phase::Unknown | Phase::Accepted(_) => store.unknown(key),
        }
    }

    fn accept<V: View>(
        &mut self,
        store: &Store<V>,
        key: &ObjectKey,
        uid: &Uid,
        version: Option<u64>,
        effect: Effect<V>,
    ) where
        C: Watches<V>,
    {
        let delta = store.accepted(key, uid, version, effect);
        for change in delta.iter().flat_map(Delta::changes) {
            self.controller.changed(self.cx, change);
        }
        self.is_pending = store.freshness(key) == Freshness::Pending;
    }
}
