//! ttl: 5,000 nodes without annotation, from process start until every node carries 300. Also binary
//! size and idle memory (CORE-16).

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{PartialObjectMeta, Patch, PatchParams, PostParams, WatchEvent};
use serde_json::{Value, json};
use testkit::real::{ControlPlane, Options, Process};

use super::contest::{self, Row, alternate, send, watched};
use super::figures::{Bars, Figures, mebibytes};

const NODES: usize = 5_000;
const TTL: &str = "node.alpha.kubernetes.io/ttl";
/// What 5,000 nodes carry.
const WANTED: &str = "300";

struct Unannotated {
    control_plane: ControlPlane,
    binary: PathBuf,
    nodes: Api<Node>,
}

pub(super) async fn run(runs: usize) -> anyhow::Result<()> {
    const MIB: u64 = 1 << 20;
    let binary = xtask::command::release_binary(Unannotated::CONTROLLER)?;
    let size = std::fs::metadata(&binary)?.len();
    let control_plane = ControlPlane::start(Options::default()).await?;
    let idle = contest::our_process(&binary, control_plane.kubeconfig(), &[])?;
    let idle = contest::finish(idle, Duration::ZERO, Duration::ZERO).await?.usage;

    let nodes: Api<Node> = Api::all(control_plane.client());
    seed(&nodes).await?;
    let row = Unannotated {
        control_plane,
        binary,
        nodes,
    };
    let results = alternate(&row, runs).await?;
    results.print(
        &format!("ttl: {NODES} nodes without annotation, from process start"),
        Unannotated::CONTROLLER,
    );
    let mut bars = Bars::default();
    results.within_floor(1.15, &mut bars);
    results.within_memory(20, &mut bars);
    println!("binary {}", mebibytes(size));
    bars.judge("a binary under 12 MiB", size < 12 * MIB);
    if let Some(idle) = idle {
        println!(
            "idle on an empty cluster: RSS {}, {} threads",
            mebibytes(idle.rss),
            idle.threads
        );
        bars.judge("idle under 12 MiB of RSS", idle.rss < 12 * MIB);
        bars.judge("idle with at most 4 threads", idle.threads <= 4);
    }
    bars.verdict()
}

impl Row for Unannotated {
    const CONTROLLER: &'static str = "ttl-controller";

    async fn reset(&self) -> anyhow::Result<()> {
        self.patch_all(&Value::Null).await
    }

    async fn floor(&self) -> anyhow::Result<()> {
        self.patch_all(&json!(WANTED)).await
    }

    fn ours(&self) -> anyhow::Result<Process> {
        let more = ["--kube-api-qps=0", "--concurrent-syncs=16"];
        contest::our_process(&self.binary, self.control_plane.kubeconfig(), &more)
    }

    fn theirs(&self) -> anyhow::Result<Process> {
        contest::controller_manager(&self.control_plane, &[Self::CONTROLLER], &[])
    }

    async fn measure(&self, start: impl FnOnce() -> anyhow::Result<Process>) -> anyhow::Result<Figures> {
        let (process, took, half) = watched(&self.nodes, NODES, is_written, async || start()).await?;
        contest::finish(process, took, half).await
    }
}

impl Unannotated {
    async fn patch_all(&self, value: &Value) -> anyhow::Result<()> {
        let patch = Patch::Strategic(json!({"metadata": {"annotations": {TTL: value}}}));
        send(0..NODES, async |number| {
            let params = PatchParams::default();
            self.nodes.patch_metadata(&name(number), &params, &patch).await?;
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

fn name(number: usize) -> String {
    format!("node-{number:05}")
}

/// Nodes as a kubelet registers them: labels, addresses, conditions, capacity, thirty images.
async fn seed(nodes: &Api<Node>) -> anyhow::Result<()> {
    send(0..NODES, async |number| {
        let node: Node = serde_json::from_value(node(number))?;
        nodes.create(&PostParams::default(), &node).await?;
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
            "name": name(number),
            "labels": {
                "kubernetes.io/hostname": name(number), "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "topology.kubernetes.io/zone": format!("zone-{}", number % 3),
                "node.kubernetes.io/instance-type": "m.large"
            },
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
        },
        "spec": {"podCIDR": format!("10.{}.{}.0/24", number / 256, number % 256), "providerID": format!("test:///{number}")},
        "status": {
            "capacity": resources, "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": format!("192.168.{}.{}", number / 256, number % 256)},
                          {"type": "Hostname", "address": name(number)}],
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
