//! The loop against a model of the API server: requeue completeness, the done contract and the final state.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::CallFailed;
use controller_core::cache::Page;
use controller_core::controller::{Accepted, Completed, Loop, Now, RequestOf};
use controller_core::fingerprint::Fingerprint;
use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use controller_testing::encodings::assert_the_same_views;
use controller_testing::sim::{
    self, Bounds, Explored, Model, NOW, ProcessBug, SimObject, SimResource, Watch,
};
use disruption_controller::config::Config;
use disruption_controller::decide::Builtin;
use disruption_controller::discovery::Kind;
use disruption_controller::labels::Labels;
use disruption_controller::requests::{Answer, Query, Reset, StatusWrite, Write};
use disruption_controller::selector::Selector;
use disruption_controller::state::{Key, State};
use disruption_controller::view::{
    Amount, DisruptionTarget, PdbView, PdbWire, Phase, PodView, PodWire, Status, WorkloadView, WorkloadWire,
};
use disruption_controller::{DisruptionController, Stores};
use jiff::{SignedDuration, Timestamp};
use prometheus::Registry;
use proptest::prelude::*;
use serde_json::json;

const PODS: usize = 5;
const BUDGETS: usize = 3;
/// The last one is a custom resource, whose scale no watch shows.
const WORKLOADS: usize = 3;
const WIDGET: usize = 2;

#[derive(Clone)]
struct Cluster {
    pods: SimResource<DisruptionController, PodView>,
    pdbs: SimResource<DisruptionController, PdbView>,
    replica_sets: SimResource<DisruptionController, WorkloadView>,
    /// How many pods the widget wants, while it exists.
    widget: Option<i64>,
    /// A write that came too early by the API server's clock, or forgot an eviction.
    wrong: Option<String>,
    last: u64,
    bug: Option<Bug>,
}

/// What an API server must not do.
#[derive(Clone, Copy, Debug)]
enum Bug {
    /// A status is written over whatever is there.
    NoVersion,
    /// It says that it has written a status, and has not.
    WritesNothing,
    /// Answers have no `Date`.
    NoDate,
    /// What a process must not do.
    Process(ProcessBug),
}

#[derive(Clone, Copy, Debug)]
enum Asks {
    MinAvailable(i64),
    MaxUnavailable(i64),
}

#[derive(Clone, Debug)]
enum Act {
    /// A pod is created, in the place of the one with its number.
    Pod {
        pod: usize,
        app: usize,
        ready: bool,
        owner: Option<usize>,
    },
    Ready(usize, bool),
    /// Its containers end for good.
    Fail(usize),
    Relabel(usize, usize),
    Terminate(usize),
    End(usize),
    /// A budget of an app, or of all pods, is created; an existing one demands something else.
    Budget {
        budget: usize,
        app: Option<usize>,
        asks: Asks,
    },
    DeleteBudget(usize),
    Scale(usize, i64),
    DeleteWorkload(usize),
    /// The Eviction API approves, and deletes the pod or dies before.
    Evict {
        pod: usize,
        deletes: bool,
    },
    /// Somebody marks a pod for disruption, whatever its budgets allow, and dies before deleting it.
    Preempt(usize),
    /// Somebody writes over a status.
    Overwrite(usize, i64),
}

fn pod(number: usize) -> ObjectKey {
    ObjectKey::namespaced("ns", format!("pod-{number}"))
}

fn pdb(number: usize) -> ObjectKey {
    ObjectKey::namespaced("ns", format!("pdb-{number}"))
}

fn workload(number: usize) -> ObjectKey {
    ObjectKey::namespaced("ns", format!("workload-{number}"))
}

fn uid_of(number: usize) -> Uid {
    Uid::from(&*workload(number).name)
}

fn labels(app: usize) -> Arc<Labels> {
    let labels = BTreeMap::from([("app", app.to_string())]);
    Arc::new(Labels::new(labels))
}

fn selector(app: Option<usize>) -> Selector {
    let wire = app.map_or(
        json!({}),
        |app| json!({ "matchLabels": { "app": app.to_string() } }),
    );
    Selector::compile(Some(serde_json::from_value(wire).unwrap()))
}

