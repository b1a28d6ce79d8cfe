//! Stories that the loop owns. Each pod is deleted once.

use controller_testing::objects::stays;
use controller_testing::stories::LoopScene;
use embedded_apiserver::{NODES, PODS, RequestVerb};
use serde_json::json;
use taint_eviction_controller::TaintEvictionController;

use crate::world::{For, World};

controller_testing::loop_stories!(Evicted);
// Three times as many as may be evicted at a time.
controller_testing::tenant_story!(Evicted, 200);

struct Evicted;

impl LoopScene for Evicted {
    type App = TaintEvictionController;
    type World = World;

    const WRITE: (RequestVerb, &'static str) = (RequestVerb::Delete, "pods");
    // A read of the node, a condition and a delete of each.
    const SLOW: (usize, u64) = (15, 600);
    const PLANNED: &'static [(&'static str, u64)] = &[("evict", 3)];

    fn world() -> World {
        World::new()
    }

    /// On the tainted node of the namespace.
    fn make(world: &World, namespace: &str, number: usize) {
        if world.server.get(&NODES, "", namespace).is_none() {
            world.node(namespace);
            world.taint(namespace);
        }
        world.insert(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": format!("pod-{number}"), "namespace": namespace },
            "spec": { "nodeName": namespace, "containers": [] },
        }));
    }

    fn is_done(world: &World, namespace: &str, number: usize) -> bool {
        let pod = world.server.get(&PODS, namespace, &format!("pod-{number}"));
        !stays(pod.as_ref())
    }

    async fn occasions(world: &World) {
        world.node("n");
        world.pods(3, "n", For::Seconds(10));
        world.taint("n");
    }
}
