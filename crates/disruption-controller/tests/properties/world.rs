//! Pods, budgets and workloads on the API server, and what others do to them.

use std::sync::{Arc, LazyLock};

use controller_core::api::CallFailed;
use controller_core::controller::{Accepted, Now};
use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use controller_testing::sim::{self, SimResource};
use disruption_controller::decide::Builtin;
use disruption_controller::labels::Labels;
use disruption_controller::requests::{Reset, StatusWrite};
use disruption_controller::selector::Selector;
use disruption_controller::view::{DisruptionTarget, PdbView, Phase, PodView, WorkloadView};
use disruption_controller::{DisruptionController, Stores};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Bug;
use super::acts::Pod;
use crate::support;
use crate::support::by_hand::matches;

pub(super) const PODS: usize = 5;
pub(super) const BUDGETS: usize = 3;
/// The first three are `ReplicaSets`.
pub(super) const WORKLOADS: usize = 5;
/// Controls two of the `ReplicaSets`.
pub(super) const DEPLOYMENT: usize = 3;
const DEPLOYED: [usize; 2] = [1, 2];
/// A custom resource, whose scale no watch shows.
pub(super) const WIDGET: usize = 4;
/// A `ReplicaSet` that never exists.
pub(super) const GONE: usize = 5;

const APPS: [Option<&str>; 3] = [Some("web"), Some("db"), None];

/// A selector of pods.
pub(super) struct Selects {
    pub(super) written: Value,
    pub(super) compiled: Arc<Selector>,
    /// The apps whose pods it selects.
    pub(super) apps: Vec<Option<&'static str>>,
}

pub(super) static SELECTORS: LazyLock<[Selects; 6]> = LazyLock::new(|| {
    let app = |operator: &str, values: &[String]| json!({ "matchExpressions": [{ "key": "app", "operator": operator, "values": values }] });
    let [web, db] = ["web", "db"].map(ToOwned::to_owned);
    // More values than an index has.
    let many: Vec<_> = (0..20).map(|number| format!("zz-{number}")).collect();
    let written = [
        json!(null),
        json!({}),
        json!({ "matchLabels": { "app": "web" } }),
        app("In", &[db.clone(), web.clone()]),
        app("In", &[many, vec![web]].concat()),
        app("NotIn", &[db]),
    ];
    written.map(|written| Selects {
        compiled: support::pdb(&json!({ "selector": written })).selector,
        apps: { APPS.into_iter() }
            .filter(|app| matches(&written, &json!({ "app": app })))
            .collect(),
        written,
    })
});

#[derive(Clone)]
pub(super) struct Cluster {
    pub(super) pods: SimResource<DisruptionController, PodView>,
    pub(super) pdbs: SimResource<DisruptionController, PdbView>,
    pub(super) replica_sets: SimResource<DisruptionController, WorkloadView>,
    pub(super) deployments: SimResource<DisruptionController, WorkloadView>,
    /// How many pods the widget wants, while it exists.
    pub(super) widget: Option<i64>,
    /// A write that came too early by the API server's clock, or forgot an eviction.
    pub(super) wrong: Option<String>,
    pub(super) last: u64,
    pub(super) bug: Option<Bug>,
}

pub(super) fn pod(number: usize) -> ObjectKey {
    ObjectKey::namespaced("ns", format!("pod-{number}"))
}

pub(super) fn pdb(number: usize) -> ObjectKey {
    ObjectKey::namespaced("ns", format!("pdb-{number}"))
}

pub(super) fn labels(app: Option<&str>) -> Arc<Labels> {
    Arc::new(Labels::new(app.map(|app| ("app", app))))
}

fn name_of(workload: usize) -> String {
    format!("workload-{workload}")
}

/// The number of the workload of this name.
pub(super) fn numbered(name: &str) -> usize {
    name.rsplit('-').next().unwrap().parse().unwrap()
}

fn owner(workload: usize) -> Arc<OwnerRef> {
    let (api_version, kind) = match workload {
        WIDGET => ("example.com/v1", "Widget"),
        DEPLOYMENT => ("apps/v1", "Deployment"),
        _ => ("apps/v1", "ReplicaSet"),
    };
    let name = name_of(workload);
    support::owner(api_version, kind, &name, &name)
}

pub(super) fn uid_of(workload: usize) -> Uid {
    Uid::from(&*name_of(workload))
}

