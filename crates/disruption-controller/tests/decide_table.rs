//! The rules, case by case.
//!
//! What upstream's own tests show, and where it is shown here:
//!
//! | `pkg/controller/disruption/disruption_test.go` | here |
//! |---|---|
//! | `TestNoSelector` | [`an_empty_selector_has_all_pods`]; `sync/budgets.rs::a_budget_has_the_pods_that_its_selector_selects` |
//! | `TestUnavailable` | [`an_integer_counts_the_pods_that_are_there`]; `sync/budgets.rs::a_budget_follows_its_pods_one_by_one` |
//! | `TestIntegerMaxUnavailable`, `TestNakedPod`, `TestStatusForUnmanagedPod`, `TestTotalUnmanagedPods` | [`pods_without_a_controller_allow_nothing_and_fail_nothing`]; `sync/notes.rs::pods_without_a_controller_are_told_once` (DIS-10: the event comes once, not at every sync) |
//! | `TestIntegerMaxUnavailableWithScaling`, `TestPercentageMaxUnavailableWithScaling` | [`the_numbers_follow_the_scale`]; `sync/scales/mod.rs::a_change_of_the_replicas_changes_the_budget_at_once` (DIS-12: without an event of a pod) |
//! | `TestUnsupportedControllerPod` | [`what_cannot_be_computed_allows_nothing_and_says_why`]; `sync/scales/kinds.rs::a_kind_whose_definition_comes_later_is_found` |
//! | `TestReplicaSet` | [`expected_pods_are_counted_or_the_sum_of_the_scales`] |
//! | `TestScaleResource` | [`a_scale_that_was_read_counts`]; `sync/scales/mod.rs::a_budget_counts_the_scale_of_the_controller` |
//! | `TestScaleFinderNoResource` | `src/discovery.rs::a_kind_scales_when_discovery_lists_a_scale_that_is_one`; `sync/scales/kinds.rs::a_kind_without_a_scale_is_named` (DIS-5: without the read that would be a 404) |
//! | `TestMultipleControllers` | [`expected_pods_are_counted_or_the_sum_of_the_scales`] |
//! | `TestReplicationController`, `TestStatefulSetController` | [`a_percentage_of_one_controller_is_of_its_scale`] |
//! | `TestTwoControllers` | [`two_controllers_add_up`] |
//! | `TestPDBNotExist` | `sync/budgets.rs::a_deleted_budget_leaves_nothing_behind` |
//! | `TestUpdateDisruptedPods` | [`entries_of_disrupted_pods_go_when_they_have_had_their_effect`] |
//! | `TestBasicFinderFunctions`, `TestDeploymentFinderFunction` | [`the_scale_of_a_controller_is_that_of_its_workload`] |
//! | `TestUpdatePDBStatusRetries` | `sync/races.rs::an_eviction_that_races_a_status_write_is_never_overwritten` |
//! | `TestInvalidSelectors` | [`what_the_api_server_would_refuse_fails_safe`] (DIS-9: and it observes the generation); `controller-core/src/selector.rs::what_the_api_server_refuses_is_invalid` |
//! | `TestStalePodDisruption` | [`a_disruption_that_does_not_come_is_stale_after_two_minutes`]; `sync/stale.rs` |
//! | `TestKeepExistingPDBConditionDuringSync` | `sync/budgets.rs::foreign_conditions_and_fields_stay` |
//!
//! | `test/integration/disruption`, `test/integration/evictions` | here |
//! |---|---|
//! | `TestPDBWithScaleSubresource` | `sync/scales/mod.rs::a_budget_counts_the_scale_of_the_controller` |
//! | `TestEmptySelector`, `TestSelectorsForPodsWithoutLabels` (v1) | `sync/budgets.rs::a_budget_has_the_pods_that_its_selector_selects`; v1beta1 is not served by Kubernetes 1.34 or newer |
//! | `TestPatchCompatibility` | `sync/requests.rs::one_status_write_is_one_patch_with_every_number`; patches of others are the API server's |
//! | `TestStalePodDisruption` | `sync/stale.rs` |
//! | `TestConcurrentEvictionRequests` | `sync/races.rs::two_drains_at_once_never_go_below_the_budget` |
//! | `TestTerminalPodEviction`, `TestEvictionVersions`, `TestEvictionWithFinalizers`, `TestEvictionWithUnhealthyPodEvictionPolicy`, `TestEvictionWithPrecondition` | none: they are about the Eviction API; `sync/disrupted.rs::an_eviction_is_counted_from_its_approval_to_the_end_of_its_pod` is our side of it |
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod owner_chains;

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::meta::Uid;
use disruption_controller::decide::{
    Builtin, Cause, Demand, DisruptedPod, Fate, LiveRead, MOST_READS, Numbers, Reading, Scale, SyncFailure,
    confirmed, demand, disrupted, fate, overdue, stale,
};
use disruption_controller::scales::Sources;
use disruption_controller::view::{Condition, DisruptionTarget, PdbView, Phase, PodView};
use jiff::Timestamp;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{World, at, now, owner, pdb, pod, workload};

fn min_available(amount: &Value) -> World {
    World::of(pdb(&json!({ "minAvailable": amount })))
}

