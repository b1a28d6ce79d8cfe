//! A world of lines in words, such as `pod web-0 of ReplicaSet web, not ready`.
//!
//! | line | means |
//! |---|---|
//! | `ReplicaSet web wants 3`, `ReplicaSet web-1 of Deployment web wants 2` | a workload; a `Widget` has a scale that is read |
//! | `pod web-0 of ReplicaSet web, not ready, on b` | a pod, ready and on node `a` if not said otherwise; its owner may be no workload |
//! | `budget web minAvailable 2, for db, AlwaysAllow` | a budget, for pods with the label `app: web` if not said otherwise |
//! | `chain`, `counts Job.batch` | `--owner-chain`, `--scale-less-owners=Job.batch` |
//! | `status web allowed 1` | a field of its status that is not as the pods make it |

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::cache::{OwnerWire, Page, Versioned, Wire};
use controller_core::controller::{Now, Pass, Reply};
use controller_core::meta::{ObjectKey, Uid};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::DisruptionController;
use crate::decide::{Builtin, OwnerRules};
use crate::discovery::Kind;
use crate::drain::world::{Missing, World};
use crate::requests::{Answer, Listed, Query};
use crate::view::{DrainedPodWire, PdbWire, WorkloadWire};

/// The time of all worlds.
pub(super) fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// Objects in JSON.
#[derive(Clone, Debug, Default)]
pub(super) struct Scene {
    pub(super) pods: Vec<Value>,
    pub(super) pdbs: Vec<Value>,
    /// By kind.
    pub(super) workloads: Vec<(String, Value)>,
    /// What budgets' statuses say instead of what their pods make.
    pub(super) statuses: Vec<(String, String, Value)>,
    pub(super) rules: OwnerRules,
}

impl Scene {
    pub(super) fn of(lines: &[&str]) -> Self {
        let mut scene = Self::default();
        for line in lines {
            scene.add(line);
        }
        scene
    }

    fn add(&mut self, line: &str) {
        let mut clauses = line.split(", ");
        let head: Vec<_> = clauses.next().unwrap().split(' ').collect();
        match *head.as_slice() {
            ["pod", name] => self.pods.push(pod(name, None, clauses)),
            ["pod", name, "of", kind, owner] => self.pods.push(pod(name, Some((kind, owner)), clauses)),
            ["budget", name, field, amount] => self.pdbs.push(pdb(name, field, amount, clauses)),
            ["chain"] => self.rules.chain = true,
            ["counts", kind] => drop(self.rules.scale_less.insert(kind.parse().unwrap())),
            ["status", name, field, value] => {
                let value = serde_json::from_str(value).unwrap();
                self.statuses.push((name.into(), field.into(), value));
            }
            [kind, name, "wants", count] => self.workload(kind, name, count, None),
            [kind, name, "of", above, owner, "wants", count] => {
                self.workload(kind, name, count, Some((above, owner)));
            }
            _ => panic!("{line}"),
        }
    }

    fn workload(&mut self, kind: &str, name: &str, count: &str, above: Option<(&str, &str)>) {
        let replicas: i64 = count.parse().unwrap();
        let mut object = json!({ "metadata": metadata(name, kind), "spec": { "replicas": replicas } });
        if let Some(above) = above {
            object["metadata"]["ownerReferences"] = json!([owner(above)]);
        }
        self.workloads.push((kind.into(), object));
    }

