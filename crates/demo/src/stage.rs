//! The tools of a scene.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use controller_runtime::clock::Clock;
use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node, NodeSpec, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::do_all;
use crate::event::Reporter;
use crate::ours::{is_ours, labels};
/// Namespace of namespaced objects, which every cluster has.
pub(crate) const NAMESPACE: &str = "default";
/// Interval between looks for an Event.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The cluster, for the actions of scenes.
pub(crate) struct Stage {
    pub(crate) client: Client,
    /// Sends each request once, so that a refusal is returned.
    pub(crate) once: Client,
    pub(crate) clock: Clock,
    /// Time limit for anything that an action waits for.
    pub(crate) within: Duration,
    pub(crate) reporter: Reporter,
}

/// The action of a step; may be dropped at any `await`.
pub(crate) type Act = Box<dyn for<'a> Fn(&'a Stage) -> BoxFuture<'a, Result<()>> + Send + Sync>;

/// Health of a node, as node-lifecycle-controller would report it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Health {
    Ready,
    NotReady,
    Unreachable,
}

/// Grows or shrinks the cluster to `total` nodes, including those that existed before.
pub(crate) fn nodes(total: usize) -> Act {
    Box::new(move |stage| stage.resize(total).boxed())
}

/// Merges `patch` into node `number` of the demo.
pub(crate) fn patch_node(number: usize, patch: Value) -> Act {
    Box::new(move |stage| {
        let patch = patch.clone();
        async move { stage.patch_node(&node_name(number), patch).await }.boxed()
    })
}

impl Stage {
    /// Shows the viewer a text that only the action knows.
    pub(crate) fn note(&self, text: impl Into<String>) {
        self.reporter.note(text);
    }

    /// Shows the viewer the last Event with this reason, once the controller has published one.
    pub(crate) async fn tell_event(&self, reason: &str) -> Result<()> {
        let events = Api::<Event>::namespaced(self.client.clone(), NAMESPACE);
        let published = async {
            loop {
                let all = events.list(&ListParams::default()).await;
                let all = all.context("list the Events")?.items.into_iter();
                let told = all.filter(|event| event.reason.as_deref() == Some(reason));
                if let Some(event) = told.max_by_key(|event| event.event_time.clone()) {
                    return anyhow::Ok(event);
                }
                self.clock.sleep(LOOK_EVERY).await;
            }
        };
        let published = self.clock.timeout(self.within, published).await;
        let event = published.with_context(|| format!("there is no Event {reason}"))??;
        let object = event.regarding.and_then(|object| object.name).unwrap_or_default();
        let note = event.note.unwrap_or_default();
        self.note(format!("Event {reason} on {object}: {note}"));
        Ok(())
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Creates an object in [`NAMESPACE`] from JSON.
    pub(crate) async fn create<K>(&self, object: Value) -> Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + fmt::Debug + DeserializeOwned + Serialize,
    {
        let name = object["metadata"]["name"].as_str().unwrap_or("?").to_owned();
        let created = async {
            let object = serde_json::from_value(object)?;
            let api = Api::<K>::namespaced(self.client.clone(), NAMESPACE);
            anyhow::Ok(api.create(&PostParams::default(), &object).await?)
        };
        let created = created.await;
        created.with_context(|| format!("create {} {name}", K::kind(&())))
    }

    /// Sets the condition first: node-lifecycle-controller, if it runs, derives the taints from it.
    pub(crate) async fn set_health(&self, node: &str, health: Health) -> Result<()> {
        let now = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let [status, reason, message] = health.condition();
        let condition = json!({
            "type": "Ready", "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        });
        let ready = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        let taints = Patch::Merge(json!({"spec": {"taints": health.taints()}}));
        let (nodes, params) = (self.nodes(), PatchParams::default());
        let patched = async {
            nodes.patch_status(node, &params, &ready).await?;
            nodes.patch(node, &params, &taints).await
        };
        let patched = patched.await;
        patched.with_context(|| format!("make node {node} {health:?}"))?;
        Ok(())
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

    /// Creates the node unless it exists.
    async fn ensure_node(&self, name: String) -> Result<()> {
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

    /// Creates the node unless it exists, and sets it ready.
    pub(crate) async fn ensure_ready_node(&self, name: &str) -> Result<()> {
        self.ensure_node(name.to_owned()).await?;
        self.set_health(name, Health::Ready).await
    }

    async fn delete_node(&self, name: String) -> Result<()> {
        match self.nodes().delete(&name, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error).with_context(|| format!("delete node {name}")),
        }
    }

    /// Merges `patch` into a node.
    pub(crate) async fn patch_node(&self, name: &str, patch: Value) -> Result<()> {
        self.nodes()
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .with_context(|| format!("patch node {name}"))?;
        Ok(())
    }
}

impl Health {
    /// Status, reason and message of the condition `Ready`.
    const fn condition(self) -> [&'static str; 3] {
        match self {
            Self::Ready => ["True", "KubeletReady", "kubelet is posting ready status"],
            Self::NotReady => ["False", "KubeletNotReady", "the demo lets it fail"],
            Self::Unreachable => [
                "Unknown",
                "NodeStatusUnknown",
                "Kubelet stopped posting node status.",
            ],
        }
    }

    /// Without `timeAdded`, which has whole seconds: tolerations then count from when the controller sees the taint, so
    /// they end precisely.
    fn taints(self) -> Value {
        let key = match self {
            Self::Ready => return json!([]),
            Self::NotReady => "node.kubernetes.io/not-ready",
            Self::Unreachable => "node.kubernetes.io/unreachable",
        };
        json!([{"key": key, "effect": "NoExecute"}])
    }
}

fn node_name(number: usize) -> String {
    format!("demo-node-{number:04}")
}
