//! The rules as tables of literal cases.
//!
//! Upstream's tables (`pkg/controller/ttl/ttl_controller_test.go`, v1.37.2) and where they are covered:
//!
//! | upstream | here |
//! |---|---|
//! | `TestPatchNode` 0–5 | `a_node_is_written_only_when_its_value_differs`; the patch's bytes in `sync/boundary.rs::the_patch_holds_nothing_but_the_annotation` |
//! | `TestPatchNode` 6 (equal value, patch `{}`) | differs on purpose: nothing is sent (TTL-2), `a_node_is_written_only_when_its_value_differs` |
//! | `TestUpdateNodeIfNeeded` 0–5 | `a_node_is_written_only_when_its_value_differs` |
//! | `TestDesiredTTL` 0–8 | `the_step_follows_the_node_count_with_hysteresis` (each case is marked) |
//! | `test/integration/ttlcontroller` | `sync/boundary.rs` and `live/boundary.rs`: `the_boundary_scenario` |
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use controller_core::meta::ObjectKey;
use rstest::rstest;
use ttl_controller::decide::{AnnotationWrite, Step, first_step, plan, step};
use ttl_controller::view::{Annotation, NodeView};

fn at(number: usize) -> Step {
    Step::all().nth(number).unwrap()
}

fn node(annotation: Annotation) -> NodeView {
    NodeView {
        key: ObjectKey::cluster("node-1"),
        annotation,
    }
}

fn seconds(value: i64) -> Annotation {
    Annotation::Seconds(value)
}

fn text(value: &str) -> Annotation {
    Annotation::NotAnInteger(value.into())
}

#[rstest]
#[case::the_first_node_keeps_step_0_desired_ttl_0(0, 1, 0, 0)]
#[case::node_100_keeps_step_0_desired_ttl_1(0, 100, 0, 0)]
#[case::node_101_goes_one_up_desired_ttl_2(0, 101, 1, 15)]
#[case::back_to_100_stays_up_desired_ttl_3(1, 100, 1, 15)]
#[case::down_to_90_stays_up_desired_ttl_4(1, 90, 1, 15)]
#[case::up_to_92_stays_desired_ttl_5(1, 92, 1, 15)]
#[case::down_to_89_goes_one_down_desired_ttl_6(1, 89, 0, 0)]
#[case::down_to_1799_goes_one_down_desired_ttl_7(4, 1799, 3, 60)]
#[case::down_to_9999_stays_at_the_top_desired_ttl_8(4, 9999, 4, 300)]
#[case::an_empty_cluster_is_at_step_0(4, 0, 0, 0)]
#[case::step_1_ends_at_500(1, 500, 1, 15)]
#[case::node_501_goes_to_step_2(1, 501, 2, 30)]
#[case::step_2_holds_down_to_450(2, 450, 2, 30)]
#[case::down_to_449_goes_to_step_1(2, 449, 1, 15)]
#[case::step_2_ends_at_1000(2, 1000, 2, 30)]
#[case::node_1001_goes_to_step_3(2, 1001, 3, 60)]
#[case::step_3_holds_down_to_900(3, 900, 3, 60)]
#[case::down_to_899_goes_to_step_2(3, 899, 2, 30)]
#[case::step_3_ends_at_2000(3, 2000, 3, 60)]
#[case::node_2001_goes_to_step_4(3, 2001, 4, 300)]
#[case::step_4_holds_down_to_1800(4, 1800, 4, 300)]
#[case::a_jump_up_takes_several_steps(0, 5000, 4, 300)]
#[case::a_jump_down_takes_several_steps(4, 95, 1, 15)]
#[case::more_nodes_than_the_table_knows_stay_at_the_top(4, usize::MAX, 4, 300)]
fn the_step_follows_the_node_count_with_hysteresis(
    #[case] from: usize,
    #[case] nodes: usize,
    #[case] to: usize,
    #[case] ttl_seconds: i64,
) {
    let reached = step(at(from), nodes);
    assert_eq!(reached.number(), to);
    assert_eq!(reached.ttl_seconds(), ttl_seconds);
}

#[rstest]
#[case::nothing_there_and_0_wanted(Annotation::Missing, 0)]
#[case::nothing_there_and_15_wanted(Annotation::Missing, 15)]
#[case::another_value(seconds(0), 60)]
#[case::a_higher_value(seconds(60), 30)]
#[case::a_negative_value(seconds(-1), 0)]
#[case::a_huge_value(seconds(i64::MAX), 15)]
#[case::no_integer(text("15s"), 15)]
#[case::an_empty_text(text(""), 15)]
fn a_node_is_written_only_when_its_value_differs(#[case] annotation: Annotation, #[case] desired: i64) {
    let written = plan(&node(annotation.clone()), Some(desired));
    assert_eq!(
        written,
        Some(AnnotationWrite {
            node: ObjectKey::cluster("node-1"),
            ttl_seconds: Some(desired),
            replaces: annotation
        })
    );
}

