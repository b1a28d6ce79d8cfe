//! Budgets, pods and workloads, next to our binary as a process.

use controller_testing::audit::Asked;
use controller_testing::objects::owner;
use controller_testing::soon;
pub(crate) use controller_testing::{QUICK_LEASE, SOON};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) use crate::stories::{AT_ONCE, Budgets, set_ready};

controller_testing::cluster!("disruption-controller");

impl Cluster {
    /// With the permissions of a process that only observes.
    pub(crate) async fn observed() -> Self {
        let chart = CHART.rendered_as("observer.golden.yaml");
        Self(controller_testing::cluster::Cluster::new(chart, BUILT).await)
    }

    /// With the permission to get gadgets.
    pub(crate) async fn with_owners() -> Self {
        let chart = CHART.rendered_as("owners.golden.yaml");
        Self(controller_testing::cluster::Cluster::new(chart, BUILT).await)
    }

    /// Makes a custom resource below another, and a ready pod of it with the same name and the label `app: app`.
    pub(crate) async fn below(&self, kind: &str, name: &str, app: &str, above: &Value) {
        let object = json!({
            "kind": kind, "metadata": {"name": name, "ownerReferences": [owner(above)]}, "spec": {},
        });
        let object = self.create(object).await;
        self.pod(app, name, Some(&object)).await;
    }

    /// Calls the Eviction API for a pod that is then gone at once.
    pub(crate) async fn evict_at_once(&self, pod: &str) -> u16 {
        self.evict_with(pod, json!({"gracePeriodSeconds": 0})).await
    }

    /// Asks the Eviction API what it would answer.
    pub(crate) async fn would_evict(&self, pod: &str) -> u16 {
        self.evict_with(pod, json!({"dryRun": ["All"]})).await
    }

    /// Our newest patch of this object that was answered after `since`. The audit log may lag behind reads.
    pub(crate) async fn patched(&self, resource: &str, name: &str, since: Timestamp) -> Asked {
        let logged = async || {
            let mut newest_first = self.requests().into_iter().rev();
            newest_first
                .find(|asked| asked.is("patch", resource) && asked.name == name && asked.answered >= since)
        };
        let what = format!("a patch of {resource} {name} since {since} is in the audit log");
        soon(&what, logged).await
    }
}

/// Returns whether this request is our write of a budget's status.
pub(crate) fn writes_a_status(asked: &Asked) -> bool {
    asked.is_by(NAME) && asked.is("patch", "poddisruptionbudgets/status")
}
