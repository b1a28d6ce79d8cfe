//! What holds for every cluster, not just the tables' ones.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use controller_core::meta::ObjectKey;
use proptest::prelude::*;
use ttl_controller::decide::{Step, first_step, plan, step};
use ttl_controller::view::{Annotation, NodeView};

fn any_step() -> impl Strategy<Value = Step> {
    (0..5_usize).prop_map(|number| Step::all().nth(number).unwrap())
}

fn any_annotation() -> impl Strategy<Value = Annotation> {
    prop_oneof![
        Just(Annotation::Missing),
        prop::sample::select(vec![0, 15, 30, 60, 300]).prop_map(Annotation::Seconds),
        any::<i64>().prop_map(Annotation::Seconds),
        ".{0,8}".prop_map(|text| Annotation::parse(&text)),
    ]
}

fn node(annotation: Annotation) -> NodeView {
    NodeView {
        key: ObjectKey::cluster("n"),
        annotation,
    }
}

proptest! {
    #[test]
    fn the_step_reached_fits_the_count(from in any_step(), nodes in 0..6000_usize) {
        prop_assert!(step(from, nodes).nodes().contains(&nodes));
    }

    #[test]
    fn a_step_that_fits_is_kept(from in any_step(), nodes in 0..6000_usize) {
        let reached = step(from, nodes);
        prop_assert_eq!(step(reached, nodes), reached);
    }

    #[test]
    fn more_nodes_never_mean_a_lower_step(from in any_step(), nodes in 0..6000_usize, more in 0..6000_usize) {
        prop_assert!(step(from, nodes) <= step(from, nodes + more));
    }

    /// However fast the nodes come or go, a monotone walk ends at the same step as a single jump.
    #[test]
    fn a_walk_in_one_direction_ends_where_a_jump_does(from in 0..3000_usize, to in 0..3000_usize) {
        let start = step(Step::default(), from);
        let mut walked = start;
        let mut nodes = from;
        while nodes != to {
            if nodes < to { nodes += 1 } else { nodes -= 1 }
            walked = step(walked, nodes);
        }
        prop_assert_eq!(walked, step(start, to));
    }

    #[test]
    fn applying_the_plan_leaves_nothing_to_do(annotation in any_annotation(), at in any_step()) {
        let desired = Some(at.ttl_seconds());
        let carried = match plan(&node(annotation.clone()), desired) {
            Some(plan) => Annotation::of(plan.ttl_seconds),
            None => annotation,
        };
        prop_assert_eq!(plan(&node(carried), desired), None);
    }

    #[test]
    fn removal_leaves_nothing_to_remove(annotation in any_annotation()) {
        let left = match plan(&node(annotation.clone()), None) {
            Some(plan) => Annotation::of(plan.ttl_seconds),
            None => annotation,
        };
        prop_assert_eq!(&left, &Annotation::Missing);
        prop_assert_eq!(plan(&node(left), None), None);
    }

    /// The order in which the nodes were listed does not matter, and what is adopted fits the count.
    #[test]
    fn a_start_does_not_depend_on_the_order_of_the_list(
        mut annotations in prop::collection::vec(any_annotation(), 0..700),
        otherwise in any_step(),
    ) {
        let reached = first_step(&annotations, otherwise);
        annotations.reverse();
        prop_assert_eq!(first_step(&annotations, otherwise), reached);
        prop_assert!(reached.nodes().contains(&annotations.len()));
    }

    /// A restart of a settled cluster writes nothing.
    #[test]
    fn a_restart_of_a_settled_cluster_keeps_its_step(nodes in 1..3000_usize, at in any_step()) {
        let settled = step(at, nodes);
        let annotations = vec![Annotation::Seconds(settled.ttl_seconds()); nodes];
        prop_assert_eq!(first_step(&annotations, Step::default()), settled);
    }
}
