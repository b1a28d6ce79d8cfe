//! The loop against a model of the API server: requeue completeness, the done contract and the final state.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

mod stored;

use std::sync::Arc;

use controller_core::cache::{Page, Versioned};
use controller_core::controller::{Accepted, Completed, Loop, LoopEvent, Now, RequestOf};
use controller_core::fingerprint::Fingerprint;
use controller_core::meta::{ObjectKey, Uid};
use controller_testing::encodings::assert_the_same_views;
use controller_testing::sim::{
    self, Bounds, Explored, Model, NOW, Op, ProcessBug, SimFailure, SimResource, Unlimited, Watch,
};
use embedded_apiserver::Server;
use prometheus::Registry;
use proptest::prelude::*;
use serde_json::json;
use ttl_controller::TtlController;
use ttl_controller::config::Config;
use ttl_controller::requests::{Answer, Query};
use ttl_controller::state::{Key, State};
use ttl_controller::view::{Annotation, NodeView, NodeWire};

/// At 101 nodes the cluster crosses into step 1, at 89 it falls back.
const MOST_NODES: usize = 104;

#[derive(Clone)]
struct Cluster {
    /// How many names nodes have.
    names: usize,
    nodes: SimResource<TtlController, NodeView>,
    remove: bool,
    uids: u64,
    bug: Option<Bug>,
}

/// What an API server must not do.
#[derive(Clone, Copy, Debug)]
enum Bug {
    /// It says that it has written, and has not.
    WritesNothing,
    /// It answers with a version that it has not reached.
    VersionAhead,
    /// It says that an object is not there when a write of it is forbidden.
    HidesWhatIsForbidden,
    /// What a process must not do.
    Process(ProcessBug),
}

#[derive(Clone, Debug)]
enum Act {
    /// From now on the cluster has this number of nodes.
    Resize(usize),
    /// Somebody writes the annotation of a node.
    Annotate(usize, Annotation),
    /// A node is deleted and created again with this annotation.
    Recreate(usize, Annotation),
}

fn key(number: usize) -> ObjectKey {
    ObjectKey::cluster(format!("node-{number:03}"))
}

fn any_annotation() -> impl Strategy<Value = Annotation> {
    prop_oneof![
        Just(Annotation::Missing),
        prop::sample::select(vec![0, 15, 7]).prop_map(Annotation::Seconds),
        Just(Annotation::parse("soon")),
    ]
}

fn any_action() -> impl Strategy<Value = Act> {
    prop_oneof![
        (86..MOST_NODES).prop_map(Act::Resize),
        ((0..3_usize), any_annotation()).prop_map(|(node, annotation)| Act::Annotate(node, annotation)),
        ((0..3_usize), any_annotation()).prop_map(|(node, annotation)| Act::Recreate(node, annotation)),
    ]
}

impl Cluster {
    fn of(count: usize, annotation: &Annotation, remove: bool) -> Self {
        let mut cluster = Self {
            names: MOST_NODES,
            nodes: SimResource::new(|nodes| nodes),
            remove,
            uids: 0,
            bug: None,
        };
        (0..count).for_each(|number| cluster.add(number, annotation));
        cluster
    }

    fn add(&mut self, number: usize, annotation: &Annotation) {
        self.uids += 1;
        let view = NodeView {
            key: key(number),
            annotation: annotation.clone(),
        };
        self.nodes.put(view, Uid::from(&*format!("uid-{}", self.uids)));
    }

    /// Gives the node this annotation; `None` if it does not exist.
    fn annotate(&mut self, node: &ObjectKey, annotation: Annotation) -> Option<Accepted> {
        let held = self.nodes.objects().get(node)?.clone();
        let version = if held.view.annotation == annotation {
            held.version
        } else {
            let key = node.clone();
            self.nodes.put(NodeView { key, annotation }, held.uid.clone())
        };
        Some(sim::accepted(held.uid, version))
    }
}

impl Model for Cluster {
    type Controller = TtlController;
    type Act = Act;

    fn controller(&self) -> TtlController {
        let config = Config {
            remove: self.remove,
            ..Config::default()
        };
        TtlController::new(&config, &Registry::new()).unwrap()
    }

