//! A cluster of bare nodes, next to our binary as a process.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use controller_testing::cluster::until;
use kube::api::ListParams;
use serde_json::json;

pub(crate) use controller_testing::{QUICK_LEASE, Replica, SOON};

pub(crate) const TTL: &str = "node.alpha.kubernetes.io/ttl";

controller_testing::cluster!("ttl-controller");

impl Cluster {
    /// With the nodes numbered `numbers`.
    pub(crate) async fn with_nodes(numbers: Range<usize>, ttl: Option<&str>) -> Self {
        let cluster = Self::new().await;
        cluster.add(numbers, ttl).await;
        cluster
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

    /// The number of nodes per value; `none` for those without.
    pub(crate) async fn carried(&self) -> BTreeMap<String, usize> {
        let mut carried = BTreeMap::new();
        let nodes = self.api("Node").list_metadata(&ListParams::default()).await;
        for node in nodes.unwrap() {
            let ttl = node.metadata.annotations.unwrap_or_default().remove(TTL);
            *carried.entry(ttl.unwrap_or("none".to_owned())).or_default() += 1;
        }
        carried
    }

    pub(crate) async fn until_all_carry(&self, nodes: usize, ttl: &str, within: Duration) {
        let expected = BTreeMap::from([(ttl.to_owned(), nodes)]);
        let what = format!("{nodes} nodes carry {ttl}");
        let is = |carried: &BTreeMap<String, usize>| *carried == expected;
        until(within, &what, async || self.carried().await, is).await;
    }

    pub(crate) async fn annotate(&self, number: usize, ttl: &str) {
        let patch = json!({"metadata": {"annotations": {TTL: ttl}}});
        self.merge("Node", &name(number), patch).await;
    }
}

pub(crate) fn name(number: usize) -> String {
    format!("node-{number:04}")
}
