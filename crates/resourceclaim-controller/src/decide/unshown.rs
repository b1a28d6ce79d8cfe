//! What the API server has accepted of us and the informer has not shown yet (RC-4).

use std::collections::{HashMap, VecDeque};

use controller_core::meta::{ObjectKey, Uid};
use tokio::time::Instant;

use super::UNSHOWN_TTL;

/// What we wrote, by the name of the object, until the informer shows that object as written or later, shows its
/// deletion, or finishes a list that it began after the write; [`UNSHOWN_TTL`] at most.
///
/// The owner of the memory calls it in the order of what happens; a write that was shown before its answer came is
/// known by [`Unshown::sending`].
#[derive(Debug)]
pub struct Unshown<V> {
    held: HashMap<ObjectKey, Held<V>>,
    /// The keys of what is held, by the object that they belong to.
    by_owner: HashMap<Uid, Vec<ObjectKey>>,
    /// When what was remembered, the oldest first; what is gone since may stand here still.
    order: VecDeque<(Instant, ObjectKey)>,
    /// The writes on their way, and what the informer has shown under their names since.
    sending: HashMap<ObjectKey, Sending>,
    lists_begun: u64,
}

/// Which object, and in which state of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// `metadata.uid`.
    pub uid: Uid,
    /// Its age: a greater one is younger.
    pub age: u64,
}

#[derive(Debug)]
struct Held<V> {
    stamp: Stamp,
    owner: Option<Uid>,
    value: V,
    at: Instant,
    /// How many lists had begun when it was remembered.
    lists_begun: u64,
}

/// Writes to one object that are on their way.
#[derive(Debug, Default)]
struct Sending {
    count: usize,
    shown: Vec<Stamp>,
}

impl Stamp {
    /// The object at this resourceVersion, which is a number that grows. Source: Kubernetes' API concepts, "resource
    /// versions". Should it be none, every state that is shown counts as younger than one that was written.
    pub fn written(uid: &Uid, version: &str) -> Self {
        Self {
            uid: uid.clone(),
            age: version.parse().unwrap_or(u64::MIN),
        }
    }

    /// As [`Stamp::written`], of a state that the informer shows.
    pub fn shown(uid: &Uid, version: &str) -> Self {
        Self {
            uid: uid.clone(),
            age: version.parse().unwrap_or(u64::MAX),
        }
    }

    /// The object when it is gone.
    pub fn last(uid: &Uid) -> Self {
        Self {
            uid: uid.clone(),
            age: u64::MAX,
        }
    }

    /// The object when it is made, before any other state of it.
    pub fn first(uid: &Uid) -> Self {
        Self {
            uid: uid.clone(),
            age: u64::MIN,
        }
    }

    /// The object when it has changed once more.
    #[must_use]
    pub fn next(self) -> Self {
        Self {
            age: self.age.saturating_add(1),
            ..self
        }
    }

    fn is_younger_than(&self, other: &Self) -> bool {
        self.uid == other.uid && self.age > other.age
    }

    fn covers(&self, written: &Self) -> bool {
        self.uid == written.uid && self.age >= written.age
    }
}

impl<V> Default for Unshown<V> {
    fn default() -> Self {
        Self {
            held: HashMap::new(),
            by_owner: HashMap::new(),
            order: VecDeque::new(),
            sending: HashMap::new(),
            lists_begun: 0,
        }
    }
}

impl<V> Unshown<V> {
    /// A write to the object `key` is sent; [`Unshown::sent`] ends it.
    pub fn sending(&mut self, key: &ObjectKey) {
        self.sending.entry(key.clone()).or_default().count += 1;
    }

    /// A write to `key` has ended, whatever came of it.
    pub fn sent(&mut self, key: &ObjectKey) {
        if let Some(sending) = self.sending.get_mut(key) {
            sending.count = sending.count.saturating_sub(1);
            if sending.count == 0 {
                self.sending.remove(key);
            }
        }
    }

