//! Jobs and their namespace as an API server stores them.

use std::collections::BTreeMap;

use controller_core::controller::{Now, RequestOf};
use controller_testing::sim::{self, NOW};
use embedded_apiserver::{JOBS, Server};
use jiff::Timestamp;
use serde_json::{Value, json};
use ttl_after_finished_controller::TtlAfterFinishedController;
use ttl_after_finished_controller::policy::KEEP;
use ttl_after_finished_controller::policy::view::{Candidate, JobCandidateWire, NamespaceView};
use ttl_after_finished_controller::requests::Query;
use ttl_after_finished_controller::view::{Finish, JobWire};

use super::world::Cluster;

impl Cluster {
    pub(super) fn as_stored(&self, ask: &RequestOf<TtlAfterFinishedController>, now: Now) -> Option<Server> {
        let jobs = self.jobs.values().map(|job| {
            let version = job.object.version.parse().unwrap();
            sim::stored(&job.object.key, &job.object.uid, version, job_fields(job))
        });
        let namespaces = self
            .namespaces
            .stored(|_| true, |held| namespace_fields(&held.view));
        let next = match ask {
            RequestOf::Query(Query::Namespace(_)) => self.namespaces.next_version(),
            _ => self.next_version(),
        };
        let objects = namespaces.chain(jobs).collect();
        self.bug.is_none().then(|| sim::server(now, objects, next - 1))
    }

    pub(super) fn compare_stored(&self, server: &Server) -> Result<(), String> {
        if self.has_policies() {
            self.candidates
                .compare_with::<JobCandidateWire>(server, &JOBS, |job| Some(job.clone()))
        } else {
            self.with_ttl
                .compare_with::<JobWire>(server, &JOBS, |job| Some(job.clone()))
        }
    }
}

fn job_fields(job: &Candidate) -> Value {
    let finished = job.object.finish.map(|finish| {
        let time: Option<Timestamp> = match finish {
            Finish::At(time) => Some(time),
            Finish::Undated => None,
        };
        let how = if job.failed { "Failed" } else { "Complete" };
        json!({ "type": how, "status": "True", "lastTransitionTime": time })
    });
    let labels: BTreeMap<_, _> = job.labels.iter().collect();
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "labels": labels, "annotations": { KEEP: job.keep.to_string() },
            "finalizers": job.object.deleting.then_some(["foregroundDeletion"]),
            "deletionTimestamp": job.object.deleting.then_some(NOW.wall),
        },
        "spec": {
            "ttlSecondsAfterFinished": job.object.ttl_seconds,
            "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } },
        },
        "status": { "conditions": finished.as_slice() },
    })
}

fn namespace_fields(namespace: &NamespaceView) -> Value {
    let labels: BTreeMap<_, _> = namespace.labels.iter().collect();
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "labels": labels, "annotations": { KEEP: namespace.keep.to_string() },
            "creationTimestamp": namespace.created,
        },
    })
}
