//! Carries out plans: the only file that writes to the API.

use controller_core::api::{Call, CallFailed, Caller, Verb};
use controller_core::leader::Term;
use controller_core::metrics::PlannedWrites;
use controller_core::runtime::Env;
use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::{DeleteParams, Preconditions, PropagationPolicy};

use crate::decide::Deletion;

/// The action's name in metrics and logs.
const ACTION: &str = "delete";

/// Deletes Jobs, or in a dry run only says which it would.
#[derive(Clone)]
pub struct Apply {
    client: kube::Client,
    caller: Caller,
    planned: PlannedWrites,
    dry_run: bool,
}

/// What came of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The API server accepted the delete; finalizers may hold the Job for as long as they want.
    Deleted,
    /// The Job was gone, or another has its name.
    Gone,
    /// A dry run: nothing left the process.
    Planned,
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

    /// Deletes the Job in the foreground, if it is still in the state that was judged (TAF-5).
    pub async fn execute(&self, deletion: &Deletion, term: &Term) -> Result<Applied, CallFailed> {
        let Deletion {
            job, finish, expiry, ..
        } = deletion;
        if self.dry_run {
            self.planned.count(ACTION);
            tracing::info!(%job, action = ACTION, "dry run, not written: finished at {finish}, expired at {expiry}");
            return Ok(Applied::Planned);
        }
        let call = Call {
            verb: Verb::Delete,
            resource: "jobs.batch",
            target: job.to_string(),
        };
        let jobs: Api<Job> =
            Api::namespaced(self.client.clone(), job.namespace.as_deref().unwrap_or_default());
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Foreground),
            preconditions: Some(Preconditions {
                uid: Some(deletion.uid.to_string()),
                resource_version: Some(deletion.version.to_string()),
            }),
            ..DeleteParams::default()
        };
        match self
            .caller
            .write(term, call, jobs.delete(&job.name, &params))
            .await
        {
            Ok(_) => {
                tracing::info!(%job, action = ACTION, "Job deleted: finished at {finish}, expired at {expiry}");
                Ok(Applied::Deleted)
            }
            Err(failed) if failed.is_gone() => Ok(Applied::Gone),
            Err(failed) => Err(failed),
        }
    }
}
