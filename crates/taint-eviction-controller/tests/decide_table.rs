//! The rules, case by case.
//!
//! Upstream's tables (`pkg/controller/tainteviction`), all covered; what differs on purpose names its rule:
//!
//! | upstream test | case | here |
//! |---|---|---|
//! | `TestFilterNoExecuteTaints` | | `src/view/wire.rs::nodes_without_no_execute_taints_are_not_kept` |
//! | `TestCreatePod` | not scheduled - ignore | `src/view/wire.rs::pods_without_a_node_are_not_kept` |
//! | | scheduled on untainted Node | `no_taint_never_evicts` |
//! | | schedule on tainted Node | `a_pod_on_a_tainted_node_is_judged_by_its_tolerations::no_toleration` |
//! | | … with finite toleration | `…::tolerated_for_a_time` |
//! | | … with infinite toleration | `…::tolerated_for_ever` |
//! | | … with infinite invalid toleration | `…::another_taint_tolerated` |
//! | `TestDeletePod` | | `tests/route_table.rs::a_pod_that_is_gone_is_forgotten` |
//! | `TestUpdatePod` | scheduling onto tainted Node | `tests/sync/evictions.rs::a_pod_that_is_bound_to_a_tainted_node_is_evicted` |
//! | | … with toleration | `a_pod_on_a_tainted_node_is_judged_by_its_tolerations::tolerated_for_ever` |
//! | | removing toleration | `a_toleration_that_is_gone_means_eviction_at_once` |
//! | | lengthening toleration shouldn't work | `each_taint_keeps_its_own_deadline::a_longer_toleration_moves_nothing`; a shorter one does work (TE-5) |
//! | `TestCreateNode` | all | as `TestCreatePod`: a judgement does not know which of the two came first |
//! | `TestDeleteNode` | | `a_node_that_is_gone_has_no_taints`; the timers go too (TE-17) |
//! | `TestUpdateNode` | Added taint | `a_pod_on_a_tainted_node_is_judged_by_its_tolerations::no_toleration` |
//! | | Added tolerated taint | `…::tolerated_for_a_time` |
//! | | Only one added taint tolerated | `…::one_of_two_tolerated` |
//! | | Taint removed | `a_taint_that_is_removed_takes_its_deadline_with_it` |
//! | | Pod with multiple tolerations are evicted when first one runs out | `…::the_toleration_that_ends_first_counts` |
//! | `TestUpdateNodeWithMultipleTaints` | | `a_taint_that_is_removed_takes_its_deadline_with_it` |
//! | `TestUpdateNodeWithMultiplePods` | both | `tests/sync/evictions.rs::intolerant_at_once_five_seconds_at_five_endless_never`, `…::one_of_two_tolerated` |
//! | `TestGetMinTolerationTime` | all | `a_pod_on_a_tainted_node_is_judged_by_its_tolerations` (`no_toleration`, `tolerated_for_ever`, `the_toleration_that_ends_first_counts`, `for_ever_and_for_a_time`) |
//! | `TestEventualConsistency` | all | `tests/sync/evictions.rs::a_pod_that_is_bound_to_a_tainted_node_is_evicted` |
//! | `TestPodDeletionEvent` | both | `tests/sync/saved.rs::events_tell_who_was_to_go_and_who_stays`; with uid, taint, node and deadline (TE-11) |
//! | `timed_workers_test.go` | all | `controller-core/tests/event_loop/times.rs` |
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use controller_core::meta::{ObjectKey, Uid};
use jiff::{SignedDuration, Timestamp};
use rstest::rstest;
use taint_eviction_controller::decide::{
    Judgement, JudgementTime, KeepReason, Moment, PendingEviction, Rules, Sight, TaintMemory, TaintStay,
    Tolerated, Verdict, bound, by_least_held, clock_ahead, first_sight_counts, judge, retry_wait, since,
};
use taint_eviction_controller::view::{Operator, PodView, Taint, Toleration};

