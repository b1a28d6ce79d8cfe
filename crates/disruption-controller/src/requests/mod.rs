//! Queries and writes as data: the only file that names verbs and bodies.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-5 | `Query` | `tests/sync/scales/mod.rs::one_read_of_a_scale_serves_all_budgets_for_two_seconds`, `tests/sync/stories/kinds.rs::custom_resources_count_by_their_scale_whenever_they_are_defined` |
//! | DIS-19 | `Query::Owner` | `tests/sync/scales/owners.rs::the_owners_of_many_pods_are_read_once_in_a_while` |
//! | DIS-8 | `StatusWrite` | `tests/sync/requests.rs::one_status_write_is_one_patch_with_every_number`, `tests/sync/races.rs::an_eviction_that_races_a_status_write_is_never_overwritten` |
//! | DIS-15 | `Reset` | `tests/sync/stale.rs::a_stale_condition_is_reset_after_two_minutes` |

mod listing;
mod target;

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{CallFailed, Verb};
use controller_core::cache::Page;
use controller_core::controller::{self, Description, Object, QueryPolicy, Request, requests_to};
use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use derive_where::derive_where;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube_core::params::{ListParams, Patch, PatchParams};
use kube_core::request;
use serde::de::Error;
use serde_json::{Map, Value, json};

pub use self::listing::{Listed, Listing};
pub use self::target::{ANSWER_WITHIN, OWNER_SERVES_FOR, Target};
use crate::decide::StatusPatch as Status;
use crate::discovery::{self, Kind};
use crate::events::LastSync;
use crate::view::{
    DISRUPTION_ALLOWED, DISRUPTION_TARGET, DisruptionTarget, DrainedPod, PdbView, PodView, PodWire,
    WorkloadView,
};

/// How long an answer serves other keys, and how long a missing object is assumed to stay missing.
pub const SERVES_FOR: Duration = Duration::from_secs(2);
/// How long a group or version that is not served is assumed to stay so.
pub const UNKNOWN_FOR: Duration = Duration::from_secs(30);

/// A read that bypasses the caches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// The kinds of this `apiVersion`.
    Kinds(Arc<str>),
    Scale(Target),
    /// What controls this object, which has no scale.
    Owner(Target),
    /// A pod that was to go. By a list, because the controller has no permission to get pods.
    Pod(ObjectKey),
    /// For `explain` and `blockers`.
    Page(Listing),
}

/// The answer to a [`Query`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Kinds(Arc<Vec<Kind>>),
    /// The scale of the object with this uid.
    Scale(Uid, i64),
    /// The controller of the object with this uid.
    Owner(Uid, Option<Arc<OwnerRef>>),
    Pods(Page<PodView>),
    Pdbs(Page<PdbView>),
    Drained(Page<DrainedPod>),
    Workloads(Page<WorkloadView>),
    /// The number of nodes.
    Nodes(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Writes the status of a budget that is still in the state that was judged.
    Status(Arc<StatusWrite>),
    /// Sets the stale condition of a pod to `False`, if the pod is still in the state that was judged.
    Reset(Reset),
}

/// The status of a budget, and what events to record once it is written.
#[derive(Clone, Debug)]
pub struct StatusWrite {
    pub status: Status,
    pub seen: LastSync,
}

/// A reset of the condition `DisruptionTarget` of a pod that stayed.
#[derive_where(PartialEq, Eq)]
#[derive(Clone, Debug)]
pub struct Reset {
    pub pod: ObjectKey,
    pub uid: Uid,
    pub target: Arc<DisruptionTarget>,
    /// The time of the new condition. Another time does not make it another write.
    #[derive_where(skip(EqHashOrd))]
    pub now: Timestamp,
}

/// Ignores the time of the condition: another time does not make it another write.
impl PartialEq for StatusWrite {
    fn eq(&self, other: &Self) -> bool {
        let timeless = |write: &Self| {
            let mut status = write.status.clone();
            status.condition.since = None;
            status
        };
        timeless(self) == timeless(other) && self.seen == other.seen
    }
}

impl Eq for StatusWrite {}

impl controller::Query for Query {
    type Answer = Answer;

    fn request(&self) -> Request {
        match self {
            Self::Kinds(api_version) => {
                let http = http::Request::get(discovery::group_path(api_version)).body(Vec::new());
                let http = http.map_err(request::Error::BuildRequest);
                Request::new(Verb::Get, "discovery", &format!("of {api_version}"), http)
            }
            Self::Scale(target) => target.scale(),
            Self::Owner(target) => target.owner(),
            Self::Pod(pod) => {
                let named = ListParams::default().fields(&format!("metadata.name={}", pod.name));
                let http = requests_to::<Pod>(pod.namespace.as_deref()).list(&named);
                Request::new(Verb::List, "pods", pod, http).read_as::<PodWire>()
            }
            Self::Page(listing) => listing.request(),
        }
    }