    fn act(&mut self, action: &Act, _: Now) {
        match action {
            Act::Resize(count) => {
                for number in 0..self.names {
                    match (number < *count, self.nodes.objects().contains_key(&key(number))) {
                        (true, false) => self.add(number, &Annotation::Missing),
                        (false, true) => self.nodes.delete(&key(number)),
                        _ => {}
                    }
                }
            }
            Act::Annotate(number, annotation) => {
                self.annotate(&key(*number), annotation.clone());
            }
            Act::Recreate(number, annotation) => self.add(*number, annotation),
        }
    }

    fn arrive(&mut self, ask: &RequestOf<TtlController>, _: Now) -> Completed<Answer> {
        match ask {
            RequestOf::Query(query) => {
                let wanted = |node: &ObjectKey| match query {
                    Query::Node(only) => only == node,
                    Query::Page(_) => true,
                };
                let objects = self.nodes.objects().values();
                let items: Vec<_> = objects
                    .filter(|node| wanted(&node.view.key))
                    .map(sim::observed)
                    .collect();
                let is_annotated = |node: &Versioned<NodeView>| node.view.annotation != Annotation::Missing;
                let manager = match query {
                    Query::Node(_) if items.iter().any(is_annotated) => Some("somebody".to_owned()),
                    _ => None,
                };
                let page = Page { items, token: None };
                Completed::Read(Ok(Answer { page, manager }), None)
            }
            RequestOf::Write(plan) => {
                let annotation = match (self.bug, self.nodes.objects().get(&plan.node)) {
                    (Some(Bug::WritesNothing), Some(node)) => node.view.annotation.clone(),
                    _ => Annotation::of(plan.ttl_seconds),
                };
                let mut answer = self.annotate(&plan.node, annotation).ok_or_else(sim::gone);
                if let (Some(Bug::VersionAhead), Ok(accepted)) = (self.bug, &mut answer) {
                    accepted.version = accepted.version.map(|version| version + 100);
                }
                Completed::Wrote(answer)
            }
        }
    }

    fn server(&self, ask: &RequestOf<TtlController>, now: Now) -> Option<Server> {
        self.as_stored(ask, now)
    }

    fn compare_with(&self, ask: &RequestOf<TtlController>, server: &Server) -> Result<(), String> {
        self.compare_stored(ask, server)
    }

    fn told(&self, failure: SimFailure) -> SimFailure {
        match (self.bug, failure) {
            (Some(Bug::HidesWhatIsForbidden), SimFailure::Status(403, _)) => SimFailure::NotFound,
            _ => failure,
        }
    }

    fn watches(&mut self) -> Vec<(&'static str, &mut dyn Watch<TtlController>)> {
        vec![("nodes", &mut self.nodes)]
    }

    fn keys(&self) -> Vec<Key> {
        (0..self.names).map(|number| Key::Node(key(number))).collect()
    }

    fn process_bug(&self) -> Option<ProcessBug> {
        match self.bug {
            Some(Bug::Process(bug)) => Some(bug),
            _ => None,
        }
    }

    /// Within the hysteresis, the size of the cluster before counts.
    fn leaders_agree(&self) -> bool {
        !(90..=100).contains(&self.nodes.objects().len())
    }

    fn remembered(&self, state: &State) -> usize {
        state.held()
    }

    /// Which steps are right is said by hand; within the overlap of two, the controller's own counts.
    fn check(&self, event_loop: &Loop<TtlController>, _: Now) -> Result<(), String> {
        let wanted = if self.remove {
            Annotation::Missing
        } else {
            let ttl = event_loop.state().step.unwrap().ttl_seconds();
            let count = self.nodes.objects().len();
            let may_be: &[_] = match count {
                ..90 => &[0],
                101.. => &[15],
                _ => &[0, 15],
            };
            if !may_be.contains(&ttl) {
                return Err(format!("{count} nodes at {ttl} s"));
            }
            Annotation::Seconds(ttl)
        };
        for node in self.nodes.objects().values() {
            if node.view.annotation != wanted {
                return Err(format!("{} carries {}", node.view.key, node.view.annotation));
            }
        }
        Ok(())
    }
}

impl Explored for Cluster {
    fn acts(&self) -> Vec<Act> {
        vec![
            Act::Annotate(0, Annotation::Missing),
            Act::Recreate(0, Annotation::Seconds(7)),
            Act::Resize(0),
        ]
    }

    fn fingerprint(&self, out: &mut Fingerprint) {
        out.add(&self.uids);
    }
}

fn one_node(bug: Option<Bug>) -> Cluster {
    let names = 1;
    Cluster {
        names,
        bug,
        ..Cluster::of(1, &Annotation::Missing, false)
    }
}

