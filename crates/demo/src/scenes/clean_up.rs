//! ttl-after-finished-controller's clean-up policies: Jobs without a ttl go by a policy.

use anyhow::{Context, Result};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use super::ttl_after_finished::status;
use crate::cluster::do_all;
use crate::counts::{Counted, Tally, Whose};
use crate::ours::labels;
use crate::scene::{Scene, Step, kind};
use crate::stage::{NAMESPACE, Stage};

/// The policies with which the demo starts the controller. They select nothing of another scene.
pub(crate) const POLICIES: &str = "policyGracePeriod: 0s
policies:
- {name: ci, selector: {matchLabels: {app: demo-ci}}, ttlAfterSucceeded: 1s, ttlAfterFailed: 1s, keepLastFailed: 1}
";
/// Jobs that succeed; the first is annotated to be kept.
const SUCCEED: usize = 4;
const ALL: usize = 6;
const KEEP: &str = "ttl-after-finished-controller/keep";

pub(crate) fn scene() -> Scene {
    Scene {
        controller: "ttl-after-finished-controller",
        shows: "Its policies clean up Jobs that have no ttl.",
        kubectl: "get jobs -l app=demo-ci -w",
        counted: Counted {
            title: "Jobs of CI",
            resource: kind::<Job>(),
            whose: Whose::OursWith("app=demo-ci"),
            by: |job, _| tally(job),
        },
        makes: vec![kind::<Job>()],
        steps: steps(),
    }
}

fn steps() -> Vec<Step> {
    vec![
        Step::new("six Jobs of CI run, none has a ttl")
            .says("The policy ci deletes such Jobs 1 s after they finish. One Job is annotated to be kept.")
            .does(|stage| create_all(stage).boxed())
            .expects([(6, "run")])
            .writes(0..=0),
        Step::new("four succeed, two fail")
            .says("Two Jobs stay: the annotated one, and the last that failed (keepLastFailed: 1).")
            .does(|stage| finish_all(stage).boxed())
            .expects([(1, "succeeded"), (1, "failed")])
            // A deletion is two writes: the delete and an event.
            .writes(8..=8)
            .explains(
                "default/demo-ci-1",
                "would leave it: it is annotated ttl-after-finished-controller/keep: \"true\"",
            ),
    ]
}

fn tally(job: &DynamicObject) -> Tally {
    let conditions = job.data["status"]["conditions"].as_array();
    let has = |kind: &str| {
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == kind)
    };
    let state = if has("Complete") {
        "succeeded"
    } else if has("Failed") {
        "failed"
    } else {
        "run"
    };
    if job.metadata.deletion_timestamp.is_some() {
        return Tally::leaving(format!("{state}: leaving"));
    }
    Tally::plain(state.to_owned())
}

fn name(number: usize) -> String {
    format!("demo-ci-{number}")
}

async fn create_all(stage: &Stage) -> Result<()> {
    do_all((1..=ALL).map(|number| create(stage, number))).await
}

async fn create(stage: &Stage, number: usize) -> Result<()> {
    let mut labels = labels();
    labels.insert("app".to_owned(), "demo-ci".to_owned());
    let mut job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name(number), "labels": labels},
        "spec": {
            // The demo finishes the Job: the Job controller, if it runs, leaves the Job alone.
            "managedBy": "example.com/controllers-demo",
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10"}],
            }},
        },
    });
    if number == 1 {
        job["metadata"]["annotations"] = json!({KEEP: "true"});
    }
    stage.create::<Job>(job).await?;
    Ok(())
}

async fn finish_all(stage: &Stage) -> Result<()> {
    let now = stage.clock.now();
    do_all((1..=ALL).map(|number| finish(stage, number, now))).await
}

async fn finish(stage: &Stage, number: usize, now: Timestamp) -> Result<()> {
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let jobs: Api<Job> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let patch = Patch::Merge(json!({"status": status(number <= SUCCEED, &now)}));
    jobs.patch_status(&name(number), &PatchParams::default(), &patch)
        .await
        .with_context(|| format!("finish job {}", name(number)))?;
    Ok(())
}
