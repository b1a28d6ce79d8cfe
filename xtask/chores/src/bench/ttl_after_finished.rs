//! ttl-after-finished: 4,000 expired Jobs, from process start until each is deleted.

use std::path::PathBuf;

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use testkit::real::{ControlPlane, Options, Process};

use super::contest::{self, Row, alternate, deletes, send, watched};
use super::figures::{Bars, Figures};

const JOBS: usize = 4_000;
/// Long ago, so all have expired.
const FINISHED: &str = "2026-01-01T00:00:00Z";

struct Expired {
    control_plane: ControlPlane,
    binary: PathBuf,
    jobs: Api<Job>,
    /// What is written into etcd before each run.
    stored: Vec<Value>,
}

pub(super) async fn run(runs: usize) -> anyhow::Result<()> {
    let binary = xtask::command::release_binary(Expired::CONTROLLER)?;
    let control_plane = ControlPlane::start(Options::default()).await?;
    let jobs: Api<Job> = Api::default_namespaced(control_plane.client());
    let form = finished_job(&jobs).await?;
    let row = Expired {
        control_plane,
        binary,
        jobs,
        stored: (0..JOBS).map(|number| copy(&form, number)).collect(),
    };
    let results = alternate(&row, runs).await?;
    results.print(
        &format!("ttl-after-finished: {JOBS} expired Jobs, from process start"),
        Expired::CONTROLLER,
    );
    let mut bars = Bars::default();
    results.within_floor(1.15, &mut bars);
    results.within_memory(15, &mut bars);
    bars.verdict()
}

impl Row for Expired {
    const CONTROLLER: &'static str = "ttl-after-finished-controller";

    async fn reset(&self) -> anyhow::Result<()> {
        self.control_plane.erase("jobs").await?;
        Ok(self.control_plane.store("jobs", &self.stored).await?)
    }

    async fn floor(&self) -> anyhow::Result<()> {
        send(0..JOBS, async |number| {
            let read = self.jobs.get(&name(number)).await?;
            let delete = DeleteParams::foreground().preconditions(Preconditions {
                uid: read.metadata.uid,
                resource_version: read.metadata.resource_version,
            });
            self.jobs.delete(&name(number), &delete).await?;
            Ok(())
        })
        .await
    }

    fn ours(&self) -> anyhow::Result<Process> {
        let more = ["--kube-api-qps=0", "--concurrent-syncs=16"];
        contest::our_process(&self.binary, self.control_plane.kubeconfig(), &more)
    }

    fn theirs(&self) -> anyhow::Result<Process> {
        let more = ["--concurrent-ttl-after-finished-syncs=16"];
        contest::controller_manager(&self.control_plane, &[Self::CONTROLLER], &more)
    }

    async fn measure(&self, start: impl FnOnce() -> anyhow::Result<Process>) -> anyhow::Result<Figures> {
        let (process, took, half) = watched(&self.jobs, JOBS, deletes, async || start()).await?;
        contest::finish(process, took, half).await
    }
}

/// A Job as the API server stores it, finished as the Job controller does.
async fn finished_job(jobs: &Api<Job>) -> anyhow::Result<Value> {
    let job = json!({
        "metadata": {"name": "form"},
        "spec": {
            "ttlSecondsAfterFinished": 60,
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "registry.example/job", "args": ["--once"]}],
            }},
        },
    });
    jobs.create(&PostParams::default(), &serde_json::from_value(job)?)
        .await?;
    let condition = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "CompletionsReached",
               "message": "Reached expected number of succeeded pods",
               "lastProbeTime": FINISHED, "lastTransitionTime": FINISHED})
    };
    let status = json!({"status": {
        "startTime": FINISHED, "completionTime": FINISHED, "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    }});
    let finished = jobs
        .patch_status("form", &PatchParams::default(), &Patch::Merge(status))
        .await?;
    let mut finished = serde_json::to_value(finished)?;
    finished["metadata"]["resourceVersion"].take();
    Ok(finished)
}

fn copy(form: &Value, number: usize) -> Value {
    let mut job = form.clone();
    job["metadata"]["name"] = json!(name(number));
    job["metadata"]["uid"] = json!(format!("00000000-0000-4000-8000-{number:012x}"));
    job
}

fn name(number: usize) -> String {
    format!("job-{number:05}")
}
