//! Nodes and pods, and our binary as a process beside them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use controller_core::clock::{Clock, saturating_add};
use futures::{StreamExt, TryStreamExt, stream};
use harness::audit::{self, Asked};
use harness::chart::{Chart, account};
use harness::rights::grant;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testkit::real::{AuditLevel, ControlPlane, Options, Process, client, eventually};

pub(crate) use harness::{Replica, SOON};

pub(crate) const NAME: &str = "taint-eviction-controller";
pub(crate) const CHART: Chart = Chart::of(NAME);
pub(crate) const NAMESPACE: &str = "default";

pub(crate) struct Cluster {
    pub(crate) control_plane: ControlPlane,
    /// Of the service account.
    kubeconfig: PathBuf,
}

/// How long a pod tolerates the taint `k`.
#[derive(Clone, Copy)]
pub(crate) enum For {
    No,
    Seconds(i64),
    Ever,
}

/// The binary under test; `TAINT_EVICTION_CONTROLLER_BINARY` names another build of it.
pub(crate) fn binary() -> PathBuf {
    std::env::var_os("TAINT_EVICTION_CONTROLLER_BINARY").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_taint-eviction-controller")),
        PathBuf::from,
    )
}

impl Cluster {
    pub(crate) async fn with_nodes<const N: usize>(names: [&str; N]) -> Self {
        let options = Options {
            audit: Some(AuditLevel::Metadata),
            ..Options::default()
        };
        let control_plane = ControlPlane::start(options).await.unwrap();
        let kubeconfig = CHART.install(&control_plane).await;
        let cluster = Self {
            control_plane,
            kubeconfig,
        };
        for name in names {
            let node = json!({"metadata": {"name": name}});
            let node = serde_json::from_value(node).unwrap();
            let nodes = cluster.nodes();
            nodes.create(&PostParams::default(), &node).await.unwrap();
        }
        cluster
    }

    /// Our binary, running on the rights of the service account.
    pub(crate) fn start(&self, args: &[&str]) -> Replica {
        Replica::start(&binary(), &self.kubeconfig, args)
    }

    /// The same, leading and with a cache that holds `pods` pods.
    pub(crate) async fn start_leading(&self, pods: u64, args: &[&str]) -> Replica {
        let replica = self.start(args);
        until_knowing(&replica, pods).await;
        replica.until_leading().await;
        replica
    }

