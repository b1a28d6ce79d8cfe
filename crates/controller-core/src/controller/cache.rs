//! What an accepted write, and a read past the cache, do to the cache: the store has the result at once, before the
//! watch shows it.

use std::sync::Arc;

use super::{Accepted, AnswerOf, Controller, Loop, Now, StoreOf, Watches};
use crate::api::CallFailed;
use crate::cache::{Freshness, Page, Versioned, View, WriteEffect};
use crate::meta::{ObjectKey, Uid};

/// A write in one of its phases. [`Controller::apply_to_cache`] declares its effect; this applies it to the store.
pub struct CacheWrite<'a, C: Controller> {
    /// The number of its request.
    pub(super) id: u64,
    pub(super) phase: Phase<'a>,
    pub(super) event_loop: &'a mut Loop<C>,
    pub(super) now: Now,
    /// True while the watch has yet to show the write.
    pub(super) is_pending: bool,
}

/// A query that is sent or answered. [`Controller::refresh_cache`] declares which objects it shows; this applies them
/// to the store.
pub struct CacheRead<'a, C: Controller> {
    pub(super) phase: ReadPhase<'a, C>,
    pub(super) event_loop: &'a mut Loop<C>,
    pub(super) now: Now,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Phase<'a> {
    Begins,
    Accepted(&'a Accepted),
    Refused,
    Unknown,
    /// Accepted earlier; asks whether the watch has caught up with this version.
    Overdue,
}

/// A store when a query about its objects was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentAt {
    step: u64,
    /// The version that the watch had come to.
    pub(super) told: u64,
}

/// The phases of a query. Remembers each store that it tells about, as it was when the query was sent.
pub(super) enum ReadPhase<'a, C: Controller> {
    Sent(&'a mut Vec<SentAt>),
    Answered {
        answer: &'a Result<AnswerOf<C>, CallFailed>,
        sent: std::slice::Iter<'a, SentAt>,
        is_overtaken: &'a mut bool,
    },
}

impl<C: Controller> Loop<C> {
    /// Applies this phase of the write to the cache; returns whether the watch has yet to show the write.
    pub(super) fn apply_to_cache(&mut self, id: u64, write: &C::Write, phase: Phase<'_>, now: Now) -> bool {
        let controller = Arc::clone(&self.controller);
        let mut cache = CacheWrite {
            id,
            phase,
            event_loop: self,
            now,
            is_pending: false,
        };
        controller.apply_to_cache(write, &mut cache);
        cache.is_pending
    }

    /// Applies a query, which is being sent or is answered, to the cache.
    pub(super) fn refresh_cache(&mut self, query: &C::Query, phase: ReadPhase<'_, C>, now: Now) {
        let mut cache = CacheRead {
            phase,
            event_loop: self,
            now,
        };
        Arc::clone(&cache.event_loop.controller).refresh_cache(query, &mut cache);
    }
}