fn any_action() -> impl Strategy<Value = Act> {
    let number = || 0..4_i64;
    let app = || 0..2_usize;
    let pods = || 0..PODS;
    let asks = prop_oneof![
        number().prop_map(Asks::MinAvailable),
        number().prop_map(Asks::MaxUnavailable)
    ];
    let budget = (0..BUDGETS, prop::option::of(app()), asks);
    let new_pod = (
        pods(),
        app(),
        any::<bool>(),
        prop::option::weighted(0.8, 0..WORKLOADS),
    );
    prop_oneof![
        4 => new_pod.prop_map(|(pod, app, ready, owner)| Act::Pod { pod, app, ready, owner }),
        3 => (pods(), any::<bool>()).prop_map(|(pod, ready)| Act::Ready(pod, ready)),
        1 => (pods(), app()).prop_map(|(pod, app)| Act::Relabel(pod, app)),
        1 => pods().prop_map(Act::Fail),
        1 => pods().prop_map(Act::Terminate),
        1 => pods().prop_map(Act::End),
        3 => budget.prop_map(|(budget, app, asks)| Act::Budget { budget, app, asks }),
        1 => (0..BUDGETS).prop_map(Act::DeleteBudget),
        2 => (0..WORKLOADS, number()).prop_map(|(workload, replicas)| Act::Scale(workload, replicas)),
        1 => (0..WORKLOADS).prop_map(Act::DeleteWorkload),
        3 => (pods(), any::<bool>()).prop_map(|(pod, deletes)| Act::Evict { pod, deletes }),
        1 => pods().prop_map(Act::Preempt),
        1 => (0..BUDGETS, number()).prop_map(|(budget, allowed)| Act::Overwrite(budget, allowed)),
    ]
}

impl Cluster {
    fn new() -> Self {
        Self {
            pods: SimResource::new(|stores: &mut Stores| &mut stores.pods),
            pdbs: SimResource::new(|stores: &mut Stores| &mut stores.pdbs),
            replica_sets: SimResource::new(|stores: &mut Stores| stores.workloads_of(Builtin::ReplicaSet)),
            widget: None,
            wrong: None,
            last: 0,
            bug: None,
        }
    }

