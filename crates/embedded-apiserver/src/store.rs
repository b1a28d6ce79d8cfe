//! Objects, their history, and one version counter for all of them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::resource::Resource;

/// Age up to which history is kept, like that of etcd compacted by a real API server.
const HISTORY: Duration = Duration::from_mins(5);
/// Number of changes per resource that are kept at any age.
const HISTORY_AT_LEAST: usize = 1024;

/// A stored object: JSON without `kind` and `apiVersion`, which depend on the request.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) version: u64,
    pub(super) body: Bytes,
}

#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) at: Instant,
    pub(super) key: Arc<str>,
    pub(super) before: Option<Stored>,
    /// The object with the version of this write; for a deletion, its last state.
    pub(super) object: Stored,
    pub(super) deleted: bool,
}

/// The requested version is older than the history.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Compacted {
    /// The oldest version still known.
    pub(super) oldest: u64,
}

/// The objects of a server.
#[derive(Debug)]
pub(super) struct Store {
    version: u64,
    created: u64,
    compacted: u64,
    /// No watch can start before this version: its events are lost.
    eventless: u64,
    tables: BTreeMap<(&'static str, &'static str), Table>,
}

/// The objects of one resource, by `namespace/name` or `name`, in the order of etcd's keys.
#[derive(Debug, Default)]
struct Table {
    objects: BTreeMap<Arc<str>, Stored>,
    /// Oldest first.
    history: VecDeque<Change>,
    compacted: u64,
    /// The version of the last write.
    written: u64,
}

impl Store {
    pub(super) fn new() -> Self {
        Self {
            version: 1,
            created: 0,
            compacted: 0,
            eventless: 0,
            tables: BTreeMap::new(),
        }
    }

    /// The version of the last write.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The version of the last write to `resource`, 0 for none.
    pub(super) fn last_written(&self, resource: &'static Resource) -> u64 {
        self.table(resource).map_or(0, |table| table.written)
    }

    /// A number that is unique among all objects.
    pub(super) fn next_identity(&mut self) -> u64 {
        self.created += 1;
        self.created
    }

    /// The number of objects of a resource.
    pub(super) fn count(&self, resource: &'static Resource) -> usize {
        self.table(resource).map_or(0, |table| table.objects.len())
    }

    pub(super) fn get(&self, resource: &'static Resource, key: &str) -> Option<&Stored> {
        self.table(resource)?.objects.get(key)
    }

    /// The object as of `version`, which history must reach.
    pub(super) fn get_at(&self, resource: &'static Resource, key: &str, version: u64) -> Option<&Stored> {
        let table = self.table(resource)?;
        let since = table.history.partition_point(|change| change.version <= version);
        let next = table.history.range(since..).find(|change| *change.key == *key);
        next.map_or_else(|| table.objects.get(key), |change| change.before.as_ref())
    }

    /// Writes `object` under `key` with the next version.
    pub(super) fn put(
        &mut self,
        resource: &'static Resource,
        key: &str,
        object: Value,
        at: Instant,
    ) -> Stored {
        let stored = self.next_version(object);
        self.insert(resource, key, stored.clone(), at);
        stored
    }

    /// Writes the bytes that `render` returns for the next version under `key`.
    pub(super) fn put_rendered(
        &mut self,
        resource: &'static Resource,
        key: &str,
        at: Instant,
        render: impl FnOnce(u64) -> Bytes,
    ) {
        self.version += 1;
        let version = self.version;
        let body = render(version);
        self.insert(resource, key, Stored { version, body }, at);
    }

    fn insert(&mut self, resource: &'static Resource, key: &str, stored: Stored, at: Instant) {
        let table = self.table_mut(resource);
        let key: Arc<str> = Arc::from(key);
        let before = table.objects.insert(key.clone(), stored.clone());
        table.remember(Change {
            version: stored.version,
            at,
            key,
            before,
            object: stored,
            deleted: false,
        });
    }

    /// Removes the object under `key`. Watches see `last`, its last state, under the next version.
    pub(super) fn remove(
        &mut self,
        resource: &'static Resource,
        key: &str,
        last: Value,
        at: Instant,
    ) -> Stored {
        let object = self.next_version(last);
        let table = self.table_mut(resource);
        if let Some((key, before)) = table.objects.remove_entry(key) {
            table.remember(Change {
                version: object.version,
                at,
                key,
                before: Some(before),
                object: object.clone(),
                deleted: true,
            });
        }
        object
    }

    pub(super) fn compact(&mut self) {
        self.compacted = self.version;
        for table in self.tables.values_mut() {
            table.history.clear();
        }
    }

    /// Goes back to the state and the version at that time, if history reaches so far, and forgets past events.
    pub(super) fn set_back(&mut self, version: u64) -> bool {
        let oldest = self.tables.values().map(|table| table.compacted).max();
        if version > self.version || version < self.compacted.max(oldest.unwrap_or_default()) {
            return false;
        }
        self.tables.values_mut().for_each(|table| table.set_back(version));
        self.version = version;
        self.forget_events();
        true
    }

    /// Removes all objects, and forgets that there were any.
    pub(super) fn clear(&mut self) {
        self.tables.clear();
    }

    /// Puts `stored` under `key` with its own version, as if it had always been there.
    pub(super) fn restore(&mut self, resource: &'static Resource, key: &str, stored: Stored) {
        self.table_mut(resource).objects.insert(key.into(), stored);
    }

