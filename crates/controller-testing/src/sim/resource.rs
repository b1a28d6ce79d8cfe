//! One resource: the API server's objects, and the events that the watch of each process still has to deliver.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use controller_core::cache::{self, SourceEvent, View, Wire};
use controller_core::controller::{Accepted, Controller, Loop, Now, StoreOf, Watches};
use controller_core::fingerprint::Fingerprint;
use controller_core::meta::{ObjectKey, Uid};
use derive_where::derive_where;
use serde_json::Value;

/// One resource: the API server's objects, and the events that watches still have to deliver to their stores.
#[derive(Debug)]
#[derive_where(Clone; V)]
pub struct SimResource<C: Controller, V: View> {
    of: StoreOf<C, V>,
    objects: BTreeMap<ObjectKey, SimObject<V>>,
    /// One for each process.
    followers: Vec<Follower<V>>,
    /// The process that the watch is of at the moment.
    process: usize,
    versions: u64,
    created: usize,
}

/// What the watch of a process still has to deliver.
#[derive(Clone, Debug)]
struct Follower<V: View> {
    events: VecDeque<SourceEvent<V>>,
    /// The items of a requested list, until its answer comes.
    list: Option<Vec<SourceEvent<V>>>,
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
            followers: vec![Follower::new(None)],
            process: 0,
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
        self.show(&SourceEvent::Applied(observed(&object)));
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

    /// Removes the object.
    pub fn delete(&mut self, key: &ObjectKey) {
        if let Some(object) = self.objects.remove(key) {
            self.versions += 1;
            self.show(&SourceEvent::Deleted(cache::Removed {
                key: key.clone(),
                uid: object.uid,
                view: Some(object.view),
                version: Some(self.versions.to_string().into()),
            }));
        }
    }

    /// Changes the object to what the watch does not show; returns its new version.
    pub fn hide(&mut self, key: &ObjectKey) -> u64 {
        if self.objects.contains_key(key) {
            self.delete(key);
        } else {
            self.versions += 1;
        }
        self.versions
    }

    fn show(&mut self, event: &SourceEvent<V>) {
        for follower in &mut self.followers {
            follower.events.push_back(event.clone());
        }
    }

    fn follower(&mut self) -> &mut Follower<V> {
        &mut self.followers[self.process]
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
    /// From now on this is the watch of the process with this number.
    fn serve(&mut self, process: usize);

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

impl<V: View> Follower<V> {
    const fn new(list: Option<Vec<SourceEvent<V>>>) -> Self {
        let events = VecDeque::new();
        Self { events, list }
    }
}

impl<C: Watches<V>, V: View + Clone + Debug> Watch<C> for SimResource<C, V> {
    fn serve(&mut self, process: usize) {
        self.process = process;
        let count = self.followers.len().max(process + 1);
        self.followers.resize_with(count, || Follower::new(None));
    }

    fn begin_list(&mut self, event_loop: &mut Loop<C>, now: Now) {
        if self.follower().list.is_none() {
            let mut items = self.listed();
            let rest = items.split_off(1);
            for init in items {
                event_loop.apply(self.of, init, now);
            }
            *self.follower() = Follower::new(Some(rest));
        }
    }

    fn restart(&mut self) {
        *self.follower() = Follower::new(Some(self.listed()));
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
        let Follower { events, list } = &self.followers[self.process];
        events.len() + usize::from(list.is_some())
    }

    fn fingerprint(&self, event_loop: &mut Loop<C>, out: &mut Fingerprint) {
        out.add(&(&self.objects, &self.followers, self.versions));
        event_loop.store(self.of).fingerprint(out);
    }

    fn deliver(&mut self, event_loop: &mut Loop<C>, now: Now) -> bool {
        let follower = self.follower();
        let events = match follower.list.take() {
            Some(items) => items,
            None => follower.events.pop_front().into_iter().collect(),
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