fn max_unavailable(amount: &Value) -> World {
    World::of(pdb(&json!({ "maxUnavailable": amount })))
}

/// With a `ReplicaSet` of this size.
fn with_replica_set(mut world: World, replicas: i64) -> World {
    world.hold(Builtin::ReplicaSet, &workload("rs", "rs", replicas, None));
    world
}

fn unknown_kind() -> SyncFailure {
    SyncFailure::transient(Cause::UnknownKind("Widget".into(), "example.com/v1".into()))
}

fn replica_set() -> Arc<controller_core::meta::OwnerRef> {
    owner("apps/v1", "ReplicaSet", "rs", "rs")
}

#[test]
fn an_empty_selector_has_all_pods() {
    let world = World::of(pdb(&json!({ "minAvailable": 3, "selector": {} })));
    assert_eq!(world.numbers(), [0, 0, 3, 0]);
    world.add("a", None);
    world.put(pod("without-labels", &json!({ "labels": null })));
    assert_eq!(world.numbers(), [0, 2, 3, 2]);
}

#[test]
fn no_selector_has_no_pods() {
    let world = World::of(pdb(&json!({ "minAvailable": 3, "selector": null })));
    world.add("a", None);
    assert_eq!(world.numbers(), [0, 0, 3, 0]);
}

#[test]
fn an_integer_counts_the_pods_that_are_there() {
    let world = min_available(&json!(3));
    for count in 0..4 {
        assert_eq!(world.numbers(), [0, count, 3, count]);
        world.add(&count.to_string(), None);
    }
    assert_eq!(world.numbers(), [1, 4, 3, 4]);
    world.add_unready("0", None);
    assert_eq!(world.numbers(), [0, 3, 3, 4]);
}

#[test]
fn pods_without_a_controller_allow_nothing_and_fail_nothing() {
    for world in [max_unavailable(&json!(1)), min_available(&json!("28%"))] {
        assert_eq!(world.numbers(), [0, 0, 0, 0]);
        world.add("naked", None);
        assert_eq!(world.numbers(), [0, 1, 0, 0]);
        assert_eq!(world.snapshot().counts.unmanaged, 1);
    }
}

#[test]
fn the_numbers_follow_the_scale() {
    for (amount, first, then) in [
        (json!(2), [0, 1, 5, 7], [0, 1, 3, 5]),
        (json!("30%"), [0, 1, 4, 7], [0, 1, 3, 5]),
    ] {
        let world = with_replica_set(max_unavailable(&amount), 7);
        world.add("pod", Some(&replica_set()));
        assert_eq!(world.numbers(), first);
        assert_eq!(with_replica_set(world, 5).numbers(), then);
    }
    let world = with_replica_set(max_unavailable(&json!("30%")), 3);
    world.add("pod", Some(&replica_set()));
    assert_eq!(world.numbers(), [0, 1, 2, 3]);
}

#[test]
fn expected_pods_are_counted_or_the_sum_of_the_scales() {
    let percentage = with_replica_set(min_available(&json!("20%")), 10);
    percentage.add("pod", Some(&replica_set()));
    assert_eq!(percentage.numbers(), [0, 1, 2, 10]);
    let integer = with_replica_set(min_available(&json!(0)), 10);
    integer.add("pod", Some(&replica_set()));
    assert_eq!(integer.numbers(), [1, 1, 0, 1]);
    // More pods than the controller wants, and one of nobody.
    let small = with_replica_set(min_available(&json!("1%")), 1);
    for name in ["a", "b"] {
        small.add(name, Some(&replica_set()));
    }
    assert_eq!(small.numbers(), [1, 2, 1, 1]);
    small.add("rogue", None);
    assert_eq!(small.numbers(), [2, 3, 1, 1]);
    let neither = with_replica_set(World::of(pdb(&json!({}))), 10);
    neither.add("pod", Some(&replica_set()));
    assert_eq!(neither.numbers(), [0, 1, 0, 0]);
}

#[test]
fn a_percentage_of_one_controller_is_of_its_scale() {
    for (kind, api_version, name) in [
        (Builtin::ReplicationController, "v1", "ReplicationController"),
        (Builtin::StatefulSet, "apps/v1", "StatefulSet"),
    ] {
        let mut world = min_available(&json!("34%"));
        world.hold(kind, &workload("foobar", "uid", 3, None));
        let owner = owner(api_version, name, "foobar", "uid");
        // Without pods nobody knows of the controller.
        assert_eq!(world.numbers(), [0, 0, 0, 0]);
        for (pod, numbers) in [("a", [0, 1, 2, 3]), ("b", [0, 2, 2, 3]), ("c", [1, 3, 2, 3])] {
            world.add(pod, Some(&owner));
            assert_eq!(world.numbers(), numbers, "{name} {pod}");
        }
        world.add("rogue", None);
        assert_eq!(world.numbers(), [2, 4, 2, 3]);
    }
}