    /// Makes `version` that of the last write, and forgets all history.
    pub(super) fn restart_at(&mut self, version: u64) {
        self.version = version;
        self.tables.values_mut().for_each(|table| table.written = version);
        self.compact();
        self.forget_events();
    }

    /// Forgets past events, but not past states.
    pub(super) fn forget_events(&mut self) {
        self.eventless = self.version;
    }

    /// The last version of `resource` at `at`; the oldest known version if that is newer.
    pub(super) fn version_at(&self, resource: &'static Resource, at: Instant) -> u64 {
        let Some(table) = self.table(resource) else {
            return self.version;
        };
        let later = table.history.partition_point(|change| change.at <= at);
        match (table.history.get(later), later.checked_sub(1)) {
            (None, _) => self.version,
            (Some(_), Some(last)) => table
                .history
                .get(last)
                .map_or(self.version, |change| change.version),
            (Some(first), None) => self
                .compacted
                .max(table.compacted)
                .max(first.version.saturating_sub(1)),
        }
    }

    /// The writes to `resource` after `version`, oldest first.
    pub(super) fn changes_since(
        &self,
        resource: &'static Resource,
        version: u64,
    ) -> Result<Vec<Change>, Compacted> {
        self.reaches(resource, version)?;
        if version < self.eventless {
            let oldest = self.eventless;
            return Err(Compacted { oldest });
        }
        let Some(table) = self.table(resource) else {
            return Ok(Vec::new());
        };
        let start = table.history.partition_point(|change| change.version <= version);
        Ok(table.history.range(start..).cloned().collect())
    }

    /// The objects as of `version` whose keys start with `prefix` and come after `after`, sorted by key.
    pub(super) fn at_version<'a>(
        &'a self,
        resource: &'static Resource,
        prefix: &'a str,
        after: Option<&'a str>,
        version: u64,
    ) -> Result<impl Iterator<Item = (&'a Arc<str>, &'a Stored)>, Compacted> {
        self.reaches(resource, version)?;
        let table = self.table(resource);
        let history = table.into_iter().flat_map(|table| table.history.iter().rev());
        // The values of keys written after `version`: the oldest change wins, so its `before` is the value then.
        let past: BTreeMap<&str, (&Arc<str>, Option<&Stored>)> = history
            .take_while(|change| change.version > version)
            .map(|change| (&*change.key, (&change.key, change.before.as_ref())))
            .collect();
        let from = (
            after.map_or(Bound::Included(prefix), Bound::Excluded),
            Bound::Unbounded,
        );
        let then: Vec<_> = past
            .range::<str, _>(from)
            .filter_map(|(_, (key, stored))| Some((*key, (*stored)?)))
            .collect();
        let mut then = then.into_iter().peekable();
        let objects = table
            .into_iter()
            .flat_map(move |table| table.objects.range::<str, _>(from));
        let mut now = objects
            .filter(move |(key, _)| !past.contains_key(&***key))
            .peekable();
        let both = std::iter::from_fn(move || match (now.peek(), then.peek()) {
            (Some((a, _)), Some((b, _))) if a < b => now.next(),
            (Some(_), None) => now.next(),
            _ => then.next(),
        });
        Ok(both.take_while(move |(key, _)| key.starts_with(prefix)))
    }

    /// The current objects whose keys start with `prefix`, sorted by key.
    pub(super) fn all(
        &self,
        resource: &'static Resource,
        prefix: &str,
    ) -> impl Iterator<Item = (&Arc<str>, &Stored)> {
        let objects = self.table(resource).map(|table| &table.objects);
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let listed = objects.into_iter().flat_map(move |all| all.range::<str, _>(from));
        listed.take_while(move |(key, _)| key.starts_with(prefix))
    }

    fn next_version(&mut self, mut object: Value) -> Stored {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        Stored {
            version: self.version,
            body: Bytes::from(object.to_string()),
        }
    }

    fn reaches(&self, resource: &'static Resource, version: u64) -> Result<(), Compacted> {
        let oldest = self
            .table(resource)
            .map_or(0, |table| table.compacted)
            .max(self.compacted);
        if version < oldest {
            return Err(Compacted { oldest });
        }
        Ok(())
    }

    fn table(&self, resource: &'static Resource) -> Option<&Table> {
        let stored = resource.stored();
        self.tables.get(&(stored.group, stored.plural))
    }

    fn table_mut(&mut self, resource: &'static Resource) -> &mut Table {
        let stored = resource.stored();
        self.tables.entry((stored.group, stored.plural)).or_default()
    }
}

impl Table {
    fn set_back(&mut self, version: u64) {
        while let Some(undone) = self.history.pop_back_if(|change| change.version > version) {
            match undone.before {
                Some(before) => self.objects.insert(undone.key, before),
                None => self.objects.remove(&undone.key),
            };
        }
        self.written = self.written.min(version);
    }

    fn remember(&mut self, change: Change) {
        let now = change.at;
        self.written = change.version;
        self.history.push_back(change);
        while self.history.len() > HISTORY_AT_LEAST
            && let Some(oldest) = self.history.front()
            && now.duration_since(oldest.at) > HISTORY
        {
            self.compacted = oldest.version;
            self.history.pop_front();
        }
    }
}
