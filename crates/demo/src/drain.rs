//! A Deployment with a budget, and the drain of its pods.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, DynamicObject, EvictParams, Patch, PatchParams};
use kube::core::Status;
use kube::discovery::ApiResource;
use kube::{Api, Resource};
use serde_json::{Value, json};

use crate::cluster::{at_once, do_all};
use crate::counts::Tally;
use crate::ours::labels;
use crate::scene::kind;
use crate::stage::{NAMESPACE, Stage};

/// Interval between a drain's requests; `kubectl` takes 5 s.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// A Deployment, its budget, and the label `app` of its pods: all have this name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload(pub(crate) &'static str);

/// What a scene with a drain creates.
pub(crate) fn makes() -> Vec<ApiResource> {
    vec![
        kind::<Node>(),
        kind::<Pod>(),
        kind::<Deployment>(),
        kind::<PodDisruptionBudget>(),
    ]
}

/// A pod by its node.
pub(crate) fn tally(pod: &DynamicObject) -> Tally {
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

impl Workload {
    /// Creates a ready pod on each of these nodes, their Deployment, and a budget with this demand.
    pub(crate) async fn create(self, stage: &Stage, nodes: &[&str], demand: Value) -> Result<()> {
        let deployment: Deployment = stage.create(self.deployment(nodes.len())).await?;
        let pods = (1..).zip(nodes);
        let pods = pods.map(|(number, node)| self.create_ready_pod(stage, &deployment, number, node));
        do_all(pods.collect::<Vec<_>>()).await?;
        let mut budget = json!({
            "metadata": {"name": self.0, "labels": labels()},
            "spec": demand,
        });
        budget["spec"]["selector"] = json!({"matchLabels": {"app": self.0}});
        stage.create::<PodDisruptionBudget>(budget).await?;
        Ok(())
    }

    /// The Deployment is paused, so that its controller, if it runs, leaves the pods to the demo.
    fn deployment(self, replicas: usize) -> Value {
        json!({
            "metadata": {"name": self.0, "labels": labels()},
            "spec": {
                "replicas": replicas,
                "paused": true,
                "selector": {"matchLabels": {"app": self.0}},
                "template": {"metadata": {"labels": {"app": self.0}}, "spec": pod_spec()},
            },
        })
    }

    /// Sets the pod ready itself, as there may be no kubelet.
    async fn create_ready_pod(
        self,
        stage: &Stage,
        deployment: &Deployment,
        number: usize,
        node: &str,
    ) -> Result<()> {
        let name = self.pod(number);
        let mut labels = labels();
        labels.insert("app".to_owned(), self.0.to_owned());
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

    /// Creates one more ready pod, in the place of an evicted one.
    pub(crate) async fn create_another(self, stage: &Stage, number: usize, node: &str) -> Result<()> {
        let deployments = Api::<Deployment>::namespaced(stage.client.clone(), NAMESPACE);
        let deployment = deployments.get(self.0).await.context("get the Deployment")?;
        self.create_ready_pod(stage, &deployment, number, node).await
    }

    /// Merges `demand` into the spec of the budget.
    pub(crate) async fn change_budget(self, stage: &Stage, demand: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": demand}));
        let patched = budgets(stage)
            .patch(self.0, &PatchParams::default(), &patch)
            .await;
        patched.context("change the budget")?;
        Ok(())
    }

    /// Writes the status itself, as there may be no disruption-controller: one of `healthy` pods may go.
    pub(crate) async fn allow_one(self, stage: &Stage, healthy: usize) -> Result<()> {
        let budget = budgets(stage).get(self.0).await.context("get the budget")?;
        let status = Patch::Merge(json!({"status": {
            "observedGeneration": budget.metadata.generation,
            "disruptionsAllowed": 1,
            "currentHealthy": healthy,
            "desiredHealthy": healthy - 1,
            "expectedPods": healthy,
        }}));
        let patched = budgets(stage)
            .patch_status(self.0, &PatchParams::default(), &status)
            .await;
        patched.context("write the status of the budget")?;
        Ok(())
    }

    pub(crate) async fn delete_budget(self, stage: &Stage) -> Result<()> {
        let deleted = budgets(stage).delete(self.0, &DeleteParams::default()).await;
        deleted.context("delete the budget")?;
        Ok(())
    }

    /// Requests the eviction until the budget allows it, as a drain does.
    pub(crate) async fn evict(self, stage: &Stage, number: usize) -> Result<()> {
        let asking = async {
            while self.ask_to_evict(stage, number).await?.is_some() {
                stage.clock.sleep(ASK_EVERY).await;
            }
            Ok(())
        };
        let asked = stage.clock.timeout(stage.within, asking).await;
        asked.with_context(|| format!("the eviction of {} is still refused", self.pod(number)))?
    }

    /// Ends the evicted pod, as its kubelet would.
    pub(crate) async fn end(self, stage: &Stage, number: usize) -> Result<()> {
        let name = self.pod(number);
        match stage.pods().delete(&name, &at_once()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error).with_context(|| format!("end pod {name}")),
        }
    }

    /// Requests the eviction, which the budget must refuse once it counts `healthy` pods.
    pub(crate) async fn evict_in_vain(self, stage: &Stage, number: usize, healthy: i32) -> Result<()> {
        // Until then the refusal would have other numbers.
        self.wait_until_counted(stage, healthy).await?;
        let pod = self.pod(number);
        match self.ask_to_evict(stage, number).await? {
            None => bail!("pod {pod} was evicted, which the budget does not allow"),
            Some(refusal) => {
                stage.note(format!("The eviction of {pod} is refused: {refusal}"));
                Ok(())
            }
        }
    }

    /// Requests an eviction; returns the reason if the budget refuses it.
    async fn ask_to_evict(self, stage: &Stage, number: usize) -> Result<Option<String>> {
        let name = self.pod(number);
        let pods = Api::<Pod>::namespaced(stage.once.clone(), NAMESPACE);
        match pods.evict(&name, &EvictParams::default()).await {
            Ok(_) => Ok(None),
            Err(kube::Error::Api(status)) if status.code == 429 => Ok(Some(why(*status))),
            Err(error) => Err(error).with_context(|| format!("evict pod {name}")),
        }
    }

    /// Waits until the status counts `healthy` pods and no evicted ones.
    async fn wait_until_counted(self, stage: &Stage, healthy: i32) -> Result<()> {
        let budgets = budgets(stage);
        let counting = async {
            loop {
                let budget = budgets.get(self.0).await.context("get the budget")?;
                let status = budget.status.unwrap_or_default();
                if status.current_healthy == Some(healthy)
                    && status.disrupted_pods.unwrap_or_default().is_empty()
                {
                    return Ok(());
                }
                stage.clock.sleep(ASK_EVERY).await;
            }
        };
        let counted = stage.clock.timeout(stage.within, counting).await;
        counted.with_context(|| format!("the budget does not count {healthy} healthy pods"))?
    }

    fn pod(self, number: usize) -> String {
        format!("{}-{number}", self.0)
    }
}

fn budgets(stage: &Stage) -> Api<PodDisruptionBudget> {
    Api::namespaced(stage.client.clone(), NAMESPACE)
}

fn pod_spec() -> Value {
    json!({
        "automountServiceAccountToken": false,
        "containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10"}],
    })
}

fn why(refusal: Status) -> String {
    let causes = refusal.details.map(|details| details.causes).unwrap_or_default();
    let mut causes = causes.into_iter();
    causes.next().map_or(refusal.message, |cause| cause.message)
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
