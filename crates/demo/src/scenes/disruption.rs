//! disruption-controller: a budget holds up a drain, with the reason, until the drain may go on.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::FutureExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DynamicObject, EvictParams, Patch, PatchParams};
use kube::core::Status;
use kube::{Api, Resource};
use serde_json::{Value, json};

use crate::cluster::do_all;
use crate::counts::{Counted, Tally, Whose};
use crate::ours::labels;
use crate::scene::{Scene, Step, kind};
use crate::stage::{NAMESPACE, Stage};

/// Not the nodes that fail in another scene.
const DRAINED: &str = "demo-node-0011";
const OTHER: &str = "demo-node-0012";
/// Number of pods on each of the two nodes.
const EACH: usize = 3;
/// The Deployment, its budget, and the value of the label by which the budget selects pods.
const WEB: &str = "demo-web";
const BUDGET: &str = "default/demo-web";
/// The controller's metric of budgets: those that allow disruptions, and those that allow none.
const ALLOWED: &str = "disruption_controller_pdbs{state=\"allowed\"}";
const BLOCKED: &str = "disruption_controller_pdbs{state=\"blocked\"}";
/// Interval between a drain's requests; `kubectl` takes 5 s.
const ASK_EVERY: Duration = Duration::from_millis(200);

pub(crate) fn scene() -> Scene {
    Scene {
        controller: "disruption-controller",
        shows: "It tells the Eviction API how many pods of a PodDisruptionBudget may go.",
        kubectl: "get pdb -w",
        counted: Counted {
            title: "pods by node",
            resource: kind::<Pod>(),
            whose: Whose::OursWith("app=demo-web"),
            by: |pod, _| tally(pod),
        },
        makes: vec![
            kind::<Node>(),
            kind::<Pod>(),
            kind::<Deployment>(),
            kind::<PodDisruptionBudget>(),
        ],
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

fn tally(pod: &DynamicObject) -> Tally {
    let node = pod.data["spec"]["nodeName"].as_str().unwrap_or("no node");
    let told = |how: &str| format!("{node} {how}");
    if pod.metadata.deletion_timestamp.is_some() {
        return Tally::leaving(told("leaving"));
    }
    let mut conditions = pod.data["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    Tally {
        expected: ready.then(|| node.to_owned()),
        shown: told(if ready { "ready" } else { "not ready" }),
    }
}

fn budgets(stage: &Stage) -> Api<PodDisruptionBudget> {
    Api::namespaced(stage.client.clone(), NAMESPACE)
}

async fn populate(stage: &Stage) -> Result<()> {
    for node in [DRAINED, OTHER] {
        stage.ensure_ready_node(node).await?;
    }
    let deployment: Deployment = stage.create(deployment()).await?;
    let numbers = 1..=2 * EACH;
    do_all(numbers.map(|number| {
        let node = if number <= EACH { DRAINED } else { OTHER };
        create_ready_pod(stage, &deployment, number, node)
    }))
    .await?;
    let budget = json!({
        "metadata": {"name": WEB, "labels": labels()},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": WEB}}},
    });
    stage.create::<PodDisruptionBudget>(budget).await?;
    Ok(())
}

/// The Deployment is paused, so that its controller, if it runs, leaves the pods to the demo.
fn deployment() -> Value {
    json!({
        "metadata": {"name": WEB, "labels": labels()},
        "spec": {
            "replicas": 2 * EACH,
            "paused": true,
            "selector": {"matchLabels": {"app": WEB}},
            "template": {"metadata": {"labels": {"app": WEB}}, "spec": pod_spec()},
        },
    })
}

fn pod_spec() -> Value {
    json!({
        "automountServiceAccountToken": false,
        "containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10"}],
    })
}

