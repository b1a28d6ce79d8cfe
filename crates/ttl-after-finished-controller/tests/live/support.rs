//! A cluster of Jobs that nobody runs, next to our binary as a process.
//!
//! Without a garbage collector, the API server keeps a Job that is deleted in the foreground. So a Job counts as
//! deleted once it has a deletionTimestamp. The API server sets that in whole seconds, and so do finishes here: a
//! delete that is early by a moment shows.

use controller_testing::cluster::{now, whole};
use controller_testing::soon;
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

pub(crate) use controller_testing::{QUICK_LEASE, Replica, SOON};

/// The Job whose refused delete shows that Jobs are kept.
pub(crate) const PROBE: &str = "probe";
/// How late a delete may be on a busy machine.
const LATE: SignedDuration = SignedDuration::from_secs(5);

/// How a Job ended.
#[derive(Clone, Copy)]
pub(crate) enum Finish {
    Complete,
    Failed,
}

controller_testing::cluster!("ttl-after-finished-controller");

impl Cluster {
    /// With the permissions that the chart gives for policies which name pods.
    pub(crate) async fn with_policies() -> Self {
        let chart = CHART.rendered_as("policies.golden.yaml");
        Self(controller_testing::cluster::Cluster::new(chart, BUILT).await)
    }

    /// Makes an unfinished Job.
    pub(crate) async fn job(&self, name: &str, ttl: Option<i32>) -> Value {
        self.create(job("default", name, ttl)).await
    }

    /// Finishes a Job as the Job controller does, `ago` seconds before now; returns when.
    pub(crate) async fn finish(&self, name: &str, how: Finish, ago: i64) -> Timestamp {
        let finish = whole(now()) - SignedDuration::from_secs(ago);
        self.merge_status("Job", name, finished(how, finish)).await;
        finish
    }

    /// Makes a Job with this ttl that has finished just now.
    pub(crate) async fn finished_job(&self, name: &str, ttl: i32) -> Timestamp {
        self.job(name, Some(ttl)).await;
        self.finish(name, Finish::Complete, 0).await
    }

    /// Makes `count` Jobs whose ttl has passed, a few at a time.
    pub(crate) async fn finished_jobs(&self, prefix: &str, count: usize) {
        let jobs = stream::iter(0..count).for_each_concurrent(16, async |number| {
            self.finished_job(&format!("{prefix}-{number}"), 0).await;
        });
        jobs.await;
    }

    pub(crate) async fn set_ttl(&self, name: &str, ttl: Option<i32>) {
        self.merge("Job", name, json!({"spec": {"ttlSecondsAfterFinished": ttl}}))
            .await;
    }

    /// When a Job was deleted, if it was.
    pub(crate) async fn deleted(&self, name: &str) -> Option<Timestamp> {
        let job = self.api("Job").get(name).await.unwrap();
        job.metadata.deletion_timestamp.map(|time| time.0)
    }

    /// Waits until a Job is deleted; returns when.
    pub(crate) async fn until_deleted(&self, name: &str) -> Timestamp {
        let what = format!("the Job {name} is deleted");
        soon(&what, async || self.deleted(name).await).await
    }

    /// Waits until a Job is deleted, which must be at its expiry and not before.
    pub(crate) async fn until_deleted_at(&self, name: &str, expiry: Timestamp) {
        let deleted = self.until_deleted(name).await;
        let late = deleted.duration_since(expiry);
        let in_time = !late.is_negative() && late <= LATE;
        assert!(in_time, "{name} expired at {expiry} and was deleted at {deleted}");
    }

    /// Has admission refuse every delete of a Job, and waits until it does.
    pub(crate) async fn keep_jobs(&self) {
        self.keep_jobs_but("").await;
    }

    /// Has admission refuse every delete of a Job except the Job of this name, and waits until it does.
    pub(crate) async fn keep_jobs_but(&self, name: &str) {
        self.job(PROBE, None).await;
        let validation = json!({
            "expression": format!("oldObject.metadata.name == '{name}'"),
            "message": "Jobs are kept",
            "reason": "Forbidden",
        });
        self.refuse_deletes("default", "Job", validation, PROBE).await;
    }

    /// The one event with this reason on a Job, as soon as it exists.
    pub(crate) async fn event(&self, job: &str, reason: &str) -> Event {
        let events: Api<Event> = Api::default_namespaced(self.control_plane.client());
        let of_job = format!("regarding.kind=Job,regarding.name={job},reason={reason}");
        let of_job = ListParams::default().fields(&of_job);
        let found = async || {
            let mut found = events.list(&of_job).await.unwrap().items;
            assert!(found.len() <= 1, "{found:#?}");
            found.pop()
        };
        let what = format!("the event {reason} on {job}");
        soon(&what, found).await
    }
}

pub(crate) fn job(namespace: &str, name: &str, ttl: Option<i32>) -> Value {
    let container = json!({"name": "main", "image": "registry.example/job"});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    json!({
        "kind": "Job", "metadata": {"namespace": namespace, "name": name},
        "spec": {"ttlSecondsAfterFinished": ttl, "template": template},
    })
}

/// The status of a Job that finished at `finish`.
pub(crate) fn finished(how: Finish, finish: Timestamp) -> Value {
    let conditions = match how {
        Finish::Complete => ["SuccessCriteriaMet", "Complete"],
        Finish::Failed => ["FailureTarget", "Failed"],
    };
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": finish});
    let mut status = json!({"startTime": finish, "conditions": conditions.map(condition)});
    if let Finish::Complete = how {
        status["completionTime"] = json!(finish);
    }
    status
}
