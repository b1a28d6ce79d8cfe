//! Nodes and pods, next to our binary as a process.

pub(crate) use controller_testing::SOON;
use controller_testing::cluster::{self, kubectl};
pub(crate) use controller_testing::cluster::{now, until_time as until, whole};
use controller_testing::soon;
use jiff::Timestamp;
use local_control_plane::eventually;
use serde_json::json;

use crate::stories::Deletes;
pub(crate) use crate::stories::{DELETIONS, Evicted, For, NAMESPACE, PENDING, assert_prompt, seconds_after};

pub(crate) const OVERDUE: &str = "taint_eviction_controller_overdue_evictions";

controller_testing::cluster!("taint-eviction-controller");

impl Cluster {
    pub(crate) async fn with_nodes<const N: usize>(names: [&str; N]) -> Self {
        let cluster = Self::new().await;
        cluster.nodes(names).await;
        cluster
    }

    /// With the permissions of a chart whose `evictThroughBudgets` is set.
    pub(crate) async fn through_budgets<const N: usize>(names: [&str; N]) -> Self {
        let chart = CHART.rendered_as("budgets.golden.yaml");
        let cluster = Self(cluster::Cluster::new(chart, BUILT).await);
        cluster.nodes(names).await;
        cluster
    }

    /// The output of `kubectl describe pod`, its columns one space apart; `None` without `kubectl`.
    pub(crate) async fn kubectl_describes(&self, pod: &str) -> Option<String> {
        let log = self.kubectl(&kubectl()?, &["describe", "pod", pod]).await;
        let lines = log
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        Some(lines.collect::<Vec<_>>().join("\n"))
    }

    /// Has admission refuse every delete of a pod in `namespace`, and waits until it does.
    pub(crate) async fn keep(&self, namespace: &str) {
        let validation = json!({"expression": "false", "message": "pods are kept"});
        self.refuse_deletes(namespace, "Pod", validation, "p-0").await;
    }

    /// Grants or revokes the permission to delete pods, and waits until that takes effect.
    pub(crate) async fn let_delete(&self, allowed: bool) {
        let mut rules = CHART.rules();
        if !allowed {
            rules[1]["verbs"] = json!(["get", "list", "watch"]);
        }
        self.grant(rules).await;
    }

    /// When we deleted each pod; waits for `count` pods.
    pub(crate) async fn deleted_at(&self, count: usize) -> Deletes {
        let all = async || {
            let deletes = Deletes::of(self.requests());
            (deletes.len() == count).then_some(deletes)
        };
        let what = format!("the audit log has {count} deletes");
        soon(&what, all).await
    }

    /// When the taints of `node` were last written.
    pub(crate) async fn tainted_at(&self, node: &str) -> Timestamp {
        let written = async || {
            let mut newest_first = self.all_requests().into_iter().rev();
            newest_first.find(|asked| asked.is("patch", "nodes") && asked.name == node)
        };
        let asked = eventually(SOON, "the audit log has the taint", written).await;
        asked.unwrap().received
    }
}