    /// What `explain` prints.
    pub(crate) async fn explain(&self, pod: &str) -> String {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig.display());
        let pod = format!("{NAMESPACE}/{pod}");
        let mut explain = Process::spawn(&binary(), &["explain", &pod, &kubeconfig], &[]).unwrap();
        let ended = explain.wait_exit(SOON).await.unwrap();
        assert_eq!(ended.code(), Some(0), "{}", explain.log());
        explain.log()
    }

    /// A client with the rights of the service account.
    pub(crate) async fn client(&self) -> kube::Client {
        client(&self.kubeconfig).await.unwrap()
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.control_plane.client())
    }

    fn pods_api(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.control_plane.client(), namespace)
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
        let tolerations = match tolerates {
            For::No => json!([]),
            For::Seconds(seconds) => {
                json!([{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}])
            }
            For::Ever => json!([{"key": "k", "operator": "Exists", "effect": "NoExecute"}]),
        };
        let (pods, tolerations) = (&self.pods_api(namespace), &tolerations);
        stream::iter(0..count)
            .map(Ok)
            .try_for_each_concurrent(16, |number| async move {
                let pod = json!({
                    "metadata": {"name": format!("{prefix}-{number}")},
                    "spec": {"nodeName": node, "tolerations": tolerations, "containers": [{"name": "c", "image": "i"}]},
                });
                let pod = serde_json::from_value(pod).unwrap();
                pods.create(&PostParams::default(), &pod).await.map(drop)
            })
            .await
            .unwrap();
    }

    /// Gives the node the taint `k:NoExecute` as `kubectl taint` does: without a time.
    pub(crate) async fn taint(&self, node: &str) {
        self.set_taints(node, json!([{"key": "k", "effect": "NoExecute"}]))
            .await;
    }

    /// The same with a `timeAdded`.
    pub(crate) async fn taint_added(&self, node: &str, added: Timestamp) {
        let taint = json!({"key": "k", "effect": "NoExecute", "timeAdded": added.to_string()});
        self.set_taints(node, json!([taint])).await;
    }

    pub(crate) async fn untaint(&self, node: &str) {
        self.set_taints(node, Value::Null).await;
    }

    async fn set_taints(&self, node: &str, taints: Value) {
        let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
        let nodes = self.nodes();
        nodes.patch(node, &PatchParams::default(), &patch).await.unwrap();
    }

    /// The pods that have been deleted.
    pub(crate) async fn evicted(&self) -> Vec<Pod> {
        let pods: Api<Pod> = Api::all(self.control_plane.client());
        let pods = pods.list(&ListParams::default()).await.unwrap();
        let deleted = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        pods.items.into_iter().filter(deleted).collect()
    }

    pub(crate) async fn until_evicted(&self, count: usize, within: Duration) {
        let what = format!("{count} pods are evicted");
        let evicted = async || (self.evicted().await.len() == count).then_some(());
        eventually(within, &what, evicted).await.unwrap();
    }

    /// Type, reason and message of each event that `kubectl describe pod` shows: it asks for those of the name and
    /// the uid.
    pub(crate) async fn described(&self, pod: &str) -> Vec<String> {
        self.described_in(NAMESPACE, pod).await
    }

    pub(crate) async fn described_in(&self, namespace: &str, pod: &str) -> Vec<String> {
        let found = self.pods_api(namespace).get(pod).await.unwrap();
        let uid = found.metadata.uid.unwrap();
        let fields = format!(
            "involvedObject.kind=Pod,involvedObject.namespace={namespace},involvedObject.name={pod},involvedObject.uid={uid}"
        );
        let events: Api<Event> = Api::namespaced(self.control_plane.client(), namespace);
        let events = events.list(&ListParams::default().fields(&fields)).await.unwrap();
        let lines = events.into_iter().map(|event| {
            let parts = [event.type_, event.reason, event.message];
            parts.map(Option::unwrap_or_default).join(" ")
        });
        lines.collect()
    }

    /// What `kubectl describe pod` prints, its columns one space apart; `None` where there is no `kubectl`.
    pub(crate) async fn kubectl_describes(&self, pod: &str) -> Option<String> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let kubectl = std::env::split_paths(&folders)
            .map(|folder| folder.join("kubectl"))
            .find(|program| program.is_file());
        let Some(kubectl) = kubectl else {
            let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
            assert!(!ci, "with CI=true kubectl must be on the PATH");
            return None;
        };
        let kubeconfig = format!("--kubeconfig={}", self.control_plane.kubeconfig().display());
        let args = ["describe", "pod", pod, &kubeconfig];
        let mut describe = Process::spawn(&kubectl, &args, &[("HOME", "/nonexistent")]).unwrap();
        let ended = describe.wait_exit(SOON).await.unwrap();
        assert_eq!(ended.code(), Some(0), "{}", describe.log());
        let log = describe.log();
        let lines = log
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        Some(lines.collect::<Vec<_>>().join("\n"))
    }

    /// Makes a namespace in which the service account may delete pods, whatever its rights elsewhere.
    pub(crate) async fn namespace_with_delete(&self, name: &str) {
        let client = self.control_plane.client();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        create(&namespaces, json!({"metadata": {"name": name}})).await;
        let role = json!({"metadata": {"name": NAME}, "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]},
        ]});
        create::<Role>(&Api::namespaced(client.clone(), name), role).await;
        let binding = json!({
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": account(NAME)}],
        });
        create::<RoleBinding>(&Api::namespaced(client, name), binding).await;
    }

    /// Has admission refuse every delete of a pod in `namespace`, and waits until it does.
    pub(crate) async fn keep(&self, namespace: &str) {
        let policy = json!({
            "metadata": {"name": namespace},
            "spec": {
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                    "resourceRules": [{
                        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["DELETE"],
                    }],
                },
                "validations": [{"expression": "false", "message": "pods are kept"}],
            },
        });
        let client = self.control_plane.client();
        create::<ValidatingAdmissionPolicy>(&Api::all(client.clone()), policy).await;
        let binding = json!({
            "metadata": {"name": namespace},
            "spec": {"policyName": namespace, "validationActions": ["Deny"]},
        });
        create::<ValidatingAdmissionPolicyBinding>(&Api::all(client), binding).await;
        self.until_kept(namespace, true).await;
    }

    /// Ends that.
    pub(crate) async fn release(&self, namespace: &str) {
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(self.control_plane.client());
        bindings
            .delete(namespace, &DeleteParams::default())
            .await
            .unwrap();
        self.until_kept(namespace, false).await;
    }

    async fn until_kept(&self, namespace: &str, kept: bool) {
        let pods = self.pods_api(namespace);
        let trial = DeleteParams::default().dry_run();
        eventually(SOON, "the change of policy counts", async || {
            (pods.delete("p-0", &trial).await.is_err() == kept).then_some(())
        })
        .await
        .unwrap();
    }

    /// Grants or takes the right to delete pods, and waits until it counts.
    pub(crate) async fn let_delete(&self, allowed: bool) {
        let mut rules = CHART.rules();
        if !allowed {
            rules[1]["verbs"] = json!(["get", "list", "watch"]);
        }
        grant(&self.control_plane, NAME, rules).await;
    }

    /// What the audit log holds of our requests that were answered, in order.
    pub(crate) fn requests(&self) -> Vec<Asked> {
        audit::requests_of(&self.control_plane, NAME)
    }

    /// When we deleted each pod; there are `count`.
    pub(crate) async fn deleted_at(&self, count: usize) -> Deletes {
        let all = async || {
            let deletes = self.requests().into_iter();
            let accepted = deletes.filter(|asked| asked.is("delete", "pods") && asked.code == 200);
            let moments: BTreeMap<_, _> = accepted.map(|asked| (asked.name, asked.received)).collect();
            (moments.len() == count).then_some(Deletes(moments))
        };
        let what = format!("the audit log has {count} deletes");
        eventually(SOON, &what, all).await.unwrap()
    }

    /// When the taints of `node` were last written.
    pub(crate) async fn tainted_at(&self, node: &str) -> Timestamp {
        let written = async || {
            let mut newest_first = audit::requests(&self.control_plane).into_iter().rev();
            newest_first.find(|asked| asked.is("patch", "nodes") && asked.name == node)
        };
        let asked = eventually(SOON, "the audit log has the taint", written).await;
        asked.unwrap().received
    }
}

