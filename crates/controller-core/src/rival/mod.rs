//! Another writer that keeps undoing ours (CORE-17).
//!
//! Two controllers that disagree about a value would overwrite each other for ever, as fast as the API server
//! lets them. [`Contests`] remembers which of our writes were undone and says when to stop answering at once:
//!
//! | what happened | what the caller may do |
//! |---|---|
//! | fewer than three of our writes undone within 5 min | write at once |
//! | the third | write 1 min later |
//! | each further one | write 2, 4, 8, … min later, at most 60 |
//! | a contested value left alone for more than 1 h | all is forgiven |
//!
//! A caller for whom a missing value does harm sets another [`Pace`] than 1 to 60 min.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use prometheus::{IntCounter, Registry};

use crate::log_throttle::LogThrottle;
use crate::metrics::register;

/// This many undone writes within [`WINDOW`] make an object contested.
const STRIKES: usize = 3;
/// A write of an uncontested object that is left alone for longer than this is settled.
const WINDOW: Duration = Duration::from_mins(5);
/// A write of a contested object that is left alone for longer than this ends the contest.
const FORGIVEN_AFTER: Duration = Duration::from_hours(1);
/// Least time between two warnings about the same rival.
const WARN_EVERY: Duration = Duration::from_hours(1);
/// With fewer objects than this, pruning is not worth the time.
const PRUNE_FROM: usize = 64;

/// Waits before a contested object is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The wait after the write that made the object contested; doubles with each further one.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

/// Which of our writes were undone, by object; `K` names the object or one field of it. A value: times count from the
/// start of the process.
///
/// Holds nothing about an uncontested object that has not been written for 5 min.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contests<K> {
    records: BTreeMap<K, Record>,
    /// Number of records that the last pruning left, at least [`PRUNE_FROM`].
    pruned_to: usize,
    /// Field managers already named, with the time.
    warned: LogThrottle<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Record {
    /// Start of the time for which our write has stood, as far as we know; `None` once it is known to be undone.
    standing: Option<Duration>,
    contest: Contest,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Contest {
    /// Times at which our writes were undone, oldest first; fewer than [`STRIKES`].
    None { undone: Vec<Duration> },
    /// The wait after the latest undone write, and when it ends.
    Open { wait: Duration, until: Duration },
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first: Duration::from_mins(1),
            longest: Duration::from_hours(1),
        }
    }
}

/// Makes `controller_rival_writes_total` and registers it; fails if the registry already has it.
pub fn undone_total(registry: &Registry) -> prometheus::Result<IntCounter> {
    register(
        registry,
        IntCounter::new(
            "controller_rival_writes_total",
            "Number of times another writer undid what this controller had written.",
        ),
    )
}

impl<K> Default for Contests<K> {
    fn default() -> Self {
        Self {
            records: BTreeMap::new(),
            pruned_to: PRUNE_FROM,
            warned: LogThrottle::default(),
        }
    }
}

impl<K: Clone + Ord> Contests<K> {
    /// Records that the API server has accepted our write of the wanted value.
    pub fn wrote(&mut self, key: &K, now: Duration) {
        self.prune(now);
        let record = self
            .records
            .entry(key.clone())
            .and_modify(|record| {
                if record.is_settled(now) {
                    *record = Record::default();
                }
            })
            .or_default();
        match record.contest {
            // A new wanted value does not restart the hour after which the object is forgiven.
            Contest::Open { .. } => record.standing = record.standing.or(Some(now)),
            Contest::None { .. } => record.standing = Some(now),
        }
    }

    /// True if a write of ours counts as standing, so that a value that differs now is news to [`Contests::undone`].
    pub fn stands(&self, key: &K, now: Duration) -> bool {
        let record = self.records.get(key);
        record.is_some_and(|record| record.standing.is_some() && !record.is_settled(now))
    }

