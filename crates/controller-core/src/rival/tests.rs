use proptest::prelude::*;
use serde_json::json;

use super::*;

const MIN: u64 = 60;

/// What a caller may do about a value that another writer has replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Write,
    BackOff { wait: Duration, first: bool },
}

/// The record of one object, with times in seconds.
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
    // At most twice the number of records of the last five minutes.
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
    /// The rival undoes after the given delays; the caller syncs at the given interval in seconds and writes as soon as
    /// allowed.
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
