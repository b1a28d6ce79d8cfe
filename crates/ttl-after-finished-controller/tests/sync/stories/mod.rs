//! Stories of Jobs that nobody runs, told next to the embedded API server and next to a real one.
//!
//! Without a garbage collector, the API server keeps a Job that is deleted in the foreground. So a Job counts as
//! deleted once it has a deletionTimestamp. The API server sets that in whole seconds, and so do finishes here: a
//! delete that is early by a moment shows.

mod expiry;

use controller_testing::soon;
use controller_testing::stories::Objects;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// How late a delete may be on a busy machine.
pub(crate) const LATE: SignedDuration = SignedDuration::from_secs(5);

/// How a Job ended.
#[derive(Clone, Copy)]
pub(crate) enum Finish {
    Complete,
    Failed,
}

/// Jobs, and when they were deleted.
pub(crate) trait Jobs {
    fn objects(&self) -> &Objects;

    /// Makes an unfinished Job.
    async fn job(&self, name: &str, ttl: Option<i64>) -> Value {
        self.objects().create(job(name, ttl)).await
    }

    /// Finishes a Job as the Job controller does.
    async fn finish_at(&self, name: &str, how: Finish, finish: Timestamp) {
        let status = finished(how, finish);
        self.objects().merge_status("Job", name, status).await;
    }

    async fn set_ttl(&self, name: &str, ttl: Option<i64>) {
        let spec = json!({ "spec": { "ttlSecondsAfterFinished": ttl } });
        self.objects().merge("Job", name, spec).await;
    }

    /// When a Job was deleted, if it was.
    async fn deleted(&self, name: &str) -> Option<Timestamp> {
        let job = self.objects().api("Job").get(name).await.unwrap();
        job.metadata.deletion_timestamp.map(|time| time.0)
    }

    /// Waits until a Job is deleted; returns when.
    async fn until_deleted(&self, name: &str) -> Timestamp {
        let what = format!("the Job {name} is deleted");
        soon(&what, async || self.deleted(name).await).await
    }

    /// Waits until a Job is deleted, which must be at its expiry, this much later at most, and not before.
    async fn until_deleted_by(&self, name: &str, expiry: Timestamp, late: SignedDuration) {
        let deleted = self.until_deleted(name).await;
        let lag = deleted.duration_since(expiry);
        let in_time = !lag.is_negative() && lag <= late;
        assert!(in_time, "{name} expired at {expiry} and was deleted at {deleted}");
    }
}

impl Jobs for Objects {
    fn objects(&self) -> &Objects {
        self
    }
}

pub(crate) fn job(name: &str, ttl: Option<i64>) -> Value {
    let container = json!({ "name": "main", "image": "registry.example/job" });
    let template = json!({ "spec": { "restartPolicy": "Never", "containers": [container] } });
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name },
        "spec": { "ttlSecondsAfterFinished": ttl, "template": template },
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
