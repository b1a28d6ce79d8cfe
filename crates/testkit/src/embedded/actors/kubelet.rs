//! Kubelets: what runs on the nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::Actor;
use super::follower::Follower;
use super::pod_status::{condition, end, is_terminal, run, set_condition};
use super::stage::{Stage, Target, split};
use crate::embedded::deletion::DeleteOptions;
use crate::embedded::object::text;
use crate::embedded::resource::table::{LEASES, NODES, PODS};
use crate::embedded::write::served;

/// An annotation of a pod: the phase in which it is to end, `Succeeded` or `Failed`, whatever its restart policy.
pub const FINISH: &str = "kubelet.testkit/finish";
/// An annotation of a node, of any value: its kubelet does nothing, as if the machine were cut off.
pub const STOPPED: &str = "kubelet.testkit/stopped";

/// The namespace of the leases of nodes.
const NODE_LEASES: &str = "kube-node-lease";
/// How long the lease of a node is good for, in seconds.
const LEASE_DURATION: i64 = 40;

/// What heartbeats can be told to keep to.
const SHORTEST_PERIOD: Duration = Duration::from_millis(1);
const LONGEST_PERIOD: Duration = Duration::from_hours(365 * 24);

/// How kubelets behave.
#[derive(Clone, Debug)]
#[must_use]
pub struct KubeletOptions {
    start_after: Duration,
    stop_within: Duration,
    heartbeats: Option<Duration>,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl KubeletOptions {
    /// Pods run a second after they were bound and take their whole grace period to end; no heartbeats.
    pub fn new() -> Self {
        Self {
            start_after: Duration::from_secs(1),
            stop_within: Duration::MAX,
            heartbeats: None,
        }
    }

    /// How long a bound pod takes to run.
    pub fn start_after(mut self, delay: Duration) -> Self {
        self.start_after = delay;
        self
    }

    /// How long a deleted pod takes at most to end, if its grace period is longer.
    pub fn stop_within(mut self, delay: Duration) -> Self {
        self.stop_within = delay;
        self
    }

    /// Renews the lease and the `Ready` condition of every node in this period. Time that is paused goes on for
    /// ever then.
    pub fn heartbeats(mut self, period: Duration) -> Self {
        self.heartbeats = Some(period.clamp(SHORTEST_PERIOD, LONGEST_PERIOD));
        self
    }
}

/// The kubelets of all nodes.
pub(super) struct Kubelet {
    options: KubeletOptions,
    nodes: Follower,
    pods: Follower,
    /// Nodes whose kubelet works: name, address.
    working: BTreeMap<String, String>,
    tasks: BTreeMap<Arc<str>, Task>,
    due: BTreeSet<(Instant, Arc<str>)>,
    next_beat: Option<Instant>,
    started: u32,
}

/// What is to be done with a pod.
#[derive(Clone, Debug, PartialEq)]
struct Task {
    uid: String,
    node: String,
    step: Step,
    /// When the need for it was seen.
    since: Instant,
    at: Instant,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Start,
    Finish(String),
    Stop,
}

impl Kubelet {
    pub(super) fn new(options: KubeletOptions) -> Self {
        Self {
            options,
            nodes: Follower::new(&NODES),
            pods: Follower::new(&PODS),
            working: BTreeMap::new(),
            tasks: BTreeMap::new(),
            due: BTreeSet::new(),
            next_beat: None,
            started: 0,
        }
    }

    /// Follows which nodes have a kubelet that works; those that are new.
    fn learn_nodes(&mut self, stage: &Stage) -> Vec<String> {
        let mut new = Vec::new();
        for (name, stored) in stage.look(&mut self.nodes) {
            let works = stored
                .map(|stored| served(&NODES, &stored))
                .filter(|node| node["metadata"]["annotations"].get(STOPPED).is_none());
            let Some(node) = works else {
                self.working.remove(&*name);
                continue;
            };
            if self.working.insert(name.to_string(), address(&node)).is_none() {
                new.push(name.to_string());
                // What waited for the node is done when it would have been, or now.
                let waiting = self.tasks.iter().filter(|(_, task)| *task.node == *name);
                self.due.extend(waiting.map(|(key, task)| (task.at, key.clone())));
            }
        }
        new
    }

    fn learn_pods(&mut self, stage: &Stage) {
        let now = stage.instant();
        for (key, stored) in stage.look(&mut self.pods) {
            let old = self.tasks.remove(&key);
            if let Some(old) = &old {
                self.due.remove(&(old.at, key.clone()));
            }
            let pod = stored.map(|stored| served(&PODS, &stored));
            if let Some(task) = pod.and_then(|pod| self.task(&pod, old, now)) {
                self.due.insert((task.at, key.clone()));
                self.tasks.insert(key, task);
            }
        }
    }

