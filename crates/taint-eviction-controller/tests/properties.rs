//! The loop against a model of the API server: requeue completeness, the done contract and the final state.
//!
//! ```text
//! world ── acts   nodes and pods; what others do to them, drawn
//! stored          the same as an API server stores it
//! judge           one process, judged after each step by the ledger that the histories have, too
//! cases           runs that failed once
//! ```
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

mod acts;
mod cases;
mod judge;
mod stored;
mod world;

use std::sync::Arc;
use std::time::Duration;

use controller_core::config::GoDuration;
use controller_core::controller::{Completed, Loop, Now, RequestOf};
use controller_core::fingerprint::Fingerprint;
use controller_core::meta::Uid;
use controller_testing::encodings::assert_the_same_views;
use controller_testing::past::settled;
use controller_testing::sim::{self, Bounds, Explored, Model, NOW, ProcessBug, Watch};
use embedded_apiserver::Server;
use prometheus::Registry;
use proptest::prelude::*;
use serde_json::json;
use taint_eviction_controller::TaintEvictionController;
use taint_eviction_controller::brake::EFFECT_WITHIN;
use taint_eviction_controller::decide::LeaseNotes;
use taint_eviction_controller::requests::{Answer, LeaseRead, Query};
use taint_eviction_controller::state::{Key, State};
use taint_eviction_controller::view::{NodeWire, PodWire};

use self::acts::{Act, all, any_action};
use self::world::{Cluster, node, pod};
use crate::ledger::Ledger;

/// What an API server, or a watch, must not do.
#[derive(Clone, Copy, Debug)]
enum Bug {
    /// It says that it has deleted a pod, and has not.
    DeletesNothing,
    /// The watch does not show that a taint goes.
    HidesUntaints,
    /// What a process must not do.
    Process(ProcessBug),
}

impl Model for Cluster {
    type Controller = TaintEvictionController;
    type Act = Act;

    /// A brake that holds pods looks again every five seconds, for ever.
    const SETTLES_WITHIN: Duration = Duration::from_mins(75);

    /// By a clock that is behind the API server's, a pod's deadline moves on with it.
    const CLOCKS_JUMP: bool = false;

    fn controller(&self) -> TaintEvictionController {
        TaintEvictionController::new(&self.config, &Registry::new()).unwrap()
    }

    fn act(&mut self, action: &Act, now: Now) {
        self.take(action, now);
    }

    fn arrive(&mut self, ask: &RequestOf<TaintEvictionController>, now: Now) -> Completed<Answer> {
        match ask {
            RequestOf::Query(Query::Node { name, .. }) => {
                let taints = self.taints(name);
                Completed::Read(Ok(Answer::Node(taints)), Some(now.wall))
            }
            RequestOf::Query(Query::Lease(_)) => {
                let notes = LeaseNotes {
                    off_until: None,
                    evicting_until: self.notes.evicting_until,
                    engaged_since: self.notes.engaged_since,
                };
                let read = LeaseRead {
                    uid: Uid::from("lease"),
                    notes,
                    object: Arc::default(),
                };
                Completed::Read(Ok(Answer::Lease(read)), Some(now.wall))
            }
            RequestOf::Query(Query::Pod(_)) => unreachable!("only explain reads pods"),
            RequestOf::Write(write) => Completed::Wrote(self.write(write, now)),
        }
    }

    fn server(&self, ask: &RequestOf<TaintEvictionController>, now: Now) -> Option<Server> {
        self.as_stored(ask, now)
    }

    fn compare_with(&self, ask: &RequestOf<TaintEvictionController>, server: &Server) -> Result<(), String> {
        self.compare_stored(ask, server)
    }

    fn watches(&mut self) -> Vec<(&'static str, &mut dyn Watch<TaintEvictionController>)> {
        vec![("pods", &mut self.pods), ("nodes", &mut self.nodes)]
    }

    fn keys(&self) -> Vec<Key> {
        let pods = (0..self.pod_names).flat_map(|number| {
            [
                Key::Pod(pod(number)),
                Key::Due(pod(number)),
                Key::Evict(pod(number)),
                Key::Again(pod(number)),
            ]
        });
        let nodes = (0..self.node_names).map(|number| Key::Node(node(number)));
        nodes.chain(pods).chain([Key::Brake]).collect()
    }

