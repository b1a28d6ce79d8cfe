//! disruption: 1,000 budgets of 50,000 pods, from process start until each has its status; and 20,000 pods of 200
//! budgets in one namespace, of which 3,000 turn unready.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, WatchEvent, WatchParams};
use local_control_plane::{ControlPlane, Process};
use serde_json::{Value, json};

use super::contest::{self, Row, Sides, Site, alternate, send, text, watched};
use super::figures::{Bars, Figures, median, median_time};
use super::{Turns, now, seed};

pub(super) const SIDES: Sides = Sides {
    ours: "disruption-controller",
    our_flags: &["--concurrent-syncs=16"],
    theirs: &["disruption-controller"],
    their_flags: &[],
};
/// As seeded: `REPLICAS` pods per `ReplicaSet`, and `ReplicaSets` in turn over `NAMESPACES` namespaces.
const REPLICAS: usize = 20;
const NAMESPACES: usize = 50;

const NODES_AT_START: usize = 5_000;
const PODS_AT_START: usize = 50_000;
const BUDGETS_AT_START: usize = 1_000;

const NODES: usize = 1_000;
const PODS: usize = 20_000;
const BUDGETS: usize = 200;
/// Fifteen pods of each budget.
const CHANGES: u32 = 3_000;
/// Healthy pods of each budget before and after.
const HEALTHY: [i32; 2] = [100, 85];
/// The namespace of all pods.
const CROWD: &str = "seed-0";

struct Fresh {
    site: Site,
    pdbs: Api<PodDisruptionBudget>,
    /// Budgets for etcd before each run.
    stored: Vec<Value>,
}

struct Crowd {
    pods: Api<Pod>,
    pdbs: Api<PodDisruptionBudget>,
    /// Names of the pods that turn unready.
    changing: Vec<String>,
}

/// Measures time, memory and CPU time until all statuses are written.
pub(super) async fn start(turns: &Turns) -> anyhow::Result<()> {
    let site = Site::new(&SIDES, turns).await?;
    let control_plane = &site.control_plane;
    seed::cluster(control_plane, NODES_AT_START, PODS_AT_START, |_| false).await?;
    let stored = budgets(control_plane, PODS_AT_START, BUDGETS_AT_START).await?;
    let row = Fresh {
        pdbs: Api::all(site.client()),
        site,
        stored,
    };
    let results = alternate(&row, turns).await?;
    let title = format!(
        "disruption: {BUDGETS_AT_START} budgets (10 %) of {PODS_AT_START} pods, {NODES_AT_START} nodes, from process start"
    );
    row.site.print(&title, &results);
    let mut bars = Bars::default();
    results.within_their_time(0.5, &mut bars);
    results.within_memory(60, &mut bars);
    results.within_cpu(3.0, &mut bars);
    results.within_their_load(&mut bars);
    bars.verdict()
}

/// Measures CPU time per change, and the time from the last change until all statuses are right.
pub(super) async fn burst(turns: &Turns) -> anyhow::Result<()> {
    let mut site = Site::new(&SIDES, turns).await?;
    let control_plane = &site.control_plane;
    seed::cluster(control_plane, NODES, PODS, |pod| {
        pod["metadata"]["namespace"] = json!(CROWD);
        false
    })
    .await?;
    let sets = PODS / REPLICAS;
    let replica_sets: Vec<Value> = (0..sets).map(|set| replica_set(CROWD, set)).collect();
    control_plane.store("replicasets", &replica_sets).await?;
    let budgets = (0..BUDGETS).map(|number| budget(CROWD, number, (number..sets).step_by(BUDGETS)));
    control_plane
        .store("poddisruptionbudgets", &budgets.collect::<Vec<_>>())
        .await?;
    let crowd = Crowd {
        pods: Api::namespaced(site.client(), CROWD),
        pdbs: Api::namespaced(site.client(), CROWD),
        changing: (1..=PODS)
            .filter(|number| number % REPLICAS < 3)
            .map(|number| format!("app-{}-{number:06}", (number - 1) / REPLICAS))
            .collect(),
    };
    let results = site
        .alternate(turns, async |site, who| crowd.measure(site.start(who)?).await)
        .await?;
    let title = format!(
        "disruption: {CHANGES} of {PODS} pods in one namespace of {BUDGETS} budgets turn unready; time after the last \
         change, CPU of the changes"
    );
    site.print(&title, &results);
    let mut bars = Bars::default();
    let cpu = median(&results.ours, |run| run.usage.map(|usage| usage.cpu)).flatten();
    let a_change = cpu.unwrap_or(Duration::MAX) / CHANGES;
    println!("{a_change:.2?} of CPU a change");
    bars.judge(
        "at most 0.23 ms of CPU a change",
        a_change <= Duration::from_micros(230),
    );
    bars.judge(
        "right within 250 ms of the last change",
        median_time(&results.ours) <= Duration::from_millis(250),
    );
    bars.verdict()
}

impl Row for Fresh {
    fn site(&self) -> &Site {
        &self.site
    }

    async fn reset(&self) -> anyhow::Result<()> {
        let control_plane = &self.site.control_plane;
        control_plane.erase("poddisruptionbudgets").await?;
        Ok(control_plane.store("poddisruptionbudgets", &self.stored).await?)
    }