/// How many pods the controllers above this one want, and whose number that is; `find` says how many each wants itself.
pub(super) fn wanted(owner: &OwnerRef, find: impl Fn(usize) -> Option<i64>) -> Option<(usize, i64)> {
    let number = numbered(&owner.name);
    let own = find(number)?;
    let above = find(DEPLOYMENT).filter(|_| DEPLOYED.contains(&number));
    Some(above.map_or((number, own), |above| (DEPLOYMENT, above)))
}

/// True if a watch shows how many pods the controllers above this one want: what no watch shows is read.
pub(super) fn is_watched(owner: &OwnerRef, find: impl Fn(usize) -> Option<i64>) -> bool {
    match numbered(&owner.name) {
        GONE => true,
        WIDGET => false,
        number => find(number).is_some() && (!DEPLOYED.contains(&number) || find(DEPLOYMENT).is_some()),
    }
}

impl Cluster {
    /// With all workloads.
    pub(super) fn new() -> Self {
        let mut cluster = Self {
            pods: SimResource::new(|stores: &mut Stores| &mut stores.pods),
            pdbs: SimResource::new(|stores: &mut Stores| &mut stores.pdbs),
            replica_sets: SimResource::new(|stores: &mut Stores| stores.workloads_of(Builtin::ReplicaSet)),
            deployments: SimResource::new(|stores: &mut Stores| stores.workloads_of(Builtin::Deployment)),
            widget: None,
            wrong: None,
            last: 0,
            bug: None,
        };
        for (number, replicas) in [3, 1, 1, 4, 2].into_iter().enumerate() {
            cluster.scale(number, replicas);
        }
        cluster
    }

    fn next(&mut self) -> Uid {
        self.last += 1;
        Uid::from(&*self.last.to_string())
    }

    pub(super) fn edit_pdb(&mut self, key: &ObjectKey, edit: impl FnOnce(&mut PdbView)) -> Option<Accepted> {
        let version = self.pdbs.next_version();
        self.pdbs.edit(key, |pdb| {
            edit(pdb);
            pdb.version = version.to_string().into();
        })
    }

    pub(super) fn edit_pod(&mut self, number: usize, edit: impl FnOnce(&mut PodView)) {
        if let Some(mut view) = self.pods.objects().get(&pod(number)).map(|pod| pod.view.clone()) {
            edit(&mut view);
            self.put_pod(view);
        }
    }

    /// The condition of a pod that is to go has the version of the pod.
    fn put_pod(&mut self, mut view: PodView) {
        if let Some(target) = &mut view.target {
            Arc::make_mut(target).version = self.pods.next_version().to_string().into();
        }
        let uid = view.uid.clone();
        self.pods.put(view, uid);
    }

    pub(super) fn bring_pod(&mut self, number: usize, becomes: Pod, anew: bool, now: Now) {
        let key = pod(number);
        let mut view = PodView {
            uid: self.next(),
            created: now.wall.as_second(),
            labels: labels(becomes.app),
            controller: becomes.owner.map(owner),
            ready: becomes.ready,
            deleting: becomes.deleting,
            phase: Phase::Running,
            ..support::pod(&key.name, &json!({}))
        };
        if let Some(held) = self.pods.objects().get(&key).filter(|_| !anew) {
            let PodView { uid, created, .. } = &held.view;
            (view.uid, view.created) = (uid.clone(), *created);
            view.target.clone_from(&held.view.target);
        }
        self.put_pod(view);
    }

    pub(super) fn bring_pdb(&mut self, number: usize, spec: &Value) {
        let made = support::pdb(spec);
        let edited = self.edit_pdb(&pdb(number), |pdb| {
            pdb.generation += 1;
            pdb.selector = Arc::clone(&made.selector);
            pdb.min_available.clone_from(&made.min_available);
            pdb.max_unavailable.clone_from(&made.max_unavailable);
        });
        if edited.is_none() {
            let (key, uid, version) = (pdb(number), self.next(), self.pdbs.next_version());
            let view = PdbView {
                key,
                uid: uid.clone(),
                version: version.to_string().into(),
                ..made
            };
            self.pdbs.put(view, uid);
        }
    }

    pub(super) fn scale(&mut self, number: usize, replicas: i64) {
        if number == WIDGET {
            self.widget = Some(replicas);
            return;
        }
        let above = DEPLOYED.contains(&number).then(|| owner(DEPLOYMENT));
        let name = name_of(number);
        let view = support::workload(&name, &name, replicas, above.as_ref());
        self.workloads(number).put((*view).clone(), uid_of(number));
    }

    pub(super) fn delete_workload(&mut self, number: usize) {
        if number == WIDGET {
            self.widget = None;
            return;
        }
        let key = ObjectKey::namespaced("ns", name_of(number));
        self.workloads(number).delete(&key);
    }

