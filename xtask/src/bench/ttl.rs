//! ttl: 5,000 nodes without annotation, from process start until every node carries 300. Also binary
//! size and idle memory (CORE-16).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use testkit::real::{ControlPlane, Options, Process, Usage, eventually};

use super::{Figures, line, mebibytes, median, now};

const NODES: usize = 5_000;
const IN_FLIGHT: usize = 16;
const TTL: &str = "node.alpha.kubernetes.io/ttl";
/// What 5,000 nodes carry.
const WANTED: &str = "300";
/// After the work, before memory is read.
const REST: Duration = Duration::from_secs(10);

pub(super) async fn run(runs: usize) -> anyhow::Result<()> {
    let binary = release_binary()?;
    let control_plane = ControlPlane::start(Options::default()).await?;
    let nodes: Api<Node> = Api::all(control_plane.client());

    let mut idle = Process::spawn(&binary, &our_args(control_plane.kubeconfig(), &[]), &[])?;
    rest().await?;
    let idle_usage = idle.usage()?;
    idle.terminate()?;
    idle.wait_exit(REST).await?;

    seed(&nodes).await?;
    let (mut floor, mut ours, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for run in 1..=runs {
        reset(&nodes).await?;
        floor.push(run_floor(&nodes).await?);
        reset(&nodes).await?;
        let args = our_args(
            control_plane.kubeconfig(),
            &["--kube-api-qps=0", "--concurrent-syncs=16"],
        );
        ours.push(run_process(&nodes, || Ok(Process::spawn(&binary, &args, &[])?)).await?);
        reset(&nodes).await?;
        let unlimited = ["--kube-api-qps=100000", "--kube-api-burst=100000"];
        let start = || Ok(control_plane.start_controller_manager(&["ttl-controller"], &unlimited)?);
        theirs.push(run_process(&nodes, start).await?);
        eprintln!("run {run} of {runs} done");
    }
    let bar = median(&floor, |run| run.took).unwrap_or_default();
    println!("ttl: {NODES} nodes without annotation, {runs} alternating runs, medians\n");
    println!("| | time (all runs) | × floor | RSS | peak | CPU |\n|---|---|---|---|---|---|");
    println!("{}", line("floor", &floor, bar));
    println!("{}", line("ttl-controller", &ours, bar));
    println!("{}", line("kube-controller-manager", &theirs, bar));
    println!(
        "\nbinary {}, idle on an empty cluster: RSS {}, {} threads",
        mebibytes(std::fs::metadata(&binary)?.len()),
        mebibytes(idle_usage.rss),
        idle_usage.threads
    );
    judge(&ours, bar, &idle_usage, std::fs::metadata(&binary)?.len())
}

/// The bars of the specification.
fn judge(ours: &[Figures], floor: Duration, idle: &Usage, binary: u64) -> anyhow::Result<()> {
    const MIB: u64 = 1 << 20;
    let took = median(ours, |run| run.took).unwrap_or_default();
    let usages: Vec<Usage> = ours.iter().filter_map(|run| run.usage).collect();
    let rss = median(&usages, |usage| usage.rss).unwrap_or_default();
    let mut missed = Vec::new();
    let mut bar = |name: &str, met: bool| {
        println!("{} {name}", if met { "met:   " } else { "MISSED:" });
        if !met {
            missed.push(name.to_owned());
        }
    };
    bar(
        "at most 1.15 × floor",
        took.as_secs_f64() <= 1.15 * floor.as_secs_f64(),
    );
    bar("at most 20 MiB of RSS", rss <= 20 * MIB);
    bar("a binary under 12 MiB", binary < 12 * MIB);
    bar("idle under 12 MiB of RSS", idle.rss < 12 * MIB);
    bar("idle with at most 4 threads", idle.threads <= 4);
    ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
    Ok(())
}

fn release_binary() -> anyhow::Result<PathBuf> {
    let status = std::process::Command::new(env!("CARGO"))
        .args(["build", "--release", "--bin", "ttl-controller"])
        .status()
        .context("build the release binary")?;
    ensure!(status.success(), "the release binary does not build");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    Ok(std::path::absolute(target.join("release/ttl-controller"))?)
}

fn our_args(kubeconfig: &Path, more: &[&str]) -> Vec<String> {
    let mut args = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--http-bind-address=127.0.0.1:0".into(),
    ];
    args.extend(more.iter().map(|&arg| arg.to_owned()));
    args
}

/// Runs a process until every node is written, as told by a watch: lists would load the server.
async fn run_process(
    nodes: &Api<Node>,
    start: impl FnOnce() -> anyhow::Result<Process>,
) -> anyhow::Result<Figures> {
    let version = nodes
        .list_metadata(&ListParams::default().limit(1))
        .await?
        .metadata
        .resource_version;
    let version = version.context("the list has no resourceVersion")?;
    let mut changes = pin!(
        nodes
            .watch_metadata(&WatchParams::default().timeout(290), &version)
            .await?
    );
    let began = now();
    let mut process = start()?;
    let mut written = BTreeSet::new();
    while written.len() < NODES {
        match changes.try_next().await?.context("the watch ended")? {
            WatchEvent::Modified(node) => {
                let annotations = node.metadata.annotations.unwrap_or_default();
                if annotations.get(TTL).is_some_and(|value| value == WANTED) {
                    written.extend(node.metadata.name);
                }
            }
            WatchEvent::Error(status) => bail!("the watch failed: {}", status.message),
            _ => {}
        }
    }
    let took = began.elapsed();
    rest().await?;
    let usage = Some(process.usage()?);
    process.terminate()?;
    process.wait_exit(Duration::from_secs(30)).await?;
    Ok(Figures { took, usage })
}

async fn run_floor(nodes: &Api<Node>) -> anyhow::Result<Figures> {
    let began = now();
    patch_all(nodes, &json!(WANTED)).await?;
    Ok(Figures {
        took: began.elapsed(),
        usage: None,
    })
}

async fn reset(nodes: &Api<Node>) -> anyhow::Result<()> {
    patch_all(nodes, &Value::Null).await
}

async fn patch_all(nodes: &Api<Node>, value: &Value) -> anyhow::Result<()> {
    let patch = json!({"metadata": {"annotations": {TTL: value}}});
    stream::iter(0..NODES)
        .map(Ok)
        .try_for_each_concurrent(IN_FLIGHT, |number| {
            let patch = &patch;
            async move {
                let patch = Patch::Strategic(patch);
                nodes
                    .patch_metadata(&name(number), &PatchParams::default(), &patch)
                    .await
                    .map(drop)
            }
        })
        .await?;
    Ok(())
}

async fn rest() -> anyhow::Result<()> {
    let began = now();
    Ok(eventually(REST * 2, "memory has settled", async || {
        (began.elapsed() >= REST).then_some(())
    })
    .await?)
}

fn name(number: usize) -> String {
    format!("node-{number:05}")
}

/// Nodes as a kubelet registers them: labels, addresses, conditions, capacity, thirty images.
async fn seed(nodes: &Api<Node>) -> anyhow::Result<()> {
    stream::iter(0..NODES)
        .map(Ok)
        .try_for_each_concurrent(IN_FLIGHT, |number| async move {
            let node: Node = serde_json::from_value(node(number))?;
            nodes.create(&PostParams::default(), &node).await?;
            anyhow::Ok(())
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