const RULES: Rules = Rules {
    comparison_operators: false,
    catch_up_grace: Duration::from_secs(30),
    toleration_extensions: false,
};
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// This number of seconds after noon; before it, where negative.
fn at(seconds: i64) -> Timestamp {
    let noon: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    noon.checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

/// At `seconds` after noon, by clocks that agree, after we have seen for long.
fn now(seconds: i64) -> JudgementTime {
    JudgementTime {
        ours: at(seconds),
        ahead: SignedDuration::ZERO,
        behind: SignedDuration::ZERO,
        sight: Sight::none().regained(Timestamp::MIN),
    }
}

/// Added when it was seen, at noon.
fn taint(key: &str) -> Taint {
    added(key, 0)
}

fn added(key: &str, seconds: i64) -> Taint {
    Taint {
        key: key.into(),
        value: "v".into(),
        time_added: Some(at(seconds)),
    }
}

fn undated(key: &str) -> Taint {
    Taint {
        time_added: None,
        ..taint(key)
    }
}

fn tolerates(key: &str, seconds: impl Into<Option<i64>>) -> Toleration {
    Toleration {
        key: key.into(),
        operator: Operator::Exists,
        value: "".into(),
        seconds: seconds.into(),
    }
}

/// Bound a minute before noon.
fn pod(tolerations: impl Into<Vec<Toleration>>) -> PodView {
    PodView {
        key: ObjectKey::namespaced("ns", "p"),
        uid: Uid::from("uid"),
        node: "n".into(),
        tolerations: Arc::new(tolerations.into()),
        bound: Some(at(-60)),
        generation: 1,
        deleting: false,
    }
}

/// A node's taints over time, and one pod on it.
#[derive(Default)]
struct Story {
    state: TaintMemory,
    remembered: Vec<Tolerated>,
}

impl Story {
    fn taints(&mut self, seconds: i64, taints: &[Taint]) {
        self.state.observe(&"n".into(), taints, at(seconds));
    }

    fn seen(&self) -> Arc<[TaintStay]> {
        self.state.of("n")
    }

    fn judge(&mut self, pod: &PodView, now: &JudgementTime) -> Verdict {
        let bound = bound(pod, now.ours);
        let Judgement { verdict, remembered } =
            judge(pod, bound, &self.seen(), &self.remembered, now, &RULES);
        self.remembered = remembered;
        verdict
    }

    /// The deadline in seconds after noon.
    fn deadline(&mut self, pod: &PodView, seconds: i64) -> Option<i64> {
        match self.judge(pod, &now(seconds)) {
            Verdict::Evict(pending) => Some(after_noon(pending.deadline)),
            Verdict::Keep(_) => None,
        }
    }

    /// When to act, in seconds after noon; none while that is not known.
    fn acts(&mut self, pod: &PodView, now: &JudgementTime) -> Option<i64> {
        match self.judge(pod, now) {
            Verdict::Evict(pending) => pending.at.map(after_noon),
            Verdict::Keep(because) => panic!("kept: {because:?}"),
        }
    }
}

fn after_noon(time: Timestamp) -> i64 {
    time.duration_since(at(0)).as_secs()
}

fn with_taints(taints: &[Taint]) -> Story {
    let mut story = Story::default();
    story.taints(0, taints);
    story
}

fn evicted(taint: Taint, deadline: i64) -> Verdict {
    Verdict::Evict(PendingEviction {
        taint: Arc::new(taint),
        deadline: at(deadline),
        at: Some(at(deadline)),
    })
}

#[rstest]
#[case::no_toleration(&[], &["a"], evicted(taint("a"), 0))]
#[case::another_taint_tolerated(&[tolerates("b", None)], &["a"], evicted(taint("a"), 0))]
#[case::one_of_two_tolerated(&[tolerates("a", 100)], &["a", "b"], evicted(taint("b"), 0))]
#[case::tolerated_for_ever(&[tolerates("a", None)], &["a"], Verdict::Keep(KeepReason::ToleratesForEver))]
#[case::tolerated_for_a_time(&[tolerates("a", 100)], &["a"], evicted(taint("a"), 100))]
#[case::tolerated_for_no_time(&[tolerates("a", 0)], &["a"], evicted(taint("a"), 0))]
#[case::tolerated_for_less_than_no_time(&[tolerates("a", i64::MIN)], &["a"], evicted(taint("a"), 0))]
#[case::for_ever_and_for_a_time(
    &[tolerates("a", None), tolerates("b", 1)], &["a", "b"], evicted(taint("b"), 1)
)]
#[case::the_toleration_that_ends_first_counts(
    &[tolerates("a", 100), tolerates("b", 1)], &["a", "b"], evicted(taint("b"), 1)
)]
#[case::the_first_toleration_that_matches_is_used(
    &[tolerates("a", 5), tolerates("a", None)], &["a"], evicted(taint("a"), 5)
)]
fn a_pod_on_a_tainted_node_is_judged_by_its_tolerations(
    #[case] tolerations: &[Toleration],
    #[case] taints: &[&str],
    #[case] expected: Verdict,
) {
    let taints: Vec<_> = taints.iter().map(|key| taint(key)).collect();
    assert_eq!(with_taints(&taints).judge(&pod(tolerations), &now(0)), expected);
}