    /// The API server has accepted a write: the object `key` is at `stamp` and holds `value`. Not remembered when the
    /// informer has shown it so, or later, since [`Unshown::sending`], nor when a later state is remembered already.
    pub fn accepted(&mut self, key: &ObjectKey, stamp: Stamp, owner: Option<&Uid>, value: V, now: Instant) {
        self.expire(now);
        if self
            .held
            .get(key)
            .is_some_and(|held| held.stamp.is_younger_than(&stamp))
        {
            return;
        }
        self.forget(key);
        let shown = self.sending.get(key).map_or(&[][..], |sending| &sending.shown);
        if shown.iter().any(|shown| shown.covers(&stamp)) {
            return;
        }
        if let Some(owner) = owner {
            self.by_owner.entry(owner.clone()).or_default().push(key.clone());
        }
        self.order.push_back((now, key.clone()));
        let held = Held {
            stamp,
            owner: owner.cloned(),
            value,
            at: now,
            lists_begun: self.lists_begun,
        };
        self.held.insert(key.clone(), held);
    }

    /// The informer shows a state of the object, or its deletion. One that is older than what we wrote, and that of
    /// another uid, say nothing.
    pub fn shown(&mut self, key: &ObjectKey, stamp: &Stamp) {
        if let Some(sending) = self.sending.get_mut(key) {
            sending.shown.push(stamp.clone());
        }
        if self.held.get(key).is_some_and(|held| stamp.covers(&held.stamp)) {
            self.forget(key);
        }
    }

    /// The informer begins a list.
    pub fn list_began(&mut self) {
        self.lists_begun += 1;
    }

    /// The informer has finished the list that it began last: what was written before it began is in it, or gone.
    /// Returns what is remembered no more, for nobody else tells what of it is gone.
    pub fn list_finished(&mut self) -> Vec<(ObjectKey, V)> {
        let lists_begun = self.lists_begun;
        let listed = self
            .held
            .iter()
            .filter(|(_, held)| held.lists_begun < lists_begun);
        let listed: Vec<_> = listed.map(|(key, _)| key.clone()).collect();
        let mut forgotten: Vec<_> = listed
            .into_iter()
            .filter_map(|key| self.forget(&key).map(|value| (key, value)))
            .collect();
        forgotten.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        forgotten
    }

    /// What we wrote to `key`, if it is not shown yet.
    pub fn get(&self, key: &ObjectKey, now: Instant) -> Option<&V> {
        let held = self.held.get(key)?;
        held.is_fresh(now).then_some(&held.value)
    }

    /// What we wrote to objects that belong to `owner`, if it is not shown yet.
    pub fn of(&self, owner: &Uid, now: Instant) -> impl Iterator<Item = &V> {
        let keys = self.by_owner.get(owner).into_iter().flatten();
        keys.filter_map(move |key| self.get(key, now))
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Forgets what we wrote to `key`, and returns it.
    pub fn forget(&mut self, key: &ObjectKey) -> Option<V> {
        let held = self.held.remove(key)?;
        if self.held.is_empty() {
            self.order.clear();
        }
        if let Some(owner) = held.owner
            && let Some(keys) = self.by_owner.get_mut(&owner)
        {
            keys.retain(|held| held != key);
            if keys.is_empty() {
                self.by_owner.remove(&owner);
            }
        }
        Some(held.value)
    }

    fn expire(&mut self, now: Instant) {
        while let Some((at, key)) = self.order.front()
            && now.saturating_duration_since(*at) >= UNSHOWN_TTL
        {
            let key = key.clone();
            self.order.pop_front();
            // It may have been written again since.
            if self.held.get(&key).is_some_and(|held| !held.is_fresh(now)) {
                self.forget(&key);
            }
        }
    }
}

impl<V> Held<V> {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < UNSHOWN_TTL
    }
}
