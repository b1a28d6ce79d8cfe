//! Questions and writes as data: the only file that names verbs and bodies.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-4 | `Question` | `tests/sync/faults.rs::a_ttl_raised_before_the_fresh_read_saves_the_job` |
//! | TAF-5 | `request` | `tests/sync/expiry.rs::one_fresh_read_and_one_delete_of_just_that_state` |

use controller_core::api::Verb;
use controller_core::controller::{self, Description, Object, Request, requests_to};
use controller_core::informer::Observed;
use controller_core::meta::ObjectKey;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{DeleteParams, GetParams, Preconditions, PropagationPolicy};

use crate::decide::Deletion;
use crate::view::{JobView, JobWire};

const RESOURCE: &str = "jobs.batch";

/// The Job of this name, as the API server has it now.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question(pub ObjectKey);

impl controller::Question for Question {
    type Answer = Observed<JobView>;

    fn request(&self) -> Request {
        let Self(job) = self;
        let get = requests_to::<Job>(job.namespace.as_deref()).get(&job.name, &GetParams::default());
        Request::new(Verb::Get, RESOURCE, job, get)
    }

    fn read(&self, body: &[u8]) -> serde_json::Result<Observed<JobView>> {
        Observed::read_any::<JobWire>(body)
    }
}

impl controller::Write for Deletion {
    /// In the foreground, if the Job is still in the state that was judged.
    fn request(&self) -> Request {
        let params = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Foreground),
            preconditions: Some(Preconditions {
                uid: Some(self.uid.to_string()),
                resource_version: Some(self.version.to_string()),
            }),
            ..DeleteParams::default()
        };
        let delete = requests_to::<Job>(self.job.namespace.as_deref()).delete(&self.job.name, &params);
        Request::new(Verb::Delete, RESOURCE, &self.job, delete)
    }

    fn object(&self) -> Object {
        Object::new("jobs", &self.job)
    }

    fn describe(&self) -> Description {
        let Self { finish, expiry, .. } = self;
        let text = format!("Job deleted: finished at {finish}, expired at {expiry}");
        Description::new("delete", text)
    }
}
