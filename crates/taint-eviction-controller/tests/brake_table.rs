//! The brake and the waits for budgets, case by case.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use jiff::Timestamp;
use rstest::rstest;
use taint_eviction_controller::decide::{
    Because, BrakeDecision, BrakeLimit, BrakeRules, BrakeSituation, LeaseNotes, PodsAndNodes, TaintSelector,
    ThroughBudgets, waits_until,
};
use taint_eviction_controller::view::Taint;

fn at(time: &str) -> Timestamp {
    format!("2026-01-01T{time}Z").parse().unwrap()
}

/// Five pods or two nodes within ten minutes.
fn rules() -> BrakeRules {
    BrakeRules {
        pods: Some(BrakeLimit::Number(5)),
        nodes: Some(BrakeLimit::Number(2)),
        window: Duration::from_mins(10),
        exempt: vec![],
        release_after: Some(Duration::from_mins(30)),
        lease: None,
    }
}

/// At noon, with nothing on the Lease.
fn situation(lease: &LeaseNotes, pods: usize, nodes: usize) -> BrakeSituation<'_> {
    BrakeSituation {
        now: at("12:00:00"),
        demand: PodsAndNodes { pods, nodes },
        all: PodsAndNodes { pods: 100, nodes: 10 },
        lease,
        ours: None,
        held_for: None,
        released: false,
    }
}

#[rstest]
#[case::nothing(0, 0, true)]
#[case::as_many_pods_as_may_go(5, 1, true)]
#[case::one_pod_more(6, 1, false)]
#[case::as_many_nodes_as_may_be(2, 2, true)]
#[case::one_node_more(3, 3, false)]
fn pods_go_while_the_demand_is_within_the_limits(
    #[case] pods: usize,
    #[case] nodes: usize,
    #[case] go: bool,
) {
    let decision = rules().decide(&situation(&LeaseNotes::default(), pods, nodes));
    let expected = if go {
        BrakeDecision::Admit(Because::WithinLimits)
    } else {
        BrakeDecision::Hold
    };
    assert_eq!(decision, expected);
}

#[rstest]
#[case::a_number("7", 1_000, 7)]
#[case::none("0", 1_000, 0)]
#[case::a_percentage("10%", 1_000, 100)]
#[case::rounds_down("10%", 19, 1)]
#[case::but_to_one("1%", 50, 1)]
#[case::of_nothing("50%", 0, 1)]
#[case::all("100%", 3, 3)]
fn a_percentage_rounds_down_and_lets_one_go(
    #[case] limit: &str,
    #[case] all: usize,
    #[case] expected: usize,
) {
    assert_eq!(limit.parse::<BrakeLimit>().unwrap().of(all), expected);
}

#[rstest]
#[case("")]
#[case("-1")]
#[case("1.5")]
#[case("0%")]
#[case("101%")]
#[case("%")]
#[case("ten")]
fn other_limits_are_refused(#[case] limit: &str) {
    assert_eq!(
        limit.parse::<BrakeLimit>(),
        Err("expected a whole number, or a percentage from 1% to 100%")
    );
}

#[rstest]
#[case::an_hour_ahead("2026-01-01T13:00:00Z", BrakeDecision::Admit(Because::Off(at("13:00:00"))))]
#[case::in_another_zone(
    "2026-01-01T14:00:00+01:00",
    BrakeDecision::Admit(Because::Off(at("13:00:00")))
)]
#[case::a_day_ahead("2026-01-02T12:00:00Z", BrakeDecision::Admit(Because::Off("2026-01-02T12:00:00Z".parse().unwrap())))]
#[case::more_than_a_day_ahead("2026-01-02T12:00:01Z", BrakeDecision::Hold)]
#[case::over("2026-01-01T12:00:00Z", BrakeDecision::Hold)]
#[case::no_time("tomorrow", BrakeDecision::Hold)]
fn a_person_switches_the_brake_off_for_a_day_at_most(#[case] until: &str, #[case] expected: BrakeDecision) {
    let lease = LeaseNotes {
        off_until: Some(until.to_owned()),
        ..LeaseNotes::default()
    };
    assert_eq!(rules().decide(&situation(&lease, 100, 10)), expected);
}