    /// What a pod needs. What it needed before, it needs since then.
    fn task(&self, pod: &Value, old: Option<Task>, now: Instant) -> Option<Task> {
        let metadata = &pod["metadata"];
        let node = text(&pod["spec"], "nodeName");
        let grace = metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
        let (step, delay) = if node.is_empty() {
            return None;
        } else if metadata.get("deletionTimestamp").is_some() {
            if grace == 0 {
                // It is over, and waits for its finalizers.
                return None;
            }
            (
                Step::Stop,
                Duration::from_secs(grace).min(self.options.stop_within),
            )
        } else if is_terminal(pod) {
            return None;
        } else if text(&pod["status"], "phase") != "Running" {
            (Step::Start, self.options.start_after)
        } else {
            let phase = text(&metadata["annotations"], FINISH);
            if !matches!(phase, "Succeeded" | "Failed") {
                return None;
            }
            (Step::Finish(phase.to_owned()), Duration::ZERO)
        };
        let uid = text(metadata, "uid");
        let since = old
            .filter(|old| old.uid == uid && old.step == step)
            .map_or(now, |old| old.since);
        Some(Task {
            uid: uid.to_owned(),
            node: node.to_owned(),
            step,
            since,
            // What is beyond the end of time is never done.
            at: since.checked_add(delay)?,
        })
    }

    /// Does a task whose time has come; none is left of it, for what it leaves to do is seen on the next look.
    fn do_task(&mut self, stage: &Stage, key: &Arc<str>) {
        let Some(task) = self.tasks.get(key) else {
            return;
        };
        let Some(host_ip) = self.working.get(&task.node).cloned() else {
            return;
        };
        let Some(task) = self.tasks.remove(key) else {
            return;
        };
        let now = stage.now();
        let target = Target {
            resource: &PODS,
            key,
            uid: &task.uid,
        };
        // A write that fails met a pod that is gone or replaced.
        let _ = match &task.step {
            Step::Start => {
                self.started = self.started.wrapping_add(1);
                let [_, a, b, c] = self.started.to_be_bytes();
                let pod_ip = format!("10.{}.{b}.{c}", 128 | a);
                stage.edit_status(target, |pod| run(pod, &host_ip, &pod_ip, &now))
            }
            Step::Finish(phase) => stage.edit_status(target, |pod| end(pod, phase, &now)),
            Step::Stop => stage
                .edit_status(target, |pod| {
                    if !is_terminal(pod) {
                        end(pod, "Succeeded", &now);
                    }
                })
                .and_then(|()| stage.delete(target, DeleteOptions::at_once())),
        };
    }

    /// Renews what tells that nodes are alive, of all of them when it is time, else of the new ones.
    fn beat(&mut self, stage: &Stage, new: Vec<String>) {
        let Some(period) = self.options.heartbeats else {
            return;
        };
        let now = stage.instant();
        let nodes = if self.next_beat.is_none_or(|at| at <= now) {
            self.next_beat = Some(now + period);
            self.working.keys().cloned().collect()
        } else {
            new
        };
        for name in nodes {
            if let Some(node) = stage.get(&NODES, &name) {
                renew(stage, &name, text(&node["metadata"], "uid"));
            }
        }
    }
}

impl Actor for Kubelet {
    fn manager(&self) -> &'static str {
        "kubelet"
    }

    fn act(&mut self, stage: &Stage) -> Option<Instant> {
        let new = self.learn_nodes(stage);
        self.learn_pods(stage);
        self.beat(stage, new);
        let now = stage.instant();
        while let Some((at, key)) = self.due.first().cloned()
            && at <= now
        {
            self.due.pop_first();
            self.do_task(stage, &key);
        }
        let next_task = self.due.first().map(|(at, _)| *at);
        next_task.into_iter().chain(self.next_beat).min()
    }
}

fn address(node: &Value) -> String {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    let mut internal = addresses.filter(|address| address["type"] == "InternalIP");
    internal
        .next()
        .map_or("127.0.0.1", |address| text(address, "address"))
        .to_owned()
}

/// Says that a node is alive: by its lease and by its `Ready` condition.
fn renew(stage: &Stage, name: &str, uid: &str) {
    let now = stage.now();
    let key = format!("{NODE_LEASES}/{name}");
    let renew_time = json!(now.replace('Z', ".000000Z"));
    // Leases come and go with their namespace, nodes with whoever deletes them.
    let _ = match stage.get(&LEASES, &key) {
        Some(lease) => {
            let target = Target {
                resource: &LEASES,
                key: &key,
                uid: text(&lease["metadata"], "uid"),
            };
            stage.edit(target, |lease| lease["spec"]["renewTime"] = renew_time)
        }
        None => stage
            .create(&LEASES, split(&key).0, lease(name, uid, &renew_time))
            .map(|_| ()),
    };
    let target = Target {
        resource: &NODES,
        key: name,
        uid,
    };
    let _ = stage.edit_status(target, |node| {
        let mut ready = condition(node, "Ready")
            .filter(|ready| ready["status"] == "True")
            .cloned()
            .unwrap_or_else(|| {
                json!({
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "kubelet is posting ready status",
                })
            });
        ready["lastHeartbeatTime"] = json!(now);
        set_condition(node, ready, &now);
    });
}

fn lease(node: &str, uid: &str, renew_time: &Value) -> Value {
    json!({
        "metadata": {
            "name": node,
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid }],
        },
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": LEASE_DURATION,
            "renewTime": renew_time,
        },
    })
}
