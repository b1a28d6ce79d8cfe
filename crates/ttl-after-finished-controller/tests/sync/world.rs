//! Jobs on the embedded API server, and our loop beside it. Time is tokio's, paused.

use std::ops::Deref;

use harness::Start;
use harness::objects::stays;
use serde_json::{Value, json};
use testkit::embedded::{JOBS, Mark, Verb};
use ttl_after_finished_controller::TtlAfterFinishedController;
use ttl_after_finished_controller::config::Config;

pub(crate) struct World(harness::world::World<Config>);

impl Deref for World {
    type Target = harness::world::World<Config>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self(harness::world::World::new(process))
    }

    /// A Job with this ttl that has not finished.
    pub(crate) fn job(&self, name: &str, ttl: impl Into<Option<i64>>) {
        let mut spec = json!({ "template": { "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "c", "image": "i" }],
        } } });
        if let Some(ttl) = ttl.into() {
            spec["ttlSecondsAfterFinished"] = ttl.into();
        }
        let job =
            json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name }, "spec": spec });
        self.insert(job);
    }

    /// It finished so many seconds from now.
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

    pub(crate) fn edit(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.server.edit(&JOBS, "default", name, edit).unwrap();
    }

    /// Whether the Job is there and is not being deleted.
    pub(crate) fn lives(&self, name: &str) -> bool {
        stays(self.server.get(&JOBS, "default", name).as_ref())
    }

    pub(crate) fn uid(&self, name: &str) -> String {
        self.uid_of(&JOBS, name)
    }

    /// Our writes to Jobs since `mark`, as `verb path body`.
    pub(crate) fn writes_since(&self, mark: Mark) -> Vec<String> {
        self.sent_since(mark).writes().to("jobs").lines()
    }

    /// Our reads of single Jobs.
    pub(crate) fn fresh_reads(&self) -> usize {
        let reads = self.ours().to("jobs").only(|request| request.verb == Verb::Get);
        reads.len()
    }
}

pub(crate) fn process() -> Start<Config> {
    Start::of::<TtlAfterFinishedController>()
}
