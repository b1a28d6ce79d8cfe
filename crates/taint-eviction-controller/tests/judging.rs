//! In which order is judged.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use controller_core::controller::{Loop, Observed};
use controller_core::meta::{ObjectKey, Uid};
use harness::sim::{NOW, NoPermits, Resource, START, Watch};
use prometheus::Registry;
use taint_eviction_controller::config::Config;
use taint_eviction_controller::next::Key;
use taint_eviction_controller::view::{NodeView, PodView, Taint};
use taint_eviction_controller::{Stores, TaintEvictionController};

fn pod(name: &str) -> PodView {
    PodView {
        key: ObjectKey::namespaced("ns", name),
        uid: Uid::from(name),
        node: "n".into(),
        tolerations: Arc::default(),
        bound: Some(START),
        generation: 1,
        deleting: false,
    }
}

/// TE-12: what a pod is judged on is what its node is judged on, and a standby judges too.
#[test]
fn nodes_are_judged_before_pods() {
    let (mut pods, mut nodes) = (Resource::new(), Resource::new());
    let taint = |key: &str| Taint {
        key: key.into(),
        value: "".into(),
        time_added: None,
    };
    let tainted = |taints: Vec<Taint>| NodeView {
        key: ObjectKey::cluster("n"),
        taints,
    };
    nodes.put(tainted(vec![taint("a")]), Uid::default());
    let controller = TaintEvictionController::new(&Config::default(), &Registry::new()).unwrap();
    let stores = Stores {
        pods: pods.restart(),
        nodes: nodes.restart(),
    };
    let mut event_loop = Loop::new(Arc::new(controller), stores, [None, None, None], false);
    nodes.deliver(&mut event_loop, NOW);
    event_loop.observe(Observed::Synced, NOW);
    // Judging sends nothing.
    event_loop.poll(NOW, &NoPermits);
    // The pods come first, and their node changes after that.
    for name in ["p", "q"] {
        pods.put(pod(name), Uid::from(name));
        pods.deliver(&mut event_loop, NOW);
        pods.deliver(&mut event_loop, NOW);
    }
    nodes.put(tainted(vec![taint("b")]), Uid::default());
    nodes.deliver(&mut event_loop, NOW);
    assert_eq!(
        event_loop.waiting_keys(),
        [
            Key::Node("n".into()),
            Key::Pod(ObjectKey::namespaced("ns", "p")),
            Key::Pod(ObjectKey::namespaced("ns", "q")),
        ]
    );
    event_loop.poll(NOW, &NoPermits);
    assert!(event_loop.waiting_keys().is_empty());
    assert!(event_loop.memory().holds(&ObjectKey::namespaced("ns", "q")));
}
