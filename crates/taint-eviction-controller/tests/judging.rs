//! In which order is judged, and which pods.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;

use controller_core::controller::{Controller, Loop, LoopEvent, Notification, Output};
use controller_core::meta::{ObjectKey, Uid};
use controller_testing::sim::{NOW, NoPermits, START, SimResource, Watch};
use jiff::SignedDuration;
use prometheus::Registry;
use rstest::rstest;
use taint_eviction_controller::config::Config;
use taint_eviction_controller::decide::{JudgementTime, Sight, TaintMemory, Tolerated, bound, judge};
use taint_eviction_controller::events::Event;
use taint_eviction_controller::state::{Key, State};
use taint_eviction_controller::view::{NodeView, Operator, PodView, Taint, Toleration};
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

fn taint(key: &str) -> Taint {
    Taint {
        key: key.into(),
        value: "".into(),
        time_added: None,
    }
}

type Watched<V> = SimResource<TaintEvictionController, V>;

fn resources() -> (Watched<PodView>, Watched<NodeView>) {
    (
        SimResource::new(|stores: &mut Stores| &mut stores.pods),
        SimResource::new(|stores: &mut Stores| &mut stores.nodes),
    )
}

/// TE-2: the leader warns of it, once, where our gate does not expect it.
#[rstest]
#[case::off(None, 1)]
#[case::on(Some("TaintTolerationComparisonOperators=true"), 0)]
fn the_first_toleration_that_compares_is_warned_of(#[case] gates: Option<&str>, #[case] warned: usize) {
    let (mut pods, mut nodes) = resources();
    let config = Config {
        feature_gates: gates.map(Into::into),
        ..Config::default()
    };
    let controller = TaintEvictionController::new(&config, &Registry::new()).unwrap();
    let mut event_loop = Loop::new(Arc::new(controller), [None, None, None], false);
    pods.restart();
    nodes.restart();
    let greater = Toleration {
        key: "k".into(),
        operator: Operator::Gt,
        value: "5".into(),
        seconds: None,
    };
    for (name, tolerations) in [("p", vec![]), ("q", vec![greater.clone()]), ("r", vec![greater])] {
        let tolerations = Arc::new(tolerations);
        pods.put(
            PodView {
                tolerations,
                ..pod(name)
            },
            Uid::from(name),
        );
    }
    while pods.deliver(&mut event_loop, NOW) {}
    event_loop.on_event(LoopEvent::Synced, NOW);
    assert!(event_loop.take_notifications().is_empty());
    for leads in [true, false, true] {
        event_loop.on_event(LoopEvent::Leading(leads), NOW);
    }
    let told = event_loop.take_notifications();
    let compares = Event::Compares(ObjectKey::namespaced("ns", "q"));
    let is_such = |told: &&Notification<_>| matches!(told, Notification::Event(event) if *event == compares);
    assert_eq!(
        (told.iter().filter(is_such).count(), told.len()),
        (warned, warned)
    );
}

#[test]
fn the_namespaces_of_pods_take_turns_at_being_judged_and_for_permits() {
    let controller = TaintEvictionController::new(&Config::default(), &Registry::new()).unwrap();
    let pod = || ObjectKey::namespaced("ns", "p");
    assert_eq!(controller.namespace_of(&Key::Pod(pod())), Some("ns"));
    assert_eq!(controller.namespace_of(&Key::Node("n".into())), None);
    assert_eq!(controller.namespace_of(&Key::Evict(pod())), Some("ns"));
}

/// TE-12: what a pod is judged on is what its node is judged on, and a standby judges too.
#[test]
fn nodes_are_judged_before_pods() {
    let (mut pods, mut nodes) = resources();
    let tainted = |taints: Vec<Taint>| NodeView {
        key: ObjectKey::cluster("n"),
        taints,
    };
    nodes.put(tainted(vec![taint("a")]), Uid::default());
    let controller = TaintEvictionController::new(&Config::default(), &Registry::new()).unwrap();
    let mut event_loop = Loop::new(Arc::new(controller), [None, None, None], false);
    pods.restart();
    nodes.restart();
    nodes.deliver(&mut event_loop, NOW);
    event_loop.on_event(LoopEvent::Synced, NOW);
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
    assert!(event_loop.state().holds(&ObjectKey::namespaced("ns", "q")));
}

/// TE-6: however the watch shows that a pod has replaced another one.
#[test]
fn a_pod_of_the_same_name_inherits_nothing() {
    let mut taints = TaintMemory::default();
    taints.observe(&"n".into(), &[taint("a")], START);
    let rules = Config::default().rules();
    let now = JudgementTime {
        ours: START,
        ahead: SignedDuration::ZERO,
        behind: SignedDuration::ZERO,
        sight: Sight::none().regained(START),
    };
    let mut state = State::default();
    let mut judged = |uid: &str, seconds: Option<i64>| {
        let any = Toleration {
            key: "".into(),
            operator: Operator::Exists,
            value: "".into(),
            seconds,
        };
        let pod = PodView {
            uid: Uid::from(uid),
            tolerations: Arc::new(vec![any]),
            ..pod("p")
        };
        let known = state.remembered(&pod).to_vec();
        let judgement = judge(&pod, bound(&pod, START), &taints.of("n"), &known, &now, &rules);
        let mut out = Output::default();
        state.judged(&Arc::new(pod.clone()), judgement, NOW, &mut out);
        let seconds = |known: &[Tolerated]| known.iter().map(|known| known.seconds).collect::<Vec<_>>();
        let told = out.into_events().len();
        (seconds(&known), seconds(state.remembered(&pod)), told)
    };
    assert_eq!(judged("first", Some(40)), (vec![], vec![40], 0));
    assert_eq!(judged("first", Some(300)), (vec![40], vec![40], 0));
    assert_eq!(judged("second", Some(300)), (vec![], vec![300], 0));
    assert_eq!(judged("third", None), (vec![], vec![], 0));
}
