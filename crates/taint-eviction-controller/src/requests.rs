//! Queries and writes as data: the only file that names verbs and bodies.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-8 | `Query` | `tests/sync/requests.rs::the_pods_of_a_burst_share_one_read_of_their_node` |
//! | TE-9 | `Write` | `tests/sync/requests.rs::an_eviction_is_one_read_of_the_node_a_condition_and_a_delete` |

use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::Verb;
use controller_core::cache::Versioned;
use controller_core::controller::{self, Description, Object, QueryPolicy, Request, requests_to};
use controller_core::meta::{ObjectKey, Uid};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube_core::Request as Http;
use kube_core::params::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use crate::brake::Note;
use crate::decide::{Eviction, LeaseNotes};
use crate::view::{NodeWire, PodView, PodWire, Taint};

/// How long one read of a node serves its pods.
pub const SERVES_FOR: Duration = Duration::from_secs(2);
/// How long the API server may take to answer a query before the cache decides.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(1);
const LEASES: &str = "leases.coordination.k8s.io";
/// The annotations of the Lease: a person's, and the leader's two.
pub const OFF_UNTIL: &str = "eviction-brake-off-until";
pub const EVICTING_UNTIL: &str = "eviction-brake-evicting-until";
pub const ENGAGED_SINCE: &str = "eviction-brake-engaged-since";
/// Source: `taint_eviction.go`, `addConditionAndDeletePod`.
const CONDITION_REASON: &str = "DeletionByTaintManager";
const CONDITION_MESSAGE: &str = "Taint manager: deleting due to NoExecute taint";

/// A read that bypasses the cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// A node as of this change or later: answers from before it do not count.
    Node {
        name: Arc<str>,
        /// The number of the node's last change that the watch has shown.
        change: u64,
    },
    /// A pod, for `explain`.
    Pod(ObjectKey),
    /// What the Lease says of the brake.
    Lease(ObjectKey),
}

/// The answer to a [`Query`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The `NoExecute` taints of the node.
    Node(Vec<Taint>),
    /// The pod; `None` if it is bound to no node.
    Pod(Option<PodView>),
    /// The Lease.
    Lease(LeaseRead),
}

/// The Lease as it was read; empty if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseRead {
    pub uid: Uid,
    /// What the annotations say.
    pub notes: LeaseNotes,
    /// The whole object, for an update.
    pub object: Arc<Value>,
}

/// A write: the two that evict a pod, and the brake's.
#[derive(Clone, Debug)]
pub enum Write {
    /// Writes the condition `DisruptionTarget`, true since this time.
    Mark(Eviction, Timestamp),
    /// Deletes this very pod, not a later one of the same name.
    Delete(Eviction),
    /// Deletes it unless a budget refuses; then the API server writes the condition itself.
    Evict(Eviction),
    /// Says on this Lease, which must still be as it was read, what the brake does.
    Note(ObjectKey, Note, Arc<Value>),
}

/// Ignores when the condition turned true, until when a leader may evict, and what else is on the Lease.
impl PartialEq for Write {
    fn eq(&self, other: &Self) -> bool {
        let note = |write: &Self| match write {
            Self::Note(lease, note, _) => Some((lease.clone(), note.engaged_since)),
            Self::Mark(..) | Self::Delete(_) | Self::Evict(_) => None,
        };
        discriminant(self) == discriminant(other)
            && self.eviction() == other.eviction()
            && note(self) == note(other)
    }
}

impl Eq for Write {}

impl controller::Query for Query {
    type Answer = Answer;

    fn request(&self) -> Request {
        let params = GetParams::default();
        match self {
            Self::Node { name, .. } => {
                let http = requests_to::<Node>(None).get(name, &params);
                let request = Request::new(Verb::Get, "nodes", name, http);
                request.read_as::<NodeWire>().answered_within(ANSWER_WITHIN)
            }
            Self::Pod(pod) => {
                let http = pods_of(pod).get(&pod.name, &params);
                Request::new(Verb::Get, "pods", pod, http).read_as::<PodWire>()
            }
            Self::Lease(lease) => {
                let http = leases_of(lease).get(&lease.name, &params);
                Request::new(Verb::Get, LEASES, lease, http)
            }
        }
    }

    fn read(&self, body: &[u8]) -> serde_json::Result<Answer> {
        Ok(match self {
            Self::Node { .. } => {
                let kept = Versioned::read::<NodeWire>(body)?;
                Answer::Node(kept.map(|node| node.view.taints).unwrap_or_default())
            }
            Self::Pod(_) => Answer::Pod(Versioned::read::<PodWire>(body)?.map(|pod| pod.view)),
            Self::Lease(_) => Answer::Lease(LeaseRead::of(serde_json::from_slice(body)?)),
        })
    }

    fn policy(&self) -> QueryPolicy {
        let shared_for = match self {
            Self::Node { .. } | Self::Pod(_) => SERVES_FOR,
            Self::Lease(_) => Duration::ZERO,
        };
        QueryPolicy {
            shared_for,
            ..QueryPolicy::default()
        }
    }
}

impl Write {
    /// The eviction that the write is a part of, if any.
    pub const fn eviction(&self) -> Option<&Eviction> {
        match self {
            Self::Mark(eviction, _) | Self::Delete(eviction) | Self::Evict(eviction) => Some(eviction),
            Self::Note(..) => None,
        }
    }

