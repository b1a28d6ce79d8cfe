//! Queries and writes as data: the only file that names verbs and bodies.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-8 | `Query` | `tests/sync/requests.rs::the_pods_of_a_burst_share_one_read_of_their_node` |
//! | TE-9 | `Write` | `tests/sync/requests.rs::an_eviction_is_one_read_of_the_node_a_condition_and_a_delete` |

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::Verb;
use controller_core::cache::Versioned;
use controller_core::controller::{self, Description, Object, QueryPolicy, Request, requests_to};
use controller_core::meta::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube_core::Request as Http;
use kube_core::params::{DeleteParams, GetParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use crate::decide::Eviction;
use crate::view::{NodeWire, PodView, PodWire, Taint};

/// How long one read of a node serves its pods.
pub const SERVES_FOR: Duration = Duration::from_secs(2);
/// How long the API server may take to answer a query before the cache decides.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(1);
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
}

/// The answer to a [`Query`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The `NoExecute` taints of the node.
    Node(Vec<Taint>),
    /// The pod; `None` if it is bound to no node.
    Pod(Option<PodView>),
}

/// One of the two writes that evict a pod.
#[derive(Clone, Debug)]
pub enum Write {
    /// Writes the condition `DisruptionTarget`, true since this time.
    Mark(Eviction, Timestamp),
    /// Deletes this very pod, not a later one of the same name.
    Delete(Eviction),
}

/// Ignores when the condition turned true.
impl PartialEq for Write {
    fn eq(&self, other: &Self) -> bool {
        self.is_mark() == other.is_mark() && self.eviction() == other.eviction()
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
        }
    }

    fn read(&self, body: &[u8]) -> serde_json::Result<Answer> {
        Ok(match self {
            Self::Node { .. } => {
                let kept = Versioned::read::<NodeWire>(body)?;
                Answer::Node(kept.map(|node| node.view.taints).unwrap_or_default())
            }
            Self::Pod(_) => Answer::Pod(Versioned::read::<PodWire>(body)?.map(|pod| pod.view)),
        })
    }

    fn policy(&self) -> QueryPolicy {
        QueryPolicy {
            shared_for: SERVES_FOR,
            ..QueryPolicy::default()
        }
    }
}

impl Write {
    pub const fn eviction(&self) -> &Eviction {
        let (Self::Mark(eviction, _) | Self::Delete(eviction)) = self;
        eviction
    }

    /// True for the write of the condition.
    pub const fn is_mark(&self) -> bool {
        matches!(self, Self::Mark(..))
    }
}

impl controller::Write for Write {
    const PLANNED: &'static [&'static str] = &["evict"];

    fn request(&self) -> Request {
        let pod = &self.eviction().pod;
        match self {
            Self::Mark(eviction, since) => {
                let patch = Patch::Strategic(condition(eviction, *since));
                let http =
                    pods_of(pod).patch_subresource("status", &pod.name, &PatchParams::default(), &patch);
                Request::new(Verb::Patch, "pods/status", pod, http)
            }
            Self::Delete(eviction) => {
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid: Some(eviction.uid.to_string()),
                        resource_version: None,
                    }),
                    ..DeleteParams::default()
                };
                Request::new(Verb::Delete, "pods", pod, pods_of(pod).delete(&pod.name, &params))
            }
        }
    }

    fn object(&self) -> Object {
        Object::new("pods", &self.eviction().pod)
    }

    fn describe(&self) -> Description {
        let because = why_evicted(self.eviction());
        let (action, what) = match self {
            Self::Mark(..) => ("mark", "condition DisruptionTarget written"),
            Self::Delete(_) => ("evict", "pod deleted"),
        };
        Description::new(action, format!("{what}: {because}"))
    }

    /// A dry run counts an eviction once, by its delete.
    fn is_planned(&self) -> bool {
        !self.is_mark()
    }
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
