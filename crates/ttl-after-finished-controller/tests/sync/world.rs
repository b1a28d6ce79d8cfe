//! Jobs on the embedded API server, next to our loop. Time is tokio's, paused.

use embedded_apiserver::JOBS;
use serde_json::json;
use ttl_after_finished_controller::TtlAfterFinishedController;

pub(crate) use crate::stories::job;

controller_testing::world!(TtlAfterFinishedController, &JOBS);

impl World {
    /// With a Job that finishes `seconds` from now.
    pub(crate) fn with_finished_job(name: &str, ttl: i64, seconds: i64) -> Self {
        let world = Self::new();
        world.finished_job(name, ttl, seconds);
        world
    }

    /// Creates a Job with this ttl that has not finished.
    pub(crate) fn job(&self, name: &str, ttl: impl Into<Option<i64>>) {
        self.insert(job(name, ttl.into()));
    }

    /// Finishes the Job, `seconds` from now.
    pub(crate) fn finish(&self, name: &str, seconds: i64) {
        let at = self.seconds(seconds);
        self.edit(name, |job| {
            job["status"]["conditions"] =
                json!([{ "type": "Complete", "status": "True", "lastTransitionTime": at }]);
        });
    }

    pub(crate) fn finished_job(&self, name: &str, ttl: i64, seconds: i64) {
        self.job(name, ttl);
        self.finish(name, seconds);
    }

    pub(crate) fn set_ttl(&self, name: &str, ttl: impl Into<Option<i64>>) {
        let ttl: Option<i64> = ttl.into();
        self.edit(name, |job| job["spec"]["ttlSecondsAfterFinished"] = json!(ttl));
    }
}
