//! Requests: which are in flight, which keys wait for them, and which accepted writes the watch has yet to show.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use derive_where::derive_where;

use super::cache::SentAt;
use super::fair_queue::{FairQueue, Place};
use super::timers::Timers;
use super::{Controller, Now, Object, Query, RequestOf};
use crate::fingerprint::Fingerprint;

#[derive_where(Clone, Default)]
pub(super) struct Requests<C: Controller> {
    last_id: u64,
    out: BTreeMap<u64, InFlight<C>>,
    asked: BTreeMap<C::Query, Asked<C::Key>>,
    pub(super) slots: Slots<C::Key>,
    pub(super) awaited: Awaited<C::Write>,
}

#[derive_where(Clone, Debug)]
pub(super) struct InFlight<C: Controller> {
    /// The key that sent it.
    pub(super) key: C::Key,
    /// Number of the pass.
    pub(super) pass: u64,
    pub(super) ask: RequestOf<C>,
    pub(super) sent: Now,
    /// For a query: the stores that the answer tells about, as they were when it was sent.
    pub(super) stores: Vec<SentAt>,
}

/// A query in flight.
#[derive(Clone, Debug)]
struct Asked<K> {
    id: u64,
    askers: Vec<Asker<K>>,
}

/// A key that waits for an answer.
#[derive(Clone, Debug)]
pub(super) struct Asker<K> {
    pub(super) key: K,
    /// A watch has told more since the query was sent: the answer may be older than what the key was judged on.
    pub(super) is_late: bool,
}

impl<C: Controller> Requests<C> {
    /// Adds a request; returns its number.
    pub(super) fn send(&mut self, request: InFlight<C>) -> u64 {
        self.last_id += 1;
        if let RequestOf::Query(query) = &request.ask {
            let (id, key, is_late) = (self.last_id, request.key.clone(), false);
            let askers = vec![Asker { key, is_late }];
            self.asked.insert(query.clone(), Asked { id, askers });
        }
        self.out.insert(self.last_id, request);
        self.last_id
    }

    /// Returns whether the query is in flight; `key` then waits for the answer, too. `stores` are as they are now.
    pub(super) fn join(&mut self, query: &C::Query, key: &C::Key, stores: &[SentAt]) -> bool {
        let Some(asked) = self.asked.get_mut(query) else {
            return false;
        };
        let (key, sent) = (key.clone(), self.out.get(&asked.id));
        let mut sent = sent.into_iter().flat_map(|sent| &sent.stores).zip(stores);
        let is_late = sent.any(|(sent, now)| sent.told != now.told);
        asked.askers.push(Asker { key, is_late });
        true
    }

    /// Takes the request with this number, which has ended.
    pub(super) fn ended(&mut self, id: u64) -> Option<InFlight<C>> {
        self.out.remove(&id)
    }

    /// Takes the keys that wait for this answer to the query.
    pub(super) fn answered(&mut self, id: u64, query: &C::Query) -> Vec<Asker<C::Key>> {
        let is_it = self.asked.get(query).is_some_and(|asked| asked.id == id);
        let asked = is_it.then(|| self.asked.remove(query)).flatten();
        asked.map(|asked| asked.askers).unwrap_or_default()
    }

    /// Forgets keys whose pass is over. A query that no other key waits for is sent again when a key needs it.
    pub(super) fn forget_askers(&mut self, stays: impl Fn(&C::Key) -> bool) {
        self.asked.retain(|_, asked| {
            asked.askers.retain(|asker| stays(&asker.key));
            !asked.askers.is_empty()
        });
    }

    /// Adds everything that decides what follows; for tests.
    pub(super) fn fingerprint(&self, out: &mut Fingerprint) {
        out.add(&self.out);
        out.add(&self.asked);
        out.add_all(&self.slots.by_name);
        out.add(&self.awaited.by);
        out.add_all(&self.awaited.writes);
    }

    /// The number of entries in all its maps; for tests.
    pub(super) fn held(&self) -> usize {
        self.out.len() + self.asked.len() + self.slots.by_name.len() + self.awaited.writes.len()
    }
}

/// What a request occupies while it is in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum SlotOf {
    /// One of the queries of a kind.
    Kind(Cow<'static, str>),
    /// The object of a write.
    Object(Object),
}

