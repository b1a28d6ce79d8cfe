//! Another writer that keeps undoing ours (CORE-17).
//!
//! Two controllers that disagree about a value would overwrite each other for ever, as fast as the API server
//! lets them. [`Contests`] remembers which of our writes were undone and tells when to stop answering at once:
//!
//! | what happened | what the caller may do |
//! |---|---|
//! | fewer than three of our writes undone within 5 min | write at once |
//! | the third | write 1 min later |
//! | each further one | write 2, 4, 8, … min later, at most 60 |
//! | a contested value left alone for more than 1 h | all is forgiven |
//!
//! Where a value that is missing does harm, the caller sets another [`Pace`] than 1 to 60 min.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use prometheus::{IntCounter, Registry};

use crate::metrics::register;
use crate::said::Said;

/// This many undone writes within [`WINDOW`] make an object contested.
const STRIKES: usize = 3;
/// A write of an uncontested object that is left alone for longer than this is settled.
const WINDOW: Duration = Duration::from_mins(5);
/// A write of a contested object that is left alone for longer than this ends the contest.
const FORGIVEN_AFTER: Duration = Duration::from_hours(1);
/// A rival is named at most once within this.
const WARN_EVERY: Duration = Duration::from_hours(1);
/// Below this many objects, looking for old ones is not worth the time.
const PRUNE_FROM: usize = 64;

/// How long a contested object is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The wait after the write that made the object contested; doubles with each further one.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

/// Which of our writes were undone, object by object; `K` names the object (or the one field of it). A value: times
/// count from the start of the process.
///
/// Holds nothing about an uncontested object that has not been written for 5 min.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contests<K> {
    records: BTreeMap<K, Record>,
    /// How many records the last pruning left, at least [`PRUNE_FROM`].
    pruned_to: usize,
    /// Field managers named, and when.
    warned: Said<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Record {
    /// Since when a write of ours has stood, as far as we know; `None` once it is known to be undone.
    standing: Option<Duration>,
    contest: Contest,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Contest {
    /// When our writes were undone, oldest first; fewer than [`STRIKES`].
    None { undone: Vec<Duration> },
    /// The wait after the latest undone write, and its end.
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

/// Makes `controller_rival_writes_total` and registers it; fails when the registry has it already.
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
            warned: Said::default(),
        }
    }
}

impl<K: Clone + Ord> Contests<K> {
    /// The API server has accepted our write of the wanted value.
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

    /// Whether a write of ours counts as standing: that the value differs now is news to [`Contests::undone`].
    pub fn stands(&self, key: &K, now: Duration) -> bool {
        let record = self.records.get(key);
        record.is_some_and(|record| record.standing.is_some() && !record.is_settled(now))
    }

    /// The caller would write again because somebody has replaced the value that it had written; [`Contests::wait`] tells
    /// when it may. True exactly once a contest: the moment to name the rival.
    ///
    /// May be asked again and again about the same undoing, which counts once for each [`Contests::wrote`]. A write
    /// that had stood for so long that it was settled (see the table above) does not count.
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

    /// How long from now a contested object is left alone; never zero.
    pub fn wait(&self, key: &K, now: Duration) -> Option<Duration> {
        match self.records.get(key)?.contest {
            Contest::Open { until, .. } => until.checked_sub(now).filter(|wait| !wait.is_zero()),
            Contest::None { .. } => None,
        }
    }

    /// The object is gone, or no longer ours to write.
    pub fn forget(&mut self, key: &K) {
        self.records.remove(key);
    }

    /// The same of all keys in a row, from `first` on, for which `is_such` holds.
    pub fn forget_from(&mut self, first: &K, is_such: impl Fn(&K) -> bool) {
        let keys = self.records.range(first..).map(|(key, _)| key);
        let keys: Vec<K> = keys.take_while(|key| is_such(key)).cloned().collect();
        for key in keys {
            self.forget(&key);
        }
    }

    /// How many objects it holds something about, for tests.
    pub fn held(&self) -> usize {
        self.records.len()
    }

    /// Whether to name the rival `manager` now: true at most once an hour for each.
    pub fn may_warn(&mut self, manager: &str, now: Duration) -> bool {
        self.warned.is_due(manager, WARN_EVERY, now)
    }

    /// Drops what is settled, whenever the map has doubled.
    fn prune(&mut self, now: Duration) {
        if self.records.len() >= self.pruned_to.saturating_mul(2) {
            self.records.retain(|_, record| !record.is_settled(now));
            self.pruned_to = self.records.len().max(PRUNE_FROM);
        }
    }
}

