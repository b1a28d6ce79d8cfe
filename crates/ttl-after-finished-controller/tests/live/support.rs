//! A cluster of Jobs that nobody runs, next to our binary as a process.

use controller_testing::cluster::{now, whole};
use controller_testing::soon;
use futures::{StreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

pub(crate) use controller_testing::{QUICK_LEASE, SOON};

/// The Job whose refused delete shows that Jobs are kept.
pub(crate) const PROBE: &str = "probe";
use crate::stories::LATE;
pub(crate) use crate::stories::{Finish, Jobs, finished};

controller_testing::cluster!("ttl-after-finished-controller");

impl Cluster {
    /// With the permissions that the chart gives for policies which name pods.
    pub(crate) async fn with_policies() -> Self {
        let chart = CHART.rendered_as("policies.golden.yaml");
        Self(controller_testing::cluster::Cluster::new(chart, BUILT).await)
    }

    /// Finishes a Job as the Job controller does, `ago` seconds before now; returns when.
    pub(crate) async fn finish(&self, name: &str, how: Finish, ago: i64) -> Timestamp {
        let finish = whole(now()) - SignedDuration::from_secs(ago);
        self.finish_at(name, how, finish).await;
        finish
    }

    /// Makes a Job with this ttl that has finished just now.
    pub(crate) async fn finished_job(&self, name: &str, ttl: i64) -> Timestamp {
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

    /// Waits until a Job is deleted, which must be at its expiry and not before.
    pub(crate) async fn until_deleted_at(&self, name: &str, expiry: Timestamp) {
        self.until_deleted_by(name, expiry, LATE).await;
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

pub(crate) fn job(namespace: &str, name: &str, ttl: Option<i64>) -> Value {
    let mut job = crate::stories::job(name, ttl);
    job["metadata"]["namespace"] = json!(namespace);
    job
}