#[rstest]
#[case::zero(0)]
#[case::sixty(60)]
fn a_node_that_carries_the_value_is_left_alone(#[case] value: i64) {
    assert_eq!(plan(&node(seconds(value)), Some(value)), None);
}

#[rstest]
#[case::an_integer("15", seconds(15))]
#[case::a_sign_as_atoi_takes_it("+15", seconds(15))]
#[case::leading_zeros("0015", seconds(15))]
#[case::negative("-1", seconds(-1))]
#[case::the_largest("9223372036854775807", seconds(i64::MAX))]
#[case::one_beyond_the_largest("9223372036854775808", text("9223372036854775808"))]
#[case::empty("", text(""))]
#[case::spaces(" 15", text(" 15"))]
#[case::a_fraction("15.0", text("15.0"))]
#[case::an_underscore("1_000", text("1_000"))]
#[case::only_a_sign("-", text("-"))]
fn the_annotation_is_read_as_the_kubelet_reads_it(#[case] written: &str, #[case] read: Annotation) {
    assert_eq!(Annotation::parse(written), read);
}

#[test]
fn a_monstrous_annotation_is_cut_at_a_character_boundary() {
    assert_eq!(Annotation::parse(&"ü".repeat(200_000)), text(&"ü".repeat(64)));
}

/// `carried`: how many nodes carry which value.
#[rstest]
#[case::no_nodes(&[], 0)]
#[case::a_new_cluster_climbs(&[(120, None)], 1)]
#[case::ninety_five_nodes_at_15_stay_at_15(&[(95, Some(15))], 1)]
#[case::ninety_five_nodes_at_0_stay_at_0(&[(95, Some(0))], 0)]
#[case::more_than_half_is_enough(&[(48, Some(15)), (47, None)], 1)]
#[case::exactly_half_is_not(&[(48, Some(15)), (48, None)], 0)]
#[case::a_majority_out_of_range_is_not_adopted(&[(95, Some(30))], 0)]
#[case::below_the_range_of_15(&[(89, Some(15))], 0)]
#[case::the_lowest_count_of_15(&[(90, Some(15))], 1)]
#[case::a_value_of_no_step_is_not_adopted(&[(95, Some(17))], 0)]
#[case::four_hundred_sixty_at_30_stay_at_30(&[(460, Some(30))], 2)]
#[case::four_hundred_sixty_at_15_stay_at_15(&[(460, Some(15))], 1)]
#[case::four_hundred_sixty_without_climb_to_15(&[(460, None)], 1)]
#[case::nineteen_hundred_at_300_stay(&[(1900, Some(300))], 4)]
#[case::nineteen_hundred_at_60_stay(&[(1900, Some(60))], 3)]
#[case::five_thousand_without_climb_to_the_top(&[(5000, None)], 4)]
fn a_start_adopts_what_most_nodes_carry_if_it_fits_the_count(
    #[case] carried: &[(usize, Option<i64>)],
    #[case] step: usize,
) {
    let annotations: Vec<Annotation> = carried
        .iter()
        .flat_map(|(count, value)| std::iter::repeat_n(value.map_or(Annotation::Missing, seconds), *count))
        .collect();
    assert_eq!(first_step(&annotations, Step::default()).number(), step);
}

#[test]
fn a_standby_that_takes_over_keeps_what_it_counted_when_no_majority_speaks() {
    let annotations = vec![Annotation::Missing; 95];
    assert_eq!(first_step(&annotations, at(1)).number(), 1);
    assert_eq!(first_step(&annotations, at(0)).number(), 0);
}

#[rstest]
#[case::an_integer(seconds(15))]
#[case::zero(seconds(0))]
#[case::no_integer(text("soon"))]
fn removal_takes_off_whatever_is_there(#[case] annotation: Annotation) {
    assert_eq!(
        plan(&node(annotation.clone()), None),
        Some(AnnotationWrite {
            node: ObjectKey::cluster("node-1"),
            ttl_seconds: None,
            replaces: annotation
        })
    );
}

#[test]
fn removal_leaves_a_node_without_the_annotation_alone() {
    assert_eq!(plan(&node(Annotation::Missing), None), None);
}