/// Every run with one act of others and one fault.
#[test]
fn no_run_within_bounds_leaves_a_node_at_another_ttl() {
    sim::assert_sound(&one_node(None), Bounds::FEW);
}

#[test]
fn a_write_that_is_accepted_and_not_done_is_found() {
    sim::assert_found(one_node(Some(Bug::WritesNothing)), Bounds::FEW, 1, "carries none");
}

#[test]
fn an_answer_with_a_version_that_no_watch_shows_is_found() {
    sim::assert_found(
        one_node(Some(Bug::VersionAhead)),
        Bounds::FEW,
        1,
        "left behind: writes of nodes",
    );
}

fn with(bug: Bug) -> Cluster {
    Cluster {
        bug: Some(bug),
        ..Cluster::of(3, &Annotation::Missing, false)
    }
}

#[test]
fn a_refusal_that_hides_a_node_is_found() {
    let cluster = Cluster {
        names: 3,
        ..with(Bug::HidesWhatIsForbidden)
    };
    sim::assert_drawn(&cluster, any_action(), "nothing is on its way, and for ");
}

/// The request as it is phrased gets another answer.
#[test]
fn a_model_that_answers_like_no_api_server_is_found() {
    sim::assert_drawn(
        &with(Bug::VersionAhead),
        any_action(),
        "the embedded API server Ok(Accepted",
    );
}

controller_testing::process_bugs_are_found!(|bug| with(Bug::Process(bug)), any_action());

#[test]
fn nothing_is_left_of_ten_thousand_objects() {
    sim::run_through(
        Cluster::of(90, &Annotation::Seconds(0), false),
        10_000,
        any_action(),
    );
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_with_every_node_at_its_ttl(
        count in 86..MOST_NODES,
        annotation in any_annotation(),
        (roles, steps) in sim::runs(any_action()),
    ) {
        sim::run_among(Cluster::of(count, &annotation, false), &roles, &steps);
    }
}

#[test]
fn the_watch_may_be_later_than_the_answer_and_than_a_second_writer() {
    let pass = |seconds| Op::Pass(std::time::Duration::from_secs(seconds));
    let ops = [
        Op::Act(Act::Annotate(0, Annotation::Seconds(7))),
        Op::Deliver(0),
        Op::Answer(0),
        Op::Act(Act::Annotate(0, Annotation::Seconds(7))),
        pass(31),
        Op::Deliver(0),
        Op::Answer(0),
    ];
    sim::run(Cluster::of(90, &Annotation::Seconds(0), false), &ops);
}

#[test]
fn nothing_is_left_of_a_node_that_goes_before_the_answer() {
    let ops = [
        Op::Arrive(0),
        Op::Act(Act::Resize(0)),
        Op::Deliver(0),
        Op::Deliver(0),
        Op::Answer(0),
    ];
    sim::run(Cluster::of(1, &Annotation::Missing, false), &ops);
}

#[test]
fn removal_goes_on_while_a_fresh_list_shows_an_annotation_that_the_cache_does_not() {
    for (annotation, is_done) in [(Annotation::Missing, true), (Annotation::Seconds(0), false)] {
        let mut cluster = Cluster::of(1, &Annotation::Missing, true);
        let mut event_loop = Loop::new(Arc::new(cluster.controller()), [None], false);
        cluster.nodes.restart();
        cluster.nodes.deliver(&mut event_loop, NOW);
        event_loop.on_event(LoopEvent::Synced, NOW);
        event_loop.on_event(LoopEvent::Leading(true), NOW);
        // The watch has not shown the node yet.
        cluster.add(0, &annotation);
        for effect in event_loop.poll(NOW, &Unlimited).effects {
            let answer = cluster.arrive(&effect.ask, NOW);
            event_loop.completed(effect.id, answer, NOW);
        }
        event_loop.poll(NOW, &Unlimited);
        assert_eq!(event_loop.finished().is_some(), is_done, "{annotation}");
    }
}

/// A whole node gives the same view as its metadata.
#[test]
fn json_and_protobuf_give_the_same_node() {
    assert_the_same_views::<NodeWire>(&json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "n", "uid": "u", "resourceVersion": "7", "labels": { "a": "b" },
            "annotations": { "node.alpha.kubernetes.io/ttl": "300", "other": "" },
        },
        "spec": { "podCIDR": "10.0.0.0/24" },
    }));
}