    fn workloads(&mut self, number: usize) -> &mut SimResource<DisruptionController, WorkloadView> {
        if number == DEPLOYMENT {
            &mut self.deployments
        } else {
            &mut self.replica_sets
        }
    }

    /// How many pods this workload wants itself, if it exists.
    pub(super) fn replicas(&self, number: usize) -> Option<i64> {
        let (of, key) = match number {
            WIDGET => return self.widget,
            DEPLOYMENT => (&self.deployments, name_of(number)),
            _ => (&self.replica_sets, name_of(number)),
        };
        let held = of.objects().get(&ObjectKey::namespaced("ns", key));
        held.map(|held| held.view.replicas)
    }

    pub(super) fn evict(&mut self, number: usize, deletes: bool, now: Now) {
        let Some(view) = self.pods.objects().get(&pod(number)).map(|pod| pod.view.clone()) else {
            return;
        };
        let pdbs = self.pdbs.objects().values();
        let mut matching = pdbs.filter(|pdb| pdb.view.selector.matches(&view.labels));
        let (Some(only), None, false) = (matching.next(), matching.next(), view.deleting) else {
            return;
        };
        let key = only.view.key.clone();
        let status = &only.view.status;
        if status.disruptions_allowed <= 0 || status.observed_generation != only.view.generation {
            return;
        }
        self.approve(&key, &view.key, now);
        self.edit_pod(number, |pod| pod.deleting = deletes);
        self.want_gone(number, now);
    }

    pub(super) fn approve(&mut self, budget: &ObjectKey, pod: &ObjectKey, now: Now) {
        self.edit_pdb(budget, |pdb| {
            let status = &mut pdb.status;
            status.disruptions_allowed = (status.disruptions_allowed - 1).max(0);
            let since = Timestamp::from_second(now.wall.as_second()).unwrap();
            status.disrupted_pods.insert(Arc::clone(&pod.name), since);
        });
    }

    pub(super) fn want_gone(&mut self, number: usize, now: Now) {
        let since = Timestamp::from_second(now.wall.as_second()).unwrap();
        self.edit_pod(number, |pod| {
            pod.target = Some(Arc::new(DisruptionTarget {
                reason: "PreemptionByScheduler".into(),
                since,
                version: Arc::default(),
                generation: 1,
            }));
        });
    }

    /// Notes a violation unless two minutes have passed since `since`.
    fn check_time(&mut self, what: &ObjectKey, since: Timestamp, now: Now) {
        if now.wall.duration_since(since) < SignedDuration::from_mins(2) {
            self.wrong = Some(format!("{what} was given up too early"));
        }
    }

    pub(super) fn write_status(
        &mut self,
        StatusWrite { status, .. }: &StatusWrite,
        now: Now,
    ) -> Result<Accepted, CallFailed> {
        let held = self.pdbs.objects().get(&status.pdb.key).ok_or_else(sim::gone)?;
        if matches!(self.bug, Some(Bug::WritesNothing)) {
            return Ok(sim::accepted(held.uid.clone(), held.version));
        }
        if !matches!(self.bug, Some(Bug::NoVersion)) && held.view.version != status.pdb.version {
            return Err(sim::conflict());
        }
        let (known, held) = (
            &status.pdb.status.disrupted_pods,
            &held.view.status.disrupted_pods,
        );
        if let Some(pod) = held.keys().find(|pod| !known.contains_key(*pod)) {
            self.wrong = Some(format!("the eviction of {pod} was forgotten"));
        }
        for (pod, _) in &status.overdue {
            self.check_time(&status.pdb.key, status.pdb.status.disrupted_pods[pod], now);
        }
        let accepted = self.edit_pdb(&status.pdb.key, |pdb| *pdb = status.applied_to(pdb, None));
        accepted.ok_or_else(sim::gone)
    }

    pub(super) fn write_reset(&mut self, reset: &Reset, now: Now) -> Result<Accepted, CallFailed> {
        let held = self.pods.objects().get(&reset.pod).ok_or_else(sim::gone)?;
        if *held.version.to_string() != *reset.target.version {
            return Err(sim::conflict());
        }
        let deleting = held.view.deleting;
        self.check_time(&reset.pod, reset.target.since, now);
        let accepted = self.pods.edit(&reset.pod, |pod| pod.target = None);
        accepted
            .map(|accepted| Accepted { deleting, ..accepted })
            .ok_or_else(sim::gone)
    }
}
