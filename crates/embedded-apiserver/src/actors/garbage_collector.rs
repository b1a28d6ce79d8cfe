//! The garbage collector: deletes or releases the dependents of deleted owners (kubernetes
//! `pkg/controller/garbagecollector`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Actor;
use super::follower::Follower;
use super::stage::{Stage, Target, split};
use crate::object::remove;
use crate::resource::{Dependents, Resource};
use crate::store::Stored;
use crate::write::deletion::{DeleteOptions, FOREGROUND, ORPHAN, Propagation};
use crate::write::key;

/// The graph of owners, kept up to date with the store.
#[derive(Default)]
pub(super) struct GarbageCollector {
    followers: Vec<Follower>,
    nodes: BTreeMap<Id, Node>,
    by_uid: BTreeMap<String, Id>,
    /// Dependents by the uid of their owner, which need not exist.
    dependents: BTreeMap<String, BTreeSet<Id>>,
}

/// An object: the index of its follower, and its key.
type Id = (usize, Arc<str>);

/// The metadata that the collector reads.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Node {
    uid: String,
    deletion_timestamp: Option<String>,
    finalizers: Vec<String>,
    owner_references: Vec<Owner>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Owner {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    block_owner_deletion: bool,
}

#[derive(Deserialize)]
struct Object {
    metadata: Node,
}

/// State of an owner, as far as its dependent is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It exists and stays.
    Solid,
    /// It does not exist.
    Absent,
    /// It waits for its dependents to go first.
    Waiting,
}

impl Node {
    fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| name == finalizer)
    }

    fn waits_for_dependents(&self) -> bool {
        self.is_deleting() && self.has(FOREGROUND)
    }

    fn blocks(&self, owner: &str) -> bool {
        let mut owners = self.owner_references.iter();
        owners.any(|reference| reference.uid == owner && reference.block_owner_deletion)
    }
}

impl Actor for GarbageCollector {
    fn manager(&self) -> &'static str {
        "kube-controller-manager"
    }

    fn act(&mut self, stage: &Stage) -> Option<Instant> {
        for resource in stage.stored_resources() {
            let is_followed = self.followers.iter().any(|known| known.resource.is(resource));
            if !is_followed && resource.dependents != Dependents::Unsupported {
                self.followers.push(Follower::new(resource));
            }
        }
        let mut touched = BTreeSet::new();
        for index in 0..self.followers.len() {
            for (key, stored) in stage.look(&mut self.followers[index]) {
                self.record((index, key), stored.as_ref(), &mut touched);
            }
        }
        for id in touched {
            if let Some(node) = self.nodes.get(&id) {
                self.attend(stage, &id, node);
            }
        }
        None
    }
}