    /// A pod is judged with its node, too, and its judgement schedules its eviction.
    fn covers(&self, key: &Key) -> Vec<Key> {
        let nodes = (0..self.node_names).map(|number| Key::Node(node(number)));
        match key {
            Key::Node(_) => (0..self.pod_names).map(|number| Key::Pod(pod(number))).collect(),
            Key::Pod(_) => nodes.collect(),
            Key::Brake => (0..self.pod_names).map(|number| Key::Due(pod(number))).collect(),
            Key::Due(pod) => nodes.chain([Key::Pod(pod.clone())]).collect(),
            Key::Evict(pod) | Key::Again(pod) => {
                let before = [Key::Pod(pod.clone()), Key::Due(pod.clone()), Key::Brake];
                nodes.chain(before).collect()
            }
        }
    }

    /// What a budget has refused is tried again by another key.
    fn twin(&self, key: &Key) -> Option<Key> {
        match key {
            Key::Evict(pod) => Some(Key::Again(pod.clone())),
            Key::Again(pod) => Some(Key::Evict(pod.clone())),
            _ => None,
        }
    }

    /// Kubelets end the pods that are being deleted.
    fn come_to_rest(&mut self) -> bool {
        let ending: Vec<_> = (0..self.pod_names)
            .map(pod)
            .filter(|pod| self.is_deleting(pod))
            .collect();
        for pod in &ending {
            self.pods.delete(pod);
        }
        !ending.is_empty()
    }

    /// A pod that may stay by now is not read.
    fn leaves_writes(&self) -> bool {
        true
    }

    fn clear(&mut self) {
        self.ledger = Ledger::default();
        self.pods.clear();
        self.nodes.clear();
    }

    fn process_bug(&self) -> Option<ProcessBug> {
        match self.bug {
            Some(Bug::Process(bug)) => Some(bug),
            _ => None,
        }
    }

    /// As the brake expects: no leader can know what another has sent before.
    fn arrives_within(&self) -> Duration {
        if self.is_held_for_ever() {
            EFFECT_WITHIN
        } else {
            Duration::MAX
        }
    }

    /// A brake that is engaged is news to each leader.
    fn leaders_agree(&self) -> bool {
        !self.is_held_for_ever()
    }

    fn remembered(&self, state: &State) -> usize {
        state.held()
    }

    /// The brake looks again while it holds pods back.
    fn rechecks(&self, event_loop: &Loop<TaintEvictionController>) -> usize {
        usize::from(event_loop.state().is_braked())
    }

    fn check(&self, _: &Loop<TaintEvictionController>, _: Now) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        if self.is_held_for_ever() {
            return self.check_window();
        }
        // Where a node cannot be read, a cache that lags decides.
        let mut ends = self.ends();
        ends.retain(|_, (_, stays)| *stays);
        settled(&ends)
    }
}

impl Explored for Cluster {
    fn acts(&self) -> Vec<Act> {
        let (node, taint) = (0, 0);
        vec![
            tainted(node, Some(0)),
            Act::Untaint { node, taint },
            bound(0, node, None),
            Act::Delete(0),
        ]
    }

    fn fingerprint(&self, out: &mut Fingerprint) {
        out.add(&(
            (0..self.node_names)
                .map(|number| self.taints(&node(number)))
                .collect::<Vec<_>>(),
            &self.wrong,
            self.uids,
            &self.notes,
            &self.gone,
            self.refuses_until,
        ));
    }
}

/// The first taint comes to a node, with a `timeAdded` some seconds ago or without.
const fn tainted(node: usize, ago: Option<i64>) -> Act {
    let taint = 0;
    Act::Taint { node, taint, ago }
}

/// A pod is bound that tolerates nothing, or everything for some seconds.
fn bound(pod: usize, node: usize, seconds: Option<i64>) -> Act {
    let ago = 0;
    let tolerations = seconds.map_or_else(Vec::new, |seconds| all(Some(seconds)));
    Act::Bind {
        pod,
        node,
        ago,
        tolerations,
    }
}

