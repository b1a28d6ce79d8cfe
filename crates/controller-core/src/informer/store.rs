//! What is there now, by key and by index, under one lock.

use std::borrow::Borrow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::watch;

use super::view::View;
use crate::meta::{ObjectKey, Uid};

/// Read access to an informer's objects. Cheap to clone, to share, and to read.
///
/// Every call answers for one moment; two calls may see different ones.
pub struct Store<V: View>(Arc<Shared<V>>);

struct Shared<V: View> {
    content: RwLock<Content<V>>,
    synced: watch::Sender<bool>,
}

/// Objects and indexes, which always agree.
struct Content<V: View> {
    objects: HashMap<ByKey<V>, Uid>,
    index: HashMap<V::Index, Posting<V>>,
}

/// A view that hashes and compares as its key, so that the key is stored once, in the view.
pub(super) struct ByKey<V>(pub(super) Arc<V>);

/// The objects under one index value. Most values of an owner index have one: no set for those.
enum Posting<V> {
    One(Arc<V>),
    Many(HashSet<ByKey<V>>),
}

/// A difference between the store and what the source told.
pub(super) enum Delta<V> {
    Added {
        new: Arc<V>,
        uid: Uid,
    },
    Updated {
        old: Arc<V>,
        new: Arc<V>,
        uid: Uid,
    },
    /// Another object under the same name.
    Replaced {
        old: Arc<V>,
        new: Arc<V>,
        uid: Uid,
    },
    /// `last` is `old`, or the final state where the source told it.
    Deleted {
        old: Arc<V>,
        last: Arc<V>,
    },
}

impl<V: View> Store<V> {
    pub(super) fn new() -> Self {
        Self(Arc::new(Shared {
            content: RwLock::new(Content {
                objects: HashMap::new(),
                index: HashMap::new(),
            }),
            synced: watch::Sender::new(false),
        }))
    }

    /// The object of this name.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        let content = self.0.content.read();
        content
            .objects
            .get_key_value(key)
            .map(|(held, _)| Arc::clone(&held.0))
    }

    /// The objects found under this index value, ordered by key.
    pub fn by_index(&self, value: &V::Index) -> Vec<Arc<V>> {
        let mut views: Vec<_> = match self.0.content.read().index.get(value) {
            None => return Vec::new(),
            Some(Posting::One(view)) => return vec![Arc::clone(view)],
            Some(Posting::Many(views)) => views.iter().map(|held| Arc::clone(&held.0)).collect(),
        };
        sort_by_key(&mut views);
        views
    }

    /// Every object, ordered by key.
    pub fn snapshot(&self) -> Vec<Arc<V>> {
        let mut views: Vec<_> = {
            let content = self.0.content.read();
            content.objects.keys().map(|held| Arc::clone(&held.0)).collect()
        };
        sort_by_key(&mut views);
        views
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.0.content.read().objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the first list is complete and the handlers have seen it (CORE-4).
    pub fn is_synced(&self) -> bool {
        *self.0.synced.borrow()
    }

    /// Completes once the first list is complete and the handlers have seen it (CORE-4).
    pub async fn synced(&self) {
        let mut synced = self.0.synced.subscribe();
        if synced.wait_for(|synced| *synced).await.is_err() {
            // Unreachable: `self` holds the sender. Nothing can become synced any more.
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn set_synced(&self) {
        self.0.synced.send_replace(true);
    }

    /// The view and the uid held under `key`.
    pub(super) fn held(&self, key: &ObjectKey) -> Option<(Arc<V>, Uid)> {
        let content = self.0.content.read();
        let (held, uid) = content.objects.get_key_value(key)?;
        Some((Arc::clone(&held.0), uid.clone()))
    }

    /// The views whose key `gone` says yes to.
    pub(super) fn held_where(&self, gone: impl Fn(&ObjectKey) -> bool) -> Vec<Arc<V>> {
        let content = self.0.content.read();
        let keys = content.objects.keys().filter(|held| gone(held.0.key()));
        keys.map(|held| Arc::clone(&held.0)).collect()
    }

    /// What it takes to hold `new`; nothing if an equal view of the same object is held.
    pub(super) fn compare(&self, new: Arc<V>, uid: Uid) -> Option<Delta<V>> {
        match self.held(new.key()) {
            None => Some(Delta::Added { new, uid }),
            Some((old, old_uid)) if old_uid != uid => Some(Delta::Replaced { old, new, uid }),
            Some((old, _)) if *old == *new => None,
            Some((old, _)) => Some(Delta::Updated { old, new, uid }),
        }
    }

    /// Brings objects and indexes up to date; readers see all of `deltas` or none.
    ///
    /// The informer is the only caller, so what [`Store::compare`] saw still holds.
    pub(super) fn apply(&self, deltas: &[Delta<V>]) {
        let mut content = self.0.content.write();
        for delta in deltas {
            match delta {
                Delta::Added { new, uid } => content.insert(new, uid),
                Delta::Updated { old, new, uid } | Delta::Replaced { old, new, uid } => {
                    content.remove(old);
                    content.insert(new, uid);
                }
                Delta::Deleted { old, .. } => content.remove(old),
            }
        }
    }
}

impl<V: View> Content<V> {
    fn insert(&mut self, view: &Arc<V>, uid: &Uid) {
        let mut values = Vec::new();
        view.index(&mut values);
        for value in values {
            match self.index.entry(value) {
                Entry::Vacant(entry) => {
                    entry.insert(Posting::One(Arc::clone(view)));
                }
                Entry::Occupied(mut entry) => entry.get_mut().insert(view),
            }
        }
        self.objects.insert(ByKey(Arc::clone(view)), uid.clone());
    }

    fn remove(&mut self, view: &Arc<V>) {
        let mut values = Vec::new();
        view.index(&mut values);
        for value in values {
            if let Entry::Occupied(mut entry) = self.index.entry(value)
                && entry.get_mut().remove(view.key())
            {
                entry.remove();
            }
        }
        self.objects.remove(view.key());
    }
}

impl<V: View> Posting<V> {
    fn insert(&mut self, view: &Arc<V>) {
        match self {
            Self::One(only) if only.key() == view.key() => *only = Arc::clone(view),
            Self::One(only) => {
                *self = Self::Many(HashSet::from([ByKey(Arc::clone(only)), ByKey(Arc::clone(view))]));
            }
            Self::Many(views) => {
                views.replace(ByKey(Arc::clone(view)));
            }
        }
    }

    /// Takes the object out; whether nothing is left.
    fn remove(&mut self, key: &ObjectKey) -> bool {
        match self {
            Self::One(only) => only.key() == key,
            Self::Many(views) => {
                views.remove(key);
                views.is_empty()
            }
        }
    }
}

impl<V> Delta<V> {
    /// Where it stands in the order of a relist's changes: deletions first.
    pub(super) fn order(&self) -> (bool, &ObjectKey)
    where
        V: View,
    {
        match self {
            Self::Deleted { old, .. } => (false, old.key()),
            Self::Added { new, .. } | Self::Updated { new, .. } | Self::Replaced { new, .. } => {
                (true, new.key())
            }
        }
    }
}

impl<V: View> PartialEq for ByKey<V> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl<V: View> Eq for ByKey<V> {}

impl<V: View> Hash for ByKey<V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key().hash(state);
    }
}

