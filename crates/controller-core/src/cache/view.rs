//! What is decoded from the wire, and the smaller view of it that the store keeps.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::protobuf::Message;
use super::{Interned, intern};
use crate::meta::{ObjectKey, OwnerRef, Uid, read_text};

/// `0001-01-01T00:00:00Z` in seconds since 1970: the way Go writes a time that was never set, if it writes one.
const GO_ZERO_TIME: i64 = -62_135_596_800;

/// What the store keeps of an object: only what a rule reads.
///
/// `==` answers "has anything changed that a rule reads?": an update that leaves the view equal enqueues nothing. So a
/// view holds no `resourceVersion` unless a rule needs it.
pub trait View: PartialEq + Send + Sync + 'static {
    /// What objects are looked up by, apart from their key: an enum per kind, for example `Node(Arc<str>) |
    /// Owner(Uid)`; [`std::convert::Infallible`] if nothing.
    type Index: Clone + Eq + Hash + Debug + Send + Sync + 'static;

    /// The object's key, as [`Wire::into_view`] received it.
    fn key(&self) -> &ObjectKey;

    /// Appends every index value that finds this object; none by default. A value named twice counts once.
    fn index(&self, out: &mut Vec<Self::Index>) {
        let _ = out;
    }
}

/// The shape of an object on the wire; serde skips every field that it does not name.
///
/// The type reads both JSON and protobuf. It is separate from the [`View`], so that nothing behind it depends on the
/// encoding. kube's lists require `Clone`; nothing is cloned.
pub trait Wire: DeserializeOwned + Clone + Send + 'static {
    /// What the store keeps of the object.
    type View: View;

    /// True if only `metadata` is read: the API server then receives requests for `PartialObjectMetadata` and leaves
    /// out the rest.
    const METADATA_ONLY: bool = false;

    /// The protobuf fields that are read, [`METADATA`](super::protobuf::METADATA) among them; `None` if the object is
    /// only read in JSON.
    const MESSAGE: Option<Message> = None;

    /// Returns whether any rule may ever act on the object as it is now. For the store and its handlers, an object that
    /// is not kept does not exist.
    fn is_kept(&self) -> bool {
        true
    }

    /// Keeps what the rules read; an error if the view cannot represent it. Texts that many objects share (namespaces,
    /// the names of nodes) are [`Interned`], or go through [`intern`].
    fn into_view(self, object: Identity) -> Result<Self::View, DecodeError>;
}

/// An object and one of its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Namespace (interned) and name.
    pub key: ObjectKey,
    /// `metadata.uid`; empty if the object has none.
    pub uid: Uid,
    /// `metadata.resourceVersion`, if the source knows it.
    pub version: Option<Arc<str>>,
}

/// An entry of `metadata.ownerReferences`, as a [`Wire`] decodes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerWire {
    #[serde(default)]
    api_version: Interned,
    #[serde(default)]
    kind: Interned,
    #[serde(default)]
    name: Interned,
    #[serde(default)]
    uid: Uid,
    #[serde(default)]
    controller: Option<bool>,
}

/// Why an object cannot be kept.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The object does not have the shape of its [`Wire`].
    #[error("decode the object")]
    Json(#[source] Arc<serde_json::Error>),
    /// The object in protobuf does not have the shape of its [`Wire`].
    #[error("decode the object")]
    Protobuf(#[source] super::protobuf::Error),
    /// `metadata.name` is missing, empty or no string.
    #[error("the object has no name")]
    Unnamed,
    /// A field holds a value that the view cannot represent; the text says which.
    #[error("{0}")]
    Unrepresentable(String),
}

impl Identity {
    /// Takes namespace, name, uid and resourceVersion as the metadata of an object has them.
    pub fn of(namespace: Option<&str>, name: &str, uid: &str, version: Option<&str>) -> Self {
        Self {
            key: ObjectKey {
                namespace: namespace.map(intern),
                name: name.into(),
            },
            uid: uid.into(),
            version: version.map(Arc::from),
        }
    }
}

impl OwnerWire {
    /// The owner that manages the object (`controller: true`), if one of `owners` does.
    pub fn controller(owners: Vec<Self>) -> Option<OwnerRef> {
        let mut owners = owners.into_iter();
        let owner = owners.find(|owner| owner.controller == Some(true))?;
        Some(OwnerRef {
            api_version: owner.api_version.into(),
            kind: owner.kind.into(),
            name: owner.name.into(),
            uid: owner.uid,
            controller: true,
        })
    }
}

/// Reads a `metav1.Time` in a [`Wire`] (`#[serde(default, deserialize_with = "time")]`). `None` if the time was never
/// set or cannot be represented: a bad time must not cost the object.
pub fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<Time>::deserialize(deserializer)?.and_then(|Time(time)| time))
}

struct Time(Option<Timestamp>);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let time = read_text(deserializer, |text| text.parse::<Timestamp>().ok())?;
        Ok(Self(time.filter(|time| time.as_second() != GO_ZERO_TIME)))
    }
}
