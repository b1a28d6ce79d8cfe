//! taint-eviction-controller's brake, and evictions through budgets: a maintenance taint that lands on too many nodes.

use anyhow::Result;
use futures::{FutureExt, try_join};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::counts::{Counted, Whose};
use crate::drain::{self, Workload};
use crate::scene::{Scene, Step, kind};
use crate::stage::Stage;

/// Not the nodes of another scene.
const MEANT: &str = "demo-node-0031";
const WRONG: &str = "demo-node-0032";
const WRONG_TOO: &str = "demo-node-0033";
const SHOP: Workload = Workload("demo-shop");
/// Number of pods on each node.
const EACH: usize = 3;
/// Number of pods that the Deployment wants.
const ALL: usize = 3 * EACH;
const MAINTENANCE: &str = "example.com/maintenance";
/// The controller's metrics.
const ENGAGED: &str = "taint_eviction_controller_brake_engaged";
const WAITING: &str = "taint_eviction_controller_evictions_waiting_for_budgets";

/// The controller runs with these flags in its other scene, too. Nodes that fail are exempt there, so that it shows
/// what happens without a brake.
pub(super) const FLAGS: [&str; 4] = [
    "--eviction-brake-pods=5",
    // Without a Lease, nothing that is not exempt goes in the first window.
    "--eviction-brake-window=5s",
    "--eviction-brake-exempt-taints=node.kubernetes.io/not-ready,node.kubernetes.io/unreachable",
    "--evict-through-budgets=example.com/maintenance:forever",
];

pub(crate) fn scene() -> Scene {
    Scene {
        controller: "taint-eviction-controller",
        shows: "Its brake holds a mistake back, and maintenance waits for budgets.",
        kubectl: "get pods -l app=demo-shop -o wide -w",
        counted: Counted {
            title: "pods by node",
            resource: kind::<Pod>(),
            whose: Whose::OursWith("app=demo-shop"),
            by: |pod, _| drain::tally(pod),
        },
        makes: drain::makes(),
        steps: steps(),
    }
}

fn steps() -> Vec<Step> {
    vec![
        Step::new("three nodes are tainted")
            .says(
                "One is meant for maintenance, and a script taints three. \
                 Nine pods are due, more than the five that the brake lets go: so none goes.",
            )
            .does(|stage| populate_and_taint(stage).boxed())
            .expects([(3, MEANT), (3, WRONG), (3, WRONG_TOO)])
            .seen_as(ENGAGED, 1)
            // An event on each node.
            .writes(3..=3),
        Step::new("two taints are removed")
            .says(
                "Three pods are still due, and the brake lets them go. \
                 The budget allows one of them to go, and two wait for it.",
            )
            .does(|stage| mend(stage).boxed())
            .expects([(2, MEANT), (3, WRONG), (3, WRONG_TOO)])
            .seen_as(ENGAGED, 0)
            .seen_as(WAITING, 2)
            // Six events on pods that stay and two on pods that wait, and one eviction with its event.
            .writes(10..=10),
        Step::new("a new pod is ready")
            .says("Nine are healthy again, so the budget allows one more to go. The last one waits on.")
            .does(|stage| replace(stage).boxed())
            .expects([(1, MEANT), (4, WRONG), (3, WRONG_TOO)])
            .seen_as(WAITING, 1)
            .writes(2..=2),
        Step::new("the taint is removed")
            .says("The maintenance is called off, so the pod that waited stays.")
            .does(|stage| call_off(stage).boxed())
            .expects([(1, MEANT), (4, WRONG), (3, WRONG_TOO)])
            .seen_as(WAITING, 0)
            .writes(1..=1),
    ]
}

async fn populate_and_taint(stage: &Stage) -> Result<()> {
    let nodes = [MEANT, WRONG, WRONG_TOO];
    for node in nodes {
        stage.ensure_ready_node(node).await?;
    }
    SHOP.create(stage, &nodes.repeat(EACH), json!({"maxUnavailable": 1}))
        .await?;
    SHOP.allow_one(stage, ALL).await?;
    // Within the 2 s after which the brake decides on what is due.
    try_join!(taint(stage, MEANT), taint(stage, WRONG), taint(stage, WRONG_TOO))?;
    Ok(())
}

async fn mend(stage: &Stage) -> Result<()> {
    stage.tell_event("BrakeEngaged").await?;
    try_join!(untaint(stage, WRONG), untaint(stage, WRONG_TOO))?;
    Ok(())
}

async fn replace(stage: &Stage) -> Result<()> {
    stage.tell_event("EvictionWaits").await?;
    SHOP.create_another(stage, ALL + 1, WRONG).await?;
    SHOP.allow_one(stage, ALL).await
}

/// Removes the budget, too, which the scenes of disruption-controller would count.
async fn call_off(stage: &Stage) -> Result<()> {
    untaint(stage, MEANT).await?;
    SHOP.delete_budget(stage).await
}

async fn taint(stage: &Stage, node: &str) -> Result<()> {
    let taint = json!({"key": MAINTENANCE, "effect": "NoExecute"});
    stage.patch_node(node, json!({"spec": {"taints": [taint]}})).await
}

async fn untaint(stage: &Stage, node: &str) -> Result<()> {
    stage.patch_node(node, json!({"spec": {"taints": []}})).await
}
