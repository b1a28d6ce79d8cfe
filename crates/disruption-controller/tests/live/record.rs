//! Every version of every pod and every budget, in the order in which etcd had them: its revisions count for both.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use controller_runtime::clock::Clock;
use controller_runtime::tasks::TaskSet;
use controller_testing::soon;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::budget::Numbers;
use crate::support::{Budgets, Cluster};

/// What marks the end, and counts for nothing.
const END: &str = "end";

/// Records until it is asked for what it has.
pub(crate) struct Record {
    seen: Arc<Mutex<BTreeMap<u64, Seen>>>,
    tasks: TaskSet,
    /// The revision since which it has all of them.
    began: u64,
}

/// An object as it is from a revision on.
#[derive(Clone, Debug)]
enum Seen {
    Pod(String, Option<PodSeen>),
    Pdb(String, Option<PdbSeen>),
}

/// What counts of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodSeen {
    pub(crate) app: String,
    pub(crate) ready: bool,
    pub(crate) deleting: bool,
}

/// What counts of a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PdbSeen {
    pub(crate) numbers: Numbers,
    /// The names of the pods in `disruptedPods`.
    pub(crate) entries: BTreeSet<String>,
}

/// The pods with one label and their budget at one revision.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    pub(crate) pods: BTreeMap<String, PodSeen>,
    pub(crate) pdb: PdbSeen,
}

impl Record {
    pub(crate) async fn start(cluster: &Cluster) -> Self {
        let seen = Arc::new(Mutex::new(BTreeMap::new()));
        let mut tasks = TaskSet::new();
        let pods = follow(cluster.pod_api(), &seen, &mut tasks, |pod: &Pod, gone| {
            Seen::Pod(pod.name_any(), (!gone).then(|| PodSeen::of(pod)))
        });
        let pods = pods.await;
        let pdbs = Api::<PodDisruptionBudget>::default_namespaced(cluster.control_plane.client());
        let pdbs = follow(pdbs, &seen, &mut tasks, |pdb: &PodDisruptionBudget, gone| {
            Seen::Pdb(pdb.name_any(), (!gone).then(|| PdbSeen::of(pdb)))
        });
        Self {
            began: pods.max(pdbs.await),
            seen,
            tasks,
        }
    }

    /// How the pods with the label `app: app` and their budget, which has that name, were when it began, and at each
    /// change until now.
    pub(crate) async fn end(self, cluster: &Cluster, app: &str) -> Vec<Moment> {
        cluster.pod(END, END, None).await;
        cluster.pdb(END, "minAvailable", json!(1)).await;
        let ended = async || {
            let seen = self.seen.lock();
            let is_end = |pod: bool| {
                seen.values().any(|seen| match seen {
                    Seen::Pod(name, _) => pod && name == END,
                    Seen::Pdb(name, _) => !pod && name == END,
                })
            };
            (is_end(true) && is_end(false)).then_some(())
        };
        soon("the record is complete", ended).await;
        drop(self.tasks);
        let (mut pods, mut pdb) = (BTreeMap::new(), None);
        let mut moments = Vec::new();
        for (revision, seen) in std::mem::take(&mut *self.seen.lock()) {
            match seen {
                Seen::Pod(name, Some(pod)) if pod.app == app => {
                    pods.insert(name, pod);
                }
                Seen::Pod(name, _) => {
                    pods.remove(&name);
                }
                Seen::Pdb(name, version) => {
                    if name == app {
                        pdb = version;
                    }
                }
            }
            if revision <= self.began {
                moments.clear();
            }
            if let Some(pdb) = &pdb {
                moments.push(Moment {
                    pods: pods.clone(),
                    pdb: pdb.clone(),
                });
            }
        }
        assert!(!moments.is_empty(), "nothing was seen");
        moments
    }
}

/// Lists and then watches for ever; the revision of the list.
async fn follow<K>(
    api: Api<K>,
    seen: &Arc<Mutex<BTreeMap<u64, Seen>>>,
    tasks: &mut TaskSet,
    seen_as: fn(&K, bool) -> Seen,
) -> u64
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let revision = |object: &K| object.resource_version().unwrap().parse::<u64>().unwrap();
    let list = api.list(&ListParams::default()).await.unwrap();
    let began: u64 = list.metadata.resource_version.unwrap().parse().unwrap();
    for object in &list.items {
        seen.lock().insert(revision(object), seen_as(object, false));
    }
    let seen = Arc::clone(seen);
    tasks.spawn("record", async move {
        let clock = Clock::system();
        let mut from = began;
        loop {
            let Ok(events) = api.watch(&WatchParams::default(), &from.to_string()).await else {
                // The API server may be away.
                clock.sleep(std::time::Duration::from_millis(100)).await;
                continue;
            };
            let mut events = events.into_stream().boxed();
            while let Ok(Some(event)) = events.try_next().await {
                let (object, gone) = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
                    WatchEvent::Deleted(object) => (object, true),
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(error) => panic!("{error}"),
                };
                from = revision(&object);
                seen.lock().insert(from, seen_as(&object, gone));
            }
        }
    });
    began
}

impl PodSeen {
    fn of(pod: &Pod) -> Self {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        Self {
            app: pod.labels().get("app").cloned().unwrap_or_default(),
            ready: conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True"),
            deleting: pod.metadata.deletion_timestamp.is_some(),
        }
    }

    pub(crate) fn healthy(&self) -> bool {
        self.ready && !self.deleting
    }
}

impl PdbSeen {
    fn of(pdb: &PodDisruptionBudget) -> Self {
        let entries = pdb
            .status
            .as_ref()
            .and_then(|status| status.disrupted_pods.as_ref());
        Self {
            numbers: Numbers::of(&serde_json::to_value(&pdb.status).unwrap()),
            entries: entries
                .into_iter()
                .flatten()
                .map(|(name, _)| name.clone())
                .collect(),
        }
    }
}

impl Moment {
    /// How many pods are healthy, whether they are approved to go or not.
    pub(crate) fn healthy(&self) -> usize {
        self.pods.values().filter(|pod| pod.healthy()).count()
    }

    /// Those of `entries` that have not gone yet.
    pub(crate) fn remaining(&self, entries: &BTreeSet<String>) -> BTreeSet<String> {
        let here = |name: &&String| self.pods.get(*name).is_some_and(|pod| !pod.deleting);
        entries.iter().filter(here).cloned().collect()
    }

    /// How many are healthy and not among `entries`, those that are approved to go.
    pub(crate) fn staying(&self, entries: &BTreeSet<String>) -> usize {
        let stays = |(name, pod): &(&String, &PodSeen)| pod.healthy() && !entries.contains(*name);
        self.pods.iter().filter(stays).count()
    }

    /// No fewer than `desired` are healthy, and no more may go than the budget allows.
    pub(crate) fn assert_honoured(&self, desired: usize) {
        assert!(self.healthy() >= desired, "{self:#?}");
        let allowed = usize::try_from(self.pdb.numbers.allowed).unwrap();
        assert!(self.staying(&self.pdb.entries) >= desired + allowed, "{self:#?}");
    }
}
