//! Nodes and pods, next to our binary as a process.

use std::collections::BTreeMap;
use std::time::Duration;

use controller_core::time::saturating_add;
use controller_testing::chart::account;
use controller_testing::cluster::{self, kubectl};
pub(crate) use controller_testing::cluster::{now, until_time as until, whole};
use controller_testing::soon;
pub(crate) use controller_testing::{Replica, SOON};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use local_control_plane::eventually;
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "default";
const TWO_SECONDS: SignedDuration = SignedDuration::from_secs(2);
pub(crate) const OVERDUE: &str = "taint_eviction_controller_overdue_evictions";
pub(crate) const PENDING: &str = "taint_eviction_controller_pending_evictions";
pub(crate) const DELETIONS: &str = "taint_eviction_controller_pod_deletions_total";
pub(crate) const CANCELLED: &str = "taint_eviction_controller_cancelled_evictions_total";

/// How long a pod tolerates the taint `k`.
#[derive(Clone, Copy)]
pub(crate) enum For {
    No,
    Seconds(i64),
    Ever,
}

controller_testing::cluster!("taint-eviction-controller");

impl Cluster {
    pub(crate) async fn with_nodes<const N: usize>(names: [&str; N]) -> Self {
        let cluster = Self::new().await;
        let node = |name| json!({"kind": "Node", "metadata": {"name": name}});
        cluster.create_all(names.map(node)).await;
        cluster
    }

    /// With the permissions of a chart whose `evictThroughBudgets` is set.
    pub(crate) async fn through_budgets<const N: usize>(names: [&str; N]) -> Self {
        let chart = CHART.rendered_as("budgets.golden.yaml");
        let cluster = Self(cluster::Cluster::new(chart, BUILT).await);
        let node = |name| json!({"kind": "Node", "metadata": {"name": name}});
        cluster.create_all(names.map(node)).await;
        cluster
    }

    /// Makes `count` pods: `prefix-0` and so on.
    pub(crate) async fn pods(&self, count: usize, prefix: &str, node: &str, tolerates: For) {
        self.pods_in(NAMESPACE, count, prefix, node, tolerates).await;
    }

    pub(crate) async fn pods_in(
        &self,
        namespace: &str,
        count: usize,
        prefix: &str,
        node: &str,
        tolerates: For,
    ) {
        let mut toleration = json!({"key": "k", "operator": "Exists", "effect": "NoExecute"});
        if let For::Seconds(seconds) = tolerates {
            toleration["tolerationSeconds"] = json!(seconds);
        }
        let tolerations = if let For::No = tolerates {
            json!([])
        } else {
            json!([toleration])
        };
        let spec = json!({
            "nodeName": node, "tolerations": tolerations, "containers": [{"name": "c", "image": "i"}],
        });
        let pod = |number| {
            let metadata = json!({"namespace": namespace, "name": format!("{prefix}-{number}")});
            json!({"kind": "Pod", "metadata": metadata, "spec": spec})
        };
        self.create_all((0..count).map(pod)).await;
    }

    /// Gives the node the taint `k:NoExecute` as `kubectl taint` does: without a time.
    pub(crate) async fn taint(&self, node: &str) {
        self.set_taints(node, json!([{"key": "k", "effect": "NoExecute"}]))
            .await;
    }

    /// Gives the node the taint with a `timeAdded`.
    pub(crate) async fn taint_added(&self, node: &str, added: Timestamp) {
        let taint = json!({"key": "k", "effect": "NoExecute", "timeAdded": added.to_string()});
        self.set_taints(node, json!([taint])).await;
    }

    pub(crate) async fn untaint(&self, node: &str) {
        self.set_taints(node, Value::Null).await;
    }

    async fn set_taints(&self, node: &str, taints: Value) {
        self.merge("Node", node, json!({"spec": {"taints": taints}}))
            .await;
    }

    pub(crate) async fn until_evicted(&self, count: usize, within: Duration) {
        let what = format!("{count} pods are evicted");
        cluster::until(
            within,
            &what,
            async || self.deleting("Pod").await,
            |evicted| *evicted == count,
        )
        .await;
    }