/// Sets the pod ready itself, as there may be no kubelet.
async fn create_ready_pod(stage: &Stage, deployment: &Deployment, number: usize, node: &str) -> Result<()> {
    let name = pod_name(number);
    let mut labels = labels();
    labels.insert("app".to_owned(), WEB.to_owned());
    let mut spec = pod_spec();
    spec["nodeName"] = node.into();
    let owner = deployment.controller_owner_ref(&());
    let pod = json!({
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
        "spec": spec,
    });
    stage.create::<Pod>(pod).await?;
    let ready = json!({"type": "Ready", "status": "True"});
    let status = Patch::Strategic(json!({"status": {"phase": "Running", "conditions": [ready]}}));
    let patched = stage
        .pods()
        .patch_status(&name, &PatchParams::default(), &status)
        .await;
    patched.with_context(|| format!("make pod {name} ready"))?;
    Ok(())
}

async fn drain_until_refused(stage: &Stage) -> Result<()> {
    evict(stage, 1).await?;
    // Until then the refusal would count six healthy pods.
    wait_until_counted(stage).await?;
    match ask_to_evict(stage, 2).await? {
        None => bail!("pod {} was evicted, which the budget does not allow", pod_name(2)),
        Some(refusal) => {
            stage.note(format!("The eviction of {} is refused: {refusal}", pod_name(2)));
            Ok(())
        }
    }
}

async fn replace_and_drain_one(stage: &Stage) -> Result<()> {
    let deployments = Api::<Deployment>::namespaced(stage.client.clone(), NAMESPACE);
    let deployment = deployments.get(WEB).await.context("get the Deployment")?;
    create_ready_pod(stage, &deployment, 2 * EACH + 1, OTHER).await?;
    evict(stage, 2).await
}

async fn loosen_and_drain_one(stage: &Stage) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"maxUnavailable": "50%"}}));
    let patched = budgets(stage).patch(WEB, &PatchParams::default(), &patch).await;
    patched.context("change the budget")?;
    evict(stage, 3).await
}

/// Requests the eviction until the budget allows it, as a drain does.
async fn evict(stage: &Stage, number: usize) -> Result<()> {
    let asking = async {
        while ask_to_evict(stage, number).await?.is_some() {
            stage.clock.sleep(ASK_EVERY).await;
        }
        Ok(())
    };
    let asked = stage.clock.timeout(stage.within, asking).await;
    asked.with_context(|| format!("the eviction of {} is still refused", pod_name(number)))?
}

/// Requests an eviction; returns the reason if the budget refuses it.
async fn ask_to_evict(stage: &Stage, number: usize) -> Result<Option<String>> {
    let name = pod_name(number);
    let pods = Api::<Pod>::namespaced(stage.once.clone(), NAMESPACE);
    match pods.evict(&name, &EvictParams::default()).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 429 => Ok(Some(why(*status))),
        Err(error) => Err(error).with_context(|| format!("evict pod {name}")),
    }
}

fn why(refusal: Status) -> String {
    let causes = refusal.details.map(|details| details.causes).unwrap_or_default();
    let mut causes = causes.into_iter();
    causes.next().map_or(refusal.message, |cause| cause.message)
}

/// Waits until the controller has seen the deletion of every evicted pod.
async fn wait_until_counted(stage: &Stage) -> Result<()> {
    let budgets = budgets(stage);
    let counting = async {
        loop {
            let budget = budgets.get(WEB).await.context("get the budget")?;
            let status = budget.status.unwrap_or_default();
            if status.disrupted_pods.unwrap_or_default().is_empty() {
                return Ok(());
            }
            stage.clock.sleep(ASK_EVERY).await;
        }
    };
    let counted = stage.clock.timeout(stage.within, counting).await;
    counted.context("the budget still waits for an evicted pod")?
}

fn pod_name(number: usize) -> String {
    format!("{WEB}-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tallied(pod: &Value) -> (Option<String>, String) {
        let Tally { expected, shown } = tally(&serde_json::from_value(pod.clone()).unwrap());
        (expected, shown)
    }

    #[test]
    fn pods_that_are_not_ready_or_are_leaving_are_shown_and_not_expected() {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"nodeName": "n"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]},
        });
        assert_eq!(tallied(&pod), (None, "n not ready".to_owned()));
        pod["status"]["conditions"][0]["status"] = "True".into();
        assert_eq!(tallied(&pod), (Some("n".to_owned()), "n ready".to_owned()));
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(tallied(&pod), (None, "n leaving".to_owned()));
    }
}
