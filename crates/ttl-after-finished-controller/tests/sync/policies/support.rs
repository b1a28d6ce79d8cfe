//! Jobs and pods that policies clean up.

use controller_core::config::GoDuration;
use controller_testing::{ConfigOf, Start};
use embedded_apiserver::{JOBS, NAMESPACES, PODS, Resource};
use serde_json::{Value, json};
use ttl_after_finished_controller::TtlAfterFinishedController;

use crate::world::{World, job, process};

/// A process with these policies, and a grace period of this many seconds.
pub(crate) fn with(policies: &Value, grace: u32) -> Start<ConfigOf<TtlAfterFinishedController>> {
    let policies = policies.clone();
    process().configured(move |config| {
        config.policies = serde_json::from_value(policies).unwrap();
        config.policy_grace_period = GoDuration::from_secs(grace);
    })
}

impl World {
    /// A Job without a ttl and with these labels, which ended `seconds` from now.
    pub(crate) fn ended(&self, name: &str, how: &str, seconds: i64, labels: &Value) {
        let mut object = job(name, None);
        object["metadata"]["labels"] = labels.clone();
        self.insert(object);
        let at = self.seconds(seconds);
        self.edit(name, |job| {
            job["status"]["conditions"] =
                json!([{ "type": how, "status": "True", "lastTransitionTime": at }]);
        });
    }

    pub(crate) fn succeeded(&self, name: &str, seconds: i64) {
        self.ended(name, "Complete", seconds, &json!({}));
    }

    /// A Job of another namespace that has just succeeded.
    pub(crate) fn succeeded_in(&self, namespace: &str, name: &str) {
        let mut object = job(name, None);
        object["metadata"]["namespace"] = json!(namespace);
        object["status"]["conditions"] =
            json!([{ "type": "Complete", "status": "True", "lastTransitionTime": self.seconds(0) }]);
        self.insert(object);
    }

    pub(crate) fn failed(&self, name: &str, seconds: i64) {
        self.ended(name, "Failed", seconds, &json!({}));
    }

    /// A pod in this phase, whose container ended `seconds` from now.
    pub(crate) fn pod(&self, name: &str, phase: &str, seconds: i64) {
        let ended = json!({ "terminated": { "exitCode": 0, "finishedAt": self.seconds(seconds) } });
        self.insert(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
            "spec": { "containers": [{ "name": "c", "image": "i" }] },
            "status": { "phase": phase, "containerStatuses": [{
                "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": ended,
            }] },
        }));
    }

    pub(crate) fn pod_lives(&self, name: &str) -> bool {
        self.stays_of(&PODS, name)
    }

    fn stays_of(&self, resource: &'static Resource, name: &str) -> bool {
        self.server
            .get(resource, "default", name)
            .is_some_and(|object| object["metadata"]["deletionTimestamp"].is_null())
    }

    /// Which of these Jobs have not been deleted.
    pub(crate) fn left(&self) -> Vec<String> {
        let jobs = self.server.list(&JOBS).into_iter();
        let jobs = jobs.filter(|job| job["metadata"]["deletionTimestamp"].is_null());
        let mut names: Vec<_> = jobs
            .map(|job| job["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    }

    pub(crate) fn label_namespace(&self, labels: &Value) {
        self.server
            .edit(&NAMESPACES, "", "default", |namespace| {
                namespace["metadata"]["labels"] = labels.clone();
            })
            .unwrap();
    }

    pub(crate) fn annotate_namespace(&self, annotations: &Value) {
        self.server
            .edit(&NAMESPACES, "", "default", |namespace| {
                namespace["metadata"]["annotations"] = annotations.clone();
            })
            .unwrap();
    }
}
