//! A cluster of bare nodes, and our binary as a process beside it.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::chart::Chart;
use harness::cluster::{self, until};
use kube::api::ListParams;
use serde_json::json;

pub(crate) const NAME: &str = "ttl-controller";
const BUILT: &str = env!("CARGO_BIN_EXE_ttl-controller");
pub(crate) const CHART: Chart = Chart::of(NAME);
pub(crate) const TTL: &str = "node.alpha.kubernetes.io/ttl";
pub(crate) use harness::{QUICK_LEASE, Replica, SOON};

pub(crate) fn binary() -> PathBuf {
    cluster::binary(BUILT)
}

/// Our binary, running on the permissions of `kubeconfig`.
pub(crate) fn start(kubeconfig: &Path, args: &[&str]) -> Replica {
    Replica::start(&binary(), kubeconfig, args)
}

pub(crate) async fn patches(replica: &Replica) -> u64 {
    replica
        .metric("rest_client_requests_total", "method=\"PATCH\"")
        .await
}

pub(crate) struct Cluster(cluster::Cluster);

impl Deref for Cluster {
    type Target = cluster::Cluster;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        Self(cluster::Cluster::new(CHART, BUILT).await)
    }

    /// Makes the nodes numbered `numbers`, with `ttl` if given.
    pub(crate) async fn add(&self, numbers: impl IntoIterator<Item = usize>, ttl: Option<&str>) {
        let annotations: BTreeMap<_, _> = ttl.map(|ttl| (TTL, ttl)).into_iter().collect();
        let node =
            |number| json!({"kind": "Node", "metadata": {"name": name(number), "annotations": annotations}});
        self.create_all(numbers.into_iter().map(node)).await;
    }

    pub(crate) async fn remove(&self, numbers: impl IntoIterator<Item = usize>) {
        for number in numbers {
            self.delete("Node", &name(number)).await;
        }
    }

    /// How many nodes carry which value; `none` for those without.
    pub(crate) async fn carried(&self) -> BTreeMap<String, usize> {
        let mut carried = BTreeMap::new();
        for node in self
            .api("Node")
            .list_metadata(&ListParams::default())
            .await
            .unwrap()
        {
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
        until(
            within,
            &what,
            async || self.carried().await,
            |carried| *carried == expected,
        )
        .await;
    }

    pub(crate) async fn annotate(&self, number: usize, ttl: &str) {
        let patch = json!({"metadata": {"annotations": {TTL: ttl}}});
        self.merge("Node", &name(number), patch).await;
    }
}

pub(crate) fn name(number: usize) -> String {
    format!("node-{number:04}")
}