    /// Type, reason and message of each event that `kubectl describe pod` shows, which selects by name and uid.
    pub(crate) async fn described(&self, namespace: &str, pod: &str) -> Vec<String> {
        let found = self.api_in(namespace, "Pod").get(pod).await.unwrap();
        let uid = found.metadata.uid.unwrap();
        let fields = format!(
            "involvedObject.kind=Pod,involvedObject.namespace={namespace},involvedObject.name={pod},involvedObject.uid={uid}"
        );
        let events: Api<Event> = Api::namespaced(self.control_plane.client(), namespace);
        let events = events.list(&ListParams::default().fields(&fields)).await.unwrap();
        let line = |event: Event| {
            let parts = [event.type_, event.reason, event.message];
            parts.map(Option::unwrap_or_default).join(" ")
        };
        events.into_iter().map(line).collect()
    }

    /// The output of `kubectl describe pod`, its columns one space apart; `None` without `kubectl`.
    pub(crate) async fn kubectl_describes(&self, pod: &str) -> Option<String> {
        let log = self.kubectl(&kubectl()?, &["describe", "pod", pod]).await;
        let lines = log
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        Some(lines.collect::<Vec<_>>().join("\n"))
    }

    /// Makes a namespace in which the service account may delete pods, whatever its permissions elsewhere.
    pub(crate) async fn namespace_with_delete(&self, name: &str) {
        let in_it = json!({"namespace": name, "name": NAME});
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]);
        let binding = json!({
            "kind": "RoleBinding", "metadata": in_it,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": account(NAME)}],
        });
        self.create(json!({"kind": "Namespace", "metadata": {"name": name}}))
            .await;
        self.create(json!({"kind": "Role", "metadata": in_it, "rules": rules}))
            .await;
        self.create(binding).await;
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
            let deletes = self.requests().into_iter();
            let accepted = deletes.filter(|asked| asked.is("delete", "pods") && asked.code == 200);
            let moments: BTreeMap<_, _> = accepted.map(|asked| (asked.name, asked.received)).collect();
            (moments.len() == count).then_some(Deletes(moments))
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

/// When each pod was deleted.
pub(crate) struct Deletes(BTreeMap<String, Timestamp>);

impl Deletes {
    /// Asserts that no pod with these prefixes was deleted before it was due, and all that were due together before any
    /// that was due two seconds later.
    pub(crate) fn assert_in_order(&self, due: &[(&str, Timestamp)]) {
        let mut due: Vec<_> = due.iter().map(|(prefix, at)| (*at, *prefix)).collect();
        due.sort();
        let mut last: Vec<(Timestamp, Timestamp)> = Vec::new();
        for (at, prefix) in due {
            let lags = self.lags(prefix, at);
            assert!(!lags.is_empty(), "no {prefix} went");
            for (pod, lag) in lags {
                let went = at + lag;
                assert!(!lag.is_negative(), "{pod} was due at {at} and went at {went}");
                let overtaken = last
                    .iter()
                    .find(|(earlier, last)| at.duration_since(*earlier) >= TWO_SECONDS && *last > went);
                assert_eq!(overtaken, None, "{pod}, due at {at}, went at {went}");
                last.push((at, went));
            }
        }
    }

    /// How late each pod with this prefix was deleted that was due at `due`.
    pub(crate) fn lags(&self, prefix: &str, due: Timestamp) -> Vec<(&str, SignedDuration)> {
        let prefix = format!("{prefix}-");
        let these = self.0.iter().filter(|(name, _)| name.starts_with(&prefix));
        these
            .map(|(name, at)| (name.as_str(), at.duration_since(due)))
            .collect()
    }
}

pub(crate) async fn until_pending(replica: &Replica, count: u64, within: Duration) {
    let what = format!("{count} evictions are pending");
    let pending = async || replica.total(PENDING).await;
    cluster::until(within, &what, pending, |pending| *pending == count).await;
}

pub(crate) fn seconds_after(time: Timestamp, seconds: u64) -> Timestamp {
    saturating_add(time, Duration::from_secs(seconds))
}

/// Asserts that no pod went early, and none later than `within`.
pub(crate) fn assert_prompt(lags: &[(&str, SignedDuration)], within: SignedDuration) {
    assert!(!lags.is_empty(), "nobody went");
    let off = lags.iter().filter(|(_, lag)| lag.is_negative() || *lag > within);
    assert_eq!(off.collect::<Vec<_>>(), Vec::<&(&str, SignedDuration)>::new());
}
