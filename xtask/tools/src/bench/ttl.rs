//! ttl: annotates 5,000 nodes, from process start until every node carries 300. Also measures binary size and idle
//! memory (CORE-16).

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{PartialObjectMeta, Patch, PatchParams, WatchEvent};
use local_control_plane::Process;
use serde_json::{Value, json};

use super::Turns;
use super::contest::{Row, Sides, Site, alternate, create, finish, name, send, watched};
use super::figures::{Bars, Figures, mebibytes};

const NODES: usize = 5_000;
const NODE: &str = "node";
const TTL: &str = "node.alpha.kubernetes.io/ttl";
/// TTL for 5,000 nodes.
const WANTED: &str = "300";

const SIDES: Sides = Sides {
    ours: "ttl-controller",
    our_flags: &["--concurrent-syncs=16"],
    theirs: &["ttl-controller"],
    their_flags: &[],
};

struct Unannotated {
    site: Site,
    nodes: Api<Node>,
}

pub(super) async fn run(turns: &Turns) -> anyhow::Result<()> {
    const MIB: u64 = 1 << 20;
    let site = Site::new(&SIDES, turns).await?;
    let bytes = site.size()?;
    let idle = finish(site.plain()?, Duration::ZERO, Duration::ZERO).await?.usage;

    let nodes: Api<Node> = Api::all(site.client());
    seed(&nodes).await?;
    let row = Unannotated { site, nodes };
    let results = alternate(&row, turns).await?;
    let title = format!("ttl: {NODES} nodes without annotation, from process start");
    row.site.print(&title, &results);
    let mut bars = Bars::default();
    results.within_floor(1.15, &mut bars);
    results.within_memory(20, &mut bars);
    println!("binary {}", mebibytes(bytes));
    bars.judge("a binary of at most 9 MiB", bytes <= 9 * MIB);
    if let Some(idle) = idle {
        let rss = mebibytes(idle.rss);
        println!("idle on an empty cluster: RSS {rss}, {} threads", idle.threads);
        bars.judge("idle under 12 MiB of RSS", idle.rss < 12 * MIB);
        bars.judge("idle with at most 4 threads", idle.threads <= 4);
    }
    bars.verdict()
}

impl Row for Unannotated {
    fn site(&self) -> &Site {
        &self.site
    }

    async fn reset(&self) -> anyhow::Result<()> {
        self.patch_all(&Value::Null).await
    }

    async fn floor(&self) -> anyhow::Result<()> {
        self.patch_all(&json!(WANTED)).await
    }

    async fn measure(&self, start: impl FnOnce() -> anyhow::Result<Process>) -> anyhow::Result<Figures> {
        let (process, took, half) = watched(&self.nodes, NODES, is_written, async || start()).await?;
        finish(process, took, half).await
    }
}

impl Unannotated {
    async fn patch_all(&self, value: &Value) -> anyhow::Result<()> {
        let patch = Patch::Strategic(json!({"metadata": {"annotations": {TTL: value}}}));
        send(0..NODES, async |number| {
            let params = PatchParams::default();
            self.nodes
                .patch_metadata(&name(NODE, number), &params, &patch)
                .await?;
            Ok(())
        })
        .await
    }
}

fn is_written(change: &WatchEvent<PartialObjectMeta<Node>>) -> bool {
    let WatchEvent::Modified(node) = change else {
        return false;
    };
    let annotations = node.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(TTL))
        .is_some_and(|value| value == WANTED)
}

/// Nodes as registered by a kubelet: labels, addresses, conditions, capacity, thirty images.
async fn seed(nodes: &Api<Node>) -> anyhow::Result<()> {
    send(0..NODES, async |number| {
        create(nodes, node(number)).await?;
        Ok(())
    })
    .await
}

fn node(number: usize) -> Value {
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": format!("kubelet says {reason}"),
               "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let images: Vec<Value> = (0..30)
        .map(|image| {
            let name = format!("registry.example/team-{}/image-{image}", image % 7);
            json!({"names": [format!("{name}@sha256:{image:064x}"), format!("{name}:v1.{image}.0")], "sizeBytes": 50_000_000 + image})
        })
        .collect();
    let resources = json!({"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    json!({
        "metadata": {
            "name": name(NODE, number),
            "labels": {
                "kubernetes.io/hostname": name(NODE, number), "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
                "node.kubernetes.io/instance-type": "m.large"
            },
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
        },
        "spec": {"podCIDR": format!("10.{}.{}.0/24", number / 256, number % 256), "providerID": format!("test:///{number}")},
        "status": {
            "capacity": resources, "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": format!("192.168.{}.{}", number / 256, number % 256)},
                          {"type": "Hostname", "address": name(NODE, number)}],
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady")
            ],
            "images": images
        }
    })
}