#[test]
fn two_controllers_add_up() {
    let mut world = min_available(&json!("28%"));
    let rc = owner("v1", "ReplicationController", "rc", "rc");
    let rs = owner("apps/v1", "ReplicaSet", "rs", "rs");
    let deployment = owner("apps/v1", "Deployment", "d", "d");
    world.hold(Builtin::ReplicationController, &workload("rc", "rc", 11, None));
    for number in 0..11 {
        match number {
            0..6 => world.add_unready(&format!("rc-{number}"), Some(&rc)),
            _ => world.add(&format!("rc-{number}"), Some(&rc)),
        }
    }
    assert_eq!(world.numbers(), [1, 5, 4, 11]);
    world.hold(Builtin::Deployment, &workload("d", "d", 11, None));
    world.hold(Builtin::ReplicaSet, &workload("rs", "rs", 5, Some(&deployment)));
    assert_eq!(world.numbers(), [1, 5, 4, 11]);
    for number in 0..11 {
        match number {
            0..7 => world.add_unready(&format!("rs-{number}"), Some(&rs)),
            _ => world.add(&format!("rs-{number}"), Some(&rs)),
        }
    }
    assert_eq!(world.numbers(), [2, 9, 7, 22]);
    world.add_unready("rs-10", Some(&rs));
    assert_eq!(world.numbers(), [1, 8, 7, 22]);
    world.add_unready("rs-9", Some(&rs));
    assert_eq!(world.numbers(), [0, 7, 7, 22]);
    world.add("rs-10", Some(&rs));
    assert_eq!(world.numbers(), [1, 8, 7, 22]);
}

#[test]
fn a_scale_that_was_read_counts() {
    let mut world = max_unavailable(&json!(5));
    let custom = owner("custom.k8s.io/v1", "customresource", "c", "uid");
    let uid = Uid::from("uid");
    world
        .readings
        .insert("c".into(), Reading::Scale { uid, replicas: 10 });
    for name in ["a", "b", "c", "d"] {
        world.add(name, Some(&custom));
    }
    let decision = world.decide();
    assert_eq!(world.numbers(), [0, 4, 5, 10]);
    // DIS-12: nobody tells when it changes.
    assert_eq!(decision.look_again, Some(at(30)));
}

#[rstest]
#[case::of_some("50%", 7, 4)]
#[case::of_none("1%", 1, 1)]
#[case::nothing("0%", 7, 0)]
#[case::all("100%", 7, 7)]
#[case::leading_zeroes("050%", 4, 2)]
fn percentages_round_up(#[case] percentage: &str, #[case] expected: i64, #[case] rounded: i64) {
    let asked = |field: &str| demand(&pdb(&json!({ field: percentage }))).unwrap();
    assert_eq!(asked("minAvailable").desired_healthy(expected), rounded);
    // The seed rounds down here, Kubernetes up.
    assert_eq!(
        asked("maxUnavailable").desired_healthy(expected),
        expected - rounded
    );
}

#[rstest]
#[case::min_of_nothing(Demand::Available(0), 5, 0)]
#[case::more_than_there_are(Demand::Available(9), 5, 9)]
#[case::all_may_go(Demand::Unavailable(9), 5, 0)]
#[case::the_largest(Demand::Available(i64::MAX), i64::MAX, i64::MAX)]
#[case::percent_of_the_largest(Demand::AvailablePercent(100), i64::MAX, i64::MAX / 100)]
#[case::percent_of_less_than_nothing(Demand::AvailablePercent(50), -5, 0)]
#[case::unavailable_of_less_than_nothing(Demand::Unavailable(5), i64::MIN, 0)]
fn what_is_desired_is_never_below_zero_and_saturates(
    #[case] demand: Demand,
    #[case] expected: i64,
    #[case] desired: i64,
) {
    assert_eq!(demand.desired_healthy(expected), desired);
}

#[rstest]
#[case::ready_ones(Demand::Available(2), 5, 5, [3, 5, 2, 5])]
#[case::too_few(Demand::Available(9), 5, 5, [0, 5, 9, 5])]
#[case::none_expected(Demand::Unavailable(1), 0, 5, [0, 5, 0, 0])]
#[case::less_than_none_expected(Demand::Unavailable(1), -3, 5, [0, 5, 0, -3])]
#[case::extremes(Demand::Available(i64::MAX), i64::MAX, i64::MAX, [0, i32::MAX, i32::MAX, i32::MAX])]
#[case::all_of_the_most(Demand::Available(0), i64::MAX, i64::MAX, [i32::MAX, i32::MAX, 0, i32::MAX])]
fn what_is_healthy_beyond_what_is_desired_may_go(
    #[case] demand: Demand,
    #[case] expected: i64,
    #[case] healthy: i64,
    #[case] numbers: [i32; 4],
) {
    let [allowed, current, desired, expected_pods] = numbers;
    let numbers = Numbers {
        allowed,
        current,
        desired,
        expected: expected_pods,
    };
    assert_eq!(Numbers::of(demand, expected, healthy), numbers);
}

