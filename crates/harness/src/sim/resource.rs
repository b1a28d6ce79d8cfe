//! One resource: what the API server has, and what the watch has still to tell.

use std::collections::{BTreeMap, VecDeque};

use controller_core::controller::{Accepted, Controller, Loop, Now, StoreOf, Watches};
use controller_core::informer::{self, SourceEvent, View, Wire};
use controller_core::meta::{ObjectKey, Uid};
use serde_json::Value;

use super::model::accepted;

/// One resource: what the API server has, and what the watch has still to tell its store.
#[derive(Debug)]
pub struct Resource<C: Controller, V: View> {
    of: StoreOf<C, V>,
    objects: BTreeMap<ObjectKey, Object<V>>,
    pending: VecDeque<SourceEvent<V>>,
    /// The items of a list that was asked for, until its answer comes.
    list: Option<Vec<SourceEvent<V>>>,
    versions: u64,
    created: usize,
}

/// An object of the model's API server.
#[derive(Clone, Debug)]
pub struct Object<V> {
    /// What a view of it shows.
    pub view: V,
    pub uid: Uid,
    pub version: u64,
}

impl<C: Controller, V: View + Clone> Resource<C, V> {
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

    pub fn objects(&self) -> &BTreeMap<ObjectKey, Object<V>> {
        &self.objects
    }

    /// The version that the next change makes.
    pub fn next_version(&self) -> u64 {
        self.versions + 1
    }

    /// The object is this now; another one than before if `uid` says so. Returns its new version.
    pub fn put(&mut self, view: V, uid: Uid) -> u64 {
        self.versions += 1;
        let version = self.versions;
        let key = view.key().clone();
        if self.objects.get(&key).is_some_and(|held| held.uid != uid) {
            self.delete(&key);
            return self.put(view, uid);
        }
        self.created += usize::from(!self.objects.contains_key(&key));
        let object = Object { view, uid, version };
        self.pending.push_back(SourceEvent::Applied(observed(&object)));
        self.objects.insert(key, object);
        version
    }

    /// Changes the object, if it is there; the answer to such a write.
    pub fn edit(&mut self, key: &ObjectKey, edit: impl FnOnce(&mut V)) -> Option<Accepted> {
        let Object { mut view, uid, .. } = self.objects.get(key)?.clone();
        edit(&mut view);
        let version = self.put(view, uid.clone());
        Some(accepted(uid, version))
    }

    /// The next change has this version, for a model that counts them itself.
    pub const fn skip_to(&mut self, version: u64) {
        self.versions = version.saturating_sub(1);
    }

    /// The object is gone.
    pub fn delete(&mut self, key: &ObjectKey) {
        if let Some(object) = self.objects.remove(key) {
            self.versions += 1;
            self.pending.push_back(SourceEvent::Deleted(informer::Removed {
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

/// The watch of a resource that a controller follows.
pub trait Watch<C: Controller> {
    /// It has broken: what it had still to tell is lost, and a list is asked for.
    fn begin_list(&mut self, event_loop: &mut Loop<C>, now: Now);

    /// A process has started: the next thing that it hears is a list.
    fn restart(&mut self);

    /// All its objects are deleted.
    fn clear(&mut self);

    /// How many objects it has had.
    fn created(&self) -> usize;

    /// How many of its objects have writes that the watch has not shown.
    fn mutations(&self, event_loop: &mut Loop<C>) -> usize;

    /// The loop hears of the next thing; whether there was one.
    fn deliver(&mut self, event_loop: &mut Loop<C>, now: Now) -> bool;
}

impl<C: Watches<V>, V: View + Clone> Watch<C> for Resource<C, V> {
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
pub fn observed<V: Clone>(object: &Object<V>) -> informer::Versioned<V> {
    informer::Versioned {
        view: object.view.clone(),
        uid: object.uid.clone(),
        version: Some(object.version.to_string().into()),
    }
}

/// The view of an object that the API server has so.
pub fn decoded<W: Wire>(object: &Value) -> W::View {
    let found = informer::Versioned::read::<W>(object.to_string().as_bytes());
    found.unwrap().unwrap().view
}
