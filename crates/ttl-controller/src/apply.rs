//! Carries out plans: the only file that writes to the API.

use controller_core::api::{Call, CallFailed, Caller, Verb};
use controller_core::leader::Term;
use controller_core::metrics::PlannedWrites;
use controller_core::runtime::Env;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::NAME;
use crate::decide::{OBJECT_TTL_ANNOTATION_KEY, Plan};
use crate::view::Annotation;

/// Writes to nodes, or in a dry run only says what it would write.
#[derive(Clone, Debug)]
pub struct Apply {
    nodes: Api<Node>,
    caller: Caller,
    planned: PlannedWrites,
    dry_run: bool,
}

/// What came of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// There was nothing to write.
    Nothing,
    /// The API server accepted the write.
    Written,
    /// The node is gone.
    Gone,
    /// A dry run: nothing left the process.
    Planned,
}

impl Apply {
    /// Writes to the API server of `env`, or not at all in a dry run.
    pub fn new(env: &Env, dry_run: bool) -> Self {
        Self {
            nodes: Api::all(env.client.clone()),
            caller: env.caller.clone(),
            planned: env.planned.clone(),
            dry_run,
        }
    }

    /// Carries out `plan` while `term` lasts.
    pub async fn execute(&self, plan: &Plan, term: &Term) -> Result<Applied, CallFailed> {
        let (node, patch) = match plan {
            Plan::Nothing => return Ok(Applied::Nothing),
            Plan::Annotate {
                node, ttl_seconds, ..
            } => (node, annotation_patch(Some(*ttl_seconds))),
            Plan::Remove { node } => (node, annotation_patch(None)),
        };
        let action = action(plan);
        if self.dry_run {
            self.planned.count(action);
            tracing::info!(node = %node, action, "dry run, not written: {}", reason(plan));
            return Ok(Applied::Planned);
        }
        let params = PatchParams {
            field_manager: Some(NAME.to_owned()),
            ..PatchParams::default()
        };
        let call = Call {
            verb: Verb::Patch,
            resource: "nodes",
            target: node.to_string(),
        };
        // The answer is wanted as metadata only: a whole node is a hundred times the size of this patch.
        let patch = Patch::Strategic(&patch);
        match self
            .caller
            .write(term, call, self.nodes.patch_metadata(&node.name, &params, &patch))
            .await
        {
            Ok(_) => {
                tracing::info!(node = %node, action, "{}", reason(plan));
                Ok(Applied::Written)
            }
            Err(failed) if failed.is_gone() => Ok(Applied::Gone),
            Err(failed) => Err(failed),
        }
    }
}

/// The strategic merge patch of just the annotation; `None` takes it off.
fn annotation_patch(ttl_seconds: Option<i64>) -> Value {
    let value = ttl_seconds.map_or(Value::Null, |seconds| Value::String(seconds.to_string()));
    json!({"metadata": {"annotations": {OBJECT_TTL_ANNOTATION_KEY: value}}})
}

const fn action(plan: &Plan) -> &'static str {
    match plan {
        Plan::Nothing => "none",
        Plan::Annotate { .. } => "annotate",
        Plan::Remove { .. } => "remove",
    }
}

fn reason(plan: &Plan) -> String {
    match plan {
        Plan::Nothing => "nothing to write".to_owned(),
        Plan::Annotate {
            ttl_seconds,
            replaces: Annotation::NotAnInteger(text),
            ..
        } => {
            format!("TTL set to {ttl_seconds} s over {text:?}, which is not an integer")
        }
        Plan::Annotate {
            ttl_seconds,
            replaces,
            ..
        } => format!("TTL set to {ttl_seconds} s, was {replaces}"),
        Plan::Remove { .. } => "TTL annotation taken off".to_owned(),
    }
}
