//! Carries out plans: the only file that writes to the API.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-9 | `Apply::mark`, `Apply::delete` | `tests/sync/requests.rs::an_eviction_is_one_read_of_the_node_a_condition_and_a_delete` |

use controller_core::api::{Call, CallFailed, Caller, Outcome, Verb, classify};
use controller_core::leader::Term;
use controller_core::metrics::PlannedWrites;
use controller_core::runtime::Env;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Resource;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::Request;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::decide::Eviction;
use crate::notes::why_evicted;

/// The action's name in metrics and logs.
const ACTION: &str = "evict";
/// Source: `taint_eviction.go`, `addConditionAndDeletePod`.
const CONDITION_REASON: &str = "DeletionByTaintManager";
const CONDITION_MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";

/// Evicts pods, or in a dry run only says which it would.
#[derive(Clone)]
pub struct Apply {
    client: kube::Client,
    caller: Caller,
    planned: PlannedWrites,
    dry_run: bool,
}

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The API server accepted it.
    Accepted,
    /// The condition would make the pod invalid; that does not stop the delete.
    Invalid,
    /// The pod was gone, or another has its name.
    Gone,
}

impl Apply {
    /// Writes to the API server of `env`, or not at all in a dry run.
    pub fn new(env: &Env, dry_run: bool) -> Self {
        Self {
            client: env.client.clone(),
            caller: env.caller.clone(),
            planned: env.planned.clone(),
            dry_run,
        }
    }

    /// Whether this is a dry run; the plan is then counted and logged, and as good as carried out.
    pub fn only_plans(&self, eviction: &Eviction) -> bool {
        if self.dry_run {
            self.planned.count(ACTION);
            let (pod, because) = (&eviction.pod, why_evicted(eviction));
            tracing::info!(%pod, action = ACTION, "dry run, not written: {because}");
        }
        self.dry_run
    }

    /// Writes the condition `DisruptionTarget` of the pod; it turned true at `now` (TE-9).
    pub async fn mark(
        &self,
        eviction: &Eviction,
        now: Timestamp,
        term: &Term,
    ) -> Result<Applied, CallFailed> {
        let call = Call {
            verb: Verb::Patch,
            resource: "pods/status",
            target: eviction.pod.to_string(),
        };
        let patch = Patch::Strategic(condition(eviction, now));
        let request = request_for(eviction).patch_subresource(
            "status",
            &eviction.pod.name,
            &PatchParams::default(),
            &patch,
        );
        let write = async {
            let request = request.map_err(kube::Error::BuildRequest)?;
            match self.client.request::<IgnoredAny>(request).await {
                Ok(_) => Ok(Applied::Accepted),
                Err(error) if refuses_the_condition(&error) => {
                    tracing::warn!(pod = %eviction.pod, "condition refused, the pod is deleted without it: {error}");
                    Ok(Applied::Invalid)
                }
                Err(error) => Err(error),
            }
        };
        match self.caller.write(term, call, write).await {
            Ok(applied) => {
                if applied == Applied::Accepted {
                    let (pod, because) = (&eviction.pod, why_evicted(eviction));
                    tracing::info!(%pod, action = "mark", "condition DisruptionTarget written: {because}");
                }
                Ok(applied)
            }
            Err(failed) if failed.is_gone() => Ok(Applied::Gone),
            Err(failed) => Err(failed),
        }
    }

    /// Deletes the pod, and no later one of its name (TE-9).
    pub async fn delete(&self, eviction: &Eviction, term: &Term) -> Result<Applied, CallFailed> {
        let pod = &eviction.pod;
        let call = Call {
            verb: Verb::Delete,
            resource: "pods",
            target: pod.to_string(),
        };
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(eviction.uid.to_string()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let request = request_for(eviction).delete(&pod.name, &params);
        let write = async {
            let request = request.map_err(kube::Error::BuildRequest)?;
            self.client.request::<IgnoredAny>(request).await
        };
        match self.caller.write(term, call, write).await {
            Ok(_) => {
                let because = why_evicted(eviction);
                tracing::info!(%pod, action = ACTION, "pod deleted: {because}");
                Ok(Applied::Accepted)
            }
            Err(failed) if failed.is_gone() => Ok(Applied::Gone),
            Err(failed) => Err(failed),
        }
    }
}

fn request_for(eviction: &Eviction) -> Request {
    Request::new(Pod::url_path(&(), eviction.pod.namespace.as_deref()))
}

/// Strategic: the other conditions of the pod stay. The uid makes it a patch of this pod alone.
fn condition(eviction: &Eviction, now: Timestamp) -> Value {
    let mut condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": CONDITION_REASON,
        "message": CONDITION_MESSAGE,
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    if eviction.generation > 0 {
        condition["observedGeneration"] = json!(eviction.generation);
    }
    json!({
        "metadata": { "uid": eviction.uid.to_string() },
        "status": { "conditions": [condition] },
    })
}

/// Invalid for another reason than the uid: an old pod that today's validation would not pass.
fn refuses_the_condition(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422)
        && classify(Verb::Patch, error) != Outcome::Gone
}
