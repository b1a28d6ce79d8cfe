//! Jobs on the embedded API server, and our loop beside it. Time is tokio's, paused.

use std::time::Duration;

use controller_core::clock::{Clock, saturating_add};
use harness::{Running, Start};
use jiff::Timestamp;
use serde_json::{Value, json};
use testkit::embedded::{EVENTS, JOBS, Mark, Server};
use ttl_after_finished_controller::TtlAfterFinishedController;
use ttl_after_finished_controller::config::Config;

const START: &str = "2026-01-01T00:00:00Z";
const AGENT: &str = "ttl-after-finished-controller/test";

pub(crate) struct World {
    pub(crate) server: Server,
    /// The server's time, and that of the test.
    pub(crate) clock: Clock,
}

impl World {
    pub(crate) fn new() -> Self {
        let start = START.parse().unwrap();
        Self {
            server: Server::starting_at(start),
            clock: Clock::starting_at(start),
        }
    }

    pub(crate) fn start(&self) -> Running {
        self.start_with(Start::of::<TtlAfterFinishedController>())
    }

    pub(crate) fn start_with(&self, start: Start<Config>) -> Running {
        start.start(self.server.client_as(AGENT), &self.clock)
    }

    /// With a wall clock that is this many seconds ahead of the server's, or behind it.
    pub(crate) fn start_with_clock_ahead(&self, seconds: i64) -> Running {
        let clock = Clock::starting_at(self.seconds(seconds));
        Start::of::<TtlAfterFinishedController>().start(self.server.client_as(AGENT), &clock)
    }

    /// So many seconds from now.
    pub(crate) fn seconds(&self, seconds: i64) -> Timestamp {
        let now = self.clock.now();
        match u64::try_from(seconds) {
            Ok(seconds) => saturating_add(now, Duration::from_secs(seconds)),
            Err(_) => now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap(),
        }
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
        self.server.insert(job).unwrap();
    }

    /// It finished so many seconds from now.
    pub(crate) fn finish(&self, name: &str, seconds: i64) {
        let at = self.seconds(seconds).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
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
        self.server
            .get(&JOBS, "default", name)
            .is_some_and(|job| job["metadata"].get("deletionTimestamp").is_none())
    }

    pub(crate) fn uid(&self, name: &str) -> String {
        let job = self.server.get(&JOBS, "default", name).unwrap();
        job["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Lets everything happen that needs no time.
    pub(crate) async fn settle(&self) {
        self.clock.sleep(Duration::from_millis(100)).await;
    }

    /// Our writes to Jobs since `mark`, as `verb path body`.
    pub(crate) fn writes_since(&self, mark: Mark) -> Vec<String> {
        self.server
            .requests_since(mark)
            .only(|request| request.user_agent == AGENT)
            .writes()
            .to("jobs")
            .lines()
    }

    /// Every write of ours, whatever to.
    pub(crate) fn all_writes(&self) -> Vec<String> {
        self.server
            .requests()
            .only(|request| request.user_agent == AGENT)
            .writes()
            .lines()
    }

    /// Our reads of single Jobs.
    pub(crate) fn fresh_reads(&self) -> usize {
        let ours = self.server.requests().to("jobs");
        ours.only(|request| request.verb == testkit::embedded::Verb::Get)
            .len()
    }

    /// Reason and note of every event, in order of their times.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let events = self.server.list(&EVENTS);
        events
            .iter()
            .map(|event| (text(event, "reason"), text(event, "note")))
            .collect()
    }
}