#[test]
fn no_taint_never_evicts() {
    let verdict = with_taints(&[]).judge(&pod([]), &now(1_000_000));
    assert_eq!(verdict, Verdict::Keep(KeepReason::Untainted));
}

#[test]
fn a_pod_that_is_being_deleted_is_left_alone() {
    let deleting = PodView {
        deleting: true,
        ..pod([])
    };
    let verdict = with_taints(&[taint("a")]).judge(&deleting, &now(0));
    assert_eq!(verdict, Verdict::Keep(KeepReason::BeingDeleted));
}

#[rstest]
#[case::equal("k", Operator::Equal, "v", true)]
#[case::another_value("k", Operator::Equal, "w", false)]
#[case::another_key("l", Operator::Equal, "v", false)]
#[case::exists("k", Operator::Exists, "", true)]
#[case::exists_whatever_its_value("k", Operator::Exists, "w", true)]
#[case::any_key("", Operator::Exists, "", true)]
#[case::any_key_of_the_same_value("", Operator::Equal, "v", true)]
#[case::unknown("k", Operator::Unknown, "v", false)]
fn a_toleration_matches_a_taint(
    #[case] key: &str,
    #[case] operator: Operator,
    #[case] value: &str,
    #[case] expected: bool,
) {
    let toleration = Toleration {
        key: key.into(),
        operator,
        value: value.into(),
        seconds: None,
    };
    assert_eq!(toleration.tolerates(&taint("k")), expected);
}

#[rstest]
#[case::less("9", Operator::Lt, "10", true)]
#[case::not_less("10", Operator::Lt, "10", false)]
#[case::greater("-1", Operator::Gt, "-2", true)]
#[case::not_greater("-2", Operator::Gt, "-1", false)]
#[case::zero("0", Operator::Gt, "-1", true)]
#[case::a_leading_zero("010", Operator::Gt, "1", false)]
#[case::a_plus("+10", Operator::Gt, "1", false)]
#[case::minus_zero("-0", Operator::Lt, "1", false)]
#[case::a_fraction("1.5", Operator::Gt, "1", false)]
#[case::empty("", Operator::Lt, "1", false)]
#[case::beyond_64_bits("9223372036854775808", Operator::Gt, "1", false)]
#[case::the_toleration_is_no_number("5", Operator::Lt, "many", false)]
fn numbers_are_compared_only_behind_the_gate(
    #[case] taints: &str,
    #[case] operator: Operator,
    #[case] tolerations: &str,
    #[case] expected: bool,
) {
    let taint = Taint {
        value: taints.into(),
        ..taint("k")
    };
    let toleration = Toleration {
        value: tolerations.into(),
        operator,
        ..tolerates("k", None)
    };
    assert_eq!(toleration.tolerates(&taint), expected);
}

#[rstest]
#[case::the_taint_came_last(added("a", -10), -60, -10)]
#[case::the_pod_came_last(added("a", -600), -60, -60)]
#[case::the_taint_has_no_time(undated("a"), -60, 0)]
#[case::the_taint_lies_ahead(added("a", 3600), -60, 0)]
#[case::the_pod_lies_ahead(added("a", -600), 3600, 0)]
fn a_toleration_runs_from_the_later_of_taint_and_binding(
    #[case] taint: Taint,
    #[case] bound: i64,
    #[case] start: i64,
) {
    let pod = PodView {
        bound: Some(at(bound)),
        ..pod([tolerates("a", 100)])
    };
    assert_eq!(with_taints(&[taint]).deadline(&pod, 0), Some(start + 100));
}

