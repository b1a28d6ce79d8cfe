//! ttl-after-finished-controller: finished Jobs are deleted when their TTL ends.

use std::time::Duration;

use anyhow::{Context, Result};
use controller_core::time::saturating_add;
use futures::{FutureExt, try_join};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::cluster::do_all;
use crate::counts::{Counted, Tally, Whose};
use crate::ours::labels;
use crate::scene::{Scene, Step, kind};
use crate::stage::{NAMESPACE, Stage};

/// The TTLs of the Jobs, in seconds.
const TTLS: [u64; 3] = [0, 3, 8];
/// Jobs for each TTL; the last one of them fails.
const EACH: usize = 4;
/// The controller's metric of Jobs waiting for the end of their TTL.
const PENDING: &str = "ttl_after_finished_controller_jobs_pending";

pub(crate) fn scene() -> Scene {
    Scene {
        controller: "ttl-after-finished-controller",
        shows: "It deletes Jobs that have finished, when their ttlSecondsAfterFinished are over.",
        kubectl: "get jobs -w",
        counted: Counted {
            title: "Jobs by ttl",
            resource: kind::<Job>(),
            whose: Whose::Ours,
            by: tally,
        },
        makes: vec![kind::<Job>()],
        steps: steps(),
    }
}

fn steps() -> Vec<Step> {
    // A deletion is two writes: the delete and an event.
    vec![
        Step::new("twelve Jobs run")
            .says("Four of them have a ttl of 0 s, four of 3 s, four of 8 s.")
            .does(|stage| create_all(stage).boxed())
            .expects([(4, "ttl 0 s"), (4, "ttl 3 s"), (4, "ttl 8 s")]),
        Step::new("all finish")
            .says("Some succeed, some fail, that makes no difference: with a ttl of 0 s they go at once.")
            .does(|stage| finish_all(stage).boxed())
            .expects([(4, "ttl 3 s"), (4, "ttl 8 s")])
            .seen_as(PENDING, 8)
            .writes(8..=8)
            .time_runs_on(),
        Step::new("second thoughts")
            .says("One Job with 8 s gets an hour, another has its ttl removed. Meanwhile the 3 s of others are over.")
            .does(|stage| think_again(stage).boxed())
            .expects([(2, "ttl 8 s"), (1, "ttl 3600 s"), (1, "no ttl")])
            .seen_as(PENDING, 3)
            .writes(8..=8)
            .time_runs_on(),
        Step::new("8 s after the finish")
            .says("The two Jobs that kept their 8 s go, and those with second thoughts are saved.")
            .expects([(1, "ttl 3600 s"), (1, "no ttl")])
            .seen_as(PENDING, 1)
            .writes(4..=4),
    ]
}

fn tally(job: &DynamicObject, now: Timestamp) -> Tally {
    let ttl = job.data["spec"]["ttlSecondsAfterFinished"].as_u64();
    let what = ttl.map_or_else(|| "no ttl".to_owned(), |seconds| format!("ttl {seconds} s"));
    if job.metadata.deletion_timestamp.is_some() {
        return Tally::leaving(format!("{what}: leaving"));
    }
    let state = match (finished_at(job), ttl) {
        (None, _) => "runs".to_owned(),
        (Some(_), None) => "stays".to_owned(),
        (Some(finish), Some(ttl)) => {
            let left = saturating_add(finish, Duration::from_secs(ttl)).duration_since(now);
            let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
            format!("{:.0} s left", left.as_secs_f64().ceil())
        }
    };
    Tally {
        shown: format!("{what}: {state}"),
        expected: Some(what),
    }
}

fn finished_at(job: &DynamicObject) -> Option<Timestamp> {
    let conditions = job.data["status"]["conditions"].as_array()?;
    let is_finish = |condition: &&Value| {
        matches!(condition["type"].as_str(), Some("Complete" | "Failed")) && condition["status"] == "True"
    };
    let finish = conditions.iter().find(is_finish)?;
    finish["lastTransitionTime"].as_str()?.parse().ok()
}

/// TTL and number of each Job.
fn all_jobs() -> impl Iterator<Item = (u64, usize)> {
    TTLS.into_iter()
        .flat_map(|ttl| (1..=EACH).map(move |number| (ttl, number)))
}

fn name(ttl: u64, number: usize) -> String {
    format!("demo-job-ttl-{ttl}-{number}")
}