/// The time from `since` to `now`; zero if that lies ahead.
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
    /// Whether nothing that this record holds can matter any more.
    fn is_settled(&self, now: Duration) -> bool {
        let (quiet_since, limit) = match &self.contest {
            Contest::None { undone } => (self.standing.or(undone.last().copied()), WINDOW),
            Contest::Open { until, .. } => (self.standing.or(Some(*until)), FORGIVEN_AFTER),
        };
        quiet_since.is_none_or(|since| passed(since, now) > limit)
    }
}

impl Contest {
    /// Notes that a write was undone. True when that opens the contest.
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

/// Which field manager wrote the field at `path` last, from `metadata.managedFields`.
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
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const MIN: u64 = 60;

    /// What a caller may do about a value that somebody has replaced.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Verdict {
        Write,
        BackOff { wait: Duration, first: bool },
    }

    /// What is remembered of one object, with time in seconds.
    #[derive(Default)]
    struct Bench {
        rivals: Contests<&'static str>,
        counted: u64,
    }

    impl Bench {
        fn wrote(&mut self, seconds: u64) {
            self.rivals.wrote(&"node-1", at(seconds));
        }

        fn undone(&mut self, seconds: u64) -> Verdict {
            self.undone_at(Pace::default(), seconds)
        }

        fn undone_at(&mut self, pace: Pace, seconds: u64) -> Verdict {
            self.counted += u64::from(self.rivals.stands(&"node-1", at(seconds)));
            let first = self.rivals.undone(pace, &"node-1", at(seconds));
            match self.rivals.wait(&"node-1", at(seconds)) {
                Some(wait) => Verdict::BackOff { wait, first },
                None => Verdict::Write,
            }
        }

        /// Writes at `seconds` and is undone in the same second.
        fn round(&mut self, seconds: u64) -> Verdict {
            self.wrote(seconds);
            self.undone(seconds)
        }
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn back_off(seconds: u64, first: bool) -> Verdict {
        Verdict::BackOff {
            wait: Duration::from_secs(seconds),
            first,
        }
    }

    #[test]
    fn a_value_never_written_by_us_is_written() {
        let mut bench = Bench::default();
        assert_eq!(bench.undone(0), Verdict::Write);
        assert_eq!(bench.counted, 0);
    }

    #[test]
    fn the_third_undone_write_within_five_minutes_is_answered_a_minute_later() {
        let mut bench = Bench::default();
        assert_eq!(bench.round(0), Verdict::Write);
        assert_eq!(bench.round(100), Verdict::Write);
        assert_eq!(bench.round(300), back_off(60, true));
        assert_eq!(bench.undone(310), back_off(50, false));
        assert_eq!(bench.undone(359), back_off(1, false));
        assert_eq!(bench.undone(360), Verdict::Write);
        assert_eq!(bench.counted, 3);
    }

    #[test]
    fn three_undone_writes_in_more_than_five_minutes_are_answered_at_once() {
        let mut bench = Bench::default();
        assert_eq!(bench.round(0), Verdict::Write);
        assert_eq!(bench.round(100), Verdict::Write);
        assert_eq!(bench.round(301), Verdict::Write);
        assert_eq!(bench.round(302), back_off(60, true));
    }

    #[test]
    fn an_undoing_counts_once_however_often_it_is_seen() {
        let mut bench = Bench::default();
        bench.wrote(0);
        for second in 1..20 {
            assert_eq!(bench.undone(second), Verdict::Write);
        }
        assert_eq!(bench.counted, 1);
    }

    #[test]
    fn the_wait_doubles_up_to_an_hour_and_the_rival_is_named_once() {
        let mut bench = Bench::default();
        bench.round(0);
        bench.round(0);
        let mut now = 0;
        let mut waits = Vec::new();
        for _ in 0..9 {
            let Verdict::BackOff { wait, first } = bench.round(now) else {
                panic!("contested at {now}");
            };
            waits.push((wait.as_secs() / MIN, first));
            now += wait.as_secs();
            assert_eq!(bench.undone(now - 1), back_off(1, false));
            assert_eq!(bench.undone(now), Verdict::Write);
        }
        assert_eq!(
            waits,
            [
                (1, true),
                (2, false),
                (4, false),
                (8, false),
                (16, false),
                (32, false),
                (60, false),
                (60, false),
                (60, false)
            ]
        );
    }

    #[test]
    fn a_value_that_must_not_be_missing_long_is_answered_at_a_pace_of_its_own() {
        let mut bench = Bench::default();
        let pace = Pace {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(3),
        };
        let waits: Vec<_> = (0..5)
            .map(|round| {
                bench.wrote(round * 3);
                bench.undone_at(pace, round * 3)
            })
            .collect();
        let [write, left] = [Verdict::Write, back_off(3, false)];
        assert_eq!(waits, [write, write, back_off(1, true), back_off(2, false), left]);
    }

    #[test]
    fn a_contested_value_left_alone_for_more_than_an_hour_is_forgiven() {
        for (after, verdict) in [
            (60 * MIN, back_off(2 * MIN, false)),
            (60 * MIN + 1, Verdict::Write),
        ] {
            let mut bench = Bench::default();
            (0..3).for_each(|_| {
                bench.round(0);
            });
            bench.wrote(MIN);
            assert_eq!(
                bench.undone(MIN + after),
                verdict,
                "undone {after} s after the write"
            );
        }
    }

    #[test]
    fn a_new_wanted_value_does_not_put_off_forgiveness() {
        let mut bench = Bench::default();
        (0..3).for_each(|_| {
            bench.round(0);
        });
        bench.wrote(MIN);
        bench.wrote(40 * MIN);
        assert_eq!(bench.undone(62 * MIN), Verdict::Write);
        assert_eq!(bench.round(62 * MIN), Verdict::Write);
    }

    #[test]
    fn a_forgotten_object_has_no_history() {
        let mut bench = Bench::default();
        bench.round(0);
        bench.round(0);
        bench.rivals.forget(&"node-1");
        assert_eq!(bench.round(0), Verdict::Write);
    }

    #[test]
    fn settled_objects_do_not_pile_up_and_contested_ones_stay() {
        let mut rivals = Contests::default();
        for _ in 0..3 {
            rivals.wrote(&u64::MAX, at(0));
            rivals.undone(Pace::default(), &u64::MAX, at(0));
        }
        for second in 0..3000 {
            rivals.wrote(&second, at(second));
        }
        // At most twice what the last five minutes hold.
        assert!(rivals.records.len() <= 2 * 302 + 1);
        assert!(rivals.records.contains_key(&u64::MAX));
    }

    #[test]
    fn a_manager_is_named_once_an_hour() {
        let mut bench = Bench::default();
        assert!(bench.rivals.may_warn("kubectl", at(0)));
        assert!(!bench.rivals.may_warn("kubectl", at(60 * MIN - 1)));
        assert!(bench.rivals.may_warn("helm", at(1)));
        assert!(bench.rivals.may_warn("kubectl", at(60 * MIN)));
    }

    #[test]
    fn the_manager_that_wrote_the_field_last_is_named() {
        let entry = |manager: &str, time: serde_json::Value, fields: serde_json::Value| {
            serde_json::from_value::<ManagedFieldsEntry>(
                json!({"manager": manager, "time": time, "fieldsV1": fields}),
            )
            .unwrap()
        };
        let ttl = json!({"f:metadata": {"f:annotations": {"f:example.com/ttl": {}}}});
        let path = ["f:metadata", "f:annotations", "f:example.com/ttl"];
        let entries = [
            entry("untimed", json!(null), ttl.clone()),
            entry("late", json!("2026-01-02T00:00:00Z"), ttl.clone()),
            entry("early", json!("2026-01-01T00:00:00Z"), ttl.clone()),
            entry(
                "elsewhere",
                json!("2026-01-03T00:00:00Z"),
                json!({"f:metadata": {"f:labels": {"f:example.com/ttl": {}}}}),
            ),
            entry("odd", json!("2026-01-03T00:00:00Z"), json!("not a map")),
        ];
        assert_eq!(manager_of(&entries, &path).as_deref(), Some("late"));
        assert_eq!(manager_of(&entries[..1], &path).as_deref(), Some("untimed"));
        assert_eq!(manager_of(&entries[3..], &path), None);
    }

    proptest! {
        /// A rival that undoes after the given delays, against a caller that syncs every given number of seconds
        /// and writes as soon as it may.
        #[test]
        fn a_rival_is_never_answered_in_a_hot_loop(
            delays in prop::collection::vec(0u64..400, 1..40),
            sync in 1u64..90,
        ) {
            let mut bench = Bench::default();
            let (mut now, mut undoings, mut contested_writes) = (0, Vec::new(), Vec::new());
            let mut contested = false;
            for delay in delays {
                bench.wrote(now);
                if contested {
                    contested_writes.push(now);
                }
                now += delay;
                undoings.push((now, delay));
                while let Verdict::BackOff { first, .. } = bench.undone(now) {
                    prop_assert_eq!(first, !contested, "named at {}", now);
                    contested = true;
                    now += sync;
                }
                if !contested {
                    let recent = undoings.iter().filter(|(at, delay)| *delay <= 300 && now - at <= 300);
                    prop_assert!(recent.count() < 3, "at {}", now);
                }
            }
            for pair in contested_writes.windows(2) {
                prop_assert!(pair[1] - pair[0] >= 60, "{:?}", pair);
            }
        }
    }
}
