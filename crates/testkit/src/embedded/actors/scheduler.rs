//! The scheduler, as far as the API shows it: which node a pod is bound to, or why to none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::Actor;
use super::follower::Follower;
use super::pod_status::is_terminal;
use super::stage::{Stage, Target};
use crate::embedded::conditions;
use crate::embedded::object::text;
use crate::embedded::resource::table::{NODES, PODS};
use crate::embedded::write::served;

/// Who schedules the pods that do not say who does.
const NAME: &str = "default-scheduler";
/// How many pods a node holds that does not say so.
const DEFAULT_PODS: usize = 110;

pub(super) struct Scheduler {
    nodes_follower: Follower,
    pods_follower: Follower,
    nodes: BTreeMap<Arc<str>, Value>,
    /// The node of each pod that runs.
    bound: BTreeMap<Arc<str>, String>,
    /// How many pods run on each node.
    count: BTreeMap<String, usize>,
    waiting: BTreeSet<Arc<str>>,
}

impl Default for Scheduler {
    fn default() -> Self {
        Self {
            nodes_follower: Follower::new(&NODES),
            pods_follower: Follower::new(&PODS),
            nodes: BTreeMap::new(),
            bound: BTreeMap::new(),
            count: BTreeMap::new(),
            waiting: BTreeSet::new(),
        }
    }
}

impl Actor for Scheduler {
    fn manager(&self) -> &'static str {
        "kube-scheduler"
    }

    fn act(&mut self, stage: &Stage) -> Option<Instant> {
        let has_news = self.learn_nodes(stage) | self.learn_pods(stage);
        if has_news {
            for key in self.waiting.clone() {
                if let Some(pod) = stage.get(&PODS, &key) {
                    self.place(stage, &key, &pod);
                }
            }
        }
        None
    }
}

impl Scheduler {
    fn learn_nodes(&mut self, stage: &Stage) -> bool {
        let news = stage.look(&mut self.nodes_follower);
        let is_news = !news.is_empty();
        for (name, stored) in news {
            match stored {
                Some(stored) => self.nodes.insert(name, scheduling_facts(served(&NODES, &stored))),
                None => self.nodes.remove(&name),
            };
        }
        is_news
    }

    fn learn_pods(&mut self, stage: &Stage) -> bool {
        let news = stage.look(&mut self.pods_follower);
        let is_news = !news.is_empty();
        for (key, stored) in news {
            let pod = stored.map(|stored| served(&PODS, &stored));
            let pod = pod.filter(|pod| !is_terminal(pod));
            let node = pod.as_ref().map(|pod| text(&pod["spec"], "nodeName").to_owned());
            self.count_on(&key, node.filter(|node| !node.is_empty()));
            if pod.is_some_and(|pod| is_to_be_placed(&pod)) {
                self.waiting.insert(key);
            } else {
                self.waiting.remove(&key);
            }
        }
        is_news
    }

    fn count_on(&mut self, key: &Arc<str>, node: Option<String>) {
        let before = match node.clone() {
            Some(node) => self.bound.insert(key.clone(), node),
            None => self.bound.remove(key),
        };
        if let Some(count) = before.and_then(|node| self.count.get_mut(&node)) {
            *count = count.saturating_sub(1);
        }
        if let Some(node) = node {
            *self.count.entry(node).or_default() += 1;
        }
    }

    /// Binds a pod to the node with the fewest pods, or says that it fits nowhere. A write that fails met a pod
    /// that is gone or bound.
    fn place(&mut self, stage: &Stage, key: &Arc<str>, pod: &Value) {
        let count = |name: &str| self.count.get(name).copied().unwrap_or(0);
        let fitting = self
            .nodes
            .iter()
            .filter(|(name, node)| fits(pod, node, count(name)));
        let chosen = fitting
            .map(|(name, _)| name)
            .min_by_key(|name| count(name))
            .cloned();
        let target = Target {
            resource: &PODS,
            key,
            uid: text(&pod["metadata"], "uid"),
        };
        let now = stage.now();
        let Some(name) = chosen else {
            let refused = json!({
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": format!("0/{} nodes are available.", self.nodes.len()),
            });
            let _ = stage.edit_status(target, |pod| conditions::set(pod, refused, &now));
            return;
        };
        let bound = stage.set(target, |pod| {
            pod["spec"]["nodeName"] = json!(*name);
            conditions::set(pod, json!({ "type": "PodScheduled", "status": "True" }), &now);
        });
        if bound.is_ok() {
            self.waiting.remove(key);
            self.count_on(key, Some(name.to_string()));
        }
    }
}

/// What the scheduler reads of a node.
fn scheduling_facts(mut node: Value) -> Value {
    json!({
        "labels": node["metadata"]["labels"].take(),
        "unschedulable": node["spec"]["unschedulable"].take(),
        "taints": node["spec"]["taints"].take(),
        "pods": node["status"]["allocatable"]["pods"].take(),
    })
}

/// Whether a pod waits for this scheduler.
fn is_to_be_placed(pod: &Value) -> bool {
    let spec = &pod["spec"];
    let is_empty = |field: &str| spec[field].as_array().is_none_or(Vec::is_empty);
    text(spec, "nodeName").is_empty()
        && matches!(text(spec, "schedulerName"), "" | NAME)
        && is_empty("schedulingGates")
        && is_empty("resourceClaims")
        && pod["metadata"].get("deletionTimestamp").is_none()
}

fn fits(pod: &Value, node: &Value, count: usize) -> bool {
    let capacity = text(node, "pods").parse().unwrap_or(DEFAULT_PODS);
    let selected = pod["spec"]["nodeSelector"].as_object().into_iter().flatten();
    let taints = node["taints"].as_array().into_iter().flatten();
    let cordon = json!({ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" });
    let cordon = Some(&cordon).filter(|_| node["unschedulable"] == true);
    count < capacity
        && selected
            .into_iter()
            .all(|(label, value)| node["labels"].get(label) == Some(value))
        && taints
            .chain(cordon)
            .all(|taint| text(taint, "effect") == "PreferNoSchedule" || tolerates(pod, taint))
}

fn tolerates(pod: &Value, taint: &Value) -> bool {
    let tolerations = pod["spec"]["tolerations"].as_array().into_iter().flatten();
    tolerations.into_iter().any(|toleration| {
        let is_any = |field: &str| text(toleration, field).is_empty();
        let is_same = |field: &str| text(toleration, field) == text(taint, field);
        let exists = text(toleration, "operator") == "Exists";
        (is_any("effect") || is_same("effect"))
            && (is_same("key") || (is_any("key") && exists))
            && (exists || is_same("value"))
    })
}
