//! Reads of the scale and of the controller of one object of any kind.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::Verb;
use controller_core::cache::OwnerWire;
use controller_core::controller::{QueryPolicy, Request};
use controller_core::meta::{OwnerRef, Uid};
use kube_core::Request as Http;
use kube_core::params::GetParams;
use serde::Deserialize;

use super::Answer;
use crate::discovery::{self, Kind};

/// How long the API server may take to answer: until then a status stays as it is, afterwards it allows nothing.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long the controller of an owner is assumed to stay, at least; twice this at most. Its uid stays for good.
pub const OWNER_SERVES_FOR: Duration = Duration::from_mins(10);
/// Most reads of scales, and of owners, of one `apiVersion` in flight at a time: reads that hang must hold up no other.
const AT_ONCE: usize = 16;

/// The object whose scale or controller is read, and its path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// The namespace of the pod that names the object.
    pub namespace: Arc<str>,
    pub api_version: Arc<str>,
    /// The plural name of its resource.
    pub plural: Arc<str>,
    /// The object is in that namespace, not cluster-scoped.
    pub namespaced: bool,
    pub name: Arc<str>,
    /// An answer about one object says nothing of the next one with its name.
    pub uid: Uid,
}

impl Target {
    /// The target for `owner`, an object of this kind, named by a pod in `namespace`.
    pub fn new(namespace: &Arc<str>, owner: &OwnerRef, kind: &Kind) -> Self {
        Self {
            namespace: Arc::clone(namespace),
            api_version: Arc::clone(&owner.api_version),
            plural: kind.plural.as_str().into(),
            namespaced: kind.namespaced,
            name: Arc::clone(&owner.name),
            uid: owner.uid.clone(),
        }
    }

    /// The verbs of the resource, and what a message calls the object.
    fn requests(&self) -> (Http, String) {
        let Self {
            namespace,
            plural,
            name,
            ..
        } = self;
        let root = discovery::group_path(&self.api_version);
        let path = if self.namespaced {
            format!("{root}/namespaces/{namespace}/{plural}")
        } else {
            format!("{root}/{plural}")
        };
        let resource = discovery::resource(&self.api_version, plural);
        let target = format!("of {resource} {namespace}/{name}");
        (Http::new(path), target)
    }

    pub(super) fn scale(&self) -> Request {
        let (requests, target) = self.requests();
        let http = requests.get_subresource("scale", &self.name);
        Request::new(Verb::Get, "*/scale", &target, http).answered_within(ANSWER_WITHIN)
    }

    pub(super) fn owner(&self) -> Request {
        let (requests, target) = self.requests();
        let http = requests.get_metadata(&self.name, &GetParams::default());
        Request::new(Verb::Get, "metadata", &target, http).answered_within(ANSWER_WITHIN)
    }

    pub(super) fn policy(&self, what: &str, shared_for: Duration) -> QueryPolicy {
        QueryPolicy {
            kind: Cow::Owned(format!("{what} of {}", self.api_version)),
            at_most: AT_ONCE,
            shared_for,
        }
    }

    /// Differs by the uid, so that not all owners are read again at once.
    pub(super) fn owner_serves_for(&self) -> Duration {
        let bytes = self.uid.to_string().into_bytes().into_iter();
        let sum = bytes.fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        OWNER_SERVES_FOR + OWNER_SERVES_FOR * (sum % 1000) / 1000
    }
}

pub(super) fn read_scale(body: &[u8]) -> serde_json::Result<Answer> {
    let ScaleWire { metadata, spec } = serde_json::from_slice(body)?;
    Ok(Answer::Scale(
        Uid::from(&*metadata.uid),
        spec.replicas.unwrap_or_default(),
    ))
}

pub(super) fn read_owner(body: &[u8]) -> serde_json::Result<Answer> {
    let OwnedWire { metadata } = serde_json::from_slice(body)?;
    let controller = metadata.owner_references.and_then(OwnerWire::controller);
    Ok(Answer::Owner(metadata.uid, controller.map(Arc::new)))
}

/// An object as `PartialObjectMetadata`.
#[derive(Deserialize)]
struct OwnedWire {
    metadata: OwnedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnedMetadata {
    uid: Uid,
    owner_references: Option<Vec<OwnerWire>>,
}

#[derive(Deserialize)]
struct ScaleWire {
    metadata: ScaleMetadata,
    #[serde(default)]
    spec: ScaleSpec,
}

#[derive(Deserialize)]
struct ScaleMetadata {
    uid: String,
}

#[derive(Default, Deserialize)]
struct ScaleSpec {
    /// Left out if 0.
    replicas: Option<i64>,
}
