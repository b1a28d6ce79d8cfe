//! The rule, case by case.

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use tokio::time::Instant;

use super::settings::defaults;
use crate::clock::Clock;
use crate::leader::ElectionConfig;
use crate::leader::decide::{Decision, Observed, Role, decide, released};
use crate::leader::lease::{Lease, Record};

/// Wall time of every decision here.
const WALL: &str = "2026-01-01T12:00:00Z";
const NOW: &str = "2026-01-01T12:00:00.000000Z";
const EARLIER: &str = "2026-01-01T11:00:00.000000Z";

fn wall() -> Timestamp {
    WALL.parse().unwrap()
}

fn start() -> Instant {
    Clock::system().instant()
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A record held by `holder` with the usual duration, 3 transitions and old times.
fn held_by(holder: &str) -> Record {
    Record {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        acquire_time: Some(EARLIER.to_owned()),
        renew_time: Some(EARLIER.to_owned()),
        lease_transitions: Some(3),
    }
}

/// The record that we write when we take the Lease.
fn ours(transitions: i32) -> Record {
    Record {
        holder_identity: Some("us".to_owned()),
        lease_duration_seconds: Some(15),
        acquire_time: Some(NOW.to_owned()),
        renew_time: Some(NOW.to_owned()),
        lease_transitions: Some(transitions),
    }
}

fn lease(record: Record) -> Lease {
    Lease::new("kube-system", "ttl-controller", record)
}

fn config() -> ElectionConfig {
    defaults("us")
}

/// Observation after one read of `record`.
fn first_look(record: Option<Record>, at: Instant) -> Observed {
    Observed::next(None, record.map(lease), at, &config())
}

/// Decision of a standby, `after` its first read of `record`.
fn standby(record: Option<Record>, after: Duration) -> Said {
    let at = start();
    let seen = first_look(record, at);
    say(decide(&seen, Role::Standby, at + after, wall(), &config()), at)
}

/// A decision, with times since the start.
#[derive(Debug, PartialEq)]
enum Said {
    Create(Record),
    Take(Record),
    Renew(Record),
    Wait(Duration),
}

fn say(action: Decision, start: Instant) -> Said {
    match action {
        Decision::Create(lease) => Said::Create(lease.record),
        Decision::Take(lease) => Said::Take(lease.record),
        Decision::Renew(lease) => Said::Renew(lease.record),
        Decision::Wait(until) => Said::Wait(until - start),
    }
}

#[test]
fn a_missing_lease_is_created() {
    assert_eq!(standby(None, secs(0)), Said::Create(ours(0)));
}

#[test]
fn a_lease_that_somebody_holds_is_left_alone_until_it_expires() {
    let them = held_by("them");
    assert_eq!(standby(Some(them.clone()), secs(0)), Said::Wait(secs(15)));
    let nearly = Duration::from_millis(14_999);
    assert_eq!(standby(Some(them.clone()), nearly), Said::Wait(secs(15)));
    assert_eq!(standby(Some(them), secs(15)), Said::Take(ours(4)));
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let record = Record {
        lease_duration_seconds: Some(1),
        ..held_by("")
    };
    assert_eq!(standby(Some(record), secs(0)), Said::Take(ours(4)));
}

#[test]
fn a_lease_without_a_spec_is_taken_at_once() {
    assert_eq!(standby(Some(Record::default()), secs(0)), Said::Take(ours(1)));
}

#[test]
fn the_duration_in_the_record_counts_not_our_own_where_it_says_something() {
    for (in_record, counts) in [
        (Some(3), 3),
        (Some(i32::MAX), 2_147_483_647),
        (None, 15),
        (Some(0), 15),
        (Some(-5), 15),
        (Some(i32::MIN), 15),
    ] {
        let record = Record {
            lease_duration_seconds: in_record,
            ..held_by("them")
        };
        assert_eq!(standby(Some(record.clone()), secs(0)), Said::Wait(secs(counts)));
        assert_eq!(
            standby(Some(record), secs(counts)),
            Said::Take(ours(4)),
            "{in_record:?}"
        );
    }
}

#[test]
fn the_wall_clocks_of_others_do_not_matter() {
    for time in [
        "2026-01-01T07:00:00.000000Z",
        "2026-01-01T17:00:00.000000Z",
        "0001-01-01T00:00:00.000000Z",
        "9999-12-31T23:59:59.999999Z",
    ] {
        let record = Record {
            acquire_time: Some(time.to_owned()),
            renew_time: Some(time.to_owned()),
            ..held_by("them")
        };
        assert_eq!(standby(Some(record.clone()), secs(14)), Said::Wait(secs(15)));
        assert_eq!(standby(Some(record), secs(15)), Said::Take(ours(4)), "{time}");
    }
}

/// Decision of this role at `now`, after reading these records at these times.
fn after(looks: &[(Option<Record>, u64)], role: Role, now: u64) -> Said {
    let at = start();
    let mut seen = None;
    for (record, second) in looks {
        let record = record.clone().map(lease);
        seen = Some(Observed::next(
            seen.as_ref(),
            record,
            at + secs(*second),
            &config(),
        ));
    }
    say(
        decide(&seen.unwrap(), role, at + secs(now), wall(), &config()),
        at,
    )
}

#[test]
fn a_renewal_starts_the_wait_again_even_with_a_clock_that_runs_backwards() {
    let renewed = Record {
        renew_time: Some("2026-01-01T10:59:00.000000Z".to_owned()),
        ..held_by("them")
    };
    let looks = [(Some(held_by("them")), 0), (Some(renewed), 10)];
    assert_eq!(after(&looks, Role::Standby, 20), Said::Wait(secs(25)));
}

#[test]
fn a_change_that_leaves_the_record_alone_is_not_a_renewal() {
    let at = start();
    let labelled: Lease = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "ttl-controller", "resourceVersion": "9", "labels": {"a": "b"}},
        "spec": held_by("them"),
    }))
    .unwrap();
    let seen = first_look(Some(held_by("them")), at);
    let seen = Observed::next(Some(&seen), Some(labelled.clone()), at + secs(10), &config());
    let action = decide(&seen, Role::Standby, at + secs(15), wall(), &config());
    // The write still rests on the latest read.
    assert_eq!(action, Decision::Take(labelled.with(ours(4))));
}

