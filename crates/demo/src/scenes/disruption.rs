//! disruption-controller: a budget holds up a drain, with the reason, until the drain may go on.

use anyhow::Result;
use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::counts::{Counted, Whose};
use crate::drain::{self, Workload};
use crate::scene::{Scene, Step, kind};
use crate::stage::Stage;

/// Not the nodes that fail in another scene.
const DRAINED: &str = "demo-node-0011";
const OTHER: &str = "demo-node-0012";
/// Number of pods on each of the two nodes.
const EACH: usize = 3;
const WEB: Workload = Workload("demo-web");
const BUDGET: &str = "default/demo-web";
/// The controller's metric of budgets: those that allow disruptions, and those that allow none.
const ALLOWED: &str = "disruption_controller_pdbs{state=\"allowed\"}";
pub(super) const BLOCKED: &str = "disruption_controller_pdbs{state=\"blocked\"}";

pub(crate) fn scene() -> Scene {
    Scene {
        controller: "disruption-controller",
        shows: "It tells the Eviction API how many pods of a PodDisruptionBudget may go.",
        kubectl: "get pdb -w",
        counted: Counted {
            title: "pods by node",
            resource: kind::<Pod>(),
            whose: Whose::OursWith("app=demo-web"),
            by: |pod, _| drain::tally(pod),
        },
        makes: drain::makes(),
        steps: steps(),
    }
}

fn steps() -> Vec<Step> {
    vec![
        Step::new("a budget of six pods")
            .says("Their Deployment wants six, and one may be unavailable. Nobody counts yet, so none may be evicted.")
            .does(|stage| populate(stage).boxed())
            .expects([(3, DRAINED), (3, OTHER)]),
        Step::new("the controller starts")
            .says("All six are healthy, five must be: one may go.")
            .expects([(3, DRAINED), (3, OTHER)])
            .seen_as(ALLOWED, 1)
            .writes(1..=1)
            .explains(BUDGET, "disruptionsAllowed 1: 6 healthy less 5 desired"),
        Step::new("a node is drained")
            .says("One pod is let go. The next one is not, for four would be left.")
            .does(|stage| drain_until_refused(stage).boxed())
            .expects([(2, DRAINED), (3, OTHER)])
            .seen_as(BLOCKED, 1)
            // The approval and the deletion are two changes, unless the controller sees them together.
            .writes(1..=2)
            .explains(BUDGET, "disruptionsAllowed 0: 5 healthy less 5 desired"),
        Step::new("a new pod is ready")
            .says("Six are healthy again, so the drain may take one more pod, and waits again.")
            .does(|stage| replace_and_drain_one(stage).boxed())
            .expects([(1, DRAINED), (4, OTHER)])
            .seen_as(BLOCKED, 1)
            .writes(2..=3),
        Step::new("the budget is changed")
            .says("To maxUnavailable 50%: three of six are enough, so the last pod goes, and the drain is over.")
            .does(|stage| loosen_and_drain_one(stage).boxed())
            .expects([(4, OTHER)])
            .seen_as(ALLOWED, 1)
            .writes(2..=3)
            .explains(BUDGET, "disruptionsAllowed 1: 4 healthy less 3 desired"),
    ]
}

async fn populate(stage: &Stage) -> Result<()> {
    for node in [DRAINED, OTHER] {
        stage.ensure_ready_node(node).await?;
    }
    let nodes = [[DRAINED; EACH], [OTHER; EACH]].concat();
    WEB.create(stage, &nodes, json!({"maxUnavailable": 1})).await
}

async fn drain_until_refused(stage: &Stage) -> Result<()> {
    WEB.evict(stage, 1).await?;
    WEB.evict_in_vain(stage, 2, 5).await
}

async fn replace_and_drain_one(stage: &Stage) -> Result<()> {
    WEB.create_another(stage, 2 * EACH + 1, OTHER).await?;
    WEB.evict(stage, 2).await
}

async fn loosen_and_drain_one(stage: &Stage) -> Result<()> {
    WEB.change_budget(stage, json!({"maxUnavailable": "50%"})).await?;
    WEB.evict(stage, 3).await
}