    fn read(&self, body: &[u8]) -> serde_json::Result<Answer> {
        Ok(match self {
            Self::Kinds(_) => {
                let listed: APIResourceList = serde_json::from_slice(body)?;
                if listed.group_version.is_empty() {
                    return Err(Error::custom("the answer is no APIResourceList"));
                }
                Answer::Kinds(Arc::new(discovery::kinds(&listed.resources)))
            }
            Self::Scale(_) => target::read_scale(body)?,
            Self::Owner(_) => target::read_owner(body)?,
            Self::Pod(_) => Answer::Pods(Page::read::<PodWire>(body)?),
            Self::Page(listing) => listing.read(body)?,
        })
    }

    fn continued(&self, body: &[u8]) -> Option<Self> {
        let Self::Page(listing) = self else { return None };
        let token = Some(Page::<PodView>::token_of(body)?.into());
        Some(Self::Page(Listing {
            token,
            ..listing.clone()
        }))
    }

    fn policy(&self) -> QueryPolicy {
        match self {
            Self::Scale(target) => target.policy("scales", SERVES_FOR),
            Self::Owner(target) => target.policy("owners", OWNER_SERVES_FOR),
            _ => QueryPolicy {
                shared_for: SERVES_FOR,
                ..QueryPolicy::default()
            },
        }
    }

    fn serves_for(&self, answer: &Result<Answer, CallFailed>) -> Duration {
        serves_for(self, answer)
    }
}

/// How long an answer serves other budgets: a group that is not served most likely stays so for a while.
pub fn serves_for(query: &Query, answer: &Result<Answer, CallFailed>) -> Duration {
    match (query, answer) {
        (Query::Kinds(_), Err(failed)) if failed.code() == Some(404) => UNKNOWN_FOR,
        // Not all of them are read again at once.
        (Query::Owner(target), Ok(_)) => target.owner_serves_for(),
        _ => SERVES_FOR,
    }
}

impl controller::Write for Write {
    const PLANNED: &'static [&'static str] = &["update-status", "reset-condition"];

    fn request(&self) -> Request {
        let key = self.object().key;
        let namespace = key.namespace.as_deref();
        let (resource, requests, body) = match self {
            Self::Status(write) => {
                let requests = requests_to::<PodDisruptionBudget>(namespace);
                (
                    "poddisruptionbudgets.policy/status",
                    requests,
                    status(&write.status),
                )
            }
            Self::Reset(reset) => ("pods/status", requests_to::<Pod>(namespace), condition(reset)),
        };
        let (params, body) = (PatchParams::default(), Patch::Strategic(body));
        let http = requests.patch_subresource("status", &key.name, &params, &body);
        Request::new(Verb::Patch, resource, &key, http)
    }

    fn object(&self) -> Object {
        let (resource, key) = match self {
            Self::Status(write) => ("poddisruptionbudgets", &write.status.pdb.key),
            Self::Reset(reset) => ("pods", &reset.pod),
        };
        Object::new(resource, key)
    }

    fn describe(&self) -> Description {
        match self {
            Self::Status(write) => {
                let text = format!("status written: {}", told(&write.status));
                Description::new("update-status", text)
            }
            Self::Reset(reset) => {
                let text = format!("condition reset: DisruptionTarget since {}", reset.target.since);
                Description::new("reset-condition", text)
            }
        }
    }
}

/// The status as a strategic merge patch: foreign conditions, other entries of `disruptedPods` and unknown fields stay.
fn status(write: &Status) -> Value {
    let condition = &write.condition;
    let mut status = json!({
        "observedGeneration": condition.observed_generation,
        "disruptionsAllowed": write.allowed(),
        "currentHealthy": write.current,
        "conditions": [{
            "type": DISRUPTION_ALLOWED,
            "status": if condition.allowed { "True" } else { "False" },
            "reason": condition.reason,
            "message": condition.message,
            "observedGeneration": condition.observed_generation,
            "lastTransitionTime": condition.since.map(rfc3339),
        }],
    });
    if let Some(numbers) = write.numbers {
        status["desiredHealthy"] = json!(numbers.desired);
        status["expectedPods"] = json!(numbers.expected);
    }
    if !write.dropped.is_empty() {
        let dropped = write.dropped.iter().map(|name| (name.to_string(), Value::Null));
        status["disruptedPods"] = Value::Object(dropped.collect::<Map<_, _>>());
    }
    json!({
        "metadata": { "uid": write.pdb.uid.to_string(), "resourceVersion": write.pdb.version },
        "status": status,
    })
}

fn condition(reset: &Reset) -> Value {
    let mut condition = json!({
        "type": DISRUPTION_TARGET,
        "status": "False",
        "reason": null,
        "message": null,
        "lastTransitionTime": rfc3339(reset.now),
    });
    if reset.target.generation > 0 {
        condition["observedGeneration"] = json!(reset.target.generation);
    }
    json!({
        "metadata": { "uid": reset.uid.to_string(), "resourceVersion": reset.target.version },
        "status": { "conditions": [condition] },
    })
}

fn told(write: &Status) -> String {
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
