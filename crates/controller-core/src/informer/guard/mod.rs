//! Decoding that cannot fail: one bad object never fails its page or its watch (CORE-3, CORE-15).

use std::fmt;
use std::sync::Arc;

use derive_where::derive_where;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::encoding::ListPage;
use super::source::{Removed, Skipped, Versioned};
use super::view::{DecodeError, Identity, Wire};
use super::{intern, protobuf};
use crate::config::Encoding;
use crate::error::Chain;
use crate::meta::{ObjectKey, Uid};

/// An object off the wire: as much of its identity as is readable, and the object or why it cannot be decoded.
#[derive(Clone)]
#[derive_where(Debug)]
pub(super) struct Lenient<W> {
    meta: Meta,
    #[derive_where(skip)]
    object: Result<W, DecodeError>,
}

/// The identity of an object, as far as it is readable: a field that is empty or no string is missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meta {
    pub(crate) name: Option<Arc<str>>,
    /// Interned.
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) uid: Option<Uid>,
    pub(crate) resource_version: Option<Arc<str>>,
    /// True if it has a `deletionTimestamp`.
    pub(crate) is_deleting: bool,
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
    pub(super) fn read_json(json: &str) -> Self {
        Self {
            meta: read_meta(json),
            object: serde_json::from_str(json).map_err(|error| DecodeError::Json(Arc::new(error))),
        }
    }

    /// Reads a message without its envelope.
    pub(super) fn read_protobuf(bytes: &[u8]) -> Self {
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
    pub(super) fn version(&self) -> Option<&str> {
        self.meta.resource_version.as_deref()
    }
}

/// A page of a list that was read past the watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<V> {
    /// The objects of the page, without those that are not kept or cannot be decoded.
    pub items: Vec<Versioned<V>>,
    /// Continues the list, if there is more of it.
    pub token: Option<String>,
}

impl<V> Page<V> {
    /// Reads the body of an answer, in either encoding; each object as an informer of `W` does.
    pub fn read<W: Wire<View = V>>(body: &[u8]) -> serde_json::Result<Self> {
        let page: ListPage<W> = encoding_of(body).page(body).map_err(unreadable)?;
        let observed = page.items.into_iter().map(Lenient::observed);
        let kept = observed.filter_map(|presence| match presence {
            Ok(Presence::Kept(observed)) => Some(observed),
            Ok(Presence::NotKept(_)) | Err(_) => None,
        });
        Ok(Self {
            items: kept.collect(),
            token: page.token,
        })
    }
}

impl<V> Versioned<V> {
    /// Reads the body of an answer, in either encoding, as an informer of `W` does; `None` if the object is not kept.
    pub fn read<W: Wire<View = V>>(body: &[u8]) -> serde_json::Result<Option<Self>> {
        match lenient::<W>(body)?.observed() {
            Ok(Presence::Kept(observed)) => Ok(Some(observed)),
            Ok(Presence::NotKept(_)) => Ok(None),
            Err(skipped) => Err(unreadable(skipped.error)),
        }
    }

    /// Like [`read`](Self::read), but also reads an object that is not kept.
    pub fn read_any<W: Wire<View = V>>(body: &[u8]) -> serde_json::Result<Self> {
        let Lenient { meta, object } = lenient::<W>(body)?;
        decode(&meta, object).map_err(|error| unreadable(Chain(&error)))
    }
}

fn lenient<W: Wire>(body: &[u8]) -> serde_json::Result<Lenient<W>> {
    match encoding_of(body) {
        Encoding::Json => serde_json::from_slice(body),
        Encoding::Protobuf => protobuf::unwrapped(body)
            .map(Lenient::read_protobuf)
            .map_err(unreadable),
    }
}

fn encoding_of(body: &[u8]) -> Encoding {
    if protobuf::is_enveloped(body) {
        Encoding::Protobuf
    } else {
        Encoding::Json
    }
}

fn unreadable(why: impl fmt::Display) -> serde_json::Error {
    serde::de::Error::custom(why)
}

/// What an existing object is to the store.
#[derive(Debug)]
pub(super) enum Presence<V> {
    Kept(Versioned<V>),
    /// As good as deleted: see [`Wire::is_kept`].
    NotKept(Removed<V>),
}

impl<W: Wire> Lenient<W> {
    /// The object in the form that the store takes.
    pub(super) fn observed(self) -> Result<Presence<W::View>, Skipped> {
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
    pub(super) fn removed(self) -> Result<Removed<W::View>, Skipped> {
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
pub(crate) fn read_meta(json: &str) -> Meta {
    let metadata = serde_json::from_str::<Head<'_>>(json)
        .ok()
        .and_then(|head| serde_json::from_str::<Metadata<'_>>(head.metadata?.get()).ok())
        .unwrap_or_default();
    let text = |field: Option<&RawValue>| {
        let text: String = serde_json::from_str(field?.get()).ok()?;
        (!text.is_empty()).then_some(text)
    };
    Meta {
        name: text(metadata.name).map(Arc::from),
        namespace: text(metadata.namespace).as_deref().map(intern),
        uid: text(metadata.uid).as_deref().map(Uid::from),
        resource_version: text(metadata.resource_version).map(Arc::from),
        is_deleting: metadata.deletion_timestamp.is_some(),
    }
}

#[cfg(test)]
mod tests;
