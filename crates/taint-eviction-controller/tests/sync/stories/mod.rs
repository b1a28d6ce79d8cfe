//! Stories of nodes and pods, told next to the embedded API server and next to a real one. No kubelet runs, so a pod
//! that was evicted stays with a deletionTimestamp.

mod evictions;
mod limits;
mod outage;
mod standby;

use std::collections::BTreeMap;
use std::time::Duration;

use controller_core::time::saturating_add;
use controller_testing::audit::Asked;
use controller_testing::soon;
use controller_testing::stories::{Objects, StoryProcess, StoryStage, until};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "default";
const TWO_SECONDS: SignedDuration = SignedDuration::from_secs(2);
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

/// Nodes with taints, and pods on them.
pub(crate) trait Evicted {
    fn objects(&self) -> &Objects;

    async fn nodes(&self, names: impl IntoIterator<Item = &str>) {
        let node = |name| json!({ "kind": "Node", "metadata": { "name": name } });
        self.objects().create_all(names.into_iter().map(node)).await;
    }

    /// Makes `count` pods: `prefix-0` and so on.
    async fn pods(&self, count: usize, prefix: &str, node: &str, tolerates: For) {
        self.pods_in(NAMESPACE, count, prefix, node, tolerates).await;
    }

    async fn pods_in(&self, namespace: &str, count: usize, prefix: &str, node: &str, tolerates: For) {
        let pods = (0..count).map(|number| {
            let mut pod = pod(&format!("{prefix}-{number}"), node, tolerates);
            pod["metadata"]["namespace"] = json!(namespace);
            pod
        });
        self.objects().create_all(pods).await;
    }

    /// Gives the node the taint `k:NoExecute` as `kubectl taint` does: without a time.
    async fn taint(&self, node: &str) {
        self.set_taints(node, json!([{ "key": "k", "effect": "NoExecute" }]))
            .await;
    }

    /// Gives the node the taint with a `timeAdded`.
    async fn taint_added(&self, node: &str, added: Timestamp) {
        let taint = json!({ "key": "k", "effect": "NoExecute", "timeAdded": added.to_string() });
        self.set_taints(node, json!([taint])).await;
    }

    async fn untaint(&self, node: &str) {
        self.set_taints(node, Value::Null).await;
    }

    async fn set_taints(&self, node: &str, taints: Value) {
        let spec = json!({ "spec": { "taints": taints } });
        self.objects().merge("Node", node, spec).await;
    }

    async fn until_evicted(&self, count: usize, within: Duration) {
        let what = format!("{count} pods are evicted");
        let evicted = async || self.objects().deleting("Pod").await;
        until(within, &what, evicted, |evicted| *evicted == count).await;
    }

    /// Type, reason and message of each event that `kubectl describe pod` shows, which selects by name and uid.
    async fn described(&self, namespace: &str, pod: &str) -> Vec<String> {
        let found = self.objects().api_in(namespace, "Pod").get(pod).await.unwrap();
        let uid = found.metadata.uid.unwrap();
        let fields = format!(
            "involvedObject.kind=Pod,involvedObject.namespace={namespace},involvedObject.name={pod},involvedObject.uid={uid}"
        );
        let events: Api<Event> = Api::namespaced(self.objects().client(), namespace);
        let events = events.list(&ListParams::default().fields(&fields)).await.unwrap();
        let line = |event: Event| {
            let parts = [event.type_, event.reason, event.message];
            parts.map(Option::unwrap_or_default).join(" ")
        };
        events.into_iter().map(line).collect()
    }

    /// Waits until exactly one event of the pod is described, which starts so.
    async fn until_told_once(&self, pod: &str, start: &str) {
        let told = async || {
            let events = self.described(NAMESPACE, pod).await;
            (events.len() == 1 && events[0].starts_with(start)).then_some(())
        };
        soon("the event of the pod is shown", told).await;
    }
}

impl Evicted for Objects {
    fn objects(&self) -> &Objects {
        self
    }
}

pub(crate) fn pod(name: &str, node: &str, tolerates: For) -> Value {
    let mut toleration = json!({ "key": "k", "operator": "Exists", "effect": "NoExecute" });
    if let For::Seconds(seconds) = tolerates {
        toleration["tolerationSeconds"] = json!(seconds);
    }
    let tolerations = if let For::No = tolerates {
        json!([])
    } else {
        json!([toleration])
    };
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "nodeName": node, "tolerations": tolerations, "containers": [{ "name": "c", "image": "i" }] },
    })
}

/// When each pod was deleted.
pub(crate) struct Deletes(BTreeMap<String, Timestamp>);

impl Deletes {
    /// Those of the requests that were carried out.
    pub(crate) fn of(requests: Vec<Asked>) -> Self {
        let deletes = requests.into_iter();
        let accepted = deletes.filter(|asked| asked.is("delete", "pods") && asked.code == 200);
        Self(accepted.map(|asked| (asked.name, asked.received)).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
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

/// When the controller deleted each pod; waits for `count` pods, and fails if there are more deletes.
async fn deleted_at(stage: &StoryStage, count: usize) -> Deletes {
    let deletes = Deletes::of(stage.until_requests("delete", "pods", count).await);
    assert_eq!(deletes.len(), count);
    deletes
}

async fn until_pending(process: &StoryProcess, count: u64) {
    process.until_metric(PENDING, "", count).await;
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