#[rstest]
#[case::a_negative_number(json!({ "minAvailable": -1 }), "minAvailable is negative: -1")]
#[case::a_number_in_text(json!({ "maxUnavailable": "5" }), "maxUnavailable is neither a number nor a percentage: \"5\"")]
#[case::words(json!({ "minAvailable": "half" }), "minAvailable is neither a number nor a percentage: \"half\"")]
#[case::a_negative_percentage(
    json!({ "minAvailable": "-5%" }),
    "minAvailable is neither a number nor a percentage: \"-5%\""
)]
#[case::a_sign(json!({ "minAvailable": "%" }), "minAvailable is neither a number nor a percentage: \"%\"")]
#[case::a_fraction(json!({ "minAvailable": "1.5%" }), "minAvailable is neither a number nor a percentage: \"1.5%\"")]
#[case::over_all(json!({ "maxUnavailable": "101%" }), "maxUnavailable is over 100%: \"101%\"")]
#[case::beyond_all_numbers(
    json!({ "minAvailable": "99999999999999999999%" }),
    "minAvailable is over 100%: \"99999999999999999999%\""
)]
#[case::no_integer(json!({ "minAvailable": 1.5 }), "minAvailable is neither a number nor a percentage")]
#[case::both(
    json!({ "minAvailable": 1, "maxUnavailable": 1 }),
    "minAvailable and maxUnavailable are both set"
)]
#[case::a_selector_with_slashes(
    json!({ "minAvailable": 3, "selector": { "matchLabels": { "k8s.io/too/many/slashes": "value" } } }),
    "invalid selector: \"k8s.io/too/many/slashes\" is not the key of a label"
)]
#[case::a_selector_with_another_operator(
    json!({ "minAvailable": 3,
        "selector": { "matchExpressions": [{ "key": "foo", "operator": "illegal", "values": ["bar"] }] } }),
    "invalid selector: \"illegal\" is not an operator of a label selector"
)]
fn what_the_api_server_would_refuse_fails_safe(#[case] spec: Value, #[case] message: &str) {
    let world = World::of(pdb(&spec));
    world.add("pod", None);
    assert_eq!(world.failure(), message);
    assert_eq!(world.decide().look_again, Some(at(300)));
}

#[rstest]
#[case::a_replica_set("apps/v1", "ReplicaSet", "rs", "rs", Ok(("rs", 10)))]
#[case::one_of_the_old_group("extensions/v1beta1", "ReplicaSet", "rs", "rs", Ok(("rs", 10)))]
#[case::one_of_another_group("invalid/v1", "ReplicaSet", "rs", "rs", Err("rs"))]
#[case::one_of_another_uid("apps/v1", "ReplicaSet", "rs", "another", Err("rs"))]
#[case::one_of_another_name("apps/v1", "ReplicaSet", "another", "rs", Err("another"))]
#[case::a_replication_controller("v1", "ReplicationController", "rc", "rc", Ok(("rc", 12)))]
#[case::a_replication_controller_with_a_slash("/v1", "ReplicationController", "rc", "rc", Ok(("rc", 12)))]
#[case::a_replication_controller_of_another_group("apps/v1", "ReplicationController", "rc", "rc", Err("rc"))]
#[case::a_stateful_set("apps/v1", "StatefulSet", "ss", "ss", Ok(("ss", 14)))]
#[case::a_stateful_set_of_the_old_group("extensions/v1", "StatefulSet", "ss", "ss", Err("ss"))]
#[case::a_stateful_set_by_another_kind("apps/v1", "ReplicaSet", "ss", "ss", Err("ss"))]
#[case::a_replica_set_of_a_deployment("apps/v1", "ReplicaSet", "of-d", "of-d", Ok(("d", 16)))]
#[case::one_of_a_deployment_of_the_old_group("extensions/v1", "ReplicaSet", "of-d-old", "of-d-old", Ok(("d", 16)))]
#[case::one_of_a_deployment_of_another_group("apps/v1", "ReplicaSet", "of-other", "of-other", Ok(("of-other", 5)))]
#[case::one_of_another_kind("apps/v1", "ReplicaSet", "of-kind", "of-kind", Ok(("of-kind", 5)))]
#[case::one_of_a_deployment_that_the_informer_has_not(
    "apps/v1",
    "ReplicaSet",
    "of-gone",
    "of-gone",
    Err("gone")
)]
#[case::a_deployment_without_a_set("apps/v1", "Deployment", "d", "d", Ok(("d", 16)))]
#[case::another_kind("example.com/v1", "Widget", "w", "w", Err("w"))]
fn the_scale_of_a_controller_is_that_of_its_workload(
    #[case] api_version: &str,
    #[case] kind: &str,
    #[case] name: &str,
    #[case] uid: &str,
    #[case] expected: Result<(&str, i64), &str>,
) {
    let mut world = World::default();
    world.hold(Builtin::ReplicaSet, &workload("rs", "rs", 10, None));
    world.hold(Builtin::ReplicationController, &workload("rc", "rc", 12, None));
    world.hold(Builtin::StatefulSet, &workload("ss", "ss", 14, None));
    world.hold(Builtin::Deployment, &workload("d", "d", 16, None));
    for (set, above) in [
        ("of-d", owner("apps/v1", "Deployment", "d", "d")),
        ("of-d-old", owner("extensions/v1", "Deployment", "d", "d")),
        ("of-other", owner("deployment/v1", "Deployment", "d", "d")),
        ("of-kind", owner("apps/v1", "InvalidKind", "d", "d")),
        ("of-gone", owner("apps/v1", "Deployment", "gone", "gone")),
    ] {
        world.hold(Builtin::ReplicaSet, &workload(set, set, 5, Some(&above)));
    }
    let found = world.scale(&owner(api_version, kind, name, uid));
    let found = found.map(|scale| match scale {
        Scale::Of {
            uid, replicas, live, ..
        } => {
            assert!(!live);
            (uid.to_string(), replicas)
        }
        other => panic!("{other:?}"),
    });
    let expected = expected.map(|(uid, replicas)| (uid.to_owned(), replicas));
    // An error names the one whose scale must be read.
    assert_eq!(
        found.map_err(|owner| owner.name.to_string()),
        expected.map_err(str::to_owned)
    );
}

