//! What is remembered for policies: since when each applies, and which failed objects are kept.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-15 | `PolicyState::since`, `PolicyState::candidate_changed`, `PolicyState::namespace_changed` | `tests/sync/policies/grace.rs::nothing_goes_within_the_grace_period_of_a_start`, `tests/sync/policies/grace.rs::a_changed_label_of_object_or_namespace_begins_the_grace_period_anew` |
//! | TAF-16 | `LastFailed::place` | `tests/policies/kept.rs::the_last_that_failed_are_kept_in_any_order_of_changes` |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::Now;
use controller_core::meta::{ObjectKey, Uid};
use jiff::Timestamp;

use super::brake::Brakes;
use super::decide::{Beginning, Memory, ServerDate, applying, is_new, is_new_namespace};
use super::view::{Candidate, NamespaceView};
use super::{FinishedKind, Policies};
use crate::state::Key;
use crate::view::Finish;

/// Within which a process leads that had not to wait for another leader.
const LEADS_AT_ONCE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
/// How long a delete of the last leader may count for `maxPerHour`, which counts whole minutes.
const COUNTS_FOR: Duration = Duration::from_mins(61);

/// What is remembered for policies. A standby remembers, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyState {
    /// The policies of the last good file; `None` before the caches are full.
    current: Option<Arc<Policies>>,
    /// When they began to apply: the caches were full, or the file changed.
    since: Duration,
    /// Objects to which their policy began to apply later.
    began: BTreeMap<Key, Beginning>,
    /// Before this nobody knows what the last leader deleted within the hour.
    counts_from: Duration,
    failed: LastFailed,
    pub(crate) brakes: Brakes,
    /// When the caches were first full.
    synced: Option<Duration>,
}

impl PolicyState {
    /// The policies that count; those of the `start` before the caches are full.
    pub fn current<'a>(&'a self, start: &'a Arc<Policies>) -> &'a Arc<Policies> {
        self.current.as_ref().unwrap_or(start)
    }

    /// The policies that count, once the caches are full.
    pub fn loaded(&self) -> Option<&Arc<Policies>> {
        self.current.as_ref()
    }

    /// These policies begin to apply to all objects, and all brakes are released.
    pub fn begin<'a>(
        &mut self,
        policies: &Arc<Policies>,
        now: Now,
        objects: impl IntoIterator<Item = (&'a Candidate, Option<Arc<NamespaceView>>)>,
    ) {
        *self = Self {
            since: now.uptime,
            current: Some(Arc::clone(policies)),
            synced: self.synced.or(Some(now.uptime)),
            ..Self::default()
        };
        for (object, namespace) in objects {
            let applied = applying(policies, object, namespace.as_deref());
            self.failed.place(policies, object, applied.ok());
        }
    }

    /// A term begins. Who has waited for it follows another leader, whose deletes count for an hour. Who has not follows
    /// one that has ended, or none: its deletes count for the grace period of a start.
    pub(crate) fn lead(&mut self, grace: Duration, now: Duration) {
        let waited = now.saturating_sub(self.synced.unwrap_or(now));
        let counts_for = if waited > LEADS_AT_ONCE || grace >= HOUR {
            COUNTS_FOR
        } else {
            grace
        };
        self.counts_from = now.saturating_add(counts_for);
    }

    /// When the policy of this object began to apply to it, as far as the API server has told its time.
    pub fn since(&self, key: &Key, servers: Option<ServerDate>) -> Duration {
        let began = self.began.get(key);
        began
            .filter(|began| !began.is_of_new_object(servers))
            .map_or(self.since, |began| began.at)
    }

    /// What is remembered about an object to which the policy with this index applies.
    pub fn memory(
        &self,
        policies: &Policies,
        index: usize,
        key: &Key,
        servers: Option<ServerDate>,
    ) -> Memory {
        let policy = policies.list.get(index);
        Memory {
            since: self.since(key, servers),
            counts_from: policy
                .and_then(|policy| policy.max_per_hour)
                .map_or(Duration::ZERO, |_| self.counts_from),
            is_last_failed: policy.is_some_and(|policy| self.failed.keeps(key, policy.keep_last_failed)),
            is_braked: policy.is_some_and(|policy| self.brakes.is_engaged(&policy.name))
                && !self.brakes.is_planned(key),
        }
    }

    /// An object has changed, has come or has gone; returns the objects that are kept no longer, or from now on.
    pub fn candidate_changed(
        &mut self,
        policies: &Policies,
        (old, new): (Option<&Candidate>, Option<&Candidate>),
        namespace: Option<&NamespaceView>,
        now: Now,
    ) -> Vec<Key> {
        let Some(new) = new else {
            let Some(old) = old else {
                return Vec::new();
            };
            let key = Key::of(old);
            self.began.remove(&key);
            self.brakes.gone(&key);
            return self.failed.place(policies, old, None);
        };
        let applied = applying(policies, new, namespace);
        let old = old.filter(|old| old.object.uid == new.object.uid);
        if old.is_none() {
            self.brakes.gone(&Key::of(new));
        }
        let was = old.map(|old| applying(policies, old, namespace));
        let began = match (was, applied) {
            (_, Err(_)) => Began::Not,
            (Some(was), now) if was == now => Began::Before,
            (None, Ok(_)) if is_new(new, now.wall) => match new.object.finish {
                Some(Finish::At(finish)) => Began::New(finish),
                _ => Began::Not,
            },
            _ => Began::Now,
        };
        self.began(Key::of(new), began, now.uptime);
        self.failed.place(policies, new, applied.ok())
    }