    /// Notes a violation unless two minutes have passed since `since`.
    fn check_time(&mut self, what: &ObjectKey, since: Timestamp, now: Now) {
        if now.wall.duration_since(since) < SignedDuration::from_mins(2) {
            self.wrong = Some(format!("{what} was given up too early"));
        }
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn edit_pdb(&mut self, key: &ObjectKey, edit: impl FnOnce(&mut PdbView)) -> Option<Accepted> {
        let version = self.pdbs.next_version();
        self.pdbs.edit(key, |pdb| {
            edit(pdb);
            pdb.version = version.to_string().into();
        })
    }

    fn edit_pod(&mut self, number: usize, edit: impl FnOnce(&mut PodView)) {
        self.pods.edit(&pod(number), edit);
    }

    fn bring_pod(&mut self, number: usize, app: usize, ready: bool, owner: Option<usize>, now: Now) {
        let uid = Uid::from(&*self.next().to_string());
        let view = PodView {
            key: pod(number),
            uid: uid.clone(),
            created: now.wall.as_second(),
            labels: labels(app),
            controller: owner.map(|owner| {
                let (api_version, kind) = if owner == WIDGET {
                    ("example.com/v1", "Widget")
                } else {
                    ("apps/v1", "ReplicaSet")
                };
                Arc::new(OwnerRef {
                    api_version: api_version.into(),
                    kind: kind.into(),
                    name: workload(owner).name,
                    uid: uid_of(owner),
                    controller: true,
                })
            }),
            target: None,
            ready,
            deleting: false,
            node: None,
            phase: Phase::Running,
        };
        self.pods.put(view, uid);
    }

    fn bring_pdb(&mut self, number: usize, app: Option<usize>, asks: Asks) {
        let key = pdb(number);
        let (min_available, max_unavailable) = match asks {
            Asks::MinAvailable(pods) => (Some(Amount::Int(pods)), None),
            Asks::MaxUnavailable(pods) => (None, Some(Amount::Int(pods))),
        };
        let edited = self.edit_pdb(&key, |pdb| {
            pdb.generation += 1;
            pdb.selector = Arc::new(selector(app));
            (pdb.min_available, pdb.max_unavailable) = (min_available.clone(), max_unavailable.clone());
        });
        if edited.is_none() {
            let uid = Uid::from(&*self.next().to_string());
            let view = PdbView {
                key,
                uid: uid.clone(),
                version: self.pdbs.next_version().to_string().into(),
                generation: 1,
                selector: selector(app).into(),
                min_available,
                max_unavailable,
                always_allow: false,
                status: Status::default(),
                written_by: None,
            };
            self.pdbs.put(view, uid);
        }
    }

    fn evict(&mut self, number: usize, deletes: bool, now: Now) {
        let Some(view) = self.pods.objects().get(&pod(number)).map(|pod| pod.view.clone()) else {
            return;
        };
        let pdbs = self.pdbs.objects().values();
        let mut matching = pdbs.filter(|pdb| pdb.view.selector.matches(&view.labels));
        let (Some(only), None, false) = (matching.next(), matching.next(), view.deleting) else {
            return;
        };
        let key = only.view.key.clone();
        let status = &only.view.status;
        if status.disruptions_allowed <= 0 || status.observed_generation != only.view.generation {
            return;
        }
        let since = Timestamp::from_second(now.wall.as_second()).unwrap();
        self.edit_pdb(&key, |pdb| {
            pdb.status.disruptions_allowed -= 1;
            pdb.status.disrupted_pods.insert(view.key.name.clone(), since);
        });
        self.pods.edit(&view.key, |pod| pod.deleting = deletes);
        self.want_gone(number, now);
    }

    fn want_gone(&mut self, number: usize, now: Now) {
        let since = Timestamp::from_second(now.wall.as_second()).unwrap();
        let version = self.pods.next_version().to_string().into();
        self.edit_pod(number, |pod| {
            pod.target = Some(Arc::new(DisruptionTarget {
                reason: "PreemptionByScheduler".into(),
                since,
                version,
                generation: 1,
            }));
        });
    }

    fn write_status(
        &mut self,
        StatusWrite { status, .. }: &StatusWrite,
        now: Now,
    ) -> Result<Accepted, CallFailed> {
        let held = self.pdbs.objects().get(&status.pdb.key);
        let held = held.filter(|held| held.uid == status.pdb.uid);
        let held = held.ok_or_else(sim::gone)?;
        if matches!(self.bug, Some(Bug::WritesNothing)) {
            return Ok(sim::accepted(held.uid.clone(), held.version));
        }
        if !matches!(self.bug, Some(Bug::NoVersion)) && held.view.version != status.pdb.version {
            return Err(sim::conflict());
        }
        let (known, held) = (
            &status.pdb.status.disrupted_pods,
            &held.view.status.disrupted_pods,
        );
        if let Some(pod) = held.keys().find(|pod| !known.contains_key(*pod)) {
            self.wrong = Some(format!("the eviction of {pod} was forgotten"));
        }
        for (pod, _) in &status.overdue {
            self.check_time(&status.pdb.key, status.pdb.status.disrupted_pods[pod], now);
        }
        let accepted = self.edit_pdb(&status.pdb.key, |pdb| *pdb = status.applied_to(pdb, None));
        accepted.ok_or_else(sim::gone)
    }

    fn write_reset(&mut self, reset: &Reset, now: Now) -> Result<Accepted, CallFailed> {
        let held = self.pods.objects().get(&reset.pod);
        let held = held.filter(|held| held.uid == reset.uid);
        let held = held.ok_or_else(sim::gone)?;
        if held.view.target.as_ref() != Some(&reset.target) {
            return Err(sim::conflict());
        }
        self.check_time(&reset.pod, reset.target.since, now);
        let accepted = self.pods.edit(&reset.pod, |pod| pod.target = None);
        accepted.ok_or_else(sim::gone)
    }

    fn read(&self, query: &Query) -> Result<Answer, CallFailed> {
        match query {
            Query::Kinds(api_version) => {
                let (name, plural) = if **api_version == *"apps/v1" {
                    ("ReplicaSet", "replicasets")
                } else {
                    ("Widget", "widgets")
                };
                Ok(Answer::Kinds(Arc::new(vec![Kind {
                    name: name.to_owned(),
                    plural: plural.to_owned(),
                    namespaced: true,
                    scales: true,
                }])))
            }
            Query::Scale(target) => {
                let number = (0..WORKLOADS).find(|number| workload(*number).name == target.name);
                let replicas = number.and_then(|number| self.wants(number));
                let scale = number.zip(replicas);
                let scale = scale.map(|(number, replicas)| Answer::Scale(uid_of(number), replicas));
                scale.ok_or_else(sim::gone)
            }
            Query::Owner(_) => unreachable!("every kind has a scale"),
            Query::Pod(key) => {
                let pod = self.pods.objects().get(key);
                let items = pod.map(sim::observed).into_iter().collect();
                Ok(Answer::Pods(Page { items, token: None }))
            }
            Query::Page(_) => {
                unreachable!("only explain lists")
            }
        }
    }

    fn wants(&self, number: usize) -> Option<i64> {
        if number == WIDGET {
            return self.widget;
        }
        let held = self.replica_sets.objects().get(&workload(number));
        held.map(|held| held.view.replicas)
    }

    /// Allowed, current, desired and expected, counted by hand; an error with only the second if a controller is gone.
    fn by_hand(&self, pdb: &PdbView) -> Result<[i64; 4], i64> {
        let pods = self.pods.objects().values().map(|pod| &pod.view);
        let pods: Vec<_> = pods.filter(|pod| pdb.selector.matches(&pod.labels)).collect();
        let count = |count: usize| i64::try_from(count).unwrap();
        let current = count(pods.iter().filter(|pod| pod.ready && !pod.deleting).count());
        let (expected, desired) = match (&pdb.min_available, &pdb.max_unavailable) {
            (Some(Amount::Int(least)), _) => (count(pods.len()), *least),
            (_, Some(Amount::Int(most))) => {
                let mut by_owner = BTreeMap::<usize, bool>::new();
                for pod in &pods {
                    let owner = pod.controller.as_ref();
                    let owner =
                        owner.and_then(|owner| (0..WORKLOADS).find(|n| workload(*n).name == owner.name));
                    if let Some(owner) = owner {
                        *by_owner.entry(owner).or_insert(true) &= pod.deleting;
                    }
                }
                let mut expected = 0;
                for (owner, all_go) in by_owner {
                    match self.wants(owner) {
                        Some(replicas) => expected += replicas,
                        None if all_go => {}
                        None => return Err(current),
                    }
                }
                (expected, (expected - most).max(0))
            }
            _ => unreachable!("every budget asks for something"),
        };
        let allowed = if expected > 0 {
            (current - desired).max(0)
        } else {
            0
        };
        Ok([allowed, current, desired, expected])
    }

    fn check_pdb(&self, pdb: &PdbView) -> Result<(), String> {
        let status = &pdb.status;
        let found = [
            status.disruptions_allowed,
            status.current_healthy,
            status.desired_healthy,
            status.expected_pods,
        ];
        match self.by_hand(pdb) {
            Ok(expected) if found != expected => {
                return Err(format!("{} says {found:?}, and not {expected:?}", pdb.key));
            }
            Ok(_) if !status.disrupted_pods.is_empty() => {
                return Err(format!("{} still has {:?}", pdb.key, status.disrupted_pods));
            }
            Err(current) if (status.disruptions_allowed, status.current_healthy) != (0, current) => {
                return Err(format!(
                    "{} cannot be computed and says {found:?}, not 0 and {current}",
                    pdb.key
                ));
            }
            Ok(_) | Err(_) => {}
        }
        if status.observed_generation == pdb.generation {
            Ok(())
        } else {
            Err(format!("the generation of {} was not observed", pdb.key))
        }
    }
}

impl Model for Cluster {
    type Controller = DisruptionController;
    type Act = Act;