impl<C: Controller> CacheWrite<'_, C> {
    /// The write changes the object to `patch` of it. It may name the object by its name alone: the answer says which
    /// one it was.
    pub fn patch<V: View>(
        &mut self,
        of: StoreOf<C, V>,
        key: &ObjectKey,
        patch: impl Fn(&V) -> V + Send + Sync + 'static,
    ) where
        C: Watches<V>,
    {
        self.bring(of, key, || WriteEffect::Patch(Arc::new(patch)));
    }

    /// The write creates the object, or replaces all of it; `object` receives the uid and version.
    pub fn object<V: View>(&mut self, of: StoreOf<C, V>, key: &ObjectKey, object: impl FnOnce(&Uid, u64) -> V)
    where
        C: Watches<V>,
    {
        match self.phase {
            Phase::Accepted(Accepted {
                uid: Some(uid),
                version: Some(version),
                ..
            }) => self.bring(of, key, || WriteEffect::Object(object(uid, *version))),
            Phase::Accepted(_) => self.event_loop.store_of(of).unknown(key),
            _ => self.bring(of, key, || WriteEffect::Nothing),
        }
    }

    /// The write names the version of the object. If the answer is lost, the write can be repeated without a read: it
    /// is carried out at most once.
    pub const fn guarded(&mut self) -> &mut Self {
        if let Phase::Unknown = self.phase {
            self.phase = Phase::Refused;
        }
        self
    }

    /// What the answer says about the object; `None` unless the write is being accepted.
    pub const fn accepted(&self) -> Option<&Accepted> {
        match self.phase {
            Phase::Accepted(accepted) => Some(accepted),
            _ => None,
        }
    }

    /// The write deletes the object: it counts as gone, even while a finalizer or its grace period holds it.
    pub fn delete<V: View>(&mut self, of: StoreOf<C, V>, key: &ObjectKey, uid: &Uid)
    where
        C: Watches<V>,
    {
        match self.phase {
            Phase::Accepted(Accepted { version, .. }) => {
                self.accept(of, key, uid, *version, WriteEffect::Deleted);
                // The watch may show it only after the finalizers and the grace period.
                self.is_pending = false;
            }
            Phase::Overdue => {}
            Phase::Begins | Phase::Refused | Phase::Unknown => self.bring(of, key, || WriteEffect::Deleted),
        }
    }

    fn bring<V: View>(&mut self, of: StoreOf<C, V>, key: &ObjectKey, effect: impl FnOnce() -> WriteEffect<V>)
    where
        C: Watches<V>,
    {
        let store = self.event_loop.store_of(of);
        match self.phase {
            Phase::Begins => store.begin_write(key),
            Phase::Refused => store.refused(key),
            Phase::Overdue => self.is_pending = store.overdue(key, self.id),
            Phase::Accepted(Accepted {
                uid: Some(uid),
                version,
                ..
            }) if store.uid(key).is_none_or(|held| held == uid) => {
                self.accept(of, key, uid, *version, effect());
            }
            // No answer, or one without a uid, or with a uid other than that of the cached object.
            Phase::Unknown | Phase::Accepted(_) => store.unknown(key),
        }
    }

    fn accept<V: View>(
        &mut self,
        of: StoreOf<C, V>,
        key: &ObjectKey,
        uid: &Uid,
        version: Option<u64>,
        effect: WriteEffect<V>,
    ) where
        C: Watches<V>,
    {
        let store = self.event_loop.store_of(of);
        let delta = store.accepted(key, uid, version, self.id, effect);
        self.is_pending = store.freshness(key) == Freshness::Pending;
        self.event_loop.tell(delta.as_ref(), self.now);
    }
}

impl<'a, C: Controller> CacheRead<'a, C> {
    /// The query is about this one object. `found` takes it from the answer; `None` if it does not exist.
    pub fn object<V: View + Clone>(
        &mut self,
        of: StoreOf<C, V>,
        key: &ObjectKey,
        found: impl FnOnce(&AnswerOf<C>) -> Option<&Versioned<V>>,
    ) where
        C: Watches<V>,
    {
        let Some((answer, sent)) = self.answered(of) else {
            return;
        };
        let overtaken = match answer {
            Ok(answer) => self.found(of, key, found(answer), sent),
            Err(failed) if failed.is_gone() => self.found(of, key, None, sent),
            Err(_) => false,
        };
        if let ReadPhase::Answered { is_overtaken, .. } = &mut self.phase {
            **is_overtaken |= overtaken;
        }
    }

    /// The query is about the objects on this page of a list.
    pub fn page<V: View + Clone>(&mut self, of: StoreOf<C, V>, page: impl FnOnce(&AnswerOf<C>) -> &Page<V>)
    where
        C: Watches<V>,
    {
        if let Some((Ok(answer), sent)) = self.answered(of) {
            for found in &page(answer).items {
                self.found(of, found.view.key(), Some(found), sent);
            }
        }
    }

    /// The answer, if there is one, and the step of the store at which the query was sent.
    fn answered<V: View>(&mut self, of: StoreOf<C, V>) -> Option<(&'a Result<AnswerOf<C>, CallFailed>, u64)> {
        match &mut self.phase {
            ReadPhase::Sent(sent) => {
                let store = self.event_loop.store_of(of);
                let (step, told) = (store.step(), store.told_version());
                sent.push(SentAt { step, told });
                None
            }
            ReadPhase::Answered { answer, sent, .. } => Some((answer, sent.next()?.step)),
        }
    }

    /// Applies what was found to the store, unless a later answer has overtaken it; returns whether one has.
    fn found<V: View + Clone>(
        &mut self,
        of: StoreOf<C, V>,
        key: &ObjectKey,
        found: Option<&Versioned<V>>,
        sent: u64,
    ) -> bool
    where
        C: Watches<V>,
    {
        let store = self.event_loop.store_of(of);
        if store.has_overtaken(key, sent, found.map(|found| &found.uid)) {
            return true;
        }
        if let (Some(found), Some(held)) = (found, store.uid(key))
            && found.uid != *held
        {
            // The answer says nothing about the object in the cache.
            return false;
        }
        let found = found.map(|found| (found.view.clone(), found.uid.clone(), found.number()));
        let delta = store.read(key, found);
        self.event_loop.tell(delta.as_ref(), self.now);
        false
    }
}
