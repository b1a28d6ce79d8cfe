//! One resource: the API server's objects, and the events that the watch still has to deliver.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use controller_core::cache::{self, SourceEvent, View, Wire};
use controller_core::controller::{Accepted, Controller, Loop, Now, StoreOf, Watches};
use controller_core::fingerprint::Fingerprint;
use controller_core::meta::{ObjectKey, Uid};
use derive_where::derive_where;
use serde_json::Value;

/// One resource: the API server's objects, and the events that its watch still has to deliver to its store.
#[derive(Debug)]
#[derive_where(Clone; V)]
pub struct SimResource<C: Controller, V: View> {
    of: StoreOf<C, V>,
    objects: BTreeMap<ObjectKey, SimObject<V>>,
    pending: VecDeque<SourceEvent<V>>,
    /// The items of a requested list, until its answer comes.
    list: Option<Vec<SourceEvent<V>>>,
    versions: u64,
    created: usize,
}

/// An object of the model's API server.
#[derive(Clone, Debug)]
pub struct SimObject<V> {
    /// The view of the object.
    pub view: V,
    pub uid: Uid,
    pub version: u64,
}

impl<C: Controller, V: View + Clone> SimResource<C, V> {
    pub fn new(of: StoreOf<C, V>) -> Self {
        Self {
            of,
            objects: BTreeMap::new(),
            pending: VecDeque::new(),
            list: None,
            versions: 0,
            created: 0,
        }
    }

    pub fn objects(&self) -> &BTreeMap<ObjectKey, SimObject<V>> {
        &self.objects
    }

    /// The version that the next change makes.
    pub fn next_version(&self) -> u64 {
        self.versions + 1
    }

    /// Creates or replaces the object; another `uid` makes it a new one. Returns its new version.
    pub fn put(&mut self, view: V, uid: Uid) -> u64 {
        self.versions += 1;
        let version = self.versions;
        let key = view.key().clone();
        if self.objects.get(&key).is_some_and(|held| held.uid != uid) {
            self.delete(&key);
            return self.put(view, uid);
        }
        self.created += usize::from(!self.objects.contains_key(&key));
        let object = SimObject { view, uid, version };
        self.pending.push_back(SourceEvent::Applied(observed(&object)));
        self.objects.insert(key, object);
        version
    }

    /// Changes the object, if it exists; returns the answer to such a write.
    pub fn edit(&mut self, key: &ObjectKey, edit: impl FnOnce(&mut V)) -> Option<Accepted> {
        let SimObject { mut view, uid, .. } = self.objects.get(key)?.clone();
        edit(&mut view);
        let version = self.put(view, uid.clone());
        Some(accepted(uid, version))
    }

    /// Sets the version of the next change, for a model that counts versions itself.
    pub const fn skip_to(&mut self, version: u64) {
        self.versions = version.saturating_sub(1);
    }

    /// Removes the object.
    pub fn delete(&mut self, key: &ObjectKey) {
        if let Some(object) = self.objects.remove(key) {
            self.versions += 1;
            self.pending.push_back(SourceEvent::Deleted(cache::Removed {
                key: key.clone(),
                uid: object.uid,
                view: Some(object.view),
                version: Some(self.versions.to_string().into()),
            }));
        }
    }

    fn listed(&self) -> Vec<SourceEvent<V>> {
        let items = self
            .objects
            .values()
            .map(|object| SourceEvent::InitItem(observed(object)));
        let done = SourceEvent::InitDone {
            version: Some(self.versions.to_string().into()),
        };
        [SourceEvent::Init]
            .into_iter()
            .chain(items)
            .chain([done])
            .collect()
    }
}

/// The watch that a controller has on a resource.
pub trait Watch<C: Controller> {
    /// Breaks the watch: undelivered events are lost, and a list is requested.
    fn begin_list(&mut self, event_loop: &mut Loop<C>, now: Now);

    /// A process has started: its next event is a list.
    fn restart(&mut self);

    /// Deletes all objects of the resource.
    fn clear(&mut self);

    /// Number of objects ever created.
    fn created(&self) -> usize;

    /// Number of objects with writes that the watch has not shown.
    fn mutations(&self, event_loop: &mut Loop<C>) -> usize;

    /// Number of events that the watch has not shown; a list that is requested shows all at once.
    fn lag(&self) -> usize;

    /// Adds the objects, what the watch has not shown, and the store of the loop.
    fn fingerprint(&self, event_loop: &mut Loop<C>, out: &mut Fingerprint);

    /// Delivers the next event to the loop; returns whether there was one.
    fn deliver(&mut self, event_loop: &mut Loop<C>, now: Now) -> bool;
}

impl<C: Watches<V>, V: View + Clone + Debug> Watch<C> for SimResource<C, V> {
    fn begin_list(&mut self, event_loop: &mut Loop<C>, now: Now) {
        if self.list.is_none() {
            let mut items = self.listed();
            let rest = items.split_off(1);
            for init in items {
                event_loop.apply(self.of, init, now);
            }
            self.list = Some(rest);
            self.pending.clear();
        }
    }

    fn restart(&mut self) {
        self.pending.clear();
        self.list = Some(self.listed());
    }

    fn clear(&mut self) {
        for key in self.objects.keys().cloned().collect::<Vec<_>>() {
            self.delete(&key);
        }
    }

    fn created(&self) -> usize {
        self.created
    }

    fn mutations(&self, event_loop: &mut Loop<C>) -> usize {
        event_loop.store(self.of).mutations()
    }

    fn lag(&self) -> usize {
        self.pending.len() + usize::from(self.list.is_some())
    }

    fn fingerprint(&self, event_loop: &mut Loop<C>, out: &mut Fingerprint) {
        out.add(&(&self.objects, &self.pending, &self.list, self.versions));
        event_loop.store(self.of).fingerprint(out);
    }

    fn deliver(&mut self, event_loop: &mut Loop<C>, now: Now) -> bool {
        let events = match self.list.take() {
            Some(items) => items,
            None => self.pending.pop_front().into_iter().collect(),
        };
        let heard = !events.is_empty();
        for event in events {
            event_loop.apply(self.of, event, now);
        }
        heard
    }
}

/// The object as a list shows it.
pub fn observed<V: Clone>(object: &SimObject<V>) -> cache::Versioned<V> {
    cache::Versioned {
        view: object.view.clone(),
        uid: object.uid.clone(),
        version: Some(object.version.to_string().into()),
    }
}

/// The view of an object in the API server's JSON.
pub fn decoded<W: Wire>(object: &Value) -> W::View {
    let found = cache::Versioned::read::<W>(object.to_string().as_bytes());
    found.unwrap().unwrap().view
}

/// A write's answer: an object that is not being deleted.
pub fn accepted(uid: Uid, version: u64) -> Accepted {
    Accepted {
        uid: Some(uid),
        version: Some(version),
        deleting: false,
    }
}
