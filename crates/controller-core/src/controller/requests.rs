//! Requests: which are out, who waits for what is out, and which accepted writes the watch has still to show.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Duration;

use derive_where::derive_where;

use super::fair_queue::{FairQueue, Place};
use super::timers::Timers;
use super::{Controller, Now, Object, Query, RequestOf};

#[derive_where(Default)]
pub(super) struct Requests<C: Controller> {
    last_id: u64,
    out: BTreeMap<u64, InFlight<C>>,
    asked: BTreeMap<C::Query, Asked<C::Key>>,
    pub(super) slots: Slots<C::Key>,
    pub(super) awaited: Awaited<C::Write>,
}

/// A request that is out.
pub(super) struct InFlight<C: Controller> {
    /// For whom it was sent.
    pub(super) key: C::Key,
    /// The number of the pass.
    pub(super) pass: u64,
    pub(super) ask: RequestOf<C>,
    pub(super) sent: Now,
    /// Of a question: the steps at which the stores were that its answer tells of.
    pub(super) steps: Vec<u64>,
}

/// A question that is out.
struct Asked<K> {
    id: u64,
    /// Who waits for the answer.
    keys: Vec<K>,
}

impl<C: Controller> Requests<C> {
    /// A request is sent; its number.
    pub(super) fn send(&mut self, request: InFlight<C>) -> u64 {
        self.last_id += 1;
        if let RequestOf::Query(query) = &request.ask {
            let (id, keys) = (self.last_id, vec![request.key.clone()]);
            self.asked.insert(query.clone(), Asked { id, keys });
        }
        self.out.insert(self.last_id, request);
        self.last_id
    }

    /// The question is out: `key` waits for its answer, too.
    pub(super) fn join(&mut self, query: &C::Query, key: &C::Key) -> bool {
        let asked = self.asked.get_mut(query);
        asked.map(|asked| asked.keys.push(key.clone())).is_some()
    }

    /// The request of this number has ended.
    pub(super) fn ended(&mut self, id: u64) -> Option<InFlight<C>> {
        self.out.remove(&id)
    }

    /// Who waits for this answer to the question.
    pub(super) fn answered(&mut self, id: u64, query: &C::Query) -> Vec<C::Key> {
        let is_it = self.asked.get(query).is_some_and(|asked| asked.id == id);
        let asked = is_it.then(|| self.asked.remove(query)).flatten();
        asked.map(|asked| asked.keys).unwrap_or_default()
    }

    /// Passes are over. A question that only these have asked is asked again by whoever wants to know.
    pub(super) fn forget_askers(&mut self, stays: impl Fn(&C::Key) -> bool) {
        self.asked.retain(|_, asked| {
            asked.keys.retain(&stays);
            !asked.keys.is_empty()
        });
    }

    /// How much it holds; for tests.
    pub(super) fn held(&self) -> usize {
        self.out.len() + self.asked.len() + self.slots.by_name.len() + self.awaited.writes.len()
    }
}

/// What a request takes while it is out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum SlotOf {
    /// One of the questions of a kind.
    Kind(Cow<'static, str>),
    /// The object of a write.
    Object(Object),
}

impl SlotOf {
    /// The slot of a question, and how many there are; none where any number may be out.
    pub(super) fn query(query: &impl Query) -> Option<(Self, usize)> {
        let querying = query.policy();
        (querying.at_most != usize::MAX).then_some((Self::Kind(querying.kind), querying.at_most))
    }
}

/// Slots, and who waits for one. A slot that gets free is kept for the pass whose turn it is.
#[derive_where(Default)]
pub(super) struct Slots<K> {
    by_name: HashMap<SlotOf, Slot<K>>,
}

#[derive_where(Default)]
struct Slot<K> {
    taken: usize,
    waiting: FairQueue<K>,
}

/// What a pass has of slots.
#[derive(Clone, Debug, Default)]
pub(super) struct PassSlots {
    /// The one that is kept for it.
    kept: Option<SlotOf>,
    /// Those that it waits for.
    waits: Vec<(SlotOf, Place)>,
}

impl<K> Slots<K> {
    /// Whether a request of this pass may take one of `at_most` slots.
    pub(super) fn is_free(&self, slot: &SlotOf, at_most: usize, pass: &PassSlots) -> bool {
        pass.kept.as_ref() == Some(slot) || self.by_name.get(slot).is_none_or(|slot| slot.taken < at_most)
    }

    pub(super) fn take(&mut self, slot: SlotOf, pass: &mut PassSlots) {
        if pass.kept.take_if(|kept| *kept == slot).is_none() {
            self.by_name.entry(slot).or_default().taken += 1;
        }
    }

    /// The pass waits for a slot.
    pub(super) fn wait(&mut self, slot: SlotOf, key: K, namespace: Option<&str>, pass: &mut PassSlots) {
        let place = self
            .by_name
            .entry(slot.clone())
            .or_default()
            .waiting
            .push(namespace, key);
        pass.waits.push((slot, place));
    }

    /// The pass waits for none.
    pub(super) fn leave(&mut self, pass: &mut PassSlots) {
        for (slot, place) in pass.waits.drain(..) {
            if let Some(slot) = self.by_name.get_mut(&slot) {
                slot.waiting.remove(&place);
            }
        }
    }

    /// Whose turn it is, now that a slot is free; the caller keeps it for that pass by [`keep`](Self::keep).
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
    /// The slot is kept for this pass.
    pub(super) fn keep(&mut self, slot: SlotOf) {
        self.kept = Some(slot);
    }

    /// Whether it waits for a slot of a question.
    pub(super) fn waits_to_ask(&self) -> bool {
        let mut waits = self.waits.iter();
        waits.any(|(slot, _)| matches!(slot, SlotOf::Kind(_)))
    }

    /// The slot that it does not need.
    pub(super) const fn give_up(&mut self) -> Option<SlotOf> {
        self.kept.take()
    }
}

/// Accepted writes that the watch has still to show, by their numbers.
#[derive_where(Default)]
pub(super) struct Awaited<W> {
    writes: HashMap<u64, W>,
    by: Timers<u64, Duration>,
}

impl<W> Awaited<W> {
    /// The write should be shown by then.
    pub(super) fn push(&mut self, id: u64, by: Duration, write: W) {
        self.writes.insert(id, write);
        self.by.set(id, by);
    }

    /// The write is shown, or does not matter any more.
    pub(super) fn remove(&mut self, id: u64) {
        self.writes.remove(&id);
        self.by.remove(&id);
    }

    /// A write that should have been shown by now.
    pub(super) fn pop_overdue(&mut self, now: Duration) -> Option<(u64, W)> {
        let id = self.by.pop_due(now)?;
        Some((id, self.writes.remove(&id)?))
    }

    /// By when the first of them should be shown.
    pub(super) fn first(&self) -> Option<Duration> {
        self.by.first()
    }
}