fn jobs(stage: &Stage) -> Api<Job> {
    Api::namespaced(stage.client.clone(), NAMESPACE)
}

async fn create_all(stage: &Stage) -> Result<()> {
    do_all(all_jobs().map(|(ttl, number)| create(stage, ttl, number))).await
}

async fn create(stage: &Stage, ttl: u64, number: usize) -> Result<()> {
    let name = name(ttl, number);
    let job = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels()},
        "spec": {
            // The demo finishes the Job: the Job controller, if it runs, leaves the Job alone.
            "managedBy": "example.com/controllers-demo",
            "ttlSecondsAfterFinished": ttl,
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "pause", "image": "registry.k8s.io/pause:3.10"}],
            }},
        },
    });
    stage.create::<Job>(job).await?;
    Ok(())
}

/// Finishes all at the beginning of the same second: a finish has whole seconds, and every TTL must last whole seconds.
async fn finish_all(stage: &Stage) -> Result<()> {
    let passed = stage.clock.now().subsec_nanosecond().unsigned_abs();
    stage
        .clock
        .sleep(Duration::from_secs(1).saturating_sub(Duration::from_nanos(passed.into())))
        .await;
    let now = stage.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    do_all(all_jobs().map(|(ttl, number)| finish(stage, ttl, number, &now))).await
}

/// The status of a Job that finished now. Source of what it must have: `pkg/registry/batch/job/strategy.go`.
pub(super) fn status(succeeds: bool, now: &str) -> Value {
    let [first, then] = if succeeds {
        ["SuccessCriteriaMet", "Complete"]
    } else {
        ["FailureTarget", "Failed"]
    };
    let condition =
        |kind| json!({"type": kind, "status": "True", "lastProbeTime": now, "lastTransitionTime": now});
    let mut status = json!({"startTime": now, "conditions": [condition(first), condition(then)]});
    if succeeds {
        status["completionTime"] = now.into();
        status["succeeded"] = 1.into();
    } else {
        status["failed"] = 1.into();
    }
    status
}

async fn finish(stage: &Stage, ttl: u64, number: usize, now: &str) -> Result<()> {
    let name = name(ttl, number);
    let patch = Patch::Merge(json!({"status": status(number < EACH, now)}));
    jobs(stage)
        .patch_status(&name, &PatchParams::default(), &patch)
        .await
        .with_context(|| format!("finish job {name}"))?;
    Ok(())
}

async fn think_again(stage: &Stage) -> Result<()> {
    try_join!(set_ttl(stage, 1, json!(3600)), set_ttl(stage, 2, Value::Null))?;
    Ok(())
}

/// Changes a Job with the last TTL.
async fn set_ttl(stage: &Stage, number: usize, ttl: Value) -> Result<()> {
    let name = name(8, number);
    let patch = Patch::Merge(json!({"spec": {"ttlSecondsAfterFinished": ttl}}));
    jobs(stage)
        .patch(&name, &PatchParams::default(), &patch)
        .await
        .with_context(|| format!("change the ttl of job {name}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tallied(job: &Value) -> (Option<String>, String) {
        let job = serde_json::from_value(job.clone()).unwrap();
        let Tally { expected, shown } = tally(&job, "2026-01-01T00:00:01.5Z".parse().unwrap());
        (expected, shown)
    }

    #[test]
    fn the_seconds_that_a_job_has_left_are_shown_and_not_expected() {
        let mut job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
            "spec": {"ttlSecondsAfterFinished": 3}, "status": {},
        });
        let expected = Some("ttl 3 s".to_owned());
        assert_eq!(tallied(&job), (expected.clone(), "ttl 3 s: runs".to_owned()));
        job["status"]["conditions"] = json!([
            {"type": "FailureTarget", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"},
            {"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]);
        assert_eq!(tallied(&job), (expected.clone(), "ttl 3 s: 2 s left".to_owned()));
        job["spec"]["ttlSecondsAfterFinished"] = 1.into();
        assert_eq!(tallied(&job).1, "ttl 1 s: 0 s left");
        job["spec"]["ttlSecondsAfterFinished"] = Value::Null;
        assert_eq!(
            tallied(&job),
            (Some("no ttl".to_owned()), "no ttl: stays".to_owned())
        );
        job["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:01Z".into();
        assert_eq!(tallied(&job), (None, "no ttl: leaving".to_owned()));
    }
}