    async fn floor(&self) -> anyhow::Result<()> {
        send(&self.stored, async |pdb| {
            let (namespace, name) = (text(pdb, "namespace")?, text(pdb, "name")?);
            let pdbs: Api<PodDisruptionBudget> = Api::namespaced(self.site.client(), namespace);
            let patch = Patch::Strategic(json!({"status": {
                "observedGeneration": 1, "disruptionsAllowed": 4, "currentHealthy": 40, "desiredHealthy": 36,
                "expectedPods": 40,
                "conditions": [{
                    "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "",
                    "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            }}));
            pdbs.patch_status(name, &PatchParams::default(), &patch).await?;
            Ok(())
        })
        .await
    }

    async fn measure(&self, start: impl FnOnce() -> anyhow::Result<Process>) -> anyhow::Result<Figures> {
        let is_written = |change: &WatchEvent<_>| matches!(change, WatchEvent::Modified(_));
        let (process, took, half) =
            watched(&self.pdbs, BUDGETS_AT_START, is_written, async || start()).await?;
        contest::finish(process, took, half).await
    }
}

impl Crowd {
    /// Measures a process that knows the pods while they change.
    async fn measure(&self, process: Process) -> anyhow::Result<Figures> {
        self.follow(HEALTHY[0], async || self.set_ready(true).await)
            .await?;
        contest::until_quiet(&process).await?;
        let before = process.usage()?.cpu;
        let lag = self
            .follow(HEALTHY[1], async || self.set_ready(false).await)
            .await?;
        Ok(contest::finish(process, lag, lag).await?.without_cpu(before))
    }

    async fn set_ready(&self, ready: bool) -> anyhow::Result<()> {
        let status = if ready { "True" } else { "False" };
        let patch = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        let patch = Patch::Strategic(patch);
        send(&self.changing, async |pod| {
            self.pods
                .patch_status(pod, &PatchParams::default(), &patch)
                .await?;
            Ok(())
        })
        .await
    }

    /// Makes changes and waits until every budget has `healthy` pods; returns the time since the last change.
    async fn follow(
        &self,
        healthy: i32,
        change: impl AsyncFnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Duration> {
        let list = self.pdbs.list(&ListParams::default()).await?;
        let version = list
            .metadata
            .resource_version
            .context("the list has no resourceVersion")?;
        let mut wrong = BTreeSet::new();
        let mut see = |pdb: &PodDisruptionBudget| {
            let name = pdb.metadata.name.clone().unwrap_or_default();
            match &pdb.status {
                Some(status) if status.current_healthy == Some(healthy) => wrong.remove(&name),
                _ => wrong.insert(name),
            };
            wrong.len()
        };
        for pdb in &list.items {
            see(pdb);
        }
        let params = WatchParams::default().timeout(290);
        let mut seen = pin!(self.pdbs.watch(&params, &version).await?);
        let right = async {
            loop {
                match seen.try_next().await?.context("the watch ended")? {
                    WatchEvent::Modified(pdb) if see(&pdb) == 0 => return anyhow::Ok(now()),
                    WatchEvent::Error(status) => bail!("the watch failed: {}", status.message),
                    _ => {}
                }
            }
        };
        let last_change = async {
            change().await?;
            anyhow::Ok(now())
        };
        let (last_change, right) = futures::try_join!(last_change, right)?;
        Ok(right.saturating_duration_since(last_change))
    }
}

/// Stores the `ReplicaSets` of the seeded pods; returns `budgets` that share the pods, without a status.
pub(super) async fn budgets(
    control_plane: &ControlPlane,
    pods: usize,
    budgets: usize,
) -> anyhow::Result<Vec<Value>> {
    let namespace = |set: usize| format!("seed-{}", set % NAMESPACES);
    let sets = pods / REPLICAS;
    let replica_sets: Vec<Value> = (0..sets).map(|set| replica_set(&namespace(set), set)).collect();
    control_plane.store("replicasets", &replica_sets).await?;
    let of_sets = |number| budget(&namespace(number), number, (number..sets).step_by(budgets));
    Ok((0..budgets).map(of_sets).collect())
}

/// The ReplicaSet of this number, named as by the seeded pods, as stored by the API server.
fn replica_set(namespace: &str, number: usize) -> Value {
    let labels = json!({"app.kubernetes.io/name": format!("app-{number}")});
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "namespace": namespace, "name": format!("app-{number}"), "generation": 1,
            "uid": format!("00000000-0000-4000-b000-{number:012x}"),
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels,
        },
        "spec": {
            "replicas": REPLICAS, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
                "terminationGracePeriodSeconds": 30, "securityContext": {},
                "containers": [{
                    "name": "server", "image": "registry.example/server", "imagePullPolicy": "Always",
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "resources": {},
                }],
            }},
        },
        "status": {"replicas": REPLICAS, "readyReplicas": REPLICAS, "availableReplicas": REPLICAS, "observedGeneration": 1},
    })
}

/// A new budget for the pods of these `ReplicaSets`, as stored by the API server.
fn budget(namespace: &str, number: usize, sets: impl Iterator<Item = usize>) -> Value {
    let apps: Vec<String> = sets.map(|set| format!("app-{set}")).collect();
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {
            "namespace": namespace, "name": format!("budget-{number}"), "generation": 1,
            "uid": format!("00000000-0000-4000-c000-{number:012x}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "maxUnavailable": "10%",
            "selector": {"matchExpressions": [
                {"key": "app.kubernetes.io/name", "operator": "In", "values": apps},
            ]},
        },
        "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    })
}
