//! taint-eviction: evicts 2,000 of 20,000 pods at once, from the first taint until each pod is deleted.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use local_control_plane::Process;
use serde_json::{Value, json};

use super::contest::{
    Row, Sides, Site, alternate, deletes, finish, identity, send, text, until_quiet, watched,
};
use super::figures::{Bars, Figures, median, median_time};
use super::{Turns, seed};

const NODES: usize = 1_000;
const PODS: usize = 20_000;
/// Nodes with twenty pods each.
const TAINTED: usize = 100;
const TO_BE_EVICTED: usize = 2_000;

pub(super) const SIDES: Sides = Sides {
    ours: "taint-eviction-controller",
    our_flags: &[],
    // node-lifecycle-controller creates the index that the built-in loop reads; without it, the loop evicts nothing.
    theirs: &["taint-eviction-controller", "node-lifecycle-controller"],
    // There is no kubelet, and nodes must not count as lost.
    their_flags: &[
        "--node-monitor-period=1h",
        "--node-monitor-grace-period=24h",
        "--node-startup-grace-period=24h",
    ],
};

struct Burst {
    site: Site,
    nodes: Api<Node>,
    pods: Api<Pod>,
    /// Pods of the nodes that will be tainted, for etcd before each run.
    pending: Vec<Value>,
}

pub(super) async fn run(turns: &Turns) -> anyhow::Result<()> {
    let site = Site::new(&SIDES, turns).await?;
    let tainted: Vec<String> = tainted().collect();
    let pending = seed::cluster(&site.control_plane, NODES, PODS, |pod| {
        pod["spec"]["nodeName"]
            .as_str()
            .is_some_and(|node| tainted.iter().any(|tainted| tainted == node))
    })
    .await?;
    anyhow::ensure!(
        pending.len() == TO_BE_EVICTED,
        "{} pods will be evicted",
        pending.len()
    );
    let row = Burst {
        nodes: Api::all(site.client()),
        pods: Api::all(site.client()),
        site,
        pending,
    };
    let results = alternate(&row, turns).await?;
    let title = format!(
        "taint-eviction: {TO_BE_EVICTED} of {PODS} pods on {TAINTED} of {NODES} nodes tainted at once"
    );
    row.site.print(&title, &results);
    let mut bars = Bars::default();
    results.within_floor(1.2, &mut bars);
    let half = median(&results.ours, |run| run.half).unwrap_or_default();
    bars.judge(
        "half gone after at most 0.6 of the time",
        half.div_duration_f64(median_time(&results.ours)) <= 0.6,
    );
    bars.verdict()
}

impl Burst {
    async fn set_taints(&self, taints: &Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
        send(tainted(), async |node| {
            let params = PatchParams::default();
            self.nodes.patch_metadata(&node, &params, &patch).await?;
            Ok(())
        })
        .await
    }
}

impl Row for Burst {
    fn site(&self) -> &Site {
        &self.site
    }

    async fn reset(&self) -> anyhow::Result<()> {
        self.set_taints(&Value::Null).await?;
        Ok(self.site.control_plane.store("pods", &self.pending).await?)
    }

    async fn floor(&self) -> anyhow::Result<()> {
        send(&self.pending, async |pod| {
            let (name, uid) = identity(pod)?;
            let pods: Api<Pod> = Api::namespaced(self.site.client(), text(pod, "namespace")?);
            let patch = Patch::Strategic(json!({
                "metadata": {"uid": uid},
                "status": {"conditions": [{
                    "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
                    "message": "Taint manager: deleting due to NoExecute taint",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }]},
            }));
            pods.patch_status(name, &PatchParams::default(), &patch).await?;
            let delete = DeleteParams::default().preconditions(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            });
            pods.delete(name, &delete).await?;
            Ok(())
        })
        .await
    }

    async fn measure(&self, start: impl FnOnce() -> anyhow::Result<Process>) -> anyhow::Result<Figures> {
        let process = start()?;
        until_quiet(&process).await?;
        let taints = json!([{"key": "bench.example/leave", "effect": "NoExecute"}]);
        let taint = async || self.set_taints(&taints).await;
        let ((), took, half) = watched(&self.pods, TO_BE_EVICTED, deletes, taint).await?;
        finish(process, took, half).await
    }
}

/// Names of the tainted nodes.
fn tainted() -> impl Iterator<Item = String> {
    (1..=TAINTED).map(|number| format!("node-{number}"))
}
