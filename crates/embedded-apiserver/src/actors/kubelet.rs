//! Kubelets: they start and end the pods on their nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::Actor;
use super::follower::Follower;
use super::pod_status::{end, is_terminal, run};
use super::stage::{Stage, Target};
use crate::object::text;
use crate::resource::table::{NODES, PODS};
use crate::write::deletion::DeleteOptions;
use crate::write::served;

/// Timing of kubelets.
#[derive(Clone, Debug)]
#[must_use]
pub struct KubeletOptions {
    start_after: Duration,
    stop_within: Duration,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl KubeletOptions {
    /// Pods run one second after they are bound, and end after their whole grace period.
    pub fn new() -> Self {
        Self {
            start_after: Duration::from_secs(1),
            stop_within: Duration::MAX,
        }
    }

    /// Time from binding to running.
    pub fn start_after(mut self, delay: Duration) -> Self {
        self.start_after = delay;
        self
    }

    /// Ends deleted pods after `delay` if their grace period is longer.
    pub fn stop_within(mut self, delay: Duration) -> Self {
        self.stop_within = delay;
        self
    }
}

/// The kubelets of all nodes.
pub(super) struct Kubelet {
    options: KubeletOptions,
    nodes: Follower,
    pods: Follower,
    /// Addresses of the nodes, by name.
    working: BTreeMap<String, String>,
    tasks: BTreeMap<Arc<str>, Task>,
    due: BTreeSet<(Instant, Arc<str>)>,
    started: u32,
}

/// The next action for a pod.
#[derive(Clone, Debug, PartialEq)]
struct Task {
    uid: String,
    node: String,
    step: Step,
    /// When the kubelet saw that the pod needs the action.
    since: Instant,
    at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Start,
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
            started: 0,
        }
    }

    fn take_nodes(&mut self, stage: &Stage) {
        for (name, stored) in stage.look(&mut self.nodes) {
            let Some(node) = stored.map(|stored| served(&NODES, &stored)) else {
                self.working.remove(&*name);
                continue;
            };
            if self.working.insert(name.to_string(), address(&node)).is_none() {
                // Tasks that waited for the node are done at their time, or now if that has passed.
                let waiting = self.tasks.iter().filter(|(_, task)| *task.node == *name);
                self.due.extend(waiting.map(|(key, task)| (task.at, key.clone())));
            }
        }
    }

    fn take_pods(&mut self, stage: &Stage) {
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

    /// The task for a pod. If the pod needed it before, its delay counts from then.
    fn task(&self, pod: &Value, old: Option<Task>, now: Instant) -> Option<Task> {
        let metadata = &pod["metadata"];
        let node = text(&pod["spec"], "nodeName");
        let grace = metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
        let (step, delay) = if node.is_empty() {
            return None;
        } else if metadata.get("deletionTimestamp").is_some() {
            if grace == 0 {
                // The pod has ended and waits for its finalizers.
                return None;
            }
            (
                Step::Stop,
                Duration::from_secs(grace).min(self.options.stop_within),
            )
        } else if is_terminal(pod) || text(&pod["status"], "phase") == "Running" {
            return None;
        } else {
            (Step::Start, self.options.start_after)
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
            // A time beyond the range of the clock never comes.
            at: since.checked_add(delay)?,
        })
    }

    /// Does a task that is due, and removes it; the next call sees what remains to be done.
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
        // A failed write means that the pod is gone or was replaced.
        let _ = match task.step {
            Step::Start => {
                self.started = self.started.wrapping_add(1);
                let [_, a, b, c] = self.started.to_be_bytes();
                let pod_ip = format!("10.{}.{b}.{c}", 128 | a);
                stage.edit_status(target, |pod| run(pod, &host_ip, &pod_ip, &now))
            }
            Step::Stop => stage
                .edit_status(target, |pod| {
                    if !is_terminal(pod) {
                        end(pod, &now);
                    }
                })
                .and_then(|()| stage.delete(target, DeleteOptions::at_once())),
        };
    }
}

impl Actor for Kubelet {
    fn manager(&self) -> &'static str {
        "kubelet"
    }

    fn act(&mut self, stage: &Stage) -> Option<Instant> {
        self.take_nodes(stage);
        self.take_pods(stage);
        let now = stage.instant();
        while let Some((at, key)) = self.due.first().cloned()
            && at <= now
        {
            self.due.pop_first();
            self.do_task(stage, &key);
        }
        self.due.first().map(|(at, _)| *at)
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
