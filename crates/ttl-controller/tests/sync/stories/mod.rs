//! Stories of nodes, told next to the embedded API server and next to a real one.

mod boundary;
mod outage;

use std::collections::BTreeMap;
use std::time::Duration;

use controller_testing::SOON;
use controller_testing::stories::{Objects, until};
use kube::api::ListParams;
use serde_json::{Value, json};

pub(crate) const TTL: &str = "node.alpha.kubernetes.io/ttl";

/// Nodes and the value that each carries.
pub(crate) trait Nodes {
    fn objects(&self) -> &Objects;

    /// Makes the nodes numbered `numbers`, with `ttl` if given.
    async fn add(&self, numbers: impl IntoIterator<Item = usize>, ttl: Option<&str>) {
        let nodes = numbers.into_iter().map(|number| node(number, ttl));
        self.objects().create_all(nodes).await;
    }

    async fn remove(&self, numbers: impl IntoIterator<Item = usize>) {
        for number in numbers {
            self.objects().delete("Node", &name(number)).await;
        }
    }

    /// The number of nodes per value; `none` for those without.
    async fn carried(&self) -> BTreeMap<String, usize> {
        let mut carried = BTreeMap::new();
        let nodes = self.objects().api("Node");
        for node in nodes.list_metadata(&ListParams::default()).await.unwrap() {
            let ttl = node.metadata.annotations.unwrap_or_default().remove(TTL);
            *carried.entry(ttl.unwrap_or("none".to_owned())).or_default() += 1;
        }
        carried
    }

    async fn until_all_carry(&self, nodes: usize, ttl: &str) {
        self.until_all_carry_within(SOON, nodes, ttl).await;
    }

    async fn until_all_carry_within(&self, within: Duration, nodes: usize, ttl: &str) {
        let expected = BTreeMap::from([(ttl.to_owned(), nodes)]);
        let what = format!("{nodes} nodes carry {ttl}");
        let is = |carried: &BTreeMap<String, usize>| *carried == expected;
        until(within, &what, async || self.carried().await, is).await;
    }

    async fn annotate(&self, number: usize, ttl: &str) {
        let patch = json!({ "metadata": { "annotations": { TTL: ttl } } });
        self.objects().merge("Node", &name(number), patch).await;
    }
}

impl Nodes for Objects {
    fn objects(&self) -> &Objects {
        self
    }
}

pub(crate) fn node(number: usize, ttl: Option<&str>) -> Value {
    let annotations: BTreeMap<_, _> = ttl.map(|ttl| (TTL, ttl)).into_iter().collect();
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name(number), "annotations": annotations },
    })
}

pub(crate) fn name(number: usize) -> String {
    format!("node-{number:04}")
}