    /// A scale that no watch shows is read every 30 seconds, for ever.
    const SETTLES_WITHIN: Duration = Duration::from_mins(75);

    fn controller(&self) -> DisruptionController {
        DisruptionController::new(&Config::default(), &Registry::new()).unwrap()
    }

    fn act(&mut self, action: &Act, now: Now) {
        match *action {
            Act::Pod {
                pod,
                app,
                ready,
                owner,
            } => self.bring_pod(pod, app, ready, owner, now),
            Act::Ready(number, ready) => self.edit_pod(number, |pod| pod.ready = ready),
            Act::Relabel(number, app) => self.edit_pod(number, |pod| pod.labels = labels(app)),
            Act::Fail(number) => self.edit_pod(number, |pod| {
                pod.ready = false;
                pod.phase = Phase::Failed;
            }),
            Act::Terminate(number) => self.edit_pod(number, |pod| pod.deleting = true),
            Act::End(number) => self.pods.delete(&pod(number)),
            Act::Budget { budget, app, asks } => self.bring_pdb(budget, app, asks),
            Act::DeleteBudget(number) => self.pdbs.delete(&pdb(number)),
            Act::Scale(WIDGET, replicas) => self.widget = Some(replicas),
            Act::Scale(number, replicas) => {
                let (key, uid) = (workload(number), uid_of(number));
                let view = WorkloadView {
                    key,
                    uid: uid.clone(),
                    replicas,
                    controller: None,
                };
                self.replica_sets.put(view, uid);
            }
            Act::DeleteWorkload(WIDGET) => self.widget = None,
            Act::DeleteWorkload(number) => self.replica_sets.delete(&workload(number)),
            Act::Evict { pod, deletes } => self.evict(pod, deletes, now),
            Act::Preempt(number) => self.want_gone(number, now),
            Act::Overwrite(number, allowed) => {
                self.edit_pdb(&pdb(number), |pdb| {
                    pdb.status.disruptions_allowed = allowed;
                    pdb.status.current_healthy += 1;
                });
            }
        }
    }

