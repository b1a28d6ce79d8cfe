//! The controller of namespaces: empties those that are deleted, then lets them go.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::Actor;
use super::follower::Follower;
use super::stage::{Stage, Target};
use crate::embedded::deletion::{DeleteOptions, Propagation};
use crate::embedded::resource::table::NAMESPACES;
use crate::embedded::write::served;

/// What a namespace waits for until it is empty.
const CONTENT: &str = "kubernetes";

pub(super) struct Namespaces {
    follower: Follower,
    /// Those that are to be emptied: name, uid.
    ending: BTreeMap<String, String>,
}

impl Default for Namespaces {
    fn default() -> Self {
        Self {
            follower: Follower::new(&NAMESPACES),
            ending: BTreeMap::new(),
        }
    }
}

impl Actor for Namespaces {
    fn manager(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn act(&mut self, stage: &Stage) -> Option<Instant> {
        for (name, stored) in stage.look(&mut self.follower) {
            let ends = stored
                .map(|stored| served(&NAMESPACES, &stored))
                .filter(waits_for_content);
            match ends {
                Some(namespace) => {
                    let uid = namespace["metadata"]["uid"].as_str().unwrap_or_default();
                    self.ending.insert(name.to_string(), uid.to_owned());
                }
                None => {
                    self.ending.remove(&*name);
                }
            }
        }
        for (name, uid) in &self.ending {
            if is_emptied(stage, name) {
                let target = Target {
                    resource: &NAMESPACES,
                    key: name,
                    uid,
                };
                // It was finalized by somebody else if this fails.
                let _ = stage.finalize(target, |namespace| {
                    if let Some(waits_for) = namespace["spec"]["finalizers"].as_array_mut() {
                        waits_for.retain(|finalizer| finalizer != CONTENT);
                    }
                });
            }
        }
        None
    }
}

fn waits_for_content(namespace: &Value) -> bool {
    namespace["metadata"].get("deletionTimestamp").is_some()
        && namespace["spec"]["finalizers"]
            .as_array()
            .is_some_and(|waits_for| waits_for.contains(&json!(CONTENT)))
}

/// Deletes what is in a namespace; whether nothing is left.
fn is_emptied(stage: &Stage, namespace: &str) -> bool {
    let mut is_empty = true;
    for resource in stage.stored_resources() {
        if !resource.is_namespaced() {
            continue;
        }
        for key in stage.keys_in(resource, namespace) {
            let Some(object) = stage.get(resource, &key) else {
                continue;
            };
            if object["metadata"].get("deletionTimestamp").is_none() {
                let target = Target {
                    resource,
                    key: &key,
                    uid: object["metadata"]["uid"].as_str().unwrap_or_default(),
                };
                // What is gone or replaced meanwhile is seen on the next look.
                let _ = stage.delete(target, DeleteOptions::with(Propagation::Background));
            }
            is_empty &= stage.get(resource, &key).is_none();
        }
    }
    is_empty
}