#[rstest]
#[case::a_scale(Reading::Scale { uid: Uid::from("w"), replicas: 3 }, "w", "w wants 3")]
#[case::of_another_uid(Reading::Scale { uid: Uid::from("another"), replicas: 3 }, "w", "gone")]
#[case::not_found(Reading::NotFound, "w", "gone")]
#[case::without_a_scale(
    Reading::Failed(SyncFailure::permanent(Cause::NoScale("widgets.example.com".into()))),
    "w",
    "for long: widgets.example.com does not implement the scale subresource"
)]
#[case::of_an_unknown_kind(
    Reading::Failed(unknown_kind()),
    "w",
    "for now: no matches for kind \"Widget\" in version \"example.com/v1\""
)]
#[case::that_failed_for_now(Reading::Failed(SyncFailure::transient(Cause::Unreadable("timeout".into()))), "w", "for now: timeout")]
#[case::that_failed_for_long(Reading::Failed(SyncFailure::permanent(Cause::Unreadable("forbidden".into()))), "w", "for long: forbidden")]
fn what_the_informers_do_not_have_is_read(
    #[case] reading: Reading,
    #[case] name: &str,
    #[case] expected: &str,
) {
    let mut world = World::default();
    world.readings.insert(name.to_owned(), reading);
    let told = match world.scale(&owner("example.com/v1", "Widget", "w", "w")).unwrap() {
        Scale::Of {
            uid, replicas, live, ..
        } => {
            assert!(live);
            format!("{uid} wants {replicas}")
        }
        Scale::Gone => "gone".to_owned(),
        Scale::Pods(_) => "its pods".to_owned(),
        Scale::Unknown(failure) if failure.transient => format!("for now: {failure}"),
        Scale::Unknown(failure) => format!("for long: {failure}"),
    };
    assert_eq!(told, expected);
}

#[test]
fn a_replica_set_counts_itself_only_once_a_read_says_that_its_deployment_is_gone() {
    let mut world = World::default();
    let above = owner("apps/v1", "Deployment", "d", "d");
    world.hold(Builtin::ReplicaSet, &workload("rs", "rs", 5, Some(&above)));
    assert_eq!(world.scale(&replica_set()), Err(above));
    let of = |scale: Scale| match scale {
        Scale::Of { uid, replicas, .. } => (uid.to_string(), replicas),
        other => panic!("{other:?}"),
    };
    world.readings.insert("d".into(), Reading::NotFound);
    assert_eq!(of(world.scale(&replica_set()).unwrap()), ("rs".to_owned(), 5));
    let uid = Uid::from("d");
    world
        .readings
        .insert("d".into(), Reading::Scale { uid, replicas: 9 });
    assert_eq!(of(world.scale(&replica_set()).unwrap()), ("d".to_owned(), 9));
    world.readings.insert(
        "d".into(),
        Reading::Failed(SyncFailure::transient(Cause::Unreadable("timeout".into()))),
    );
    assert!(matches!(world.scale(&replica_set()), Ok(Scale::Unknown(_))));
}

#[test]
fn a_scale_below_zero_hides_nothing_that_others_want() {
    let mut world = with_replica_set(max_unavailable(&json!(1)), 10);
    let hostile = owner("example.com/v1", "Widget", "w", "w");
    let uid = Uid::from("w");
    world.readings.insert(
        "w".into(),
        Reading::Scale {
            uid,
            replicas: i64::from(i32::MIN),
        },
    );
    world.add("a", Some(&replica_set()));
    world.add("b", Some(&hostile));
    assert_eq!(world.numbers(), [0, 2, 9, 10]);
}

#[test]
fn a_controller_that_is_gone_counts_nothing_while_all_its_pods_terminate() {
    let world = with_replica_set(max_unavailable(&json!(1)), 2);
    let gone = owner("apps/v1", "ReplicaSet", "gone", "gone");
    for name in ["a", "b"] {
        world.add(name, Some(&replica_set()));
    }
    for name in ["x", "y"] {
        world.add(name, Some(&gone));
    }
    assert_eq!(world.failure(), "found no controllers for pod \"x\" and 1 more");
    let terminating = |name: &str| PodView {
        controller: Some(Arc::clone(&gone)),
        deleting: true,
        ..pod(name, &json!({}))
    };
    world.put(terminating("x"));
    assert_eq!(world.failure(), "found no controllers for pod \"x\" and 1 more");
    world.put(terminating("y"));
    assert_eq!(world.numbers(), [1, 2, 1, 2]);
}

