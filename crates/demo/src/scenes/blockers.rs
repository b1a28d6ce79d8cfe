//! disruption-controller's report on drains: why a drain hangs, and the change that lets it go on.

use anyhow::Result;
use futures::FutureExt;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::disruption::BLOCKED;
use crate::counts::{Counted, Whose};
use crate::drain::{self, Workload};
use crate::scene::{Scene, Step, kind};
use crate::stage::Stage;

/// Not the nodes of another scene.
const DRAINED: &str = "demo-node-0021";
const OTHER: &str = "demo-node-0022";
const API: Workload = Workload("demo-api");

pub(crate) fn scene() -> Scene {
    Scene {
        controller: "disruption-controller",
        shows: "Its `blockers` says why a drain hangs, and what to change.",
        kubectl: "get pdb -w",
        counted: Counted {
            title: "pods by node",
            resource: kind::<Pod>(),
            whose: Whose::OursWith("app=demo-api"),
            by: |pod, _| drain::tally(pod),
        },
        makes: drain::makes(),
        steps: steps(),
    }
}

fn steps() -> Vec<Step> {
    vec![
        Step::new("a drain hangs")
            .says(
                "The Deployment wants two pods, and the budget keeps two. \
                 The refusal does not say that waiting is in vain; the report does.",
            )
            .does(|stage| populate_and_drain(stage).boxed())
            .expects([(2, DRAINED)])
            .seen_as(BLOCKED, 1)
            // The controller may see the budget before it sees that the pods are ready.
            .writes(1..=3)
            .names_blockers(
                DRAINED,
                "never: PodDisruptionBudget demo-api keeps 2 pods healthy, and has no more than 2 (minAvailable 2). \
                 Pod default/demo-api-1 on demo-node-0021. \
                 Fix: set maxUnavailable: 1 instead of minAvailable in demo-api.",
            ),
        Step::new("the budget is fixed")
            .says(
                "The budget is changed as the report says. \
                 The drain goes on: one pod goes, and the other waits only for a new one.",
            )
            .does(|stage| fix_and_drain_one(stage).boxed())
            .expects([(1, DRAINED)])
            .seen_as(BLOCKED, 1)
            .writes(2..=3)
            .names_blockers(
                DRAINED,
                "waits: PodDisruptionBudget demo-api keeps 1 pod healthy, and has 1; \
                 waits for 1 pod more of Deployment demo-api. Pod default/demo-api-2 on demo-node-0021.",
            ),
        Step::new("a new pod is ready")
            .says("The last pod goes, and the drain is over.")
            .does(|stage| replace_and_drain_one(stage).boxed())
            .expects([(1, OTHER)])
            .seen_as(BLOCKED, 1)
            .writes(2..=3),
    ]
}

async fn populate_and_drain(stage: &Stage) -> Result<()> {
    for node in [DRAINED, OTHER] {
        stage.ensure_ready_node(node).await?;
    }
    API.create(stage, &[DRAINED; 2], json!({"minAvailable": 2}))
        .await?;
    API.evict_in_vain(stage, 1, 2).await
}

async fn fix_and_drain_one(stage: &Stage) -> Result<()> {
    let fix = json!({"minAvailable": null, "maxUnavailable": 1});
    API.change_budget(stage, fix).await?;
    API.evict(stage, 1).await?;
    // Else the report waits for either, the pod that ends or its successor.
    API.end(stage, 1).await
}

async fn replace_and_drain_one(stage: &Stage) -> Result<()> {
    API.create_another(stage, 3, OTHER).await?;
    API.evict(stage, 2).await
}