impl GarbageCollector {
    /// Updates the graph from an object's new state, and adds the objects that it may concern to `touched`: itself, its
    /// owners, its dependents.
    fn record(&mut self, id: Id, stored: Option<&Stored>, touched: &mut BTreeSet<Id>) {
        let new = stored.and_then(|stored| serde_json::from_slice::<Object>(&stored.body).ok());
        let old = self.nodes.remove(&id);
        for node in [old.as_ref(), new.as_ref().map(|object| &object.metadata)]
            .into_iter()
            .flatten()
        {
            let owners = node.owner_references.iter();
            touched.extend(owners.filter_map(|owner| self.by_uid.get(&owner.uid).cloned()));
            touched.extend(self.dependents.get(&node.uid).into_iter().flatten().cloned());
        }
        if let Some(old) = old {
            self.by_uid.remove(&old.uid);
            for owner in &old.owner_references {
                if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                    dependents.remove(&id);
                    if dependents.is_empty() {
                        self.dependents.remove(&owner.uid);
                    }
                }
            }
        }
        if let Some(Object { metadata: new }) = new {
            self.by_uid.insert(new.uid.clone(), id.clone());
            for owner in &new.owner_references {
                let dependents = self.dependents.entry(owner.uid.clone()).or_default();
                dependents.insert(id.clone());
            }
            touched.insert(id.clone());
            self.nodes.insert(id, new);
        }
    }

    /// Does what the object needs. If a write fails, the object has changed, and the next call sees its newer state.
    fn attend(&self, stage: &Stage, id: &Id, node: &Node) {
        let target = self.target(id, node);
        if node.waits_for_dependents() {
            let is_blocked = self
                .dependents_of(node)
                .any(|(_, dependent)| dependent.blocks(&node.uid));
            if !is_blocked {
                let _ = stage.edit(target, |object| drop_finalizer(object, FOREGROUND));
            }
        } else if node.is_deleting() && node.has(ORPHAN) {
            for (id, dependent) in self.dependents_of(node) {
                let _ = stage.edit(self.target(id, dependent), |object| {
                    keep_owners(object, |uid| uid != node.uid);
                });
            }
            let _ = stage.edit(target, |object| drop_finalizer(object, ORPHAN));
        } else if !node.is_deleting() && !node.owner_references.is_empty() {
            self.judge(stage, id, node);
        }
    }

    /// Deletes an object without a remaining owner; otherwise drops its references to owners that are gone.
    fn judge(&self, stage: &Stage, id: &Id, node: &Node) {
        let target = self.target(id, node);
        let standings: Vec<(&str, Standing)> = node
            .owner_references
            .iter()
            .map(|owner| (&*owner.uid, self.standing(id, owner)))
            .collect();
        let any = |wanted| standings.iter().any(|(_, standing)| *standing == wanted);
        if any(Standing::Solid) {
            let is_solid = |uid: &str| standings.contains(&(uid, Standing::Solid));
            if any(Standing::Absent) || any(Standing::Waiting) {
                let _ = stage.edit(target, |object| keep_owners(object, is_solid));
            }
            return;
        }
        let has_dependents = self.dependents.contains_key(&node.uid);
        let propagation = if any(Standing::Waiting) && has_dependents {
            if self
                .dependents_of(node)
                .any(|(_, dependent)| dependent.waits_for_dependents())
            {
                // Owners in a circle would wait for each other for ever.
                let _ = stage.edit(target, unblock_owners);
            }
            Propagation::Foreground
        } else if node.has(ORPHAN) {
            Propagation::Orphan
        } else if node.has(FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        let _ = stage.delete(target, DeleteOptions::with(propagation));
    }

    fn standing(&self, dependent: &Id, owner: &Owner) -> Standing {
        let followers = self.followers.iter().enumerate();
        let mut of_kind = followers.filter(|(_, follower)| is_kind(follower.resource, owner));
        let Some((index, follower)) = of_kind.next() else {
            return Standing::Solid;
        };
        let (namespace, _) = split(&dependent.1);
        if follower.resource.is_namespaced() && namespace.is_empty() {
            // A namespaced owner of a cluster-scoped object cannot be found, so nothing is concluded from it.
            return Standing::Solid;
        }
        let key = key(follower.resource, namespace, &owner.name);
        match self.nodes.get(&(index, Arc::from(key))) {
            Some(node) if node.uid != owner.uid => Standing::Absent,
            Some(node) if node.waits_for_dependents() => Standing::Waiting,
            Some(_) => Standing::Solid,
            None => Standing::Absent,
        }
    }

    fn dependents_of(&self, node: &Node) -> impl Iterator<Item = (&Id, &Node)> {
        let ids = self.dependents.get(&node.uid).into_iter().flatten();
        ids.filter_map(|id| Some((id, self.nodes.get(id)?)))
    }

    fn target<'a>(&self, (index, key): &'a Id, node: &'a Node) -> Target<'a> {
        Target {
            resource: self.followers[*index].resource,
            key,
            uid: &node.uid,
        }
    }
}

/// True if `owner` refers to this kind, in any version.
fn is_kind(resource: &Resource, owner: &Owner) -> bool {
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    resource.kind == owner.kind && resource.group == group
}

fn drop_finalizer(object: &mut Value, finalizer: &str) {
    if let Some(finalizers) = object["metadata"]["finalizers"].as_array_mut() {
        finalizers.retain(|name| name != finalizer);
    }
}

fn keep_owners(object: &mut Value, stays: impl Fn(&str) -> bool) {
    if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
        owners.retain(|owner| stays(owner["uid"].as_str().unwrap_or_default()));
        if owners.is_empty() {
            remove(&mut object["metadata"], "ownerReferences");
        }
    }
}

fn unblock_owners(object: &mut Value) {
    if let Some(owners) = object["metadata"]["ownerReferences"].as_array_mut() {
        for owner in owners {
            owner["blockOwnerDeletion"] = json!(false);
        }
    }
}