#[test]
fn a_new_holder_has_the_whole_duration_again() {
    let looks = [(Some(held_by("them")), 0), (Some(held_by("others")), 14)];
    assert_eq!(after(&looks, Role::Standby, 15), Said::Wait(secs(29)));
}

#[test]
fn our_own_lease_is_renewed_with_its_acquire_time_and_transitions() {
    let expected = Record {
        acquire_time: Some(EARLIER.to_owned()),
        ..ours(3)
    };
    // Expired or not, nobody else has taken the Lease.
    for now in [0, 15, 10_000] {
        let renewed = after(&[(Some(held_by("us")), 0)], Role::Leader, now);
        assert_eq!(renewed, Said::Renew(expected.clone()));
    }
}

#[test]
fn after_a_restart_under_the_same_identity_the_lease_is_renewed_at_once() {
    let expected = Record {
        acquire_time: Some(EARLIER.to_owned()),
        ..ours(3)
    };
    assert_eq!(standby(Some(held_by("us")), secs(0)), Said::Renew(expected));
}

#[test]
fn a_lease_of_ours_without_an_acquire_time_gets_one() {
    let record = Record {
        acquire_time: None,
        lease_transitions: None,
        ..held_by("us")
    };
    assert_eq!(standby(Some(record), secs(0)), Said::Renew(ours(0)));
}

#[test]
fn a_leader_whose_lease_was_stolen_does_not_renew() {
    let looks = [(Some(ours(0)), 0), (Some(held_by("them")), 2)];
    assert_eq!(after(&looks, Role::Leader, 2), Said::Wait(secs(17)));
}

#[test]
fn a_leader_makes_its_deleted_lease_again_at_once() {
    let looks = [(Some(ours(3)), 0), (None, 2)];
    assert_eq!(after(&looks, Role::Leader, 2), Said::Create(ours(0)));
}

#[test]
fn a_standby_leaves_the_holder_of_a_deleted_lease_the_time_to_notice() {
    let looks = [(Some(held_by("them")), 0), (None, 10), (None, 12)];
    assert_eq!(after(&looks, Role::Standby, 24), Said::Wait(secs(25)));
    assert_eq!(after(&looks, Role::Standby, 25), Said::Create(ours(0)));
}