impl SlotOf {
    /// The slot of a query, and how many exist; `None` if any number may be in flight.
    pub(super) fn query(query: &impl Query) -> Option<(Self, usize)> {
        let querying = query.policy();
        (querying.at_most != usize::MAX).then_some((Self::Kind(querying.kind), querying.at_most))
    }
}

/// Slots, and the keys that wait for one. A slot that becomes free is kept for the pass whose turn it is.
#[derive(Clone)]
#[derive_where(Default)]
pub(super) struct Slots<K> {
    by_name: HashMap<SlotOf, Slot<K>>,
}

#[derive(Clone)]
#[derive_where(Debug; K: Clone + Debug)]
#[derive_where(Default)]
struct Slot<K> {
    taken: usize,
    waiting: FairQueue<K>,
}

/// The slots of a pass.
#[derive(Clone, Debug, Default)]
pub(super) struct PassSlots {
    /// The one that is kept for it.
    kept: Option<SlotOf>,
    /// Those that it waits for.
    waits: Vec<(SlotOf, Place)>,
}

impl<K> Slots<K> {
    /// Returns whether a request of this pass may take one of `at_most` slots.
    pub(super) fn is_free(&self, slot: &SlotOf, at_most: usize, pass: &PassSlots) -> bool {
        pass.kept.as_ref() == Some(slot) || self.by_name.get(slot).is_none_or(|slot| slot.taken < at_most)
    }

    pub(super) fn take(&mut self, slot: SlotOf, pass: &mut PassSlots) {
        if pass.kept.take_if(|kept| *kept == slot).is_none() {
            self.by_name.entry(slot).or_default().taken += 1;
        }
    }

    /// Lets the pass wait for a slot.
    pub(super) fn wait(&mut self, slot: SlotOf, key: K, namespace: Option<&str>, pass: &mut PassSlots) {
        let place = self
            .by_name
            .entry(slot.clone())
            .or_default()
            .waiting
            .push(namespace, key);
        pass.waits.push((slot, place));
    }

    /// Ends all waits of the pass for slots.
    pub(super) fn leave(&mut self, pass: &mut PassSlots) {
        for (slot, place) in pass.waits.drain(..) {
            if let Some(slot) = self.by_name.get_mut(&slot) {
                slot.waiting.remove(&place);
            }
        }
    }

    /// Frees a slot; returns the key whose turn it is. The caller keeps the slot for that pass by [`PassSlots::keep`].
    pub(super) fn free(&mut self, name: &SlotOf) -> Option<K> {
        let slot = self.by_name.get_mut(name)?;
        if let Some(key) = slot.waiting.pop() {
            return Some(key);
        }
        slot.taken = slot.taken.saturating_sub(1);
        if slot.taken == 0 {
            self.by_name.remove(name);
        }
        None
    }
}

impl PassSlots {
    /// Keeps the slot for this pass.
    pub(super) fn keep(&mut self, slot: SlotOf) {
        self.kept = Some(slot);
    }

    /// Returns whether a slot is kept for this pass.
    pub(super) const fn keeps_one(&self) -> bool {
        self.kept.is_some()
    }

    /// Returns whether it waits for the slot of a query.
    pub(super) fn waits_to_ask(&self) -> bool {
        let mut waits = self.waits.iter();
        waits.any(|(slot, _)| matches!(slot, SlotOf::Kind(_)))
    }

    /// Gives up the slot that is kept for it.
    pub(super) const fn give_up(&mut self) -> Option<SlotOf> {
        self.kept.take()
    }
}

/// Accepted writes that the watch has yet to show, by the numbers of their requests.
#[derive(Clone)]
#[derive_where(Default)]
pub(super) struct Awaited<W> {
    writes: HashMap<u64, W>,
    by: Timers<u64, Duration>,
}

impl<W> Awaited<W> {
    /// Adds a write that the watch should show in time.
    pub(super) fn push(&mut self, id: u64, by: Duration, write: W) {
        self.writes.insert(id, write);
        self.by.set(id, by);
    }

    /// Removes a write that the watch has shown, or that no longer matters.
    pub(super) fn remove(&mut self, id: u64) {
        self.writes.remove(&id);
        self.by.remove(&id);
    }

    /// Takes a write that the watch should have shown by now.
    pub(super) fn pop_overdue(&mut self, now: Duration) -> Option<(u64, W)> {
        let id = self.by.pop_due(now)?;
        Some((id, self.writes.remove(&id)?))
    }

    /// When the first of them should be shown.
    pub(super) fn first(&self) -> Option<Duration> {
        self.by.first()
    }
}