    /// Hands the world out once everything is answered.
    pub(super) fn judged<T>(&self, look: impl Fn(&World<'_>) -> Result<T, Missing>) -> T {
        let mut pdbs = self.pdbs.clone();
        let mut told = self.looked(&pdbs, |world| {
            let judged = world.judged(world.pdbs.keys().cloned(), now())?;
            let renewed = judged
                .iter()
                .map(|(key, judged)| (key.name.to_string(), judged.renewed().clone()));
            Ok(renewed.collect::<BTreeMap<_, _>>())
        });
        for pdb in &mut pdbs {
            let name = pdb["metadata"]["name"].as_str().unwrap().to_owned();
            let status = told.remove(&name).unwrap().status;
            let condition = status.condition.unwrap();
            pdb["status"] = json!({
                "observedGeneration": status.observed_generation,
                "disruptionsAllowed": status.disruptions_allowed,
                "currentHealthy": status.current_healthy,
                "desiredHealthy": status.desired_healthy,
                "expectedPods": status.expected_pods,
                "disruptedPods": {},
                "conditions": [{
                    "type": "DisruptionAllowed", "status": if condition.allowed { "True" } else { "False" },
                    "reason": condition.reason, "message": condition.message,
                    "observedGeneration": condition.observed_generation,
                }],
            });
            for (_, field, value) in self.statuses.iter().filter(|(of, ..)| *of == name) {
                let field = match field.as_str() {
                    "allowed" => "disruptionsAllowed",
                    "healthy" => "currentHealthy",
                    "desired" => "desiredHealthy",
                    "generation" => "observedGeneration",
                    other => other,
                };
                pdb["status"][field] = value.clone();
            }
        }
        self.looked(&pdbs, look)
    }

    fn looked<T>(&self, pdbs: &[Value], look: impl Fn(&World<'_>) -> Result<T, Missing>) -> T {
        let mut pass = Pass::<DisruptionController>::default();
        loop {
            let found = World::read(&pass, &[], &self.rules).and_then(|world| look(&world));
            let queries = match found {
                Ok(found) => return found,
                Err(Missing::Answers(queries)) => queries,
                Err(Missing::Failed(failure)) => panic!("{failure}"),
            };
            for query in queries {
                let at = Now {
                    wall: now(),
                    uptime: Duration::ZERO,
                };
                let reply = Reply {
                    value: Ok(self.answer(pdbs, &query)),
                    asked: at,
                    answered: at,
                    date: None,
                };
                pass.answered(query, reply);
            }
        }
    }

    fn by_uid(&self, uid: &Uid) -> Option<&Value> {
        let mut all = self.workloads.iter().map(|(_, object)| object);
        all.find(|object| object["metadata"]["uid"] == uid.to_string())
    }

    fn answer(&self, pdbs: &[Value], query: &Query) -> Answer {
        let of_kind = |wanted: &str| {
            let these = self.workloads.iter().filter(move |(kind, _)| kind == wanted);
            these.map(|(_, object)| object).cloned().collect::<Vec<_>>()
        };
        match query {
            Query::Page(listing) => match &listing.of {
                Listed::Pdbs => Answer::Pdbs(page::<PdbWire>(pdbs)),
                Listed::Pods => Answer::Drained(page::<DrainedPodWire>(&self.pods)),
                Listed::Workloads(kind) => Answer::Workloads(page::<WorkloadWire>(&of_kind(match kind {
                    Builtin::ReplicationController => "ReplicationController",
                    Builtin::ReplicaSet => "ReplicaSet",
                    Builtin::Deployment => "Deployment",
                    Builtin::StatefulSet => "StatefulSet",
                }))),
                Listed::Node(_) => Answer::Nodes(0),
            },
            Query::Kinds(_) => Answer::Kinds(Arc::new(kinds())),
            Query::Scale(target) => match self.by_uid(&target.uid) {
                Some(found) => Answer::Scale(target.uid.clone(), found["spec"]["replicas"].as_i64().unwrap()),
                None => Answer::Scale(Uid::from("another"), 0),
            },
            Query::Owner(target) => {
                let above = self.by_uid(&target.uid).unwrap()["metadata"]["ownerReferences"][0].clone();
                let above = serde_json::from_value::<OwnerWire>(above).ok();
                let above = OwnerWire::controller(above.into_iter().collect());
                Answer::Owner(target.uid.clone(), above.map(Arc::new))
            }
            Query::Pod(_) => panic!("{query:?}"),
        }
    }
}

pub(super) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

/// `Job` and `DaemonSet` have no scale, any other kind has one.
fn kinds() -> Vec<Kind> {
    let kinds = [
        "ReplicaSet",
        "StatefulSet",
        "Deployment",
        "Widget",
        "Job",
        "DaemonSet",
    ];
    kinds
        .map(|kind| Kind {
            name: kind.to_owned(),
            plural: kind.to_lowercase() + "s",
            namespaced: true,
            scales: !matches!(kind, "Job" | "DaemonSet"),
        })
        .into()
}

fn page<W: Wire>(objects: &[Value]) -> Page<W::View> {
    let read = |object: &Value| {
        Versioned::read::<W>(object.to_string().as_bytes())
            .unwrap()
            .unwrap()
    };
    Page {
        items: objects.iter().map(read).collect(),
        token: None,
    }
}

fn metadata(name: &str, kind: &str) -> Value {
    json!({ "namespace": "default", "name": name, "uid": format!("{kind}-{name}"), "generation": 2 })
}

fn owner((kind, name): (&str, &str)) -> Value {
    let api_version = match kind {
        "Widget" => "example.com/v1",
        "Job" => "batch/v1",
        "Unknown" => "unknown.example.com/v1",
        _ => "apps/v1",
    };
    json!({
        "apiVersion": api_version, "kind": kind, "name": name, "uid": format!("{kind}-{name}"), "controller": true,
    })
}

fn pod<'a>(name: &str, of: Option<(&str, &str)>, clauses: impl Iterator<Item = &'a str>) -> Value {
    let mut pod = json!({
        "metadata": metadata(name, "Pod"),
        "spec": { "nodeName": "a" },
        "status": { "phase": "Running", "conditions": [condition("True")] },
    });
    pod["metadata"]["labels"] = json!({ "app": "web" });
    if let Some(of) = of {
        pod["metadata"]["ownerReferences"] = json!([owner(of)]);
    }
    for clause in clauses {
        match *clause.split(' ').collect::<Vec<_>>().as_slice() {
            ["on", node] => pod["spec"]["nodeName"] = json!(node),
            ["app", app] => pod["metadata"]["labels"]["app"] = json!(app),
            ["not", "ready"] => pod["status"]["conditions"] = json!([condition("False")]),
            ["pending"] => {
                pod["status"] = json!({ "phase": "Pending" });
                pod["metadata"]["creationTimestamp"] = json!("2026-01-01T11:30:00Z");
            }
            ["unscheduled"] => {
                pod["status"] = json!({ "phase": "Pending" });
                pod["metadata"]["creationTimestamp"] = json!("2026-01-01T11:30:00Z");
                pod["spec"] = json!({});
            }
            ["over"] => pod["status"] = json!({ "phase": "Succeeded" }),
            ["deleted", "until", time] => {
                pod["metadata"]["deletionTimestamp"] = json!(format!("2026-01-01T{time}Z"));
            }
            ["finalizer", finalizer] => pod["metadata"]["finalizers"] = json!([finalizer]),
            ["emptyDir"] => pod["spec"]["volumes"] = json!([{ "name": "tmp", "emptyDir": {} }]),
            ["mirror"] => pod["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "x" }),
            ["annotated", key, value] => pod["metadata"]["annotations"] = json!({ key: value }),
            _ => panic!("{clause}"),
        }
    }
    pod
}

fn condition(ready: &str) -> Value {
    json!({ "type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T11:00:00Z" })
}

fn pdb<'a>(name: &str, field: &str, amount: &str, clauses: impl Iterator<Item = &'a str>) -> Value {
    let amount = amount
        .parse::<i64>()
        .map_or_else(|_| json!(amount), |pods| json!(pods));
    let mut pdb = json!({
        "metadata": metadata(name, "PodDisruptionBudget"),
        "spec": { "selector": { "matchLabels": { "app": "web" } }, field: amount },
    });
    for clause in clauses {
        match *clause.split(' ').collect::<Vec<_>>().as_slice() {
            ["for", "all"] => pdb["spec"]["selector"] = json!({}),
            ["for", app] => pdb["spec"]["selector"] = json!({ "matchLabels": { "app": app } }),
            ["AlwaysAllow"] => pdb["spec"]["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow"),
            _ => panic!("{clause}"),
        }
    }
    pdb
}