#[test]
fn what_cannot_be_computed_allows_nothing_and_says_why() {
    let mut world = max_unavailable(&json!(1));
    let custom = owner("example.com/v1", "Widget", "w", "w");
    world.readings.insert("w".into(), Reading::Failed(unknown_kind()));
    world.add("pod", Some(&custom));
    let decision = world.decide();
    let Some(write) = &decision.plan else {
        panic!("{decision:?}")
    };
    assert_eq!(write.numbers, None);
    assert_eq!(write.allowed(), 0);
    assert_eq!(write.condition.observed_generation, 1);
    assert_eq!(
        write.condition,
        Condition {
            allowed: false,
            reason: "SyncFailed".into(),
            message: "no matches for kind \"Widget\" in version \"example.com/v1\"".into(),
            observed_generation: 1,
            since: Some(now()),
        }
    );
    // Discovery is worth another try soon: that is the queue's.
    assert!(decision.result.unwrap_err().transient);
    assert_eq!(decision.look_again, None);
    world.apply(decision.plan.as_ref());
    assert_eq!(world.decide_at(at(60)).plan, None);
}

#[test]
fn the_message_of_a_condition_is_no_page() {
    let mut world = max_unavailable(&json!(1));
    world.add("pod", Some(&owner("example.com/v1", "Widget", "w", "w")));
    let page = format!("{}é{}", "x".repeat(1023), "y".repeat(100_000));
    world.readings.insert(
        "w".into(),
        Reading::Failed(SyncFailure::transient(Cause::Unreadable(page))),
    );
    let plan = world.decide().plan;
    let Some(write) = &plan else { panic!("{plan:?}") };
    assert_eq!(*write.condition.message, "x".repeat(1023));
    world.apply(plan.as_ref());
    assert_eq!(world.decide().plan, None);
}

#[test]
fn of_several_failures_always_the_same_is_reported_and_one_that_may_pass_is_tried_soon() {
    let long = |resource: &str| SyncFailure::permanent(Cause::NoScale(resource.to_owned()));
    let short = SyncFailure::transient(Cause::Unreadable("timeout".to_owned()));
    let forth = SyncFailure::first(vec![long("b"), short.clone(), long("a")]).unwrap();
    let back = SyncFailure::first(vec![long("a"), short, long("b")]).unwrap();
    assert_eq!(forth, back);
    assert_eq!(forth.to_string(), "a does not implement the scale subresource");
    assert!(forth.transient);
    assert_eq!(SyncFailure::first(Vec::new()), None);
}

/// In its state after `world` has been computed and written at [`now`].
fn written(mut world: World) -> World {
    let plan = world.decide().plan;
    world.apply(plan.as_ref());
    world
}

#[test]
fn nothing_is_written_when_the_status_says_it_all() {
    let world = min_available(&json!(1));
    for name in ["a", "b"] {
        world.add(name, None);
    }
    let mut world = written(world);
    assert_eq!(world.decide_at(at(1)).plan, None);
    let right = (*world.snapshot().pdb).clone();
    let changes: [fn(&mut PdbView); 9] = [
        |pdb| pdb.status.disruptions_allowed = 2,
        |pdb| pdb.status.current_healthy = 1,
        |pdb| pdb.status.desired_healthy = 0,
        |pdb| pdb.status.expected_pods = 1,
        |pdb| pdb.status.observed_generation = 0,
        |pdb| pdb.generation = 2,
        |pdb| pdb.status.condition = None,
        |pdb| pdb.status.condition.as_mut().unwrap().reason = "Other".into(),
        |pdb| {
            pdb.status.disrupted_pods.insert("gone".into(), now());
        },
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut wrong = right.clone();
        change(&mut wrong);
        world.put_pdb(wrong);
        let plan = world.decide_at(at(1)).plan;
        assert!(plan.is_some(), "{number}: {plan:?}");
    }
}

#[test]
fn the_condition_moves_its_time_only_with_its_status() {
    let world = min_available(&json!(1));
    world.add("a", None);
    world.add("b", None);
    let mut world = written(world);
    let condition = |world: &World, seconds: i64| {
        let Some(write) = world.decide_at(at(seconds)).plan else {
            panic!("nothing to write")
        };
        (
            write.condition.allowed,
            write.condition.reason.to_string(),
            write.condition.since.unwrap(),
        )
    };
    world.add("c", None);
    assert_eq!(condition(&world, 10), (true, "SufficientPods".to_owned(), now()));
    for name in ["a", "b"] {
        world.add_unready(name, None);
    }
    assert_eq!(
        condition(&world, 20),
        (false, "InsufficientPods".to_owned(), at(20))
    );
    let plan = world.decide_at(at(20)).plan;
    world.apply(plan.as_ref());
    // From one failure to the next it stays.
    let mut broken = (*world.snapshot().pdb).clone();
    broken.max_unavailable = broken.min_available.clone();
    world.put_pdb(broken);
    assert_eq!(condition(&world, 30), (false, "SyncFailed".to_owned(), at(20)));
}

