//! What a scene acts with.

use std::collections::BTreeMap;
use std::future::Future;

use anyhow::{Context, Result, bail};
use controller_core::clock::Clock;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Node, NodeSpec};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::cluster::{AT_ONCE, LABEL, is_ours};
use crate::scene::Act;

/// The namespace of what lives in one: every cluster has it.
pub(crate) const NAMESPACE: &str = "default";

/// The cluster, for those who act on it.
pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
}

/// The labels of everything that the demo makes.
pub(crate) fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([(LABEL.0.to_owned(), LABEL.1.to_owned())])
}

/// Does all of them, [`AT_ONCE`]; the first failure is that of all.
pub(crate) async fn do_all(deeds: impl IntoIterator<Item = impl Future<Output = Result<()>>>) -> Result<()> {
    stream::iter(deeds).buffer_unordered(AT_ONCE).try_collect().await
}

/// Grows or shrinks the cluster to `total` nodes, those counted that were there before.
pub(crate) fn nodes(total: usize) -> Act {
    Box::new(move |stage| stage.resize(total).boxed())
}

/// Merges `patch` into node `number` of the demo.
pub(crate) fn patch_node(number: usize, patch: Value) -> Act {
    Box::new(move |stage| stage.patch_node(number, patch.clone()).boxed())
}

impl Stage {
    pub(crate) fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock }
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    async fn resize(&self, total: usize) -> Result<()> {
        let all = self.nodes().list_metadata(&ListParams::default()).await;
        let all = all.context("list the nodes")?.items;
        let ours = all.iter().filter(|node| is_ours(*node));
        let mut ours: Vec<_> = ours.map(ResourceExt::name_any).collect();
        let foreign = all.len() - ours.len();
        let Some(wanted) = total.checked_sub(foreign) else {
            bail!("the cluster has {foreign} nodes of its own, more than the {total} that this step needs");
        };
        ours.sort();
        let surplus = ours.split_off(wanted.min(ours.len()));
        let missing = (1..).map(node_name).filter(|name| !ours.contains(name));
        let missing: Vec<_> = missing.take(wanted - ours.len()).collect();

        do_all(surplus.into_iter().map(|name| self.delete_node(name))).await?;
        do_all(missing.into_iter().map(|name| self.ensure_node(name))).await
    }

    /// There is a node of this name then; one that was there stays as it is.
    pub(crate) async fn ensure_node(&self, name: String) -> Result<()> {
        let node = Node {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                // No `kubernetes.io/os`: daemons that select it stay away from nodes without a kubelet.
                labels: Some(labels()),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                unschedulable: Some(true),
                ..NodeSpec::default()
            }),
            status: None,
        };
        match self.nodes().create(&PostParams::default(), &node).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            Err(error) => Err(error).with_context(|| format!("create node {name}")),
        }
    }

    async fn delete_node(&self, name: String) -> Result<()> {
        match self.nodes().delete(&name, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error).with_context(|| format!("delete node {name}")),
        }
    }

    async fn patch_node(&self, number: usize, patch: Value) -> Result<()> {
        let name = node_name(number);
        self.nodes()
            .patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .with_context(|| format!("patch node {name}"))?;
        Ok(())
    }
}

fn node_name(number: usize) -> String {
    format!("demo-node-{number:04}")
}
