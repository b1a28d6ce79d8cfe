//! The loop against a model of the API server: requeue completeness, the done contract and the final state.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::AnswerClass;
use controller_core::config::GoDuration;
use controller_core::controller::{Accepted, Completed, Loop, Now, RequestOf};
use controller_core::fingerprint::Fingerprint;
use controller_core::meta::{ObjectKey, Uid};
use controller_core::time::saturating_add;
use controller_testing::encodings::assert_the_same_views;
use controller_testing::sim::{
    self, Bounds, Explored, Model, NOW, Op, ProcessBug, SimObject, SimResource, Watch,
};
use jiff::{SignedDuration, Timestamp};
use prometheus::Registry;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;
use taint_eviction_controller::brake::Note;
use taint_eviction_controller::config::Config;
use taint_eviction_controller::decide::LeaseNotes;
use taint_eviction_controller::requests::{Answer, LeaseRead, Query, Write};
use taint_eviction_controller::state::{Key, State};
use taint_eviction_controller::view::{NodeView, NodeWire, Operator, PodView, PodWire, Taint, Toleration};
use taint_eviction_controller::{Stores, TaintEvictionController};

const NODES: usize = 2;
const PODS: usize = 4;
const TAINTS: [&str; 3] = [
    "k",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

#[derive(Clone)]
struct Cluster {
    /// How many names pods have.
    pod_names: usize,
    /// How many names nodes have.
    node_names: usize,
    pods: SimResource<TaintEvictionController, PodView>,
    /// Only nodes with taints are shown.
    nodes: SimResource<TaintEvictionController, NodeView>,
    taints: BTreeMap<usize, Vec<Taint>>,
    uids: u64,
    bug: Option<Bug>,
    config: Config,
    /// What the Lease says of the brake.
    notes: Note,
    /// When pods were deleted by us, by the wall clock.
    gone: Vec<Timestamp>,
    /// Until when budgets refuse each eviction.
    refuses_until: Timestamp,
}

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

#[derive(Clone, Copy, Debug)]
enum Tolerates {
    Nothing,
    For(i64),
    ForEver,
}

#[derive(Clone, Debug)]
enum Act {
    /// The taint with this number comes to a node, or goes; with a `timeAdded` or without.
    Taint {
        node: usize,
        taint: usize,
        stamped: bool,
    },
    Untaint {
        node: usize,
        taint: usize,
    },
    /// A new pod of this name is bound; it tolerates every taint for this long, or for ever.
    Bind {
        pod: usize,
        node: usize,
        tolerates: Tolerates,
    },
    /// A pod tolerates every taint for this long from now on.
    Tolerate {
        pod: usize,
        seconds: i64,
    },
    /// Somebody deletes a pod.
    Delete(usize),
    /// A kubelet ends a pod that is being deleted.
    End(usize),
    /// Budgets refuse each eviction for five minutes.
    Refuse,
}

fn node(number: usize) -> Arc<str> {
    format!("node-{number}").into()
}

fn pod(number: usize) -> ObjectKey {
    ObjectKey::namespaced("ns", format!("pod-{number}"))
}

fn tolerations(tolerates: Tolerates) -> Arc<Vec<Toleration>> {
    let seconds = match tolerates {
        Tolerates::Nothing => return Arc::default(),
        Tolerates::For(seconds) => Some(seconds),
        Tolerates::ForEver => None,
    };
    Arc::new(vec![Toleration {
        key: "".into(),
        operator: Operator::Exists,
        value: "".into(),
        seconds,
    }])
}

fn any_action() -> impl Strategy<Value = Act> {
    let seconds = || prop::sample::select(vec![0_i64, 3, 40, 300]);
    let tolerates = prop_oneof![
        Just(Tolerates::Nothing),
        Just(Tolerates::ForEver),
        seconds().prop_map(Tolerates::For),
    ];
    prop_oneof![
        3 => (0..NODES, 0..TAINTS.len(), any::<bool>())
            .prop_map(|(node, taint, stamped)| Act::Taint { node, taint, stamped }),
        2 => (0..NODES, 0..TAINTS.len()).prop_map(|(node, taint)| Act::Untaint { node, taint }),
        3 => (0..PODS, 0..NODES, tolerates).prop_map(|(pod, node, tolerates)| Act::Bind { pod, node, tolerates }),
        1 => (0..PODS, seconds()).prop_map(|(pod, seconds)| Act::Tolerate { pod, seconds }),
        1 => (0..PODS).prop_map(Act::Delete),
        2 => (0..PODS).prop_map(Act::End),
        1 => Just(Act::Refuse),
    ]
}

impl Cluster {
    fn new() -> Self {
        Self {
            pod_names: PODS,
            node_names: NODES,
            pods: SimResource::new(|stores: &mut Stores| &mut stores.pods),
            nodes: SimResource::new(|stores: &mut Stores| &mut stores.nodes),
            taints: BTreeMap::new(),
            uids: 0,
            bug: None,
            config: Config::default(),
            notes: Note::default(),
            gone: Vec::new(),
            refuses_until: Timestamp::MIN,
        }
    }

    fn show_taints(&mut self, number: usize) {
        let key = ObjectKey::cluster(node(number));
        match self.taints.get(&number).filter(|taints| !taints.is_empty()) {
            Some(taints) => {
                let taints = taints.clone();
                self.nodes.put(NodeView { key, taints }, Uid::from("node"));
            }
            None if matches!(self.bug, Some(Bug::HidesUntaints)) => {}
            None => self.nodes.delete(&key),
        }
    }

    fn is_deleting(&self, key: &ObjectKey) -> bool {
        self.pods.objects().get(key).is_some_and(|pod| pod.view.deleting)
    }

    fn write(&mut self, write: &Write) -> Option<Accepted> {
        let eviction = match write {
            Write::Mark(eviction, _) | Write::Delete(eviction) | Write::Evict(eviction) => eviction,
            Write::Note(_, note, _) => {
                self.notes = note.clone();
                return Some(sim::accepted(Uid::from("lease"), 0));
            }
        };
        let held = self.pods.objects().get(&eviction.pod)?.clone();
        if held.uid != eviction.uid {
            return None;
        }
        match write {
            // The condition is in no view.
            Write::Mark(..) | Write::Note(..) => self.pods.edit(&eviction.pod, |_| {}),
            Write::Delete(_) if matches!(self.bug, Some(Bug::DeletesNothing)) => {
                Some(sim::accepted(held.uid, held.version))
            }
            Write::Delete(_) | Write::Evict(_) if held.view.deleting => self.pods.edit(&eviction.pod, |_| {}),
            // Some pods have a grace period, others are gone at once; their answer has the version before.
            Write::Delete(_) | Write::Evict(_) if eviction.pod.name.ends_with(['0', '2']) => {
                self.pods.edit(&eviction.pod, |pod| pod.deleting = true)
            }
            Write::Delete(_) | Write::Evict(_) => {
                self.pods.delete(&eviction.pod);
                Some(Accepted {
                    uid: Some(held.uid),
                    version: Some(held.version),
                    deleting: true,
                })
            }
        }
    }
}

impl Model for Cluster {
    type Controller = TaintEvictionController;
    type Act = Act;

    /// By a clock that is behind the API server's, a pod's deadline moves on with it.
    const CLOCKS_JUMP: bool = false;

    fn controller(&self) -> TaintEvictionController {
        TaintEvictionController::new(&self.config, &Registry::new()).unwrap()
    }

    fn act(&mut self, action: &Act, now: Now) {
        match action {
            Act::Taint { node, taint, stamped } => {
                let taints = self.taints.entry(*node).or_default();
                let key: Arc<str> = TAINTS[*taint].into();
                if taints.iter().all(|taint| taint.key != key) {
                    let time_added = stamped.then_some(now.wall);
                    taints.push(Taint {
                        key,
                        value: "".into(),
                        time_added,
                    });
                }
                self.show_taints(*node);
            }
            Act::Untaint { node, taint } => {
                self.taints
                    .entry(*node)
                    .or_default()
                    .retain(|there| *there.key != *TAINTS[*taint]);
                self.show_taints(*node);
            }
            Act::Bind {
                pod: number,
                node: on,
                tolerates,
            } => {
                self.uids += 1;
                let view = PodView {
                    key: pod(*number),
                    uid: Uid::from(&*format!("uid-{}", self.uids)),
                    node: node(*on),
                    tolerations: tolerations(*tolerates),
                    bound: Timestamp::from_second(now.wall.as_second()).ok(),
                    generation: 1,
                    deleting: false,
                };
                let uid = view.uid.clone();
                self.pods.put(view, uid);
            }
            Act::Tolerate { pod: number, seconds } => {
                self.pods.edit(&pod(*number), |pod| {
                    pod.tolerations = tolerations(Tolerates::For(*seconds));
                });
            }
            Act::Delete(number) => {
                self.pods.edit(&pod(*number), |pod| pod.deleting = true);
            }
            Act::Refuse => self.refuses_until = saturating_add(now.wall, Duration::from_mins(5)),
            Act::End(number) => {
                if self.is_deleting(&pod(*number)) {
                    self.pods.delete(&pod(*number));
                }
            }
        }
    }

    fn arrive(&mut self, ask: &RequestOf<TaintEvictionController>, now: Now) -> Completed<Answer> {
        match ask {
            RequestOf::Query(Query::Node { name, .. }) => {
                let taints = (0..self.node_names).find(|number| node(*number) == *name);
                let taints = taints
                    .and_then(|number| self.taints.get(&number))
                    .cloned()
                    .unwrap_or_default();
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
            RequestOf::Write(Write::Evict(_)) if now.wall < self.refuses_until => {
                let throttled = AnswerClass::Throttled(Duration::from_secs(1));
                Completed::Wrote(Err(sim::failed(throttled, Some(429))))
            }
            RequestOf::Write(write) => {
                let accepted = self.write(write);
                if let (Write::Delete(_), Some(_)) = (write, &accepted) {
                    self.gone.push(now.wall);
                }
                Completed::Wrote(accepted.ok_or_else(sim::gone))
            }
        }
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

    fn process_bug(&self) -> Option<ProcessBug> {
        match self.bug {
            Some(Bug::Process(bug)) => Some(bug),
            _ => None,
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
        if self.is_held_for_ever() {
            return self.check_window();
        }
        for SimObject { view, .. } in self.pods.objects().values() {
            let number = (0..self.node_names).find(|number| node(*number) == view.node);
            let is_tainted = number
                .and_then(|number| self.taints.get(&number))
                .is_some_and(|taints| !taints.is_empty());
            let for_ever = view
                .tolerations
                .iter()
                .any(|toleration| toleration.seconds.is_none());
            if is_tainted && !for_ever && !view.deleting {
                return Err(format!("{} is still there", view.key));
            }
        }
        Ok(())
    }
}

/// One pod goes within this time.
const WINDOW: u32 = 20;

impl Cluster {
    /// With a brake that lets one pod go within [`WINDOW`], and a hold that ends after a while or never.
    fn braked(release_after: Option<GoDuration>) -> Self {
        let mut cluster = Self::new();
        cluster.config.eviction_brake_pods = Some("1".to_owned());
        cluster.config.eviction_brake_window = GoDuration::from_secs(WINDOW);
        cluster.config.eviction_brake_release_after = release_after;
        cluster
    }

    fn is_held_for_ever(&self) -> bool {
        self.config.eviction_brake_pods.is_some() && self.config.eviction_brake_release_after.is_none()
    }

    /// Whatever fails, and whoever leads.
    fn check_window(&self) -> Result<(), String> {
        for pair in self.gone.windows(2) {
            let between = pair[1].duration_since(pair[0]);
            if between < SignedDuration::from_secs(WINDOW.into()) {
                return Err(format!("two pods went within {between:#}"));
            }
        }
        Ok(())
    }
}

impl Explored for Cluster {
    fn acts(&self) -> Vec<Act> {
        let (pod, node, taint) = (0, 0, 0);
        let bind = |tolerates| Act::Bind { pod, node, tolerates };
        let stamped = true;
        vec![
            Act::Taint { node, taint, stamped },
            Act::Untaint { node, taint },
            bind(Tolerates::Nothing),
            Act::Delete(pod),
        ]
    }

    fn fingerprint(&self, out: &mut Fingerprint) {
        out.add(&(
            &self.taints,
            self.uids,
            &self.notes,
            &self.gone,
            self.refuses_until,
        ));
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
    let (pod, node, taint, stamped) = (0, 0, 0, true);
    cluster.act(&Act::Taint { node, taint, stamped }, NOW);
    let tolerates = Tolerates::For(3);
    cluster.act(&Act::Bind { pod, node, tolerates }, NOW);
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
        let mut cluster = if braked { Cluster::braked(Some(after)) } else { Cluster::new() };
        cluster.config.evict_through_budgets = Some(TAINTS.join(","));
        sim::run_among(cluster, &roles, &steps);
    }

    #[test]
    fn in_no_window_more_go_than_the_brake_lets((roles, steps) in sim::runs(any_action())) {
        sim::run_among(Cluster::braked(None), &roles, &steps);
    }
}

#[test]
fn nothing_is_left_of_a_pod_that_goes_before_its_refusal_is_answered() {
    let (pod, node, taint, stamped, tolerates) = (1, 0, 0, false, Tolerates::Nothing);
    for answers in 0..4 {
        let mut cluster = Cluster::new();
        cluster.config.evict_through_budgets = Some(TAINTS.join(","));
        let mut ops = vec![
            Op::Act(Act::Refuse),
            Op::Act(Act::Bind { pod, node, tolerates }),
            Op::Act(Act::Taint { node, taint, stamped }),
            Op::Deliver(0),
            Op::Deliver(1),
        ];
        ops.extend((0..answers).map(|_| Op::Answer(0)));
        let goes = [Act::Delete(pod), Act::End(pod)].map(Op::Act);
        ops.push(Op::Arrive(0));
        ops.extend(
            goes.into_iter()
                .chain([Op::Deliver(0), Op::Deliver(0), Op::Answer(0)]),
        );
        sim::run(cluster, &ops);
    }
}

#[test]
fn an_eviction_whose_answer_is_lost_after_a_refusal_is_tried_again() {
    let mut cluster = Cluster::new();
    cluster.config.evict_through_budgets = Some(TAINTS.join(","));
    let stamped = false;
    let ops = [
        Op::Act(Act::Taint {
            node: 1,
            taint: 0,
            stamped,
        }),
        Op::Act(Act::Taint {
            node: 0,
            taint: 0,
            stamped,
        }),
        Op::Deliver(1),
        Op::Act(Act::Bind {
            pod: 0,
            node: 1,
            tolerates: Tolerates::Nothing,
        }),
        Op::Deliver(0),
        Op::Act(Act::Refuse),
        Op::Answer(0),
        Op::Pass(Duration::from_millis(1)),
        Op::Arrive(0),
        Op::Answer(0),
        Op::Pass(Duration::from_secs(5)),
        Op::Answer(0),
        Op::Lose(0, sim::SimFailure::Broken),
    ];
    sim::run(cluster, &ops);
}

/// By the time the nodes are seen again, it is too late to delete what the brake let go before.
#[test]
fn a_pod_that_the_brake_lets_go_while_no_node_is_seen_goes_later() {
    let (pod, node, taint, stamped, tolerates) = (1, 0, 0, false, Tolerates::Nothing);
    let ops = [
        Op::Act(Act::Bind { pod, node, tolerates }),
        Op::Act(Act::Tolerate { pod, seconds: 0 }),
        Op::Act(Act::Taint { node, taint, stamped }),
        Op::Deliver(1),
        Op::Deliver(0),
        Op::BeginList(1),
        Op::Pass(Duration::from_secs(5)),
        Op::Deliver(0),
        Op::Pass(Duration::from_secs(61)),
    ];
    sim::run(Cluster::braked(Some(GoDuration::from_secs(60))), &ops);
}

/// The second gap in which no node is seen counts as the first, in which the deadline lies.
#[rstest]
fn a_pod_whose_next_try_comes_while_no_node_is_seen_is_tried_again(
    #[values(Cluster::new(), Cluster::braked(None))] mut cluster: Cluster,
) {
    let (pod, node, taint, stamped, tolerates) = (1, 0, 0, true, Tolerates::For(3));
    let seconds = |seconds| Op::Pass(Duration::from_secs(seconds));
    let ops = [
        Op::Act(Act::Bind { pod, node, tolerates }),
        Op::Act(Act::Taint { node, taint, stamped }),
        Op::Act(Act::Refuse),
        Op::Deliver(1),
        Op::Deliver(0),
        Op::BeginList(1),
        seconds(5),
        Op::Deliver(1),
        seconds(4),
        seconds(3),
    ]
    .into_iter()
    .chain((0..6).map(Op::Answer))
    .chain([Op::BeginList(1), seconds(6)]);
    cluster.config.evict_through_budgets = Some(TAINTS.join(","));
    sim::run(cluster, &ops.collect::<Vec<_>>());
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