    fn arrive(&mut self, ask: &RequestOf<DisruptionController>, now: Now) -> Completed<Answer> {
        match ask {
            RequestOf::Query(query) => {
                let date = (!matches!(self.bug, Some(Bug::NoDate))).then_some(now.wall);
                Completed::Read(self.read(query), date)
            }
            RequestOf::Write(Write::Status(write)) => Completed::Wrote(self.write_status(write, now)),
            RequestOf::Write(Write::Reset(reset)) => Completed::Wrote(self.write_reset(reset, now)),
        }
    }

    fn watches(&mut self) -> Vec<(&'static str, &mut dyn Watch<DisruptionController>)> {
        vec![
            ("pods", &mut self.pods),
            ("poddisruptionbudgets", &mut self.pdbs),
            ("replicasets", &mut self.replica_sets),
        ]
    }

    fn keys(&self) -> Vec<Key> {
        let budgets = (0..BUDGETS).flat_map(|number| [Key::Budget(pdb(number)), Key::Recheck(pdb(number))]);
        budgets
            .chain((0..PODS).map(|number| Key::StalePod(pod(number))))
            .collect()
    }

    fn covers(&self, key: &Key) -> Vec<Key> {
        match key {
            Key::Budget(pdb) => vec![Key::Recheck(pdb.clone())],
            Key::Recheck(_) | Key::StalePod(_) => Vec::new(),
        }
    }

    /// Budgets whose scales no watch shows.
    fn rechecks(&self, event_loop: &Loop<DisruptionController>) -> usize {
        event_loop.scheduled(1)
    }

    fn process_bug(&self) -> Option<ProcessBug> {
        match self.bug {
            Some(Bug::Process(bug)) => Some(bug),
            _ => None,
        }
    }

    fn remembered(&self, state: &State) -> usize {
        state.held()
    }

    fn check(&self, event_loop: &Loop<DisruptionController>, _: Now) -> Result<(), String> {
        if let Some(budget) = event_loop.state().miscounted() {
            return Err(format!("the pods of {budget} are miscounted"));
        }
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        for SimObject { view, .. } in self.pdbs.objects().values() {
            self.check_pdb(view)?;
        }
        for SimObject { view, .. } in self.pods.objects().values() {
            if view.target.is_some() && view.is_live() {
                return Err(format!("{} is still to go", view.key));
            }
        }
        Ok(())
    }
}

impl Explored for Cluster {
    fn acts(&self) -> Vec<Act> {
        let (pod, budget) = (0, 0);
        vec![
            Act::Ready(pod, false),
            Act::Evict { pod, deletes: false },
            Act::DeleteBudget(budget),
            Act::Overwrite(budget, 3),
        ]
    }

    fn waits(&self) -> Vec<Duration> {
        vec![Duration::from_secs(121)]
    }