fn here(name: &str, since: Timestamp, healthy: bool) -> DisruptedPod {
    DisruptedPod {
        name: name.into(),
        since,
        fate: Fate::Here {
            uid: Uid::from(name),
            healthy,
        },
    }
}

#[test]
fn pods_that_were_approved_to_go_are_not_healthy_for_two_minutes() {
    let entries = [
        here("ready", at(-119), true),
        here("unready", at(-60), false),
        here("late", at(-120), true),
        here("ahead", at(60), true),
    ];
    let sum = disrupted(&entries, now());
    assert_eq!(sum.healthy, 2);
    assert_eq!(sum.look_again, Some(at(1)));
    assert_eq!(sum.dropped, ["late".into()]);
    assert_eq!(sum.overdue, [("late".into(), Uid::from("late"))]);
    let hostile = [
        here("never", Timestamp::MAX, true),
        here("long-ago", Timestamp::MIN, true),
    ];
    let sum = disrupted(&hostile, now());
    assert_eq!((sum.healthy, sum.dropped.len()), (1, 1));
}

#[rstest]
#[case::more(2, true)]
#[case::as_much(3, false)]
#[case::less(4, false)]
fn a_write_allows_more_than_its_budget_does(#[case] held: i64, #[case] more: bool) {
    let world = min_available(&json!(1));
    for pod in ["a", "b", "c", "d"] {
        world.add(pod, None);
    }
    let mut write = world.decide().plan.unwrap();
    assert_eq!(write.allowed(), 3);
    let status = &mut Arc::make_mut(&mut write.pdb).status;
    status.disruptions_allowed = held;
    (status.current_healthy, status.desired_healthy) = (4, 1);
    status.observed_generation = write.condition.observed_generation;
    assert_eq!(write.allows_more(), more);
}

/// A budget of three pods allows nothing, before and after. By the numbers that it has, pods that are not ready may go, or
/// may not.
#[rstest]
#[case::they_may_by_now(2, 3, true)]
#[case::they_might_before(3, 3, false)]
#[case::nothing_was_desired(3, 0, true)]
fn a_write_by_which_pods_that_are_not_ready_may_go_allows_more(
    #[case] current: i64,
    #[case] desired: i64,
    #[case] more: bool,
) {
    let world = min_available(&json!(3));
    for pod in ["a", "b", "c"] {
        world.add(pod, None);
    }
    let mut write = world.decide().plan.unwrap();
    assert_eq!(write.allowed(), 0);
    let status = &mut Arc::make_mut(&mut write.pdb).status;
    (status.current_healthy, status.desired_healthy) = (current, desired);
    status.observed_generation = write.condition.observed_generation;
    assert_eq!(write.allows_more(), more);
}

/// The Eviction API refuses while a budget has not been observed as it is.
#[test]
fn a_write_that_observes_a_budget_that_allows_something_allows_more() {
    let world = min_available(&json!(1));
    for pod in ["a", "b"] {
        world.add(pod, None);
    }
    let mut write = world.decide().plan.unwrap();
    let status = &mut Arc::make_mut(&mut write.pdb).status;
    (
        status.disruptions_allowed,
        status.current_healthy,
        status.desired_healthy,
    ) = (1, 2, 1);
    status.observed_generation = write.condition.observed_generation - 1;
    assert!(write.allows_more());
}

#[rstest]
#[case::as_it_is_two_minutes_later(LiveRead::Here(Uid::from("p"), at(0)), None)]
#[case::a_second_too_early_by_the_other_clock(LiveRead::Here(Uid::from("p"), at(-1)), Some(1))]
#[case::an_hour_too_early_by_the_other_clock(LiveRead::Here(Uid::from("p"), at(-3600)), Some(3600))]
#[case::another_pod_of_its_name(LiveRead::Here(Uid::from("next"), at(0)), Some(10))]
#[case::one_that_is_going_or_gone(LiveRead::Going, Some(10))]
#[case::not_read(LiveRead::Unread, Some(10))]
fn an_overdue_entry_goes_when_the_api_server_confirms_it(
    #[case] sight: LiveRead,
    #[case] again: Option<i64>,
) {
    let entry = here("p", at(-120), true);
    let mut entries = [entry.clone(), here("later", at(-119), true)];
    assert_eq!(overdue(&mut entries, now()).count(), 1);
    let fate = match again {
        None => entry.fate.clone(),
        Some(seconds) => Fate::Unconfirmed {
            healthy: true,
            again: at(seconds),
        },
    };
    assert_eq!(confirmed(&entry, &sight, now()), fate);
    let sum = disrupted(&[DisruptedPod { fate, ..entry }], now());
    assert_eq!(
        (sum.healthy, sum.look_again),
        (again.map_or(0, |_| 1), again.map(at))
    );
    assert_eq!(sum.dropped.len(), usize::from(again.is_none()));
}