    /// True for the write of the condition.
    pub const fn is_mark(&self) -> bool {
        matches!(self, Self::Mark(..))
    }
}

impl controller::Write for Write {
    const PLANNED: &'static [&'static str] = &["evict"];

    fn request(&self) -> Request {
        match self {
            Self::Mark(eviction, since) => {
                let pod = &eviction.pod;
                let patch = Patch::Strategic(condition(eviction, *since));
                let http =
                    pods_of(pod).patch_subresource("status", &pod.name, &PatchParams::default(), &patch);
                Request::new(Verb::Patch, "pods/status", pod, http)
            }
            Self::Delete(eviction) => {
                let pod = &eviction.pod;
                let params = delete_params(eviction);
                Request::new(Verb::Delete, "pods", pod, pods_of(pod).delete(&pod.name, &params))
            }
            Self::Evict(eviction) => {
                let pod = &eviction.pod;
                // Not kube's own `evict`, which misspells the options and so loses the uid.
                let body = serde_json::to_vec(&eviction_of(eviction)).unwrap_or_default();
                let http =
                    pods_of(pod).create_subresource("eviction", &pod.name, &PostParams::default(), body);
                Request::new(Verb::Create, "pods/eviction", pod, http)
            }
            Self::Note(lease, note, object) => {
                let body = serde_json::to_vec(&with_note(object, note)).unwrap_or_default();
                let http = leases_of(lease).replace(&lease.name, &PostParams::default(), body);
                Request::new(Verb::Update, LEASES, lease, http)
            }
        }
    }

    fn object(&self) -> Object {
        match self {
            Self::Mark(eviction, _) | Self::Delete(eviction) | Self::Evict(eviction) => {
                Object::new("pods", &eviction.pod)
            }
            Self::Note(lease, ..) => Object::new(LEASES, lease),
        }
    }

    fn describe(&self) -> Description {
        let (action, what, eviction) = match self {
            Self::Mark(eviction, _) => ("mark", "condition DisruptionTarget written", eviction),
            Self::Delete(eviction) => ("evict", "pod deleted", eviction),
            Self::Evict(eviction) => ("evict", "pod evicted as its budgets allow", eviction),
            Self::Note(..) => return Description::new("note", "annotations of the brake written"),
        };
        Description::new(action, format!("{what}: {}", why_evicted(eviction)))
    }

    /// A dry run counts an eviction once, by its delete.
    fn is_planned(&self) -> bool {
        matches!(self, Self::Delete(_) | Self::Evict(_))
    }
}

fn eviction_of(eviction: &Eviction) -> Value {
    let Eviction { pod, uid, .. } = eviction;
    json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "namespace": pod.namespace, "name": pod.name },
        "deleteOptions": { "preconditions": { "uid": uid.to_string() } },
    })
}

/// For this very pod.
fn delete_params(eviction: &Eviction) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(eviction.uid.to_string()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

fn leases_of(lease: &ObjectKey) -> Http {
    requests_to::<Lease>(lease.namespace.as_deref())
}

impl LeaseRead {
    fn of(object: Value) -> Self {
        let text = |name| object["metadata"]["annotations"][name].as_str();
        // What is no time was not written by a leader.
        let time = |name| text(name).and_then(|text| text.parse().ok());
        Self {
            uid: object["metadata"]["uid"].as_str().unwrap_or_default().into(),
            notes: LeaseNotes {
                off_until: text(OFF_UNTIL).map(str::to_owned),
                evicting_until: time(EVICTING_UNTIL),
                engaged_since: time(ENGAGED_SINCE),
            },
            object: Arc::new(object),
        }
    }
}

/// The Lease with these annotations of the leader's. While this one has let nothing go, the time of the one before it
/// stays: what that one evicted still counts.
fn with_note(lease: &Value, note: &Note) -> Value {
    let mut lease = lease.clone();
    if let Some(metadata) = lease["metadata"].as_object_mut() {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(until) = note.evicting_until {
            annotations[EVICTING_UNTIL] = json!(until.to_string());
        }
        annotations[ENGAGED_SINCE] = json!(note.engaged_since.map(|since| since.to_string()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.retain(|_, value| !value.is_null());
        }
    }
    lease
}

fn pods_of(pod: &ObjectKey) -> Http {
    requests_to::<Pod>(pod.namespace.as_deref())
}

/// A strategic merge patch, which keeps the pod's other conditions. The uid restricts the patch to this pod.
fn condition(eviction: &Eviction, since: Timestamp) -> Value {
    let mut condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": CONDITION_REASON,
        "message": CONDITION_MESSAGE,
        "lastTransitionTime": since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    });
    if eviction.generation > 0 {
        condition["observedGeneration"] = json!(eviction.generation);
    }
    json!({
        "metadata": { "uid": eviction.uid.to_string() },
        "status": { "conditions": [condition] },
    })
}

fn why_evicted(eviction: &Eviction) -> String {
    why(&eviction.taint, &eviction.node, eviction.deadline)
}

/// Why a pod is evicted, for events, the log and the condition.
pub(crate) fn why(taint: &Taint, node: &str, deadline: Timestamp) -> String {
    format!("taint {taint} of node {node}, deadline {deadline:.0}")
}