/// A pod on a node with a taint, which it tolerates for three seconds.
fn one_pod(bug: Option<Bug>) -> Cluster {
    let mut cluster = Cluster {
        pod_names: 1,
        node_names: 1,
        bug,
        ..Cluster::new()
    };
    cluster.act(&tainted(0, Some(0)), NOW);
    cluster.act(&bound(0, 0, Some(3)), NOW);
    cluster
}

/// Every run with one act of others, and a lost answer or the end of a term.
#[test]
fn no_run_within_bounds_leaves_a_pod_that_does_not_tolerate() {
    let bounds = Bounds {
        crashes: 0,
        ..Bounds::FEW
    };
    sim::assert_sound(&one_pod(None), bounds);
}

/// Every run of two replicas with one act of others, and a lost answer or another leader.
#[test]
fn no_run_of_two_processes_leaves_a_pod_that_does_not_tolerate() {
    let bounds = Bounds {
        crashes: 0,
        processes: 2,
        ..Bounds::FEW
    };
    sim::assert_sound(&one_pod(None), bounds);
}

#[test]
fn a_delete_that_is_accepted_and_not_done_is_found() {
    sim::assert_found(
        one_pod(Some(Bug::DeletesNothing)),
        Bounds::FEW,
        1,
        "is still there",
    );
}

#[test]
fn a_taint_that_goes_unseen_is_found() {
    sim::assert_found(
        one_pod(Some(Bug::HidesUntaints)),
        Bounds::FEW,
        1,
        "left behind: keys, passes or requests",
    );
}

fn with(bug: ProcessBug) -> Cluster {
    Cluster {
        bug: Some(Bug::Process(bug)),
        ..Cluster::new()
    }
}

controller_testing::process_bugs_are_found!(with, any_action());

#[test]
fn a_process_that_does_not_notice_that_another_leads_is_found_in_the_fewest_steps() {
    let bug = Some(Bug::Process(ProcessBug::KeepsItsTerm));
    let bounds = Bounds {
        processes: 2,
        ..Bounds::FEW
    };
    sim::assert_found(one_pod(bug), bounds, 4, "sent without the term");
}

#[test]
fn nothing_is_left_of_ten_thousand_objects() {
    sim::run_through(Cluster::new(), 10_000, any_action());
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_with_nobody_left_who_does_not_tolerate((roles, steps) in sim::runs(any_action())) {
        sim::run_among(Cluster::new(), &roles, &steps);
    }

    #[test]
    fn every_hold_of_the_brake_ends((roles, steps) in sim::runs(any_action())) {
        sim::run_among(Cluster::braked(Some(GoDuration::from_secs(60))), &roles, &steps);
    }

    #[test]
    fn every_wait_for_a_budget_ends((roles, steps) in sim::runs(any_action()), braked in any::<bool>()) {
        let after = GoDuration::from_secs(60);
        let cluster = if braked { Cluster::braked(Some(after)) } else { Cluster::new() };
        sim::run_among(cluster.through_budgets(), &roles, &steps);
    }

    #[test]
    fn each_pod_goes_when_it_must_and_not_before(
        steps in judge::steps(),
        ahead in prop_oneof![2 => Just(0), 1 => 2..7_200_u64],
    ) {
        judge::run(Duration::from_secs(ahead), &steps);
    }

    #[test]
    fn in_no_window_more_go_than_the_brake_lets((roles, steps) in sim::runs(any_action())) {
        sim::run_among(Cluster::braked(None), &roles, &steps);
    }
}

#[test]
fn json_and_protobuf_give_the_same_pod() {
    assert_the_same_views::<PodWire>(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:01Z",
        },
        "spec": { "nodeName": "node", "hostNetwork": true, "tolerations": [
            { "key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 },
            { "key": "b", "operator": "Equal", "value": "v" },
            { "operator": "Exists" },
        ] },
        "status": { "phase": "Running", "conditions": [
            { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:02Z" },
            { "type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:03Z", "message": "m" },
        ] },
    }));
}

#[test]
fn json_and_protobuf_give_the_same_node() {
    assert_the_same_views::<NodeWire>(&json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "n", "uid": "u", "resourceVersion": "7" },
        "spec": { "unschedulable": true, "taints": [
            { "key": "a", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z" },
            { "key": "b", "effect": "NoExecute" },
            { "key": "c", "effect": "NoSchedule" },
        ] },
    }));
}