/// What is too much is known before anything is read.
#[rstest]
#[case::as_many_as_are_read(MOST_READS, None)]
#[case::one_too_many(MOST_READS + 1, Some(Cause::TooManyControllers))]
fn controllers_are_counted_before_they_are_read(
    #[values(0, 3)] held: usize,
    #[case] unread: usize,
    #[case] expected: Option<Cause>,
) {
    let world = max_unavailable(&json!(1));
    for number in 0..held + unread {
        let (api_version, kind) = if number < held {
            ("apps/v1", "ReplicaSet")
        } else {
            ("example.com/v1", "Widget")
        };
        let name = number.to_string();
        world.add(&name, Some(&owner(api_version, kind, &name, &name)));
    }
    let sources = Sources {
        rules: &world.rules,
        held: &|_, key| Some(workload(&key.name, &key.name, 1, None)),
        kinds: &BTreeMap::new(),
        answer: &|_| None,
    };
    let scales = sources.scales(&world.snapshot());
    let scales = scales.inspect_err(|queries| assert!(!queries.is_empty()));
    let failed = scales.ok().map(|scales| {
        let failures = scales.into_values().filter_map(|scale| match scale {
            Scale::Unknown(failure) => Some(failure.cause),
            _ => None,
        });
        failures.collect::<Vec<_>>()
    });
    assert_eq!(failed, expected.map(|cause| vec![cause]));
}

#[test]
fn entries_of_disrupted_pods_go_when_they_have_had_their_effect() {
    let mut world = World::of(crate::support::decoded(&json!({
        "metadata": { "namespace": "ns", "name": "foobar", "uid": "pdb", "resourceVersion": "18", "generation": 1 },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "foo": "bar" } } },
        "status": { "disruptedPods": {
            "p1": "2026-01-01T12:00:00Z",
            "p2": "2026-01-01T11:57:00Z",
            "p3": "2026-01-01T11:59:00Z",
            "notthere": "2026-01-01T12:00:00Z",
            "elsewhere": "2026-01-01T12:00:00Z",
        } },
    })));
    world.put(PodView {
        deleting: true,
        ..pod("p1", &json!({}))
    });
    world.add("p2", None);
    world.add("p3", None);
    world.put(pod("elsewhere", &json!({ "labels": { "foo": "other" } })));
    let decision = world.decide();
    assert_eq!(world.numbers(), [0, 1, 1, 3]);
    let Some(write) = &decision.plan else {
        panic!("{decision:?}")
    };
    assert_eq!(
        write.dropped,
        ["elsewhere", "notthere", "p1", "p2"].map(Arc::<str>::from)
    );
    assert_eq!(write.overdue, [("p2".into(), Uid::from("p2"))]);
    assert_eq!(decision.look_again, Some(at(60)));
    world.apply(decision.plan.as_ref());
    let left = world.snapshot().entries;
    assert_eq!(left, [here("p3", at(-60), true)]);
}

#[rstest]
#[case::gone(None, Some("a"), Fate::Gone)]
#[case::terminating(Some(("a", true, -60)), Some("a"), Fate::Terminating)]
#[case::replaced_and_terminating(Some(("b", true, 1)), Some("a"), Fate::Terminating)]
#[case::replaced(Some(("b", false, 1)), Some("a"), Fate::Replaced)]
#[case::replaced_before_the_entry(Some(("b", false, -60)), Some("a"), Fate::Here { uid: Uid::from("b"), healthy: true })]
#[case::replaced_in_the_same_second(Some(("b", false, 0)), Some("a"), Fate::Here { uid: Uid::from("b"), healthy: true })]
#[case::the_same(Some(("a", false, -60)), Some("a"), Fate::Here { uid: Uid::from("a"), healthy: true })]
#[case::one_that_came_after_the_entry(Some(("a", false, 1)), None, Fate::Here { uid: Uid::from("a"), healthy: true })]
fn an_entry_is_about_the_pod_that_was_there_when_it_was_made(
    #[case] found: Option<(&str, bool, i64)>,
    #[case] seen: Option<&str>,
    #[case] expected: Fate,
) {
    let found = found.map(|(uid, deleting, created)| PodView {
        uid: Uid::from(uid),
        created: at(created).as_second(),
        deleting,
        ..pod("p", &json!({}))
    });
    let seen = seen.map(Uid::from);
    assert_eq!(fate(found.as_ref(), seen.as_ref(), now()), expected);
}

#[rstest]
#[case::wanted_to_go("EvictionByEvictionAPI", |_: &mut PodView| {}, Some(120))]
#[case::without_a_reason("", |_: &mut PodView| {}, Some(120))]
#[case::by_the_kubelet("TerminationByKubelet", |_: &mut PodView| {}, None)]
#[case::on_its_way("EvictionByEvictionAPI", |pod: &mut PodView| pod.deleting = true, None)]
#[case::over("EvictionByEvictionAPI", |pod: &mut PodView| pod.phase = Phase::Failed, None)]
#[case::not_wanted_to_go("", |pod: &mut PodView| pod.target = None, None)]
fn a_disruption_that_does_not_come_is_stale_after_two_minutes(
    #[case] reason: &str,
    #[case] change: fn(&mut PodView),
    #[case] from: Option<i64>,
) {
    let mut pod = PodView {
        target: Some(Arc::new(DisruptionTarget {
            reason: reason.into(),
            since: now(),
            version: "1".into(),
            generation: 1,
        })),
        ..pod("p", &json!({}))
    };
    change(&mut pod);
    assert_eq!(stale(&pod), from.map(at));
}
