//! Carries out plans: the only file that writes to the API.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-8 | `Apply::write` | `tests/sync/requests.rs::one_status_write_is_one_patch_with_every_number`, `tests/sync/races.rs::an_eviction_that_races_a_status_write_is_never_overwritten` |
//! | DIS-15 | `Apply::reset` | `tests/sync/stale.rs::a_stale_condition_is_reset_after_two_minutes` |

use std::sync::Arc;

use controller_core::api::limits::{StillWanted, Withdrawn};
use controller_core::api::{Call, CallFailed, Caller, Verb};
use controller_core::informer::Interner;
use controller_core::leader::Term;
use controller_core::metrics::PlannedWrites;
use controller_core::runtime::Env;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use kube::api::{Patch, PatchParams};
use kube::core::Request;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::decide::Write;
use crate::view::{DISRUPTION_ALLOWED, DISRUPTION_TARGET, DisruptionTarget, PdbView, PdbWire, PodView};

/// The actions' names in metrics and logs.
const UPDATE: &str = "update-status";
const RESET: &str = "reset-condition";

/// Writes, or in a dry run only says what it would write.
#[derive(Clone)]
pub struct Apply {
    client: kube::Client,
    caller: Caller,
    planned: PlannedWrites,
    interner: Arc<Interner>,
    dry_run: bool,
}

/// What came of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The API server accepted it; the budget as it is since.
    Written(Arc<PdbView>),
    /// The budget was gone, or another has its name.
    Gone,
    /// A dry run: nothing left the process.
    Planned,
    /// It was not wanted any more when its turn came.
    Withdrawn,
}

impl Apply {
    /// Writes to the API server of `env`, or not at all in a dry run.
    pub fn new(env: &Env, interner: Arc<Interner>, dry_run: bool) -> Self {
        Self {
            client: env.client.clone(),
            caller: env.caller.clone(),
            planned: env.planned.clone(),
            interner,
            dry_run,
        }
    }

    /// Writes the status of a budget, if that is still in the state that was judged (DIS-8), and `wanted` says so
    /// when it can be sent.
    pub async fn write(
        &self,
        write: &Write,
        wanted: StillWanted,
        term: &Term,
    ) -> Result<Applied, CallFailed> {
        let pdb = &write.pdb;
        if self.dry_run {
            self.planned.count(UPDATE);
            tracing::info!(%pdb, action = UPDATE, "dry run, not written: {}", told(write));
            return Ok(Applied::Planned);
        }
        let call = Call {
            verb: Verb::Patch,
            resource: "poddisruptionbudgets.policy/status",
            target: pdb.to_string(),
        };
        let path = PodDisruptionBudget::url_path(&(), pdb.namespace.as_deref());
        let patched = async {
            let mut request = patch_of_status(&path, &pdb.name, status(write))?;
            request.extensions_mut().insert(wanted);
            match self.client.request::<PdbWire>(request).await {
                Err(kube::Error::Service(error)) if error.is::<Withdrawn>() => Ok(None),
                answer => answer.map(Some),
            }
        };
        match self.caller.write(term, call, patched).await {
            Ok(Some(written)) => {
                tracing::info!(%pdb, action = UPDATE, "status written: {}", told(write));
                Ok(Applied::Written(Arc::new(written.into_fresh(&self.interner))))
            }
            Ok(None) => Ok(Applied::Withdrawn),
            Err(failed) if failed.is_gone() => Ok(Applied::Gone),
            Err(failed) => Err(failed),
        }
    }

    /// Sets the stale condition of a pod to `False`, if the pod is still in the state that was judged (DIS-15).
    pub async fn reset(
        &self,
        pod: &PodView,
        target: &DisruptionTarget,
        now: Timestamp,
        term: &Term,
    ) -> Result<(), CallFailed> {
        let key = &pod.key;
        if self.dry_run {
            self.planned.count(RESET);
            tracing::info!(pod = %key, action = RESET, "dry run, not written: DisruptionTarget since {}", target.since);
            return Ok(());
        }
        let call = Call {
            verb: Verb::Patch,
            resource: "pods/status",
            target: key.to_string(),
        };
        let path = Pod::url_path(&(), key.namespace.as_deref());
        let patched = async {
            let request = patch_of_status(&path, &key.name, condition(pod, target, now))?;
            self.client.request::<IgnoredAny>(request).await
        };
        match self.caller.write(term, call, patched).await {
            Ok(_) => {
                tracing::info!(pod = %key, action = RESET, "condition reset: DisruptionTarget since {}", target.since);
                Ok(())
            }
            Err(failed) if failed.is_gone() => Ok(()),
            Err(failed) => Err(failed),
        }
    }
}

fn patch_of_status(path: &str, name: &str, body: Value) -> kube::Result<http::Request<Vec<u8>>> {
    let params = PatchParams::default();
    Request::new(path)
        .patch_subresource("status", name, &params, &Patch::Strategic(body))
        .map_err(kube::Error::BuildRequest)
}

/// Strategic: foreign conditions, the other entries of disruptedPods and fields that we do not know stay.
fn status(write: &Write) -> Value {
    let condition = &write.condition;
    let mut status = json!({
        "observedGeneration": write.generation,
        "disruptionsAllowed": write.allowed(),
        "conditions": [{
            "type": DISRUPTION_ALLOWED,
            "status": if condition.allowed { "True" } else { "False" },
            "reason": condition.reason,
            "message": condition.message,
            "observedGeneration": write.generation,
            "lastTransitionTime": rfc3339(condition.since),
        }],
    });
    if let Some(numbers) = write.numbers {
        status["currentHealthy"] = json!(numbers.current);
        status["desiredHealthy"] = json!(numbers.desired);
        status["expectedPods"] = json!(numbers.expected);
    }
    if !write.dropped.is_empty() {
        let dropped = write.dropped.iter().map(|name| (name.to_string(), Value::Null));
        status["disruptedPods"] = Value::Object(dropped.collect::<Map<_, _>>());
    }
    json!({
        "metadata": { "uid": write.uid.to_string(), "resourceVersion": write.version },
        "status": status,
    })
}

fn condition(pod: &PodView, target: &DisruptionTarget, now: Timestamp) -> Value {
    let mut condition = json!({
        "type": DISRUPTION_TARGET,
        "status": "False",
        "reason": null,
        "message": null,
        "lastTransitionTime": rfc3339(now),
    });
    if target.generation > 0 {
        condition["observedGeneration"] = json!(target.generation);
    }
    json!({
        "metadata": { "uid": pod.uid.to_string(), "resourceVersion": target.version },
        "status": { "conditions": [condition] },
    })
}

/// For the log.
fn told(write: &Write) -> String {
    match write.numbers {
        Some(numbers) => format!(
            "disruptionsAllowed {}: {} healthy, {} desired, {} expected",
            numbers.allowed, numbers.current, numbers.desired, numbers.expected
        ),
        None => format!("disruptionsAllowed 0: {}", write.condition.message),
    }
}

fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