#[test]
fn what_lies_ahead_or_has_no_time_counts_from_its_first_sight() {
    assert_eq!(since(&taint("a"), at(5)), Moment::Stamped(at(0)));
    assert_eq!(since(&undated("a"), at(5)), Moment::Observed(at(5)));
    assert_eq!(since(&added("a", 6), at(5)), Moment::Observed(at(5)));
    let unbound = PodView {
        bound: None,
        ..pod([])
    };
    assert_eq!(bound(&pod([]), at(5)), Moment::Stamped(at(-60)));
    assert_eq!(bound(&unbound, at(5)), Moment::Observed(at(5)));
    assert!(first_sight_counts(&unbound, at(5)));
    assert!(first_sight_counts(&pod([]), at(-61)));
    assert!(!first_sight_counts(&pod([]), at(-60)));
}

/// A taint at noon that is tolerated for 100 s, judged at once; then something changes.
#[rstest]
#[case::a_longer_toleration_moves_nothing(200, &[taint("a")], 10, Some(100))]
#[case::a_shorter_one_moves_it_forward(50, &[taint("a")], 10, Some(50))]
#[case::a_time_that_is_filled_in_moves_it_no_later(100, &[added("a", 20)], 20, Some(100))]
#[case::another_taint_has_its_own(100, &[taint("a"), added("b", 20)], 20, Some(80))]
#[case::another_value_is_another_taint(100, &[Taint { value: "w".into(), ..added("a", 20) }], 20, Some(120))]
fn each_taint_keeps_its_own_deadline(
    #[case] seconds: i64,
    #[case] taints: &[Taint],
    #[case] time: i64,
    #[case] expected: Option<i64>,
) {
    let mut story = with_taints(&[taint("a")]);
    assert_eq!(story.deadline(&pod([tolerates("a", 100)]), 0), Some(100));
    story.taints(time, taints);
    let pod = pod([tolerates("a", seconds), tolerates("b", 60)]);
    assert_eq!(story.deadline(&pod, time), expected);
}

#[test]
fn a_taint_that_is_removed_takes_its_deadline_with_it() {
    let pod = pod([tolerates("a", None), tolerates("b", 60)]);
    let mut story = with_taints(&[]);
    assert_eq!(story.deadline(&pod, 0), None);
    story.taints(10, &[added("a", 10)]);
    assert_eq!(story.deadline(&pod, 10), None);
    story.taints(20, &[added("a", 10), added("b", 20)]);
    assert_eq!(story.deadline(&pod, 20), Some(80));
    story.taints(30, &[added("a", 10)]);
    assert_eq!(story.deadline(&pod, 30), None);
}

#[test]
fn a_taint_that_is_back_starts_anew_even_if_the_pod_was_not_judged_between() {
    let pod = pod([tolerates("a", 60)]);
    let mut story = with_taints(&[undated("a")]);
    assert_eq!(story.deadline(&pod, 0), Some(60));
    story.taints(10, &[]);
    story.taints(20, &[undated("a")]);
    assert_eq!(story.deadline(&pod, 20), Some(80));
}

#[test]
fn a_toleration_that_is_gone_means_eviction_at_once() {
    let mut story = with_taints(&[taint("a")]);
    assert_eq!(story.deadline(&pod([tolerates("a", 100)]), 0), Some(100));
    assert_eq!(story.acts(&pod([]), &now(10)), Some(0));
}

#[test]
fn the_two_taints_of_a_failed_node_are_one() {
    let pod = pod([tolerates(NOT_READY, 300), tolerates(UNREACHABLE, 300)]);
    let mut story = with_taints(&[added(NOT_READY, 0)]);
    assert_eq!(story.deadline(&pod, 0), Some(300));
    story.taints(100, &[added(UNREACHABLE, 100)]);
    assert_eq!(story.deadline(&pod, 100), Some(300));
    story.taints(200, &[added(UNREACHABLE, 100), added(NOT_READY, 200)]);
    assert_eq!(story.deadline(&pod, 200), Some(300));
    story.taints(250, &[added(NOT_READY, 200)]);
    assert_eq!(story.deadline(&pod, 250), Some(300));
    // Recovered in between: nothing is inherited.
    story.taints(260, &[]);
    story.taints(270, &[added(UNREACHABLE, 270)]);
    assert_eq!(story.deadline(&pod, 270), Some(570));
}

