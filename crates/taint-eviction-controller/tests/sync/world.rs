//! Nodes and pods on the embedded API server, and our loop beside them. Time is tokio's, paused.

use std::ops::Deref;

use harness::Start;
use harness::objects::stays;
use serde_json::{Value, json};
use taint_eviction_controller::TaintEvictionController;
use taint_eviction_controller::config::Config;
use testkit::embedded::{EVENTS, Mark, NODES, PODS, Verb};

pub(crate) struct World(harness::world::World<Config>);

impl Deref for World {
    type Target = harness::world::World<Config>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// How long a pod tolerates the taint `k`.
#[derive(Clone, Copy)]
pub(crate) enum For {
    No,
    Seconds(i64),
    Ever,
}

impl World {
    pub(crate) fn new() -> Self {
        Self(harness::world::World::new(process))
    }

    /// With these nodes.
    pub(crate) fn with_nodes<const N: usize>(names: [&str; N]) -> Self {
        let world = Self::new();
        for name in names {
            world.node(name);
        }
        world
    }

    pub(crate) fn node(&self, name: &str) {
        self.insert(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } }));
    }

    /// Gives the node the taint `k:NoExecute` as `kubectl taint` does: without a time.
    pub(crate) fn taint(&self, node: &str) {
        self.set_taints(node, json!([{ "key": "k", "effect": "NoExecute" }]));
    }

    /// The same with a `timeAdded`, so many seconds from now.
    pub(crate) fn taint_added(&self, node: &str, seconds: i64) {
        let added = self.seconds(seconds);
        self.set_taints(
            node,
            json!([{ "key": "k", "effect": "NoExecute", "timeAdded": added }]),
        );
    }

    pub(crate) fn untaint(&self, node: &str) {
        self.set_taints(node, Value::Null);
    }

    pub(crate) fn set_taints(&self, node: &str, taints: Value) {
        let edit = |node: &mut Value| node["spec"]["taints"] = taints;
        self.server.edit(&NODES, "", node, edit).unwrap();
    }

    pub(crate) fn heartbeat(&self, node: &str) {
        let now = self.seconds(0);
        let edit = |node: &mut Value| {
            node["status"]["conditions"] = json!([{ "type": "Ready", "lastHeartbeatTime": now }]);
        };
        self.server.edit(&NODES, "", node, edit).unwrap();
    }

    pub(crate) fn pod(&self, name: &str, node: &str, tolerates: For) {
        let tolerations = match tolerates {
            For::No => json!([]),
            For::Seconds(seconds) => {
                json!([{ "key": "k", "operator": "Exists", "tolerationSeconds": seconds }])
            }
            For::Ever => json!([{ "key": "k", "operator": "Exists" }]),
        };
        self.insert(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "nodeName": node, "tolerations": tolerations, "containers": [] },
        }));
    }

    pub(crate) fn pods(&self, count: usize, node: &str, tolerates: For) {
        for number in 0..count {
            self.pod(&format!("{node}-{number:04}"), node, tolerates);
        }
    }

    pub(crate) fn edit(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.server.edit(&PODS, "default", name, edit).unwrap();
    }

    pub(crate) fn delete(&self, name: &str) {
        self.server.delete(&PODS, "default", name).unwrap();
    }

    pub(crate) fn lives(&self, name: &str) -> bool {
        stays(self.server.get(&PODS, "default", name).as_ref())
    }

    pub(crate) fn uid(&self, name: &str) -> String {
        self.uid_of(&PODS, name)
    }

    /// How many pods there are that nobody has deleted.
    pub(crate) fn alive(&self) -> usize {
        let pods = self.server.list(&PODS);
        pods.iter().filter(|pod| stays(Some(pod))).count()
    }

    /// The names of the pods that we asked to delete, in order.
    pub(crate) fn deletes(&self) -> Vec<String> {
        let deletes = self
            .server
            .requests()
            .only(|request| request.verb == Verb::Delete);
        deletes.iter().map(|request| request.name.clone()).collect()
    }

    /// Our reads of single nodes since `mark`.
    pub(crate) fn node_reads(&self, mark: Mark) -> usize {
        self.sent_since(mark)
            .only(|request| request.verb == Verb::Get && request.resource == "nodes")
            .len()
    }

    /// How many events were published more than once.
    pub(crate) fn repeated_events(&self) -> usize {
        let events = self.server.list(&EVENTS);
        events.iter().filter(|event| !event["series"].is_null()).count()
    }

    /// Type, reason and note of every event of this pod.
    pub(crate) fn events_of(&self, pod: &str) -> Vec<String> {
        let of_pod = format!("{pod} ");
        let events = self.events().into_iter();
        let lines = events.filter_map(|event| event.strip_prefix(&of_pod).map(str::to_owned));
        lines.collect()
    }
}

/// Our process, without client-side limits: they are not what these tests are about.
pub(crate) fn process() -> Start<Config> {
    Start::of::<TaintEvictionController>().limits(0.0, 0)
}
