//! A cluster of bare nodes, and our binary as a process beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use harness::chart::Chart;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use testkit::real::{ControlPlane, Options, eventually};

pub(crate) const NAME: &str = "ttl-controller";
pub(crate) const CHART: Chart = Chart::of(NAME);
pub(crate) const TTL: &str = "node.alpha.kubernetes.io/ttl";
pub(crate) use harness::{QUICK_LEASE, Replica, SOON};

/// The binary under test; `TTL_CONTROLLER_BINARY` names another build of it.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("TTL_CONTROLLER_BINARY").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_ttl-controller")),
        PathBuf::from,
    )
}

/// Our binary, running on the rights of `kubeconfig`.
pub(crate) fn start(kubeconfig: &Path, args: &[&str]) -> Replica {
    Replica::start(&binary(), kubeconfig, args)
}

pub(crate) async fn patches(replica: &Replica) -> u64 {
    replica
        .metric("rest_client_requests_total", "method=\"PATCH\"")
        .await
}

pub(crate) struct Cluster {
    pub(crate) control_plane: ControlPlane,
    /// Of the chart's service account.
    kubeconfig: PathBuf,
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        Self::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let control_plane = ControlPlane::start(options).await.unwrap();
        let kubeconfig = CHART.install(&control_plane).await;
        Self {
            control_plane,
            kubeconfig,
        }
    }

    /// Our binary, running on the rights of the chart.
    pub(crate) fn start(&self, args: &[&str]) -> Replica {
        start(&self.kubeconfig, args)
    }

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
