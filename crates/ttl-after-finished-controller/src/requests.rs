//! Queries and writes as data: the only file that names verbs and bodies.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-4 | `request` | `tests/sync/faults.rs::a_ttl_raised_before_the_delete_arrives_saves_the_job` |
//! | TAF-5 | `request` | `tests/sync/expiry.rs::each_job_takes_one_delete_of_just_the_state_that_was_judged` |
//! | TAF-7 | `Query` | `tests/sync/clocks.rs::the_clock_is_asked_once_a_minute` |

use std::time::Duration;

use controller_core::api::{CallFailed, Verb};
use controller_core::cache::Versioned;
use controller_core::controller::{self, Description, Object, Request, requests_to};
use controller_core::meta::ObjectKey;
use k8s_openapi::api::batch::v1::Job;
use kube_core::params::{DeleteParams, ListParams, Preconditions, PropagationPolicy};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decide::Deletion;
use crate::view::{JobView, JobWire};

const RESOURCE: &str = "jobs.batch";

/// How long the measured difference to the API server's clock is trusted.
const CLOCK_SERVES: Duration = Duration::from_mins(1);

/// A read that bypasses the cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// The API server's time. Every answer carries it; this query lists one Job.
    Time,
    /// The current Job of this name on the API server, by a list, which needs no extra permission.
    Job(ObjectKey),
}

/// The answer to a [`Query`]; the time is in the reply's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Time,
    /// `None` if no such Job exists.
    Job(Option<Versioned<JobView>>),
}

#[derive(Deserialize)]
struct Found {
    items: Vec<Box<RawValue>>,
}

impl controller::Query for Query {
    type Answer = Answer;

    fn request(&self) -> Request {
        match self {
            Self::Time => {
                let list = requests_to::<Job>(None).list_metadata(&ListParams::default().limit(1));
                Request::new(Verb::List, RESOURCE, &"", list)
            }
            Self::Job(job) => {
                let only = ListParams::default().fields(&format!("metadata.name={}", job.name));
                let list = requests_to::<Job>(job.namespace.as_deref()).list(&only);
                Request::new(Verb::List, RESOURCE, job, list)
            }
        }
    }

    fn read(&self, body: &[u8]) -> serde_json::Result<Answer> {
        match self {
            Self::Time => Ok(Answer::Time),
            Self::Job(_) => {
                let found: Found = serde_json::from_slice(body)?;
                let job = found.items.first();
                let job = job.map(|job| Versioned::read_any::<JobWire>(job.get().as_bytes()));
                job.transpose().map(Answer::Job)
            }
        }
    }

    fn serves_for(&self, answer: &Result<Answer, CallFailed>) -> Duration {
        match (self, answer) {
            (Self::Time, Ok(_)) => CLOCK_SERVES,
            _ => Duration::ZERO,
        }
    }
}

impl controller::Write for Deletion {
    const PLANNED: &'static [&'static str] = &["delete"];

    /// A foreground delete, with the state that was judged as its precondition.
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