#[test]
fn a_swap_to_a_taint_that_is_tolerated_for_less_counts_that_time_from_the_swap() {
    let pod = pod([tolerates(NOT_READY, 300), tolerates(UNREACHABLE, 60)]);
    let mut story = with_taints(&[added(NOT_READY, 0)]);
    assert_eq!(story.deadline(&pod, 0), Some(300));
    story.taints(100, &[added(UNREACHABLE, 100)]);
    assert_eq!(story.deadline(&pod, 100), Some(160));
}

/// The watch of the node is behind that of the pod, as after an outage.
#[test]
fn a_taint_that_had_been_swapped_before_the_pod_came_counts_for_nothing() {
    let mut story = with_taints(&[added(UNREACHABLE, 0)]);
    let tolerations = [tolerates(NOT_READY, 45), tolerates(UNREACHABLE, 0)];
    let late = PodView {
        bound: Some(at(60)),
        ..pod(tolerations.clone())
    };
    assert_eq!(story.deadline(&late, 61), Some(60), "all that the cache knows");
    story.taints(65, &[added(NOT_READY, 30)]);
    assert_eq!(story.deadline(&late, 66), Some(105));

    let mut story = with_taints(&[added(UNREACHABLE, 0)]);
    let early = PodView {
        bound: Some(at(10)),
        ..pod(tolerations)
    };
    assert_eq!(story.deadline(&early, 11), Some(10));
    story.taints(65, &[added(NOT_READY, 30)]);
    assert_eq!(
        story.deadline(&early, 66),
        Some(10),
        "it was there when they were swapped"
    );
}

#[test]
fn a_node_that_is_gone_has_no_taints() {
    let mut story = with_taints(&[taint("a")]);
    assert!(story.state.is_tainted("n"));
    story.state.forget("n");
    assert!(!story.state.is_tainted("n"));
    assert_eq!(
        story.judge(&pod([]), &now(0)),
        Verdict::Keep(KeepReason::Untainted)
    );
}

/// Blind from 10 s to 100 s after noon.
fn back_at_100(seconds: i64) -> JudgementTime {
    let sight = Sight::none().regained(Timestamp::MIN);
    JudgementTime {
        sight: sight.lost(at(10), &RULES).regained(at(100)),
        ..now(seconds)
    }
}

#[rstest]
#[case::passed_before_we_went_blind(9, 9)]
#[case::passed_while_we_were_blind(20, 120)]
#[case::passed_just_before_we_saw_again(99, 130)]
#[case::is_yet_to_pass(101, 101)]
fn a_deadline_that_passed_while_we_were_blind_acts_after_a_grace(
    #[case] tolerated: i64,
    #[case] expected: i64,
) {
    let acts = with_taints(&[taint("a")]).acts(&pod([tolerates("a", tolerated)]), &back_at_100(100));
    assert_eq!(acts, Some(expected));
}

/// Our clock says 100 s after noon when the cluster's says 120 s.
#[rstest]
#[case::passed_while_we_were_blind(110, 130)]
#[case::passed_just_before_we_saw_again(119, 130)]
#[case::is_yet_to_pass(120, 120)]
fn a_slow_clock_takes_no_grace_away(#[case] tolerated: i64, #[case] expected: i64) {
    let slow = JudgementTime {
        behind: SignedDuration::from_secs(20),
        ..back_at_100(100)
    };
    let acts = with_taints(&[taint("a")]).acts(&pod([tolerates("a", tolerated)]), &slow);
    assert_eq!(acts, Some(expected));
}

#[test]
fn while_we_are_blind_only_what_nothing_tolerates_acts() {
    let blind = JudgementTime {
        sight: Sight::none().regained(Timestamp::MIN).lost(at(10), &RULES),
        ..now(50)
    };
    let mut story = with_taints(&[taint("a")]);
    assert_eq!(story.acts(&pod([tolerates("a", 20)]), &blind), None);
    assert_eq!(story.acts(&pod([tolerates("a", 9)]), &blind), Some(9));
    assert_eq!(story.acts(&pod([]), &blind), Some(0));
}