#[rstest]
#[case::held_for_long(30, false, true)]
#[case::not_yet(29, false, false)]
#[case::was_released_and_still_exceeds(0, true, true)]
fn a_hold_ends_after_the_time_that_is_set(#[case] minutes: u64, #[case] released: bool, #[case] go: bool) {
    let lease = LeaseNotes::default();
    let situation = BrakeSituation {
        held_for: Some(Duration::from_mins(minutes)),
        released,
        ..situation(&lease, 100, 10)
    };
    let decision = rules().decide(&situation);
    let expected = if go {
        BrakeDecision::Admit(Because::HeldLongEnough)
    } else {
        BrakeDecision::Hold
    };
    assert_eq!(decision, expected);
    let never = BrakeRules {
        release_after: None,
        ..rules()
    };
    assert_eq!(
        never.decide(&BrakeSituation {
            released: false,
            ..situation
        }),
        BrakeDecision::Hold
    );
}

/// What another leader evicted until 11:55:00 counts until 12:05:00.
#[rstest]
#[case::another_leader("12:04:59", None, BrakeDecision::Wait(at("12:05:00")))]
#[case::its_window_is_over("12:05:00", None, BrakeDecision::Admit(Because::WithinLimits))]
#[case::it_was_us("12:04:59", Some("11:55:00"), BrakeDecision::Admit(Because::WithinLimits))]
fn who_does_not_know_what_went_waits_for_a_window(
    #[case] now: &str,
    #[case] ours: Option<&str>,
    #[case] expected: BrakeDecision,
) {
    let lease = LeaseNotes {
        evicting_until: Some(at("11:55:00")),
        ..LeaseNotes::default()
    };
    let situation = BrakeSituation {
        now: at(now),
        ours: ours.map(at),
        ..situation(&lease, 1, 1)
    };
    assert_eq!(rules().decide(&situation), expected);
}

fn taint(key: &str, value: &str) -> Taint {
    Taint {
        key: key.into(),
        value: value.into(),
        time_added: None,
    }
}

#[rstest]
#[case::the_key("k", "k", "v", true)]
#[case::key_and_value("k=v", "k", "v", true)]
#[case::another_value("k=v", "k", "w", false)]
#[case::no_value("k=", "k", "", true)]
#[case::another_key("k", "k2", "", false)]
fn a_taint_is_selected_by_key_or_by_key_and_value(
    #[case] selector: &str,
    #[case] key: &str,
    #[case] value: &str,
    #[case] expected: bool,
) {
    let selector: TaintSelector = selector.parse().unwrap();
    assert_eq!(selector.selects(&taint(key, value)), expected);
}

#[rstest]
#[case::for_ever("k", Some(Timestamp::MAX))]
#[case::said_so("k:forever", Some(Timestamp::MAX))]
#[case::an_hour("k:1h", Some(at("13:00:00")))]
#[case::not_at_all("k:0s", Some(at("12:00:00")))]
#[case::the_first_counts("k=v:1h,k:2h", Some(at("13:00:00")))]
#[case::another_taint("other:1h", None)]
fn a_pod_waits_for_its_budgets_until(#[case] entries: &str, #[case] expected: Option<Timestamp>) {
    let entries: Vec<ThroughBudgets> = entries.split(',').map(|entry| entry.parse().unwrap()).collect();
    assert_eq!(waits_until(&entries, &taint("k", "v"), at("12:00:00")), expected);
}

#[rstest]
#[case::no_taint(":1h", "expected the key of a taint, or key=value")]
#[case::a_space("k v", "expected the key of a taint, or key=value")]
#[case::no_wait("k:", "expected a longest wait such as 1h, or forever, after the colon")]
#[case::a_number("k:5", "expected a longest wait such as 1h, or forever, after the colon")]
#[case::two_colons("k:1h:2h", "expected a longest wait such as 1h, or forever, after the colon")]
fn other_entries_are_refused(#[case] entry: &str, #[case] expected: &str) {
    assert_eq!(entry.parse::<ThroughBudgets>(), Err(expected));
}
