//! Reads of the API server itself, past the cache.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-8 | `LiveNodes::read` | `tests/sync/requests.rs::the_pods_of_a_burst_share_one_read_of_their_node` |

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::dated::{self, Compared};
use controller_core::api::{Call, CallFailed, Caller, Verb};
use controller_core::clock::Clock;
use controller_core::meta::ObjectKey;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Resource;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::decide::clock_ahead;
use crate::view::{FreshNode, NodeWire, PodView, PodWire};

/// How long one read serves the pods of its node.
pub const SERVES_FOR: Duration = Duration::from_secs(2);
/// How long the API server has to answer before the cache decides.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// The nodes as the API server has them now, read once for all evictions of a burst.
pub struct LiveNodes {
    client: kube::Client,
    caller: Caller,
    clock: Clock,
    /// Those who need the same node wait for one read.
    readings: Mutex<HashMap<Arc<str>, Slot>>,
    /// Of the last read that told.
    ahead: Mutex<SignedDuration>,
}

type Slot = Arc<tokio::sync::Mutex<Option<Reading>>>;

/// What a read told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The node, without taints if it is gone; nothing when it could not be read.
    pub node: Option<FreshNode>,
    /// How far our clock is ahead of the API server's (TE-8).
    pub ahead: SignedDuration,
    /// When it ended.
    at: Instant,
}

impl LiveNodes {
    /// Reads through `client`.
    pub fn new(client: kube::Client, caller: Caller, clock: Clock) -> Self {
        Self {
            client,
            caller,
            clock,
            readings: Mutex::default(),
            ahead: Mutex::new(SignedDuration::ZERO),
        }
    }

    /// The node `name` as it was at most [`SERVES_FOR`] ago, and no longer ago than the last
    /// [`LiveNodes::forget`].
    pub async fn read(&self, name: &Arc<str>) -> Reading {
        let slot = Arc::clone(self.readings.lock().entry(Arc::clone(name)).or_default());
        let mut held = slot.lock().await;
        if let Some(reading) = &*held
            && self.clock.instant() - reading.at < SERVES_FOR
        {
            return reading.clone();
        }
        let node = self.ask(name).await;
        let reading = Reading {
            node,
            ahead: *self.ahead.lock(),
            at: self.clock.instant(),
        };
        *held = Some(reading.clone());
        reading
    }

    /// The watch tells of a change of `name`: what was read before says nothing about it.
    pub fn forget(&self, name: &str) {
        self.readings.lock().remove(name);
    }

    async fn ask(&self, name: &str) -> Option<FreshNode> {
        let read = get_node(&self.client, &self.clock, name);
        match self.caller.read(get("nodes", name.to_owned()), read).await {
            Ok(Compared { object, ahead }) => {
                if let Some(ahead) = ahead {
                    *self.ahead.lock() = clock_ahead(ahead);
                }
                Some(object.into_fresh())
            }
            Err(failed) if failed.is_gone() => Some(FreshNode::default()),
            Err(failed) => {
                tracing::warn!(node = name, "the cache decides: {failed}");
                None
            }
        }
    }
}

/// What `explain` reads: the pod and its node; nothing when there is no such pod, or it is bound to no node.
pub async fn pod_and_node(
    client: &kube::Client,
    caller: &Caller,
    clock: &Clock,
    key: &ObjectKey,
) -> Result<Option<(PodView, Compared<FreshNode>)>, CallFailed> {
    let path = Pod::url_path(&(), key.namespace.as_deref());
    let read = dated::get::<PodWire>(client, &path, &key.name);
    let pod = match caller.read(get("pods", key.to_string()), read).await {
        Ok(pod) => pod.object.into_fresh(key.clone()),
        Err(failed) if failed.is_gone() => None,
        Err(failed) => return Err(failed),
    };
    let Some(pod) = pod else { return Ok(None) };
    let read = get_node(client, clock, &pod.node);
    let node = match caller.read(get("nodes", pod.node.to_string()), read).await {
        Ok(Compared { object, ahead }) => Compared {
            object: object.into_fresh(),
            ahead,
        },
        Err(failed) if failed.is_gone() => Compared {
            object: FreshNode::default(),
            ahead: None,
        },
        Err(failed) => return Err(failed),
    };
    Ok(Some((pod, node)))
}

async fn get_node(client: &kube::Client, clock: &Clock, name: &str) -> kube::Result<Compared<NodeWire>> {
    let path = Node::url_path(&(), None);
    dated::get_within(client, clock, ANSWER_WITHIN, &path, name).await
}

fn get(resource: &'static str, target: String) -> Call {
    Call {
        verb: Verb::Get,
        resource,
        target,
    }
}
