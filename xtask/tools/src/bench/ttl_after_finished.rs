//! ttl-after-finished: deletes 4,000 expired Jobs, from process start until each is deleted.

use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use local_control_plane::Process;
use serde_json::{Value, json};

use super::Turns;
use super::contest::{
    Row, Sides, Site, alternate, copy, create, deletes, finish, name, send, stored, watched,
};
use super::figures::{Bars, Figures};

const JOBS: usize = 4_000;
const JOB: &str = "job";
/// Long ago, so that all have expired.
const FINISHED: &str = "2026-01-01T00:00:00Z";

const SIDES: Sides = Sides {
    ours: "ttl-after-finished-controller",
    our_flags: &["--concurrent-syncs=16"],
    theirs: &["ttl-after-finished-controller"],
    their_flags: &["--concurrent-ttl-after-finished-syncs=16"],
};

struct Expired {
    site: Site,
    jobs: Api<Job>,
    /// Jobs for etcd before each run.
    stored: Vec<Value>,
}

pub(super) async fn run(turns: &Turns) -> anyhow::Result<()> {
    let site = Site::new(&SIDES, turns).await?;
    let jobs: Api<Job> = Api::default_namespaced(site.client());
    let form = finished_job(&jobs).await?;
    let row = Expired {
        site,
        jobs,
        stored: (0..JOBS).map(|number| copy(&form, JOB, number)).collect(),
    };
    let results = alternate(&row, turns).await?;
    let title = format!("ttl-after-finished: {JOBS} expired Jobs, from process start");
    row.site.print(&title, &results);
    let mut bars = Bars::default();
    results.within_floor(1.25, &mut bars);
    results.within_memory(15, &mut bars);
    bars.verdict()
}

impl Row for Expired {
    fn site(&self) -> &Site {
        &self.site
    }

    async fn reset(&self) -> anyhow::Result<()> {
        let control_plane = &self.site.control_plane;
        control_plane.erase("jobs").await?;
        Ok(control_plane.store("jobs", &self.stored).await?)
    }

    async fn floor(&self) -> anyhow::Result<()> {
        let delete = async || {
            send(0..JOBS, async |number| {
                let delete = DeleteParams::foreground();
                self.jobs.delete(&name(JOB, number), &delete).await?;
                Ok(())
            })
            .await
        };
        watched(&self.jobs, JOBS, deletes, delete).await?;
        Ok(())
    }

    async fn measure(&self, start: impl FnOnce() -> anyhow::Result<Process>) -> anyhow::Result<Figures> {
        let (process, took, half) = watched(&self.jobs, JOBS, deletes, async || start()).await?;
        finish(process, took, half).await
    }
}

/// A Job as stored by the API server, finished as by the Job controller.
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
    create(jobs, job).await?;
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
    stored(&finished)
}