async fn create<K>(api: &Api<K>, object: Value)
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// When each pod was deleted.
pub(crate) struct Deletes(BTreeMap<String, Timestamp>);

impl Deletes {
    /// How late each pod of this prefix went that was to go at `due`.
    pub(crate) fn lags(&self, prefix: &str, due: Timestamp) -> Vec<(&str, SignedDuration)> {
        let prefix = format!("{prefix}-");
        let these = self.0.iter().filter(|(name, _)| name.starts_with(&prefix));
        these
            .map(|(name, at)| (name.as_str(), at.duration_since(due)))
            .collect()
    }
}

pub(crate) async fn until_knowing(replica: &Replica, pods: u64) {
    let what = format!("the cache holds {pods} pods");
    let knows = async || {
        let known = replica.metric("informer_objects", "resource=\"pods\"").await;
        (known == pods).then_some(())
    };
    eventually(SOON, &what, knows).await.unwrap();
}

pub(crate) async fn pending(replica: &Replica) -> u64 {
    replica
        .metric("taint_eviction_controller_pending_evictions", "")
        .await
}

pub(crate) async fn overdue(replica: &Replica) -> u64 {
    replica
        .metric("taint_eviction_controller_overdue_evictions", "")
        .await
}

pub(crate) async fn deletions(replica: &Replica) -> u64 {
    replica
        .metric("taint_eviction_controller_pod_deletions_total", "")
        .await
}

pub(crate) async fn cancelled(replica: &Replica) -> u64 {
    replica
        .metric("taint_eviction_controller_cancelled_evictions_total", "")
        .await
}

pub(crate) async fn until_pending(replica: &Replica, count: u64, within: Duration) {
    let what = format!("{count} evictions are pending");
    let settled = async || (pending(replica).await == count).then_some(());
    eventually(within, &what, settled).await.unwrap();
}

pub(crate) fn now() -> Timestamp {
    Clock::system().now()
}

/// The time without its fraction, as taints carry it.
pub(crate) fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap()
}

pub(crate) fn seconds_after(time: Timestamp, seconds: u64) -> Timestamp {
    saturating_add(time, Duration::from_secs(seconds))
}

/// Waits until the machine's clock shows `time`.
pub(crate) async fn until(time: Timestamp) {
    let clock = Clock::system();
    let ahead = time.duration_since(clock.now());
    clock.sleep(Duration::try_from(ahead).unwrap_or_default()).await;
}

/// No pod went early, and none later than `within` says.
pub(crate) fn assert_prompt(lags: &[(&str, SignedDuration)], within: SignedDuration) {
    assert!(!lags.is_empty(), "nobody went");
    let off = lags.iter().filter(|(_, lag)| lag.is_negative() || *lag > within);
    assert_eq!(off.collect::<Vec<_>>(), Vec::<&(&str, SignedDuration)>::new());
}