#[test]
fn a_standby_that_once_led_waits_for_a_deleted_lease_too() {
    let looks = [(Some(ours(3)), 0), (None, 60)];
    assert_eq!(after(&looks, Role::Standby, 60), Said::Wait(secs(75)));
}

#[test]
fn transitions_saturate_and_never_go_below_zero() {
    for (seen, written) in [
        (Some(i32::MAX), i32::MAX),
        (Some(-7), 1),
        (Some(i32::MIN), 1),
        (None, 1),
    ] {
        let record = Record {
            lease_transitions: seen,
            holder_identity: None,
            ..held_by("")
        };
        assert_eq!(standby(Some(record), secs(0)), Said::Take(ours(written)));
    }
}

#[test]
fn the_duration_is_written_in_whole_seconds_rounded_up() {
    let at = start();
    for (milliseconds, seconds) in [(1, 1), (1000, 1), (1001, 2), (1500, 2), (15_000, 15)] {
        let config = ElectionConfig {
            lease_duration: Duration::from_millis(milliseconds),
            ..config()
        };
        let seen = Observed::next(None, None, at, &config);
        let Decision::Create(lease) = decide(&seen, Role::Standby, at, wall(), &config) else {
            panic!("a missing lease is created");
        };
        assert_eq!(
            lease.record.lease_duration_seconds,
            Some(seconds),
            "{milliseconds} ms"
        );
    }
}

#[test]
fn a_release_keeps_the_transitions_and_names_nobody_for_one_second() {
    assert_eq!(
        released(&lease(held_by("us")), wall()).record,
        Record {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            acquire_time: Some(NOW.to_owned()),
            renew_time: Some(NOW.to_owned()),
            lease_transitions: Some(3),
        }
    );
}

fn any_record() -> impl Strategy<Value = Record> {
    (
        prop_oneof![
            Just(None),
            "[a-z]{0,2}".prop_map(Some),
            Just(Some("us".to_owned()))
        ],
        any::<Option<i32>>(),
        any::<Option<String>>(),
        any::<Option<String>>(),
        any::<Option<i32>>(),
    )
        .prop_map(|(holder, duration, acquired, renewed, transitions)| Record {
            holder_identity: holder,
            lease_duration_seconds: duration,
            acquire_time: acquired,
            renew_time: renewed,
            lease_transitions: transitions,
        })
}

proptest! {
    #[test]
    fn whatever_a_lease_says_the_rule_writes_what_the_server_accepts(
        first in proptest::option::of(any_record()),
        second in proptest::option::of(any_record()),
        after in 0..u64::from(u32::MAX),
        leading in any::<bool>(),
        wall_second in -377_705_023_201_i64..=253_402_207_200,
    ) {
        let at = start();
        let config = config();
        let role = if leading { Role::Leader } else { Role::Standby };
        let wall = Timestamp::from_second(wall_second).unwrap();
        let seen = Observed::next(None, first.map(lease), at, &config);
        let seen = Observed::next(Some(&seen), second.map(lease), at + secs(1), &config);
        match decide(&seen, role, at + secs(after), wall, &config) {
            Decision::Create(lease) | Decision::Take(lease) | Decision::Renew(lease) => {
                prop_assert_eq!(lease.record.holder(), Some("us"));
                prop_assert_eq!(lease.record.lease_duration_seconds, Some(15));
                prop_assert!(lease.record.lease_transitions >= Some(0));
            }
            Decision::Wait(until) => prop_assert!(until > at + secs(after)),
        }
    }

    /// The safety argument, for the waiting replica.
    #[test]
    fn nobody_takes_a_held_lease_before_its_duration_is_over(
        record in any_record().prop_filter("held by another", |r| r.holder().is_some_and(|h| h != "us")),
        after in 0..40_u64,
    ) {
        let duration = record.duration().unwrap_or(secs(15));
        let taken = matches!(standby(Some(record), secs(after)), Said::Take(_));
        prop_assert_eq!(taken, secs(after) >= duration);
    }
}
