//! A cluster of nodes on the embedded API server, and our loop beside it. Time is tokio's, paused.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use controller_core::rival::manager_of;
use harness::objects::text;
use harness::{Running, Start};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testkit::embedded::{Fault, NODES, Request, Requests, Server, Verb};
use ttl_controller::TtlController;
use ttl_controller::config::Config;

pub(crate) const TTL: &str = "node.alpha.kubernetes.io/ttl";

pub(crate) struct World(harness::world::World<Config>);

impl Deref for World {
    type Target = harness::world::World<Config>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl World {
    pub(crate) fn with_nodes(count: usize, ttl: Option<&str>) -> Self {
        let world = Self(harness::world::World::new(process));
        world.add(0..count, ttl);
        world
    }

    /// A removal, while `manager` puts the annotation of one node back whenever it is gone.
    pub(crate) fn start_removal_against(&self, manager: &'static str, number: usize) -> Running {
        // Time for the rival between two passes.
        self.server.fail_next(
            usize::MAX,
            |request| request.verb == Verb::List,
            Fault::Delay(Duration::from_secs(1)),
        );
        let mut removal = self.start_with(removal());
        let (server, clock) = (self.server.clone(), self.clock.clone());
        removal.tasks().spawn("rival", async move {
            let nodes: Api<Node> = Api::all(server.client_as(manager));
            let patch = json!({"metadata": {"annotations": {TTL: "0"}}});
            loop {
                if ttl_of(&server, number).is_none() {
                    nodes
                        .patch(&name(number), &PatchParams::default(), &Patch::Merge(&patch))
                        .await
                        .unwrap();
                }
                clock.sleep(Duration::from_millis(100)).await;
            }
        });
        removal
    }

    pub(crate) fn add(&self, numbers: impl IntoIterator<Item = usize>, ttl: Option<&str>) {
        for number in numbers {
            let mut node = node(number, ttl);
            node["status"]["conditions"] = json!([ready(&self.seconds(0))]);
            self.insert(node);
        }
    }

    pub(crate) fn delete(&self, numbers: impl IntoIterator<Item = usize>) {
        numbers
            .into_iter()
            .for_each(|number| self.server.delete(&NODES, "", &name(number)).unwrap());
    }

    pub(crate) fn annotate(&self, number: usize, ttl: &str) {
        self.server
            .edit(&NODES, "", &name(number), |node| {
                node["metadata"]["annotations"][TTL] = ttl.into();
            })
            .unwrap();
    }

    pub(crate) fn heartbeat(&self, number: usize) {
        let beat = ready(&self.seconds(0));
        let edit = |node: &mut Value| node["status"]["conditions"] = json!([beat]);
        self.server.edit(&NODES, "", &name(number), edit).unwrap();
    }

    pub(crate) fn ttl_of(&self, number: usize) -> Option<String> {
        ttl_of(&self.server, number)
    }

    pub(crate) fn manager_of_ttl(&self, number: usize) -> String {
        let node = self.server.get(&NODES, "", &name(number)).unwrap();
        let fields: Vec<_> = serde_json::from_value(node["metadata"]["managedFields"].clone()).unwrap();
        manager_of(&fields, &["f:metadata", "f:annotations", &format!("f:{TTL}")]).unwrap()
    }

    /// How many nodes carry which value; `none` for those without.
    pub(crate) fn carried(&self) -> BTreeMap<String, usize> {
        let mut carried = BTreeMap::new();
        for value in carried_by(&self.server).into_values() {
            *carried.entry(value).or_default() += 1;
        }
        carried
    }

    /// Lets time pass until `count` writes to nodes have been sent.
    pub(crate) async fn until_writes(&self, count: usize) {
        for _ in 0..600_000 {
            if self.writes().len() >= count {
                return;
            }
            self.clock.sleep(Duration::from_millis(1)).await;
        }
        panic!("{} of {count} writes after ten minutes", self.writes().len());
    }

    /// Every write of ours to a node, in order, as `verb path body`.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.ours().writes().to("nodes").lines()
    }

    pub(crate) fn accepted_writes(&self) -> usize {
        self.ours()
            .writes()
            .to("nodes")
            .only(|request| request.code == Some(200))
            .len()
    }

    pub(crate) fn reads_of_nodes(&self) -> Requests {
        self.ours().to("nodes").only(|request| !request.verb.is_write())
    }

    /// The next writes to nodes meet this.
    pub(crate) fn fail_writes(&self, count: usize, fault: Fault) {
        let is_write = |request: &Request| request.verb.is_write() && request.resource == "nodes";
        self.server.fail_next(count, is_write, fault);
    }
}

pub(crate) fn process() -> Start<Config> {
    Start::of::<TtlController>()
}

/// `--remove`.
pub(crate) fn removal() -> Start<Config> {
    process().configured(|config| config.remove = true)
}

pub(crate) fn node(number: usize, ttl: Option<&str>) -> Value {
    let annotations: BTreeMap<_, _> = ttl.map(|ttl| (TTL, ttl)).into_iter().collect();
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name(number), "annotations": annotations},
    })
}

fn ready(heartbeat: &str) -> Value {
    json!({"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat})
}

/// What each node carries; `none` where it has no annotation.
pub(crate) fn carried_by(server: &Server) -> BTreeMap<String, String> {
    let nodes = server.list(&NODES).into_iter();
    let pairs = nodes.map(|node| {
        let ttl = node["metadata"]["annotations"][TTL].as_str();
        (text(&node["metadata"]["name"]), ttl.unwrap_or("none").to_owned())
    });
    pairs.collect()
}

fn ttl_of(server: &Server, number: usize) -> Option<String> {
    let node = server.get(&NODES, "", &name(number)).unwrap();
    node["metadata"]["annotations"][TTL].as_str().map(str::to_owned)
}

pub(crate) fn name(number: usize) -> String {
    format!("node-{number:04}")
}

/// The one write that gives a node this value.
pub(crate) fn writes_of(number: usize, ttl: &str) -> Vec<String> {
    vec![format!(
        r#"patch nodes/{} {{"metadata":{{"annotations":{{"node.alpha.kubernetes.io/ttl":"{ttl}"}}}}}}"#,
        name(number)
    )]
}
