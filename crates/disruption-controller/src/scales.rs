//! Where the scales of a budget's controllers come from: the informers, and reads of what they do not have.

use std::collections::HashMap;
use std::sync::Arc;

use controller_core::informer::Store;
use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use futures::future::join_all;

use crate::budgets::Snapshot;
use crate::decide::{Builtin, Demand, Scales, demand, scale_of};
use crate::live::{LiveReading, LiveScales};
use crate::view::WorkloadView;

/// Finds scales.
pub struct Finder {
    workloads: Workloads,
    live: LiveScales,
}

/// What the informers have of the workloads.
#[derive(Clone, Debug)]
pub struct Workloads {
    /// `ReplicationControllers`.
    pub replication_controllers: Store<WorkloadView>,
    /// `ReplicaSets`.
    pub replica_sets: Store<WorkloadView>,
    /// Deployments.
    pub deployments: Store<WorkloadView>,
    /// `StatefulSets`.
    pub stateful_sets: Store<WorkloadView>,
}

/// What was read of those that the informers do not have.
pub type Read = HashMap<Arc<OwnerRef>, LiveReading>;

impl Workloads {
    fn get(&self, kind: Builtin, key: &ObjectKey) -> Option<Arc<WorkloadView>> {
        match kind {
            Builtin::ReplicationController => self.replication_controllers.get(key),
            Builtin::ReplicaSet => self.replica_sets.get(key),
            Builtin::Deployment => self.deployments.get(key),
            Builtin::StatefulSet => self.stateful_sets.get(key),
        }
    }
}

impl Finder {
    /// Looks in `workloads` first.
    pub const fn new(workloads: Workloads, live: LiveScales) -> Self {
        Self { workloads, live }
    }

    /// The controllers of pods that follow this workload: itself, and the `ReplicaSets` that it controls.
    pub fn below(&self, workload: &Uid) -> Vec<Uid> {
        let replica_sets = self.workloads.replica_sets.by_index(workload);
        let below = replica_sets.iter().map(|replica_set| replica_set.uid.clone());
        below.chain([workload.clone()]).collect()
    }

    /// The scales of the controllers of a budget's pods, or those whose `/scale` must be read first.
    pub fn scales(&self, snapshot: &Snapshot, read: &Read) -> Result<Scales, Vec<Arc<OwnerRef>>> {
        let (mut scales, mut unread) = (Scales::default(), Vec::new());
        // What cannot be computed anyway needs no reads.
        if !demand(&snapshot.pdb).is_ok_and(Demand::needs_scales) {
            return Ok(scales);
        }
        let held = |kind: Builtin, name: &str| {
            let namespace = snapshot.pdb.key.namespace.clone();
            let name = name.into();
            self.workloads.get(kind, &ObjectKey { namespace, name })
        };
        let known = |owner: &OwnerRef| read.get(owner).map(|reading| reading.reading.clone());
        for owned in &snapshot.counts.controllers {
            match scale_of(&owned.controller, held, known) {
                Ok(scale) => {
                    scales.insert(Arc::clone(&owned.controller), scale);
                }
                Err(owner) => unread.push(owner),
            }
        }
        if unread.is_empty() {
            Ok(scales)
        } else {
            Err(unread)
        }
    }

    /// Reads the `/scale` of each of `unread`, side by side.
    pub async fn read(
        &self,
        key: &ObjectKey,
        unread: Vec<Arc<OwnerRef>>,
    ) -> Vec<(Arc<OwnerRef>, LiveReading)> {
        let namespace = key.namespace.clone().unwrap_or_default();
        let reads = unread.into_iter().map(|owner| {
            let namespace = &namespace;
            async move {
                let reading = self.live.read(namespace, &owner).await;
                (owner, reading)
            }
        });
        join_all(reads).await
    }
}
