//! Which changes wake what.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use controller_core::cache::Change;
use controller_core::meta::{ObjectKey, Uid};
use rstest::rstest;
use taint_eviction_controller::route::{PodChange, effect_of};
use taint_eviction_controller::view::{Operator, PodView, Toleration};

fn pod() -> PodView {
    PodView {
        key: ObjectKey::namespaced("ns", "p"),
        uid: Uid::from("uid"),
        node: "n".into(),
        tolerations: Arc::default(),
        bound: Some("2026-01-01T00:00:00Z".parse().unwrap()),
        generation: 1,
        deleting: false,
    }
}

#[test]
fn a_new_pod_is_judged() {
    assert_eq!(effect_of(&Change::Added(&Arc::new(pod()))), PodChange::Judge);
}

#[test]
fn a_pod_that_is_gone_is_forgotten() {
    assert_eq!(effect_of(&Change::Deleted(&Arc::new(pod()))), PodChange::Forget);
}

#[rstest]
#[case::another_generation(PodView { generation: 2, ..pod() }, PodChange::Nothing)]
#[case::on_its_way(PodView { deleting: true, ..pod() }, PodChange::Forget)]
#[case::another_uid(PodView { uid: Uid::from("other"), ..pod() }, PodChange::Judge)]
#[case::another_node(PodView { node: "m".into(), ..pod() }, PodChange::Judge)]
#[case::bound_at_another_time(PodView { bound: None, ..pod() }, PodChange::Judge)]
#[case::other_tolerations(
    PodView {
        tolerations: Arc::new(vec![Toleration {
            key: "k".into(),
            operator: Operator::Exists,
            value: "".into(),
            seconds: None,
        }]),
        ..pod()
    },
    PodChange::Judge
)]
fn only_what_a_rule_reads_wakes(#[case] new: PodView, #[case] expected: PodChange) {
    let change = Change::Updated {
        old: &Arc::new(pod()),
        new: &Arc::new(new),
    };
    assert_eq!(effect_of(&change), expected);
}
