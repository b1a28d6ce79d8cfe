//! Nodes and pods on the embedded API server, next to our loop. Time is tokio's, paused.

use embedded_apiserver::{EVENTS, Mark, NODES, PODS, RequestVerb};
use serde_json::{Value, json};
use taint_eviction_controller::TaintEvictionController;

pub(crate) use crate::stories::{CANCELLED, DELETIONS, For, PENDING, pod};

// No limits: they are not what these tests are about.
controller_testing::world!(TaintEvictionController, &PODS, limits: (0.0, 0));

impl World {
    pub(crate) fn with_nodes<const N: usize>(names: [&str; N]) -> Self {
        let world = Self::new();
        for name in names {
            world.node(name);
        }
        world
    }

    /// With the node `n`, and the pod `p` on it.
    pub(crate) fn with_pod(tolerates: For) -> Self {
        let world = Self::with_nodes(["n"]);
        world.pod("p", "n", tolerates);
        world
    }

    /// With the node `n`, and `count` pods on it.
    pub(crate) fn with_pods(count: usize, tolerates: For) -> Self {
        let world = Self::with_nodes(["n"]);
        world.pods(count, "n", tolerates);
        world
    }

    pub(crate) fn node(&self, name: &str) {
        self.insert(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } }));
    }

    /// Gives the node the taint `k:NoExecute` as `kubectl taint` does: without a time.
    pub(crate) fn taint(&self, node: &str) {
        self.set_taints(node, json!([{ "key": "k", "effect": "NoExecute" }]));
    }

    /// Gives the node the taint with a `timeAdded`, `seconds` from now.
    pub(crate) fn taint_added(&self, node: &str, seconds: i64) {
        let added = self.seconds(seconds);
        let taints = json!([{ "key": "k", "effect": "NoExecute", "timeAdded": added }]);
        self.set_taints(node, taints);
    }

    pub(crate) fn untaint(&self, node: &str) {
        self.set_taints(node, Value::Null);
    }

    pub(crate) fn set_taints(&self, node: &str, taints: Value) {
        self.edit_of(&NODES, node, |node| node["spec"]["taints"] = taints);
    }

    pub(crate) fn heartbeat(&self, node: &str) {
        let beat = json!([{ "type": "Ready", "lastHeartbeatTime": self.seconds(0) }]);
        self.edit_of(&NODES, node, |node| node["status"]["conditions"] = beat);
    }

    pub(crate) fn pod(&self, name: &str, node: &str, tolerates: For) {
        self.insert(pod(name, node, tolerates));
    }

    pub(crate) fn pods(&self, count: usize, node: &str, tolerates: For) {
        (0..count).for_each(|number| self.pod(&format!("{node}-{number:04}"), node, tolerates));
    }

    /// The names of the pods in our deletes, in order.
    pub(crate) fn deletes(&self) -> Vec<String> {
        let deletes = self
            .server
            .requests()
            .only(|request| request.verb == RequestVerb::Delete);
        deletes.iter().map(|request| request.name.clone()).collect()
    }

    /// Our reads of single nodes since `mark`.
    pub(crate) fn node_reads(&self, mark: Mark) -> usize {
        let reads = self.sent_since(mark).to("nodes");
        reads.only(|request| request.verb == RequestVerb::Get).len()
    }

    /// The number of events published more than once.
    pub(crate) fn repeated_events(&self) -> usize {
        let events = self.server.list(&EVENTS);
        events.iter().filter(|event| !event["series"].is_null()).count()
    }

    /// Type, reason and note of every event of this pod.
    pub(crate) fn events_of(&self, pod: &str) -> Vec<String> {
        let of_pod = format!("{pod} ");
        let events = self.events().into_iter();
        events
            .filter_map(|event| event.strip_prefix(&of_pod).map(str::to_owned))
            .collect()
    }
}
