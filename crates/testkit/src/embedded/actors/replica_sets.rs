//! The controller of `ReplicaSets`, reduced to counting pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::Actor;
use super::follower::Follower;
use super::pod_status::{is_ready, is_terminal};
use super::stage::{Stage, Target, split};
use crate::embedded::object::{remove, text};
use crate::embedded::resource::table::{PODS, REPLICA_SETS};
use crate::embedded::write::deletion::{DeleteOptions, Propagation};
use crate::embedded::write::served;

/// How many pods it creates at once, as upstream's `BurstReplicas`.
const BURST: usize = 500;

pub(super) struct ReplicaSets {
    sets_follower: Follower,
    pods_follower: Follower,
    /// The active pods of sets.
    pods: BTreeMap<Arc<str>, Pod>,
    /// The keys of the active pods by the uid of their set.
    pods_of: BTreeMap<String, BTreeSet<Arc<str>>>,
}

#[derive(Debug)]
struct Pod {
    uid: String,
    set: Set,
    is_bound: bool,
    is_ready: bool,
    created: String,
}

/// The set that controls a pod.
#[derive(Clone, Debug)]
struct Set {
    key: String,
    uid: String,
}

impl Default for ReplicaSets {
    fn default() -> Self {
        Self {
            sets_follower: Follower::new(&REPLICA_SETS),
            pods_follower: Follower::new(&PODS),
            pods: BTreeMap::new(),
            pods_of: BTreeMap::new(),
        }
    }
}

impl Actor for ReplicaSets {
    fn manager(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn act(&mut self, stage: &Stage) -> Option<Instant> {
        let mut touched = BTreeSet::new();
        for (key, _) in stage.look(&mut self.sets_follower) {
            touched.insert(key.to_string());
        }
        for (key, stored) in stage.look(&mut self.pods_follower) {
            let pod = stored.map(|stored| served(&PODS, &stored));
            let pod = pod.as_ref().and_then(|pod| active_pod(&key, pod));
            self.learn_pod(key, pod, &mut touched);
        }
        for key in touched {
            if let Some(set) = stage.get(&REPLICA_SETS, &key) {
                self.attend(stage, &key, &set);
            }
        }
        None
    }
}

impl ReplicaSets {
    fn learn_pod(&mut self, key: Arc<str>, pod: Option<Pod>, touched: &mut BTreeSet<String>) {
        if let Some(old) = self.pods.remove(&key) {
            if let Some(pods) = self.pods_of.get_mut(&old.set.uid) {
                pods.remove(&key);
                if pods.is_empty() {
                    self.pods_of.remove(&old.set.uid);
                }
            }
            touched.insert(old.set.key);
        }
        if let Some(pod) = pod {
            touched.insert(pod.set.key.clone());
            let pods = self.pods_of.entry(pod.set.uid.clone()).or_default();
            pods.insert(key.clone());
            self.pods.insert(key, pod);
        }
    }

    /// Creates or deletes what makes the difference, and reports what there was. A write that fails met a newer
    /// state, or is refused for good.
    fn attend(&self, stage: &Stage, key: &str, set: &Value) {
        let metadata = &set["metadata"];
        let (uid, namespace) = (text(metadata, "uid"), text(metadata, "namespace"));
        let keys = self.pods_of.get(uid).into_iter().flatten();
        let mut pods: Vec<(&Arc<str>, &Pod)> =
            keys.filter_map(|key| Some((key, self.pods.get(key)?))).collect();
        let wanted = set["spec"]["replicas"].as_u64().unwrap_or(1);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        if metadata.get("deletionTimestamp").is_none() {
            for _ in 0..wanted.saturating_sub(pods.len()).min(BURST) {
                if stage.create(&PODS, namespace, new_pod(set)).is_err() {
                    break;
                }
            }
            // Those that are the least loss come last.
            pods.sort_by_key(|(key, pod)| {
                (!pod.is_bound, !pod.is_ready, pod.created.clone(), (*key).clone())
            });
            for (key, pod) in pods.iter().skip(wanted) {
                let target = Target {
                    resource: &PODS,
                    key,
                    uid: &pod.uid,
                };
                let _ = stage.delete(target, DeleteOptions::with(Propagation::Background));
            }
        }
        let ready = pods.iter().filter(|(_, pod)| pod.is_ready).count();
        let target = Target {
            resource: &REPLICA_SETS,
            key,
            uid,
        };
        let _ = stage.edit_status(target, |set| report(set, pods.len(), ready));
    }
}

/// A pod that counts: one with a set that controls it, neither deleted nor done.
fn active_pod(key: &str, pod: &Value) -> Option<Pod> {
    let metadata = &pod["metadata"];
    let mut owners = metadata["ownerReferences"].as_array()?.iter();
    let set = owners.find(|owner| owner["controller"] == true && owner["kind"] == REPLICA_SETS.kind)?;
    if metadata.get("deletionTimestamp").is_some() || is_terminal(pod) {
        return None;
    }
    Some(Pod {
        uid: text(metadata, "uid").to_owned(),
        set: Set {
            key: format!("{}/{}", split(key).0, text(set, "name")),
            uid: text(set, "uid").to_owned(),
        },
        is_bound: !text(&pod["spec"], "nodeName").is_empty(),
        is_ready: is_ready(pod),
        created: text(metadata, "creationTimestamp").to_owned(),
    })
}

/// A pod from the template of its set.
fn new_pod(set: &Value) -> Value {
    let template = &set["spec"]["template"];
    let name = text(&set["metadata"], "name");
    json!({
        "metadata": {
            "generateName": format!("{name}-"),
            "labels": template["metadata"]["labels"],
            "annotations": template["metadata"]["annotations"],
            "ownerReferences": [{
                "apiVersion": REPLICA_SETS.api_version(),
                "kind": REPLICA_SETS.kind,
                "name": name,
                "uid": set["metadata"]["uid"],
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": template["spec"],
    })
}

/// Zeros are left out, as the API's types do; `replicas` is always there.
fn report(set: &mut Value, replicas: usize, ready: usize) {
    let generation = set["metadata"]["generation"].as_u64().unwrap_or(0);
    let generation = usize::try_from(generation).unwrap_or(usize::MAX);
    set["status"]["replicas"] = json!(replicas);
    for (field, count) in [
        ("fullyLabeledReplicas", replicas),
        ("readyReplicas", ready),
        ("availableReplicas", ready),
        ("observedGeneration", generation),
    ] {
        if count == 0 {
            remove(&mut set["status"], field);
        } else {
            set["status"][field] = json!(count);
        }
    }
}
