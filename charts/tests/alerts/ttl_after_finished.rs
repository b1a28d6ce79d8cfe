//! Jobs that run for a minute and are then left to their TTL.

use std::fs;
use std::time::Duration;

use controller_core::config::GoDuration;
use controller_testing::Start;
use embedded_apiserver::{Actors, JOBS, Server};
use futures::FutureExt;
use serde_json::{Value, json};
use ttl_after_finished_controller::TtlAfterFinishedController;

use crate::cluster::{Controller, TICK, now, start, start_dry};
use crate::faults::{Fault, LEFT_DRY, leave_dry, once_an_object, writes};

/// Ticks between new Jobs.
const TICKS_A_JOB: u64 = 2;
/// Ticks that a Job runs.
const RUNS: u64 = 60 / TICK.as_secs();

pub(crate) const CONTROLLER: Controller = Controller {
    name: "ttl-after-finished-controller",
    start: start::<TtlAfterFinishedController>,
    start_dry: start_dry::<TtlAfterFinishedController>,
    prepare: |_| {},
    actors: Actors::new,
    load: |server, tick| async move { load(&server, tick) }.boxed(),
    faults: FAULTS,
};

const FAULTS: &[Fault] = &[
    Fault {
        name: "the API server lets many deletes wait for two minutes",
        begin: |cluster| {
            let wait = embedded_apiserver::Fault::Throttled {
                retry_after: Duration::from_mins(2),
            };
            // Not for all Jobs, or half of all syncs would be retries.
            cluster
                .server
                .fail(once_an_object(writes(cluster, wait)).probability(0.6));
        },
        told_by: &["DeletionsLate"],
    },
    Fault {
        name: "a policy would delete more than it may",
        begin: |cluster| {
            for number in 0..3 {
                let name = format!("without-ttl-{number}");
                cluster.server.insert(job(&name, None)).unwrap();
                finish(&cluster.server, &name);
            }
            cluster.start_as(|_, client, clock| {
                let policies = json!([{"name": "ci", "ttlAfterSucceeded": "1s", "maxPerHour": 1}]);
                let braked = Start::of::<TtlAfterFinishedController>().configured(|config| {
                    config.policies = serde_json::from_value(policies).unwrap();
                    config.policy_grace_period = GoDuration::default();
                });
                braked.start(client, clock)
            });
        },
        told_by: &["BrakeEngaged"],
    },
    Fault {
        name: "somebody breaks the policies",
        begin: |cluster| {
            cluster.start_as(|_, client, clock| {
                let file = tempfile::NamedTempFile::new().unwrap();
                let policy = |ttl: &str| format!("policies: [{{name: ci, ttlAfterSucceeded: {ttl}}}]");
                fs::write(file.path(), policy("1h")).unwrap();
                let start = Start::of::<TtlAfterFinishedController>().config_file(file.path());
                fs::write(file.path(), policy("1 hour")).unwrap();
                // The process reads the file until the test ends.
                file.keep().unwrap();
                start.start(client, clock)
            });
        },
        told_by: &["ConfigFileRefused"],
    },
    Fault {
        name: LEFT_DRY,
        begin: leave_dry,
        told_by: &["PlannedWritesUndone"],
    },
];

fn load(server: &Server, tick: u64) {
    if !tick.is_multiple_of(TICKS_A_JOB) {
        return;
    }
    let ttl = 30 + 20 * (tick % 7);
    server.insert(job(&name(tick), Some(ttl))).unwrap();
    if let Some(ended) = tick.checked_sub(RUNS) {
        finish(server, &name(ended));
        // Some users delete their Job before the TTL ends.
        if ended.is_multiple_of(11) {
            server.delete(&JOBS, "default", &name(ended)).unwrap();
        }
    }
}

fn job(name: &str, ttl: Option<u64>) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "ttlSecondsAfterFinished": ttl,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

fn finish(server: &Server, name: &str) {
    let at = now(server).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let finish = |job: &mut Value| {
        job["status"]["conditions"] =
            json!([{"type": "Complete", "status": "True", "lastTransitionTime": at}]);
    };
    server.edit(&JOBS, "default", name, finish).unwrap();
}

fn name(number: u64) -> String {
    format!("job-{number}")
}
