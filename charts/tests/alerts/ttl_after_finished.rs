//! Jobs that run for a minute and are then left to their TTL.

use std::time::Duration;

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
    server
        .insert(json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name(tick)},
            "spec": {
                "ttlSecondsAfterFinished": ttl,
                "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}},
            },
        }))
        .unwrap();
    if let Some(ended) = tick.checked_sub(RUNS) {
        finish(server, &name(ended));
        // Some users delete their Job before the TTL ends.
        if ended.is_multiple_of(11) {
            server.delete(&JOBS, "default", &name(ended)).unwrap();
        }
    }
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