    /// Records that somebody replaced the value we wrote; [`Contests::wait`] says when the caller may write again.
    /// Returns true once per contest: the moment to name the rival.
    ///
    /// May be called repeatedly about the same undoing, which counts once for each [`Contests::wrote`]. A write that
    /// had stood long enough to be settled (see the table above) does not count.
    pub fn undone(&mut self, pace: Pace, key: &K, now: Duration) -> bool {
        let Some(record) = self.records.get_mut(key) else {
            return false;
        };
        if record.is_settled(now) {
            self.records.remove(key);
            return false;
        }
        record.standing.take().is_some() && record.contest.strike(pace, now)
    }

    /// How long from `now` a contested object must be left alone; never zero.
    pub fn wait(&self, key: &K, now: Duration) -> Option<Duration> {
        match self.records.get(key)?.contest {
            Contest::Open { until, .. } => until.checked_sub(now).filter(|wait| !wait.is_zero()),
            Contest::None { .. } => None,
        }
    }

    /// Forgets an object that is gone, or no longer ours to write.
    pub fn forget(&mut self, key: &K) {
        self.records.remove(key);
    }

    /// Forgets the consecutive keys from `first` on for which `is_such` holds.
    pub fn forget_from(&mut self, first: &K, is_such: impl Fn(&K) -> bool) {
        let keys = self.records.range(first..).map(|(key, _)| key);
        let keys: Vec<K> = keys.take_while(|key| is_such(key)).cloned().collect();
        for key in keys {
            self.forget(&key);
        }
    }

    /// The number of objects on record, for tests.
    pub fn held(&self) -> usize {
        self.records.len()
    }

    /// Returns whether to name the rival `manager` now: true at most once an hour for each.
    pub fn may_warn(&mut self, manager: &str, now: Duration) -> bool {
        self.warned.is_due(manager, WARN_EVERY, now)
    }

    /// Drops settled records whenever the map has doubled.
    fn prune(&mut self, now: Duration) {
        if self.records.len() >= self.pruned_to.saturating_mul(2) {
            self.records.retain(|_, record| !record.is_settled(now));
            self.pruned_to = self.records.len().max(PRUNE_FROM);
        }
    }
}

/// The time from `since` to `now`; zero if `since` is later.
fn passed(since: Duration, now: Duration) -> Duration {
    now.saturating_sub(since)
}

impl Default for Record {
    fn default() -> Self {
        Self {
            standing: None,
            contest: Contest::None { undone: Vec::new() },
        }
    }
}

impl Record {
    /// True if nothing in this record can matter any more.
    fn is_settled(&self, now: Duration) -> bool {
        let (quiet_since, limit) = match &self.contest {
            Contest::None { undone } => (self.standing.or(undone.last().copied()), WINDOW),
            Contest::Open { until, .. } => (self.standing.or(Some(*until)), FORGIVEN_AFTER),
        };
        quiet_since.is_none_or(|since| passed(since, now) > limit)
    }
}

impl Contest {
    /// Records an undone write. Returns true if that opens the contest.
    fn strike(&mut self, pace: Pace, now: Duration) -> bool {
        let (wait, opens) = match self {
            Self::None { undone } => {
                undone.retain(|at| passed(*at, now) <= WINDOW);
                undone.push(now);
                if undone.len() < STRIKES {
                    return false;
                }
                (pace.first, true)
            }
            Self::Open { wait, .. } => (wait.saturating_mul(2).min(pace.longest), false),
        };
        *self = Self::Open {
            wait,
            until: now + wait,
        };
        opens
    }
}

/// The field manager that last wrote the field at `path`, from `metadata.managedFields`.
///
/// `path` is spelled as in `fieldsV1`: `["f:metadata", "f:annotations", "f:example.com/key"]`.
pub fn manager_of(managed_fields: &[ManagedFieldsEntry], path: &[&str]) -> Option<String> {
    managed_fields
        .iter()
        .filter(|entry| {
            entry.manager.is_some()
                && entry.fields_v1.as_ref().is_some_and(|fields| {
                    path.iter()
                        .try_fold(&fields.0, |fields, name| fields.get(name))
                        .is_some()
                })
        })
        .max_by_key(|entry| entry.time.as_ref().map(|time| time.0))
        .and_then(|entry| entry.manager.clone())
}

#[cfg(test)]
mod tests;
