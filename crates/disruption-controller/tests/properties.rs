//! The loop against a model of the API server: requeue completeness, the done contract and the final state.
//!
//! ```text
//! world ── acts       pods, budgets and workloads; what others do to them, drawn
//! stored              the same as an API server stores it
//! judge ── counting   what budgets must allow, counted by hand; one process, judged after each step
//! ```
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

mod acts;
mod counting;
mod judge;
mod stored;
mod world;

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::CallFailed;
use controller_core::cache::Page;
use controller_core::controller::{Completed, Loop, Now, RequestOf};
use controller_core::fingerprint::Fingerprint;
use controller_testing::encodings::assert_the_same_views;
use controller_testing::sim::{self, Bounds, Explored, Model, NOW, ProcessBug, SimObject, Watch};
use disruption_controller::DisruptionController;
use disruption_controller::config::Config;
use disruption_controller::discovery::Kind;
use disruption_controller::requests::{Answer, Query, Write};
use disruption_controller::state::{Key, State};
use disruption_controller::view::{PdbWire, Phase, PodWire, WorkloadWire};
use embedded_apiserver::Server;
use prometheus::Registry;
use proptest::prelude::*;
use serde_json::json;

use self::acts::{Act, Pod, any_action};
use self::world::{BUDGETS, Cluster, PODS, labels, numbered, pdb, pod, uid_of};

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

impl Cluster {
    fn read(&self, query: &Query) -> Result<Answer, CallFailed> {
        match query {
            Query::Kinds(api_version) => {
                let names: &[_] = if **api_version == *"apps/v1" {
                    &["ReplicaSet", "Deployment"]
                } else {
                    &["Widget"]
                };
                let kinds = names.iter().map(|name| Kind {
                    name: (*name).to_owned(),
                    plural: format!("{}s", name.to_lowercase()),
                    namespaced: true,
                    scales: true,
                });
                Ok(Answer::Kinds(Arc::new(kinds.collect())))
            }
            Query::Scale(target) => {
                let number = numbered(&target.name);
                let scale = self.replicas(number);
                let scale = scale.map(|replicas| Answer::Scale(uid_of(number), replicas));
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
            Act::Pod { pod, becomes, anew } => self.bring_pod(pod, becomes, anew, now),
            Act::Ready(number, ready) => self.edit_pod(number, |pod| pod.ready = ready),
            Act::Relabel(number, app) => self.edit_pod(number, |pod| pod.labels = labels(app)),
            Act::Fail(number) => self.edit_pod(number, |pod| {
                pod.ready = false;
                pod.phase = Phase::Failed;
            }),
            Act::End(number) => self.pods.delete(&pod(number)),
            Act::Budget(number, ref spec) => self.bring_pdb(number, spec),
            Act::DeleteBudget(number) => self.pdbs.delete(&pdb(number)),
            Act::Scale(number, replicas) => self.scale(number, replicas),
            Act::DeleteWorkload(number) => self.delete_workload(number),
            Act::Evict { pod, deletes } => self.evict(pod, deletes, now),
            Act::Approve { budget, pod: number } => self.approve(&pdb(budget), &pod(number), now),
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

    fn server(&self, ask: &RequestOf<DisruptionController>, now: Now) -> Option<Server> {
        self.as_stored(ask, now)
    }

    fn compare_with(&self, ask: &RequestOf<DisruptionController>, server: &Server) -> Result<(), String> {
        self.compare_stored(ask, server)
    }

    fn watches(&mut self) -> Vec<(&'static str, &mut dyn Watch<DisruptionController>)> {
        vec![
            ("pods", &mut self.pods),
            ("poddisruptionbudgets", &mut self.pdbs),
            ("replicasets", &mut self.replica_sets),
            ("deployments", &mut self.deployments),
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
            let pods = self.pods.objects().values().map(|pod| &pod.view);
            judge::judge_settled(view, pods, |number| self.replicas(number))?;
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
    let pod = Pod {
        app: Some("web"),
        ready: true,
        deleting: false,
        owner: None,
    };
    cluster.bring_pod(0, pod, true, NOW);
    cluster.bring_pdb(0, &json!({ "selector": {}, "minAvailable": 0 }));
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

fn with(bug: Bug) -> Cluster {
    Cluster {
        bug: Some(bug),
        ..Cluster::new()
    }
}

/// The clock of the process is ahead.
#[test]
fn an_answer_that_does_not_show_a_wrong_clock_is_found() {
    sim::assert_drawn(&with(Bug::NoDate), any_action(), "was given up too early");
}

controller_testing::process_bugs_are_found!(|bug| with(Bug::Process(bug)), any_action());

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

    #[test]
    fn each_step_counts_as_if_from_scratch_and_what_believes_in_too_much_goes_first(steps in counting::steps()) {
        counting::run(Cluster::new(), &steps);
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
