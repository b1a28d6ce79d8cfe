//! Decoding that cannot fail: one bad object never fails its page or its watch (CORE-3, CORE-15).

use std::sync::Arc;

use derive_where::derive_where;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::event::{Removed, Skipped, Versioned};
use super::view::{DecodeError, Identity, Wire};
use super::{intern, protobuf};
use crate::meta::{ObjectKey, Uid};

/// An object off the wire: as much of its identity as is readable, and the object or why it cannot be decoded.
#[derive(Clone)]
#[derive_where(Debug)]
pub struct Lenient<W> {
    meta: Meta,
    #[derive_where(skip)]
    object: Result<W, DecodeError>,
}

/// The identity of an object, as far as it is readable: a field that is empty or no string is missing.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    /// `metadata.name`.
    pub name: Option<Arc<str>>,
    /// `metadata.namespace`, interned.
    pub namespace: Option<Arc<str>>,
    /// `metadata.uid`.
    pub uid: Option<Uid>,
    /// `metadata.resourceVersion`.
    pub resource_version: Option<Arc<str>>,
    /// True if it has a `deletionTimestamp`.
    pub is_deleting: bool,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    namespace: Option<&'a RawValue>,
    #[serde(borrow, default)]
    uid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    resource_version: Option<&'a RawValue>,
    #[serde(borrow, default)]
    deletion_timestamp: Option<&'a RawValue>,
}

impl<W: Wire> Lenient<W> {
    /// Reads an object in JSON.
    pub fn read_json(json: &str) -> Self {
        Self {
            meta: read_meta(json).unwrap_or_default(),
            object: serde_json::from_str(json).map_err(|error| DecodeError::Json(Arc::new(error))),
        }
    }

    /// Reads a message without its envelope.
    pub fn read_protobuf(bytes: &[u8]) -> Self {
        let message = W::MESSAGE.unwrap_or(protobuf::METADATA_ONLY);
        let (meta, object) = match protobuf::Object::find(message, bytes) {
            Ok(object) => (Meta::of(&object), object.read()),
            Err(error) => (Meta::default(), Err(error)),
        };
        Self {
            meta,
            object: object.map_err(DecodeError::Protobuf),
        }
    }

    /// Its `resourceVersion`, if readable.
    pub fn version(&self) -> Option<&str> {
        self.meta.resource_version.as_deref()
    }
}

/// What an existing object is to the store.
#[derive(Debug)]
pub enum Presence<V> {
    /// The object is kept.
    Kept(Versioned<V>),
    /// As good as deleted: see [`Wire::is_kept`].
    NotKept(Removed<V>),
}

impl<W: Wire> Lenient<W> {
    /// The object in the form that the store takes.
    pub fn observed(self) -> Result<Presence<W::View>, Skipped> {
        if self.object.as_ref().is_ok_and(|object| !object.is_kept()) {
            return self.removed().map(|removed| {
                // This view is not one of the object that was kept until now.
                Presence::NotKept(Removed {
                    view: None,
                    ..removed
                })
            });
        }
        let Self { meta, object } = self;
        decode(&meta, object)
            .map(Presence::Kept)
            .map_err(|error| skipped(&meta, error))
    }

    /// The object in the form that the store takes when it is gone: a name is enough.
    pub fn removed(self) -> Result<Removed<W::View>, Skipped> {
        let is_kept = self.is_kept();
        let Self { meta, object } = self;
        match meta.identity() {
            Some(Identity { key, uid, version }) => Ok(Removed {
                key,
                uid,
                // Handlers have never received a state that is not kept.
                view: decode(&meta, object)
                    .ok()
                    .filter(|_| is_kept)
                    .map(|observed| observed.view),
                version,
            }),
            None => Err(skipped(&meta, DecodeError::Unnamed)),
        }
    }

    /// The object, also if it is not kept.
    pub(super) fn decoded(self) -> Result<Versioned<W::View>, DecodeError> {
        decode(&self.meta, self.object)
    }

    fn is_kept(&self) -> bool {
        self.object.as_ref().map_or(true, W::is_kept)
    }
}

impl<'de, W: Wire> Deserialize<'de> for Lenient<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self::read_json(json.get()))
    }
}

fn decode<W: Wire>(meta: &Meta, object: Result<W, DecodeError>) -> Result<Versioned<W::View>, DecodeError> {
    let object = object?;
    let identity = meta.identity().ok_or(DecodeError::Unnamed)?;
    let (uid, version) = (identity.uid.clone(), identity.version.clone());
    let view = object.into_view(identity)?;
    Ok(Versioned { view, uid, version })
}

fn skipped(meta: &Meta, error: DecodeError) -> Skipped {
    Skipped {
        key: meta.identity().map(|identity| identity.key),
        uid: meta.uid.clone(),
        version: meta.resource_version.clone(),
        error,
    }
}

impl Meta {
    fn of(object: &protobuf::Object<'_>) -> Self {
        Self {
            name: object.text("name").map(Arc::from),
            namespace: object.text("namespace").as_deref().map(intern),
            uid: object.text("uid").as_deref().map(Uid::from),
            resource_version: object.text("resourceVersion").map(Arc::from),
            is_deleting: object.has("deletionTimestamp"),
        }
    }

    /// `None` if the object has no name.
    fn identity(&self) -> Option<Identity> {
        Some(Identity {
            key: ObjectKey {
                namespace: self.namespace.clone(),
                name: self.name.clone()?,
            },
            uid: self.uid.clone().unwrap_or_default(),
            version: self.resource_version.clone(),
        })
    }
}

/// Reads the identity of an object from any JSON.
///
/// # Errors
///
/// If it is no JSON object.
pub fn read_meta(json: &str) -> serde_json::Result<Meta> {
    let head: Head<'_> = serde_json::from_str(json)?;
    let metadata = head
        .metadata
        .map(|json| serde_json::from_str::<Metadata<'_>>(json.get()));
    let metadata = metadata.and_then(Result::ok).unwrap_or_default();
    let text = |field: Option<&RawValue>| {
        let text: String = serde_json::from_str(field?.get()).ok()?;
        (!text.is_empty()).then_some(text)
    };
    Ok(Meta {
        name: text(metadata.name).map(Arc::from),
        namespace: text(metadata.namespace).as_deref().map(intern),
        uid: text(metadata.uid).as_deref().map(Uid::from),
        resource_version: text(metadata.resource_version).map(Arc::from),
        is_deleting: metadata.deletion_timestamp.is_some(),
    })
}

#[cfg(test)]
mod tests;