#[test]
fn a_blindness_that_comes_back_within_the_grace_is_the_same() {
    let sight = Sight::none().regained(Timestamp::MIN).lost(at(10), &RULES);
    let again = sight.regained(at(100)).lost(at(129), &RULES).regained(at(200));
    let pod = pod([tolerates("a", 20)]);
    let seen = |sight| JudgementTime { sight, ..now(200) };
    assert_eq!(with_taints(&[taint("a")]).acts(&pod, &seen(again)), Some(220));
    let another = sight.regained(at(100)).lost(at(130), &RULES).regained(at(200));
    assert_eq!(with_taints(&[taint("a")]).acts(&pod, &seen(another)), Some(20));
}

#[rstest]
#[case::an_hour(3600, 3600)]
#[case::two_seconds(2, 2)]
#[case::a_second_is_what_the_header_cuts_off(1, 0)]
#[case::they_agree(0, 0)]
#[case::ours_is_behind(-3600, 0)]
fn a_clock_counts_as_ahead_from_more_than_a_second(#[case] ahead: i64, #[case] expected: i64) {
    let ahead = SignedDuration::from_secs(ahead);
    assert_eq!(clock_ahead(ahead), SignedDuration::from_secs(expected));
}

/// Our clock says one hour more than the cluster's.
#[test]
fn a_fast_clock_evicts_nobody_early() {
    const HOUR: i64 = 3600;
    let fast = JudgementTime {
        ahead: SignedDuration::from_secs(HOUR),
        ..now(HOUR)
    };
    // Stamped by the cluster: moved to our clock.
    let mut stamped = Story::default();
    stamped.taints(HOUR, &[taint("a")]);
    assert_eq!(stamped.acts(&pod([tolerates("a", 20)]), &fast), Some(HOUR + 20));
    // First seen by us: on our clock already.
    let mut observed = Story::default();
    observed.taints(HOUR, &[undated("a")]);
    assert_eq!(observed.acts(&pod([tolerates("a", 20)]), &fast), Some(HOUR + 20));
    // Bound by the cluster's clock after a taint that we dated by ours.
    let late = PodView {
        bound: Some(at(100)),
        ..pod([tolerates("a", 20)])
    };
    let at_100 = JudgementTime {
        ours: at(HOUR + 100),
        ..fast
    };
    assert_eq!(observed.acts(&late, &at_100), Some(HOUR + 120));
}

#[rstest]
#[case::the_first(1, 0, 10)]
#[case::the_fifth(5, 0, 10)]
#[case::the_sixth(6, 0, 100)]
#[case::the_seventh(7, 0, 200)]
#[case::the_eleventh(11, 3, 3_200)]
#[case::the_twelfth(12, 6, 5_000)]
#[case::after_a_minute(30, 60, 7_500)]
#[case::after_an_hour(60, 3_600, 300_000)]
#[case::for_ever(u32::MAX, 1 << 40, 300_000)]
fn failures_are_retried_fast_then_ever_more_slowly(
    #[case] failures: u32,
    #[case] failing_for_seconds: u64,
    #[case] expected_millis: u64,
) {
    assert_eq!(
        retry_wait(failures, Duration::from_secs(failing_for_seconds)),
        Duration::from_millis(expected_millis)
    );
}

#[rstest]
#[case::the_longest_toleration(i64::MAX, Timestamp::MAX)]
#[case::the_shortest(i64::MIN, at(0))]
fn extremes_saturate(#[case] seconds: i64, #[case] expected: Timestamp) {
    let verdict = with_taints(&[taint("a")]).judge(&pod([tolerates("a", seconds)]), &now(0));
    let Verdict::Evict(pending) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(pending.deadline, expected);
}

#[test]
fn the_plan_is_of_the_pod_that_was_judged() {
    let pod = pod([]);
    let Verdict::Evict(pending) = with_taints(&[taint("a")]).judge(&pod, &now(0)) else {
        panic!("it tolerates nothing");
    };
    let eviction = pending.eviction(&pod);
    assert_eq!(eviction.pod, ObjectKey::namespaced("ns", "p"));
    assert_eq!(eviction.uid, Uid::from("uid"));
    assert_eq!((eviction.generation, &*eviction.node), (1, "n"));
    assert_eq!((&*eviction.taint, eviction.deadline), (&taint("a"), at(0)));
}

