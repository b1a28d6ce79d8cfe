//! Reads of the API server itself, past the cache.

use controller_core::api::dated::{self, Dated};
use controller_core::api::{Call, CallFailed, Caller, Verb};
use controller_core::meta::ObjectKey;
use k8s_openapi::api::batch::v1::Job;
use kube::Resource;

use crate::view::{FreshJob, JobWire};

/// The Jobs as the API server has them now.
#[derive(Clone)]
pub struct LiveJobs {
    client: kube::Client,
    caller: Caller,
}

impl LiveJobs {
    /// Reads through `client`.
    pub fn new(client: kube::Client, caller: Caller) -> Self {
        Self { client, caller }
    }

    /// One Job and the API server's time; `None` when there is none of that name.
    pub async fn one(&self, key: &ObjectKey) -> Result<Option<Dated<FreshJob>>, CallFailed> {
        let call = Call {
            verb: Verb::Get,
            resource: "jobs.batch",
            target: key.to_string(),
        };
        let path = Job::url_path(&(), key.namespace.as_deref());
        let read = dated::get::<JobWire>(&self.client, &path, &key.name);
        match self.caller.read(call, read).await {
            Ok(Dated { object, date }) => Ok(Some(Dated {
                object: object.into_fresh(key.clone()),
                date,
            })),
            Err(failed) if failed.is_gone() => Ok(None),
            Err(failed) => Err(failed),
        }
    }
}