    /// A namespace has changed; returns the objects in it to which another policy applies, or none.
    pub fn namespace_changed(
        &mut self,
        policies: &Policies,
        (old, new): (Option<&NamespaceView>, Option<&NamespaceView>),
        objects: &[Arc<Candidate>],
        now: Now,
    ) -> Vec<Key> {
        let is_new = |new: &&NamespaceView| old.is_none() && is_new_namespace(new, now.wall);
        let created = new.filter(is_new).and_then(|new| new.created);
        let mut changed = Vec::new();
        for object in objects {
            let (was, is) = (applying(policies, object, old), applying(policies, object, new));
            if was == is {
                continue;
            }
            let key = Key::of(object);
            let began = match is {
                Ok(_) => created.map_or(Began::Now, Began::New),
                Err(_) => Began::Not,
            };
            self.began(key.clone(), began, now.uptime);
            changed.extend(self.failed.place(policies, object, is.ok()));
            changed.push(key);
        }
        changed
    }

    fn began(&mut self, key: Key, began: Began, now: Duration) {
        let just_past = match began {
            Began::Before => return,
            Began::Not => None,
            Began::Now => Some(None),
            Began::New(time) => Some(Some(time)),
        };
        // Before the caches are full, `since` is yet to come.
        match just_past.filter(|_| self.current.is_some()) {
            Some(just_past) => self.began.insert(key, Beginning { at: now, just_past }),
            None => self.began.remove(&key),
        };
    }

    /// The number of entries about objects.
    pub fn held(&self) -> usize {
        self.began.len() + self.failed.of.len() + self.brakes.held()
    }
}

/// When the policy of an object began to apply to it.
#[derive(Clone, Copy)]
enum Began {
    Now,
    /// Now, unless the object is new by the API server's clock, too: this time is just past.
    New(Timestamp),
    Before,
    /// It does not apply, or did from the object's begin.
    Not,
}

/// Those of which `keepLastFailed` keeps the last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Group {
    policy: usize,
    kind: FinishedKind,
    namespace: Option<Arc<str>>,
    owner: Option<Uid>,
}

/// The failed objects of each group, ordered by their finish.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct LastFailed {
    groups: BTreeMap<Group, BTreeSet<(Timestamp, ObjectKey)>>,
    of: BTreeMap<Key, (Group, Timestamp)>,
}

impl LastFailed {
    /// Puts an object, to which this policy applies, into its group; returns the others that are kept from now on, or
    /// no longer.
    fn place(&mut self, policies: &Policies, object: &Candidate, applied: Option<usize>) -> Vec<Key> {
        let key = Key::of(object);
        let policy = applied.and_then(|index| Some((index, policies.list.get(index)?)));
        let place = policy.and_then(|(index, policy)| {
            let Some(Finish::At(finish)) = object.object.finish else {
                return None;
            };
            (object.failed && policy.keep_last_failed > 0).then(|| {
                let group = Group {
                    policy: index,
                    kind: object.kind,
                    namespace: key.object.namespace.clone(),
                    owner: object.owner.clone(),
                };
                (group, finish)
            })
        });
        if self.of.get(&key) == place.as_ref() {
            return Vec::new();
        }
        let keeps = |group: &Group| {
            policies
                .list
                .get(group.policy)
                .map_or(0, |policy| policy.keep_last_failed)
        };
        let mut changed = Vec::new();
        if let Some((group, finish)) = self.of.remove(&key) {
            let kept = self.last(&group, keeps(&group));
            if let Some(members) = self.groups.get_mut(&group) {
                members.remove(&(finish, key.object.clone()));
                if members.is_empty() {
                    self.groups.remove(&group);
                }
            }
            changed.extend(
                self.last(&group, keeps(&group))
                    .filter(|last| kept.as_ref() != Some(last)),
            );
        }
        if let Some((group, finish)) = place {
            let kept = self.last(&group, keeps(&group));
            let members = self.groups.entry(group.clone()).or_default();
            members.insert((finish, key.object.clone()));
            changed.extend(kept.filter(|kept| self.last(&group, keeps(&group)).as_ref() != Some(kept)));
            self.of.insert(key.clone(), (group, finish));
        }
        changed.retain(|changed| *changed != key);
        changed
    }

    /// The oldest of those that are kept, if there are as many.
    fn last(&self, group: &Group, keep: usize) -> Option<Key> {
        let members = self.groups.get(group)?;
        let (_, object) = members.iter().rev().nth(keep.checked_sub(1)?)?;
        Some(Key {
            kind: group.kind,
            object: object.clone(),
        })
    }

    fn keeps(&self, key: &Key, keep: usize) -> bool {
        let Some((group, _)) = self.of.get(key) else {
            return false;
        };
        let members = self.groups.get(group).into_iter().flatten().rev();
        members.take(keep).any(|(_, object)| *object == key.object)
    }
}
