//! What is decoded from the wire, and the smaller thing that is kept of it.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::protobuf::Message;
use super::{Interned, intern};
use crate::meta::{ObjectKey, OwnerRef, Uid, read_text};

/// `0001-01-01T00:00:00Z` in seconds since 1970: how Go writes a time that was never set, where it writes it.
const GO_ZERO_TIME: i64 = -62_135_596_800;

/// What the store keeps of an object: only what a rule reads.
///
/// `==` answers "has anything changed that a rule reads?": an update that leaves the view equal wakes
/// nothing. So a view holds no `resourceVersion` unless a rule needs it.
pub trait View: PartialEq + Send + Sync + 'static {
    /// What objects are looked up by besides their key: an enum per kind, for example
    /// `Node(Arc<str>) | Owner(Uid)`; [`std::convert::Infallible`] when there is nothing.
    type Index: Clone + Eq + Hash + Debug + Send + Sync + 'static;

    /// The object's name; the one [`Wire::into_view`] was given.
    fn key(&self) -> &ObjectKey;

    /// Appends every index value that this object is found under; none, unless said otherwise. A value named twice counts
    /// once.
    fn index(&self, out: &mut Vec<Self::Index>) {
        let _ = out;
    }
}

/// The shape of an object on the wire; serde skips every field that it does not name.
///
/// It is read from JSON and from protobuf alike, and kept apart from the [`View`], so that the encoding changes nothing
/// behind it. `Clone` is asked for by kube's lists; nothing is cloned.
pub trait Wire: DeserializeOwned + Clone + Send + 'static {
    /// What is kept of it.
    type View: View;

    /// Whether `metadata` is all that is read: the API server is then asked for
    /// `PartialObjectMetadata` and leaves out the rest.
    const METADATA_ONLY: bool = false;

    /// The fields that are read of the object in protobuf, [`METADATA`](super::protobuf::METADATA) among them; `None` where
    /// it is only read in JSON.
    const MESSAGE: Option<Message> = None;

    /// Whether any rule may ever act on the object as it is now. One that is not kept is to the store and its
    /// handlers as if it did not exist.
    fn is_kept(&self) -> bool {
        true
    }

    /// Keeps what the rules read. Texts that many objects share (namespaces, the names of nodes) are
    /// [`Interned`], or go through [`intern`].
    fn into_view(self, object: Identity) -> Result<Self::View, DecodeError>;
}

/// Which object, and which version of it.
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
    /// The same, of an object in protobuf.
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
    /// As the metadata of an object has it: namespace, name, uid, resourceVersion.
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

/// Reads a `metav1.Time` in a [`Wire`] (`#[serde(default, deserialize_with = "time")]`): nothing when it was never set,
/// or is none that can be represented; that must not cost the object.
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