impl<V: View> Borrow<ObjectKey> for ByKey<V> {
    fn borrow(&self) -> &ObjectKey {
        self.0.key()
    }
}

impl<V: View> Clone for Store<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V: View> fmt::Debug for Store<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("len", &self.len())
            .field("synced", &self.is_synced())
            .finish()
    }
}

fn sort_by_key<V: View>(views: &mut [Arc<V>]) {
    views.sort_unstable_by(|a, b| a.key().cmp(b.key()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Owned {
        key: ObjectKey,
        owner: u8,
    }

    impl View for Owned {
        type Index = u8;

        fn key(&self) -> &ObjectKey {
            &self.key
        }

        fn index(&self, out: &mut Vec<u8>) {
            out.push(self.owner);
        }
    }

    fn put(store: &Store<Owned>, name: &str, owner: u8) {
        let view = Owned {
            key: ObjectKey::cluster(name),
            owner,
        };
        let delta = store.compare(Arc::new(view), Uid::from("u"));
        store.apply(delta.as_slice());
    }

    fn names(store: &Store<Owned>, owner: u8) -> Vec<String> {
        let views = store.by_index(&owner);
        views.iter().map(|view| view.key.to_string()).collect()
    }

    #[test]
    fn an_index_value_without_objects_takes_no_memory() {
        let store = Store::new();
        for name in ["c", "a", "b"] {
            put(&store, name, 1);
        }
        assert_eq!(names(&store, 1), ["a", "b", "c"]);
        for name in ["a", "b", "c"] {
            put(&store, name, 2);
        }
        assert_eq!(names(&store, 1), [""; 0]);
        assert_eq!(names(&store, 2), ["a", "b", "c"]);
        assert_eq!(store.0.content.read().index.len(), 1);
    }

    #[test]
    fn an_updated_view_is_found_under_its_index_at_once() {
        let store = Store::new();
        put(&store, "a", 1);
        put(&store, "a", 3);
        assert_eq!(names(&store, 1), [""; 0]);
        assert_eq!(names(&store, 3), ["a"]);
        assert!(Arc::ptr_eq(
            &store.by_index(&3)[0],
            &store.get(&ObjectKey::cluster("a")).unwrap()
        ));
    }
}