    fn fingerprint(&self, out: &mut Fingerprint) {
        out.add(&(self.widget, &self.wrong, self.last));
    }
}

/// A pod, and a budget that lets it go.
fn one_budget(bug: Option<Bug>) -> Cluster {
    let mut cluster = Cluster {
        bug,
        ..Cluster::new()
    };
    cluster.bring_pod(0, 0, true, None, NOW);
    cluster.bring_pdb(0, Some(0), Asks::MinAvailable(0));
    cluster
}

/// One act of others and one lost answer.
const LOST: Bounds = Bounds {
    crashes: 0,
    terms: 0,
    ..Bounds::FEW
};

#[test]
fn no_run_within_bounds_leaves_a_status_that_is_wrong() {
    sim::assert_sound(&one_budget(None), LOST);
}

#[test]
fn a_status_that_is_written_without_a_version_is_found() {
    sim::assert_found(one_budget(Some(Bug::NoVersion)), LOST, 4, "was forgotten");
}

#[test]
fn a_status_that_is_accepted_and_not_written_is_found() {
    sim::assert_found(one_budget(Some(Bug::WritesNothing)), LOST, 1, "Remember(Undone(");
}

/// The clock of the process is ahead.
#[test]
fn an_answer_that_does_not_show_a_wrong_clock_is_found() {
    let cluster = Cluster {
        bug: Some(Bug::NoDate),
        ..Cluster::new()
    };
    sim::assert_drawn(&cluster, any_action(), "was given up too early");
}

#[test]
fn a_dry_run_that_writes_is_found() {
    let bug = Some(Bug::Process(ProcessBug::WritesInDryRun));
    sim::assert_drawn(
        &Cluster {
            bug,
            ..Cluster::new()
        },
        any_action(),
        "a dry run sends",
    );
}

#[test]
fn a_process_that_does_not_notice_that_another_leads_is_found() {
    let bug = Some(Bug::Process(ProcessBug::KeepsItsTerm));
    sim::assert_drawn(
        &Cluster {
            bug,
            ..Cluster::new()
        },
        any_action(),
        "sent without the term",
    );
}

#[test]
fn nothing_is_left_of_ten_thousand_objects() {
    sim::run_through(Cluster::new(), 10_000, any_action());
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_with_statuses_that_say_what_the_pods_are(
        (roles, steps) in sim::runs(any_action()),
    ) {
        sim::run_among(Cluster::new(), &roles, &steps);
    }
}

#[test]
fn json_and_protobuf_give_the_same_pod() {
    assert_the_same_views::<PodWire>(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:01Z",
            "labels": { "app": "web", "empty": "" },
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "Node", "name": "o", "uid": "1", "controller": false },
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "2", "controller": true },
            ],
        },
        "status": { "phase": "Failed", "conditions": [
            { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:02Z" },
            { "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
              "lastTransitionTime": "2026-01-01T00:00:03Z" },
        ] },
    }));
}

#[test]
fn json_and_protobuf_give_the_same_budget() {
    for amount in [json!(1), json!("30%")] {
        assert_the_same_views::<PdbWire>(&json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {
                "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3,
                "managedFields": [
                    { "manager": "a", "operation": "Update", "subresource": "status", "time": "2026-01-01T00:00:01Z" },
                    { "manager": "b", "operation": "Update", "time": "2026-01-01T00:00:02Z" },
                ],
            },
            "spec": {
                "minAvailable": amount, "maxUnavailable": amount,
                "selector": {
                    "matchLabels": { "app": "web", "empty": "" },
                    "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["front", ""] }],
                },
            },
            "status": {
                "observedGeneration": 1, "disruptionsAllowed": 2, "currentHealthy": 3, "desiredHealthy": 4,
                "expectedPods": 5, "disruptedPods": { "a": "2026-01-01T00:00:00Z", "b": null },
                "conditions": [{
                    "type": "DisruptionAllowed", "status": "True", "reason": "r", "message": "m",
                    "observedGeneration": 6, "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        }));
    }
}

#[test]
fn json_and_protobuf_give_the_same_workload() {
    let kinds = [
        ("v1", "ReplicationController"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "Deployment"),
    ];
    for (api_version, kind) in kinds {
        let owner = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "2", "controller": true });
        assert_the_same_views::<WorkloadWire>(&json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": { "name": "n", "namespace": "ns", "uid": "u", "ownerReferences": [owner] },
            "spec": { "replicas": 0 },
        }));
    }
}
