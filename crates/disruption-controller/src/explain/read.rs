//! What `explain` reads of the API server: a budget and all that counts for it, past every cache.

use std::collections::HashMap;
use std::sync::Arc;

use controller_core::api::{Call, CallFailed, Caller, Verb};
use controller_core::clock::Clock;
use controller_core::informer::Interner;
use controller_core::meta::{ObjectKey, OwnerRef};
use controller_core::runtime::Failure;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use kube::api::ListParams;
use kube::core::Request;
use prometheus::Registry;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Found;
use crate::decide::{Builtin, Demand, Scale, Scales, demand, scale_of};
use crate::live::LiveScales;
use crate::metrics::ScaleRequests;
use crate::view::{PdbWire, PodWire, WorkloadView, WorkloadWire};

#[derive(Deserialize)]
struct List<T> {
    items: Vec<T>,
}

/// Reads of the API server, for one namespace.
struct Reader<'a> {
    client: &'a kube::Client,
    caller: &'a Caller,
    namespace: &'a Arc<str>,
}

/// Reads a budget and all that counts for it; nothing when there is no such budget.
pub async fn find(
    client: &kube::Client,
    caller: &Caller,
    clock: &Clock,
    key: &ObjectKey,
) -> Result<Option<Found>, Failure> {
    let namespace = key.namespace.clone().unwrap_or_default();
    let reader = Reader {
        client,
        caller,
        namespace: &namespace,
    };
    let interner = Interner::new();
    let path = PodDisruptionBudget::url_path(&(), Some(&namespace));
    let pdbs = reader
        .list::<PdbWire>(&path, "poddisruptionbudgets.policy")
        .await?;
    let pdbs = pdbs.into_iter().map(|pdb| Arc::new(pdb.into_fresh(&interner)));
    let (asked, others): (Vec<_>, _) = pdbs.partition(|pdb| pdb.key == *key);
    let Some(pdb) = asked.into_iter().next() else {
        return Ok(None);
    };
    let path = Pod::url_path(&(), Some(&namespace));
    let pods = reader.list::<PodWire>(&path, "pods").await?;
    let pods: Vec<_> = pods
        .into_iter()
        .map(|pod| Arc::new(pod.into_fresh(&interner)))
        .collect();
    let mut scales = Scales::default();
    if demand(&pdb).is_ok_and(Demand::needs_scales) {
        let workloads = reader.workloads(&interner).await?;
        let requests = ScaleRequests::register(&Registry::new())?;
        let live = LiveScales::new(client.clone(), caller.clone(), clock.clone(), requests);
        let ours = pods.iter().filter(|pod| pdb.selector.matches(&pod.labels));
        for owner in ours.filter_map(|pod| pod.controller.as_ref()) {
            if scales.of(owner).is_none() {
                scales.insert(
                    Arc::clone(owner),
                    scale(&workloads, &live, &namespace, owner).await,
                );
            }
        }
    }
    Ok(Some(Found {
        pdb,
        others,
        pods,
        scales,
    }))
}

type Workloads = Vec<(Builtin, Arc<WorkloadView>)>;

async fn scale(
    workloads: &Workloads,
    live: &LiveScales,
    namespace: &Arc<str>,
    owner: &Arc<OwnerRef>,
) -> Scale {
    let held = |kind: Builtin, name: &str| {
        let mut all = workloads.iter();
        let found = all.find(|(held, workload)| *held == kind && *workload.key.name == *name);
        found.map(|(_, workload)| Arc::clone(workload))
    };
    let mut read = HashMap::new();
    loop {
        match scale_of(owner, held, |owner| read.get(owner).cloned()) {
            Ok(scale) => return scale,
            Err(unread) => {
                let reading = live.read(namespace, &unread).await.reading;
                read.insert((*unread).clone(), reading);
            }
        }
    }
}

impl Reader<'_> {
    async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        resource: &'static str,
    ) -> Result<Vec<T>, CallFailed> {
        let call = Call {
            verb: Verb::List,
            resource,
            target: format!("in {}", self.namespace),
        };
        let read = async {
            let request = Request::new(path).list(&ListParams::default());
            let request = request.map_err(kube::Error::BuildRequest)?;
            self.client.request::<List<T>>(request).await
        };
        Ok(self.caller.read(call, read).await?.items)
    }

    async fn workloads(&self, interner: &Interner) -> Result<Workloads, CallFailed> {
        let namespace = Some(&**self.namespace);
        let kinds = [
            (
                Builtin::ReplicationController,
                ReplicationController::url_path(&(), namespace),
                "replicationcontrollers",
            ),
            (
                Builtin::ReplicaSet,
                ReplicaSet::url_path(&(), namespace),
                "replicasets.apps",
            ),
            (
                Builtin::Deployment,
                Deployment::url_path(&(), namespace),
                "deployments.apps",
            ),
            (
                Builtin::StatefulSet,
                StatefulSet::url_path(&(), namespace),
                "statefulsets.apps",
            ),
        ];
        let mut workloads = Vec::new();
        for (kind, path, resource) in kinds {
            let listed = self.list::<WorkloadWire>(&path, resource).await?;
            let views = listed.into_iter().map(|listed| listed.into_fresh(interner));
            workloads.extend(views.map(|workload| (kind, Arc::new(workload))));
        }
        Ok(workloads)
    }
}
