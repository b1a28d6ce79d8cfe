//! The scheduler and the kubelets, played: pods are bound to nodes that are not cordoned, become ready, and end when
//! they are deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_runtime::tasks::TaskSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::support::{Budgets, Cluster, set_ready};

/// How long each step of a pod's life takes: to be bound, to be ready, to be gone. Longer than the API server waits
/// before it tries an eviction again that met another write of the budget (500 ms), so that drains are held up.
const STEP: Duration = Duration::from_secs(1);

/// They play until it is dropped.
pub(crate) struct Actors {
    _tasks: TaskSet,
}

impl Actors {
    /// On these nodes, which are made.
    pub(crate) async fn with_nodes(cluster: &Cluster, names: &[&str]) -> Self {
        for name in names {
            cluster
                .create(json!({"kind": "Node", "metadata": {"name": name}}))
                .await;
        }
        let (nodes, pods) = (Api::all(cluster.control_plane.client()), cluster.pod_api());
        let mut tasks = TaskSet::new();
        tasks.spawn("scheduler and kubelets", async move {
            let clock = Clock::system();
            loop {
                // The API server may be away, and a pod may have changed.
                let _ = step(&nodes, &pods).await;
                clock.sleep(STEP).await;
            }
        });
        Self { _tasks: tasks }
    }
}

/// Takes each pod one step further.
async fn step(nodes: &Api<Node>, pods: &Api<Pod>) -> kube::Result<()> {
    let all = pods.list(&ListParams::default()).await?.items;
    let mut room: BTreeMap<String, usize> = BTreeMap::new();
    for node in nodes.list(&ListParams::default()).await? {
        let cordoned = node.spec.and_then(|spec| spec.unschedulable) == Some(true);
        if let (Some(name), false) = (node.metadata.name, cordoned) {
            room.insert(name, 0);
        }
    }
    let node_of = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    for node in all.iter().filter_map(node_of) {
        room.entry(node).and_modify(|pods| *pods += 1);
    }
    for pod in &all {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        if pod.metadata.deletion_timestamp.is_some() {
            pods.delete(name, &DeleteParams::default().grace_period(0))
                .await?;
        } else if node_of(pod).is_some() {
            if !is_ready(pod) {
                set_ready(pods, name, true).await?;
            }
        } else if let Some((node, load)) = room.iter_mut().min_by_key(|(_, pods)| **pods) {
            *load += 1;
            bind(pods, name, node).await?;
        }
    }
    Ok(())
}

async fn bind(pods: &Api<Pod>, pod: &str, node: &str) -> kube::Result<()> {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"kind": "Node", "name": node},
    });
    // The answer is a Status.
    let params = PostParams::default();
    pods.create_subresource::<Value, IgnoredAny>("binding", pod, &params, &binding)
        .await?;
    Ok(())
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
