//! Which changes wake what.
#![allow(missing_docs, reason = "a test")]

use controller_core::meta::ObjectKey;
use rstest::rstest;
use ttl_controller::route::{Wake, wake};
use ttl_controller::view::{Annotation, NodeView};

fn node(annotation: Annotation) -> NodeView {
    NodeView {
        key: ObjectKey::cluster("node-1"),
        annotation,
    }
}

fn node_1() -> ObjectKey {
    ObjectKey::cluster("node-1")
}

#[rstest]
#[case::a_new_node_is_looked_at_and_counted(None, Some(node(Annotation::Missing)), Wake { node: Some(node_1()), recount: true })]
#[case::a_node_that_went_is_counted(Some(node(Annotation::Seconds(0))), None, Wake { node: None, recount: true })]
#[case::a_changed_value_is_looked_at(Some(node(Annotation::Seconds(15))), Some(node(Annotation::Seconds(0))), Wake { node: Some(node_1()), recount: false })]
#[case::a_removed_value_is_looked_at(Some(node(Annotation::Seconds(15))), Some(node(Annotation::Missing)), Wake { node: Some(node_1()), recount: false })]
#[case::a_heartbeat_wakes_nothing(Some(node(Annotation::Seconds(15))), Some(node(Annotation::Seconds(15))), Wake { node: None, recount: false })]
#[case::nothing_is_nothing(None, None, Wake { node: None, recount: false })]
fn a_change_wakes(#[case] old: Option<NodeView>, #[case] new: Option<NodeView>, #[case] expected: Wake) {
    assert_eq!(wake(old.as_ref(), new.as_ref()), expected);
}
