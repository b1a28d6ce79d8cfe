//! A cluster of nodes on the embedded API server, next to our loop. Time is tokio's, paused.

use std::collections::BTreeMap;
use std::time::Duration;

use controller_core::rival::manager_of;
use controller_testing::objects;
use controller_testing::{Running, Start};
use embedded_apiserver::{Fault, NODES, RecordedRequest, RecordedRequests, RequestVerb, Server};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use ttl_controller::TtlController;
use ttl_controller::config::Config;

pub(crate) use crate::stories::{TTL, name, node};

controller_testing::world!(TtlController, &NODES);

impl World {
    pub(crate) fn with_nodes(count: usize, ttl: Option<&str>) -> Self {
        let world = Self::new();
        world.add(0..count, ttl);
        world
    }

    /// Starts a removal, while `manager` puts the annotation of one node back whenever it is gone.
    pub(crate) fn start_removal_against(&self, manager: &'static str, number: usize) -> Running {
        // Time for the rival between two passes.
        let late = Fault::Delay(Duration::from_secs(1));
        self.fail_those(usize::MAX, |request| request.verb == RequestVerb::List, late);
        let mut removal = self.start_with(removal());
        let (server, clock) = (self.server.clone(), self.clock.clone());
        removal.tasks().spawn("rival", async move {
            let nodes: Api<Node> = Api::all(server.client_as(manager));
            let patch = Patch::Merge(json!({"metadata": {"annotations": {TTL: "0"}}}));
            loop {
                let node = objects::find(&server, &NODES, &name(number)).unwrap();
                if node["metadata"]["annotations"][TTL].is_null() {
                    let params = PatchParams::default();
                    nodes.patch(&name(number), &params, &patch).await.unwrap();
                }
                clock.sleep(Duration::from_millis(100)).await;
            }
        });
        removal
    }

    pub(crate) fn add(&self, numbers: impl IntoIterator<Item = usize>, ttl: Option<&str>) {
        for number in numbers {
            let mut node = node(number, ttl);
            node["status"]["conditions"] = self.beat();
            self.insert(node);
        }
    }

    pub(crate) fn remove(&self, numbers: impl IntoIterator<Item = usize>) {
        numbers.into_iter().for_each(|number| self.delete(&name(number)));
    }

    pub(crate) fn annotate(&self, number: usize, ttl: &str) {
        self.edit(&name(number), |node| {
            node["metadata"]["annotations"][TTL] = ttl.into();
        });
    }

    pub(crate) fn heartbeat(&self, number: usize) {
        self.edit(&name(number), |node| node["status"]["conditions"] = self.beat());
    }

    fn beat(&self) -> Value {
        json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": self.seconds(0)}])
    }

    pub(crate) fn manager_of_ttl(&self, number: usize) -> String {
        let mut node = self.get(&name(number));
        let fields: Vec<_> = serde_json::from_value(node["metadata"]["managedFields"].take()).unwrap();
        manager_of(&fields, &["f:metadata", "f:annotations", &format!("f:{TTL}")]).unwrap()
    }

    /// The number of nodes per value; `none` for those without.
    pub(crate) fn carried(&self) -> BTreeMap<String, usize> {
        let mut carried = BTreeMap::new();
        for value in carried_by(&self.server).into_values() {
            *carried.entry(value).or_default() += 1;
        }
        carried
    }

    /// The number of nodes per value, after this number of seconds.
    pub(crate) async fn carried_after(&self, seconds: u64) -> BTreeMap<String, usize> {
        self.pass(seconds).await;
        self.carried()
    }

    /// Lets time pass until `count` writes to nodes have been sent.
    pub(crate) async fn until_writes(&self, count: usize) {
        self.until(|| self.writes().len() >= count).await;
    }

    pub(crate) fn accepted_writes(&self) -> usize {
        let writes = self.ours().writes().to("nodes");
        writes.only(|request| request.code == Some(200)).len()
    }

    pub(crate) fn reads_of_nodes(&self) -> RecordedRequests {
        self.ours().to("nodes").only(|request| !request.verb.is_write())
    }

    /// The next `count` writes to nodes meet `fault`.
    pub(crate) fn fail_writes(&self, count: usize, fault: Fault) {
        let is_write = |request: &RecordedRequest| request.verb.is_write() && request.resource == "nodes";
        self.fail_those(count, is_write, fault);
    }
}

/// `--remove`.
pub(crate) fn removal() -> Start<Config> {
    process().configured(|config| config.remove = true)
}

/// The value of each node; `none` if it has no annotation.
pub(crate) fn carried_by(server: &Server) -> BTreeMap<String, String> {
    let nodes = server.list(&NODES).into_iter();
    let ttl = |node: &Value| {
        node["metadata"]["annotations"][TTL]
            .as_str()
            .map_or("none".to_owned(), str::to_owned)
    };
    nodes.map(|node| (objects::name(&node), ttl(&node))).collect()
}

/// The one write that gives a node this value.
pub(crate) fn writes_of(number: usize, ttl: &str) -> Vec<String> {
    vec![format!(
        r#"patch nodes/{} {{"metadata":{{"annotations":{{"node.alpha.kubernetes.io/ttl":"{ttl}"}}}}}}"#,
        name(number)
    )]
}