/// CPU time of this thread: other users of the machine do not count.
fn on_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

/// What it takes on average: a single run is too short to be measured.
fn average(mut run: impl FnMut()) -> Duration {
    const RUNS: u32 = 40;
    let start = on_cpu();
    (0..RUNS).for_each(|_| run());
    on_cpu().saturating_sub(start) / RUNS
}

/// What it takes to see, to read and to judge this number of taints, and a pod with as many tolerations.
fn cost(size: u32) -> Duration {
    let taints: Vec<_> = (0..size).map(|number| taint(&format!("k{number}"))).collect();
    let tolerations = (0..size).rev();
    let tolerations: Vec<_> = tolerations
        .map(|number| tolerates(&format!("k{number}"), 100))
        .collect();
    let pod = pod(tolerations);
    let mut story = with_taints(&taints);
    average(|| {
        story.taints(1, &taints);
        story.state.read(&"n".into(), &taints[1..], at(2));
        story.state.read(&"n".into(), &taints, at(3));
        assert_eq!(story.deadline(&pod, 4), Some(100));
        assert_eq!(story.remembered.len(), taints.len());
    })
}

/// A tenant writes the tolerations. The product of the two would be 64 times as much.
#[test]
fn eight_times_the_taints_and_tolerations_cost_about_eight_times_as_much() {
    let (few, many) = (cost(1_000), cost(8_000));
    assert!(many < 30 * few, "{few:?}, then {many:?}");
}

/// It matches what all before it left, so nothing after it matters.
#[test]
fn tolerations_without_a_key_cost_no_more_than_one() {
    let taints: Vec<_> = (0..8_000).map(|number| taint(&format!("k{number}"))).collect();
    let mut story = with_taints(&taints);
    let mut cost = |tolerations| {
        let pod = pod(vec![tolerates("", 100); tolerations]);
        average(|| assert_eq!(story.deadline(&pod, 4), Some(100)))
    };
    let (one, many) = (cost(1), cost(8_000));
    assert!(many < 8 * one, "{one:?}, then {many:?}");
}

/// `--toleration-extensions`.
#[test]
fn a_longer_toleration_counts_where_extensions_do() {
    let extends = Rules {
        toleration_extensions: true,
        ..RULES
    };
    for (rules, expected) in [(RULES, 60), (extends, 300)] {
        let taints = with_taints(&[taint("a")]).seen();
        let judged = |seconds, remembered: &[Tolerated], time| {
            let pod = pod([tolerates("a", seconds)]);
            judge(&pod, bound(&pod, at(0)), &taints, remembered, &now(time), &rules)
        };
        let first = judged(60, &[], 0);
        let Verdict::Evict(pending) = judged(300, &first.remembered, 30).verdict else {
            panic!("it is kept");
        };
        assert_eq!(pending.deadline, at(expected));
    }
}

/// The taint `held` is held back, and its pods tolerate nothing of it; `free` is tolerated for some seconds, or not.
#[rstest]
#[case::the_other_is_not_tolerated(None, "free")]
#[case::its_toleration_has_ended(Some(9), "free")]
#[case::its_toleration_lasts(Some(11), "held")]
fn the_taint_that_is_held_back_least_evicts(#[case] seconds: Option<i64>, #[case] by: &str) {
    let story = with_taints(&[taint("held"), taint("free")]);
    let tolerations = seconds.map(|seconds| tolerates("free", seconds));
    let (pod, now) = (pod(Vec::from_iter(tolerations)), now(10));
    let judge = |taints: &[TaintStay]| judge(&pod, bound(&pod, at(0)), taints, &[], &now, &RULES);
    let holds = |taint: &Taint| u8::from(&*taint.key == "held");
    let Verdict::Evict(pending) = by_least_held(&story.seen(), holds, now.ours, judge).verdict else {
        panic!("it stays");
    };
    assert_eq!(&*pending.taint.key, by);
}
