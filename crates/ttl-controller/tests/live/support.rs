//! A cluster of bare nodes, and our binary as a process beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::real::{ControlPlane, Process, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const TTL: &str = "node.alpha.kubernetes.io/ttl";
/// Within which a condition must hold that nothing but a busy machine delays.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// Lease times that make a test short.
pub(crate) const QUICK_LEASE: [&str; 3] = [
    "--leader-elect-lease-duration=1.5s",
    "--leader-elect-renew-deadline=1s",
    "--leader-elect-retry-period=0.2s",
];

/// Our binary, running.
pub(crate) struct Replica {
    pub(crate) process: Process,
}

impl Replica {
    pub(crate) fn start(kubeconfig: &Path, args: &[&str]) -> Self {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let mut all = vec![kubeconfig.as_str(), "--http-bind-address=127.0.0.1:0"];
        all.extend(args);
        Self {
            process: Process::spawn(&binary(), &all, &[]).unwrap(),
        }
    }

    /// Its log, a JSON object a line.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.process
            .log()
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// How many log lines hold `text`.
    pub(crate) fn said(&self, text: &str) -> usize {
        self.process
            .log()
            .lines()
            .filter(|line| line.contains(text))
            .count()
    }

    /// The answer of its admin server.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let address = eventually(SOON, "the admin server's address is in the log", async || {
            self.lines()
                .iter()
                .find_map(|line| line["address"].as_str().map(str::to_owned))
        })
        .await
        .unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (
            head.split_whitespace().nth(1).unwrap().parse().unwrap(),
            body.to_owned(),
        )
    }

    /// The sum of a metric of whole numbers over the series whose labels hold `labels`; 0 where there is none.
    pub(crate) async fn metric(&self, name: &str, labels: &str) -> u64 {
        let (_, text) = self.get("/metrics").await;
        text.lines()
            .filter(|line| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(['{', ' ']))
            })
            .filter(|line| line.contains(labels))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }

    pub(crate) async fn patches(&self) -> u64 {
        self.metric("rest_client_requests_total", "method=\"PATCH\"")
            .await
    }

    pub(crate) async fn leads(&self) -> bool {
        self.metric("leader_election_master_status", "").await == 1
    }

    pub(crate) async fn until_leading(&self) {
        eventually(SOON, "the replica leads", async || {
            self.leads().await.then_some(())
        })
        .await
        .unwrap();
    }

    /// Ends it with SIGTERM and returns its exit code.
    pub(crate) async fn stop(mut self) -> Option<i32> {
        self.process.terminate().unwrap();
        self.process.wait_exit(SOON).await.unwrap().code()
    }
}

/// The binary under test; `TTL_CONTROLLER_BINARY` names another build of it.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("TTL_CONTROLLER_BINARY").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_ttl-controller")),
        PathBuf::from,
    )
}

pub(crate) struct Cluster {
    pub(crate) control_plane: ControlPlane,
}

impl Cluster {
    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.control_plane.client())
    }

    pub(crate) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.control_plane.client(), "kube-system")
    }

    /// Makes the nodes numbered `numbers`, with `ttl` if given.
    pub(crate) async fn add(&self, numbers: impl IntoIterator<Item = usize>, ttl: Option<&str>) {
        let nodes = self.nodes();
        stream::iter(numbers)
            .map(Ok)
            .try_for_each_concurrent(16, |number| {
                let nodes = nodes.clone();
                let annotations: BTreeMap<_, _> = ttl.map(|ttl| (TTL, ttl)).into_iter().collect();
                let node = json!({"metadata": {"name": name(number), "annotations": annotations}});
                async move {
                    nodes
                        .create(&PostParams::default(), &serde_json::from_value(node).unwrap())
                        .await
                        .map(drop)
                }
            })
            .await
            .unwrap();
    }

    pub(crate) async fn remove(&self, numbers: impl IntoIterator<Item = usize>) {
        let nodes = self.nodes();
        for number in numbers {
            nodes
                .delete(&name(number), &DeleteParams::default())
                .await
                .unwrap();
        }
    }

    /// How many nodes carry which value; `none` for those without.
    pub(crate) async fn carried(&self) -> BTreeMap<String, usize> {
        let mut carried = BTreeMap::new();
        for node in self.nodes().list_metadata(&ListParams::default()).await.unwrap() {
            let value = node.metadata.annotations.unwrap_or_default().remove(TTL);
            *carried
                .entry(value.unwrap_or_else(|| "none".to_owned()))
                .or_default() += 1;
        }
        carried
    }

    pub(crate) async fn until_all_carry(&self, nodes: usize, ttl: &str, within: Duration) {
        let expected = BTreeMap::from([(ttl.to_owned(), nodes)]);
        let what = format!("{nodes} nodes carry {ttl}");
        let settled = eventually(within, &what, async || {
            (self.carried().await == expected).then_some(())
        })
        .await;
        if let Err(error) = settled {
            panic!("{error}; they carry {:?}", self.carried().await);
        }
    }

    /// Each node's resourceVersion: equal maps mean that nothing was written between.
    pub(crate) async fn versions(&self) -> BTreeMap<String, String> {
        let nodes = self.nodes().list_metadata(&ListParams::default()).await.unwrap();
        nodes
            .into_iter()
            .map(|n| (n.metadata.name.unwrap(), n.metadata.resource_version.unwrap()))
            .collect()
    }

    pub(crate) async fn annotate(&self, number: usize, ttl: &str) {
        let patch = json!({"metadata": {"annotations": {TTL: ttl}}});
        self.nodes()
            .patch(&name(number), &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    pub(crate) async fn lease_holder(&self) -> Option<String> {
        let lease = self.leases().get_opt("ttl-controller").await.unwrap()?;
        lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
    }
}

pub(crate) fn name(number: usize) -> String {
    format!("node-{number:04}")
}
