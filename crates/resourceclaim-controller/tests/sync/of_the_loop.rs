//! Stories that the loop owns. Each pod has one claim made.

use controller_testing::stories::LoopScene;
use embedded_apiserver::{PODS, RESOURCE_CLAIM_TEMPLATES, RequestVerb};
use resourceclaim_controller::ResourceClaimController;
use serde_json::json;

use crate::world::{World, claims_of, made, own};

controller_testing::loop_stories!(Made);
// As many as took all workers for ever.
controller_testing::tenant_story!(Made, 400);

struct Made;

impl LoopScene for Made {
    type App = ResourceClaimController;
    type World = World;

    const WRITE: (RequestVerb, &'static str) = (RequestVerb::Create, "resourceclaims");
    // A claim and a record of each.
    const SLOW: (usize, u64) = (15, 310);
    const PLANNED: &'static [(&'static str, u64)] = &[
        ("create-claim", 1),
        ("delete-claim", 1),
        ("record-claims", 1),
        ("release-claim", 1),
        ("remove-finalizer", 1),
        ("reserve-claim", 1),
    ];

    /// It may be the namespace that is missing.
    const IS_GONE_BY_404: bool = false;

    fn world() -> World {
        World::with_template()
    }

    fn make(world: &World, namespace: &str, number: usize) {
        if world
            .server
            .get(&RESOURCE_CLAIM_TEMPLATES, namespace, "t")
            .is_none()
        {
            world.insert(json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
                "metadata": { "name": "t", "namespace": namespace }, "spec": { "spec": { "devices": {} } },
            }));
        }
        world.insert(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": format!("pod-{number}"), "namespace": namespace },
            "spec": { "resourceClaims": [made("gpu", "t")], "containers": [] },
        }));
    }

    fn is_done(world: &World, namespace: &str, number: usize) -> bool {
        let pod = world.server.get(&PODS, namespace, &format!("pod-{number}"));
        claims_of(&pod.unwrap()).len() == 1
    }

    async fn occasions(world: &World) {
        world.claim("shared");
        let first = world.start();
        world.pod("done");
        world.settle().await;
        world.schedule("done");
        first.stop().await;
        world.finish("done");
        world.pod("new");
        world.pod_of("bound", &[own("gpu", "shared")]);
        world.bind("bound");
        world.allocate("shared", &[]);
    }
}
