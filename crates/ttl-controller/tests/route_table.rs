//! Which changes wake what.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::{Loop, LoopEvent};
use controller_core::meta::{ObjectKey, Uid};
use controller_testing::sim::{NOW, SimResource, Unlimited, Watch};
use prometheus::Registry;
use rstest::rstest;
use ttl_controller::TtlController;
use ttl_controller::config::Config;
use ttl_controller::state::Key;
use ttl_controller::view::{Annotation, NodeView};

fn node(number: usize, annotation: Annotation) -> NodeView {
    NodeView {
        key: ObjectKey::cluster(format!("node-{number}")),
        annotation,
    }
}

/// Whether the node 1 and whether the node 2 is woken when node 1 is `new` after it was `old`, among `others` nodes.
fn enqueued(others: usize, old: Option<Annotation>, new: Option<Annotation>) -> (bool, bool) {
    let mut nodes = SimResource::new(|nodes| nodes);
    for number in 2..others + 2 {
        nodes.put(node(number, Annotation::Seconds(0)), Uid::default());
    }
    if let Some(old) = old {
        nodes.put(node(1, old), Uid::default());
    }
    let controller = TtlController::new(&Config::default(), &Registry::new()).unwrap();
    let mut event_loop = Loop::new(Arc::new(controller), [None], false);
    nodes.restart();
    nodes.deliver(&mut event_loop, NOW);
    event_loop.on_event(LoopEvent::Synced, NOW);
    event_loop.on_event(LoopEvent::Leading(true), NOW);
    while event_loop.poll(NOW, &Unlimited).again == Some(Duration::ZERO) {}
    match new {
        Some(new) => {
            nodes.put(node(1, new), Uid::default());
        }
        None => nodes.delete(&ObjectKey::cluster("node-1")),
    }
    nodes.deliver(&mut event_loop, NOW);
    let enqueued = |name: &str| event_loop.is_queued(&Key::Node(ObjectKey::cluster(name)), NOW);
    (enqueued("node-1"), enqueued("node-2"))
}

#[rstest]
#[case::a_new_node_is_looked_at(5, None, Some(Annotation::Seconds(0)), (true, false))]
#[case::a_new_node_is_counted(100, None, Some(Annotation::Seconds(0)), (true, true))]
#[case::a_node_that_went_is_looked_at_no_more(5, Some(Annotation::Seconds(0)), None, (false, false))]
#[case::a_changed_value_is_looked_at(5, Some(Annotation::Seconds(0)), Some(Annotation::Seconds(15)), (true, false))]
#[case::a_removed_value_is_looked_at(5, Some(Annotation::Seconds(0)), Some(Annotation::Missing), (true, false))]
#[case::a_heartbeat_wakes_nothing(5, Some(Annotation::Seconds(0)), Some(Annotation::Seconds(0)), (false, false))]
#[case::nothing_is_nothing(5, None, None, (false, false))]
fn a_change_wakes(
    #[case] others: usize,
    #[case] old: Option<Annotation>,
    #[case] new: Option<Annotation>,
    #[case] expected: (bool, bool),
) {
    assert_eq!(enqueued(others, old, new), expected);
}

#[test]
fn a_node_that_went_is_counted() {
    // 90 nodes carry 15, which is step 1; 89 are step 0.
    let mut nodes = SimResource::new(|nodes| nodes);
    for number in 0..90 {
        nodes.put(node(number, Annotation::Seconds(15)), Uid::default());
    }
    let controller = TtlController::new(&Config::default(), &Registry::new()).unwrap();
    let mut event_loop = Loop::new(Arc::new(controller), [None], false);
    nodes.restart();
    nodes.deliver(&mut event_loop, NOW);
    event_loop.on_event(LoopEvent::Synced, NOW);
    assert_eq!(event_loop.state().step.unwrap().ttl_seconds(), 15);
    nodes.delete(&ObjectKey::cluster("node-0"));
    nodes.deliver(&mut event_loop, NOW);
    assert_eq!(event_loop.state().step.unwrap().ttl_seconds(), 0);
}
