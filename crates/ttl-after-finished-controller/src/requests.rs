//! Queries and writes as data: the only file that names verbs and bodies.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-4 | `request` | `tests/sync/faults.rs::a_ttl_raised_before_the_delete_arrives_saves_the_job` |
//! | TAF-5 | `request` | `tests/sync/expiry.rs::each_job_takes_one_delete_of_just_the_state_that_was_judged` |
//! | TAF-7 | `Query` | `tests/sync/clocks.rs::the_clock_is_asked_once_a_minute` |

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{CallFailed, Verb};
use controller_core::cache::{Page, Versioned, Wire};
use controller_core::controller::{self, Description, Object, Request, requests_to};
use controller_core::meta::ObjectKey;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube_core::params::{DeleteParams, ListParams, Preconditions, PropagationPolicy};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decide::{By, Deletion};
use crate::policy::FinishedKind;
use crate::policy::view::{Candidate, JobCandidateWire, NamespaceView, NamespaceWire, PodWire};
use crate::state::Key;

/// How long the measured difference to the API server's clock is trusted.
const CLOCK_SERVES: Duration = Duration::from_mins(1);
/// How long the answer about a namespace serves its other objects.
const NAMESPACE_SERVES: Duration = Duration::from_secs(10);
/// How many objects a page of a list has. A page is in memory as a whole.
const PAGE: u32 = 250;

/// A read that bypasses the cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// The API server's time. Every answer carries it; this query lists one Job.
    Time,
    /// The current object of this name on the API server, by a list, which needs no extra permission.
    Object(Key),
    /// The current namespace of this name.
    Namespace(Arc<str>),
    /// A page of all objects of a kind.
    Page(PreviewList, Option<Arc<str>>),
}

/// What is listed page by page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PreviewList {
    Namespaces,
    Objects(FinishedKind),
}

/// The answer to a [`Query`]; the time is in the reply's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Time,
    /// `None` if no such object exists.
    Object(Option<Versioned<Candidate>>),
    /// `None` if no such namespace exists.
    Namespace(Option<Versioned<NamespaceView>>),
    Namespaces(Page<NamespaceView>),
    Objects(Page<Candidate>),
}

impl Answer {
    /// The namespace that was asked for.
    pub const fn namespace(&self) -> Option<&Versioned<NamespaceView>> {
        match self {
            Self::Namespace(namespace) => namespace.as_ref(),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct Found {
    items: Vec<Box<RawValue>>,
}

/// The one object of a list, if there is one.
fn only<W: Wire>(body: &[u8]) -> serde_json::Result<Option<Versioned<W::View>>> {
    let found: Found = serde_json::from_slice(body)?;
    let object = found.items.first();
    let object = object.map(|object| Versioned::read_any::<W>(object.get().as_bytes()));
    object.transpose()
}

const fn resource(kind: FinishedKind) -> &'static str {
    match kind {
        FinishedKind::Job => "jobs.batch",
        FinishedKind::Pod => "pods",
    }
}

impl controller::Query for Query {
    type Answer = Answer;

    fn request(&self) -> Request {
        let named = |name: &str| ListParams::default().fields(&format!("metadata.name={name}"));
        match self {
            Self::Time => {
                let list = requests_to::<Job>(None).list_metadata(&ListParams::default().limit(1));
                Request::new(Verb::List, resource(FinishedKind::Job), &"", list)
            }
            Self::Object(Key { kind, object }) => {
                let (namespace, only) = (object.namespace.as_deref(), named(&object.name));
                let list = match kind {
                    FinishedKind::Job => requests_to::<Job>(namespace).list(&only),
                    FinishedKind::Pod => requests_to::<Pod>(namespace).list(&only),
                };
                Request::new(Verb::List, resource(*kind), object, list)
            }
            Self::Namespace(name) => {
                let list = requests_to::<Namespace>(None).list_metadata(&named(name));
                Request::new(Verb::List, "namespaces", name, list)
            }
            Self::Page(listed, token) => {
                let mut params = ListParams::default().limit(PAGE);
                params.continue_token = token.as_deref().map(str::to_owned);
                let all = &"in all namespaces";
                match listed {
                    PreviewList::Namespaces => {
                        let list = requests_to::<Namespace>(None).list(&params);
                        Request::new(Verb::List, "namespaces", all, list).read_as::<NamespaceWire>()
                    }
                    PreviewList::Objects(FinishedKind::Job) => {
                        let list = requests_to::<Job>(None).list(&params);
                        Request::new(Verb::List, resource(FinishedKind::Job), all, list)
                            .read_as::<JobCandidateWire>()
                    }
                    PreviewList::Objects(FinishedKind::Pod) => {
                        params.field_selector = Some(crate::FINISHED.to_owned());
                        let list = requests_to::<Pod>(None).list(&params);
                        Request::new(Verb::List, resource(FinishedKind::Pod), all, list).read_as::<PodWire>()
                    }
                }
            }
        }
    }

    fn read(&self, body: &[u8]) -> serde_json::Result<Answer> {
        match self {
            Self::Time => Ok(Answer::Time),
            Self::Object(Key {
                kind: FinishedKind::Job,
                ..
            }) => only::<JobCandidateWire>(body).map(Answer::Object),
            Self::Object(Key {
                kind: FinishedKind::Pod,
                ..
            }) => only::<PodWire>(body).map(Answer::Object),
            Self::Namespace(_) => only::<NamespaceWire>(body).map(Answer::Namespace),
            Self::Page(PreviewList::Namespaces, _) => {
                Page::read::<NamespaceWire>(body).map(Answer::Namespaces)
            }
            Self::Page(PreviewList::Objects(FinishedKind::Job), _) => {
                Page::read::<JobCandidateWire>(body).map(Answer::Objects)
            }
            Self::Page(PreviewList::Objects(FinishedKind::Pod), _) => {
                Page::read::<PodWire>(body).map(Answer::Objects)
            }
        }
    }

    fn serves_for(&self, answer: &Result<Answer, CallFailed>) -> Duration {
        match (self, answer) {
            (Self::Time, Ok(_)) => CLOCK_SERVES,
            (Self::Namespace(_), Ok(_)) => NAMESPACE_SERVES,
            _ => Duration::ZERO,
        }
    }
}

impl controller::Write for Deletion {
    const PLANNED: &'static [&'static str] = &["delete"];

    /// A delete with the state that was judged as its precondition; of a Job, in the foreground.
    fn request(&self) -> Request {
        let params = |propagation_policy| DeleteParams {
            propagation_policy,
            preconditions: Some(Preconditions {
                uid: Some(self.uid.to_string()),
                resource_version: Some(self.version.to_string()),
            }),
            ..DeleteParams::default()
        };
        let ObjectKey { namespace, name } = &self.object;
        let namespace = namespace.as_deref();
        let delete = match self.kind {
            FinishedKind::Job => {
                requests_to::<Job>(namespace).delete(name, &params(Some(PropagationPolicy::Foreground)))
            }
            FinishedKind::Pod => requests_to::<Pod>(namespace).delete(name, &params(None)),
        };
        Request::new(Verb::Delete, resource(self.kind), &self.object, delete)
    }

    fn object(&self) -> Object {
        Object::new(self.kind.resource(), &self.object)
    }

    fn describe(&self) -> Description {
        let Self {
            kind, finish, expiry, ..
        } = self;
        let text = match &self.by {
            By::Ttl => format!("{kind} deleted: finished at {finish}, expired at {expiry}"),
            By::Policy { name, .. } => {
                format!("{kind} deleted by policy {name}: finished at {finish}, due at {expiry}")
            }
        };
        Description::new("delete", text)
    }
}
