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
        match guarded::<W>(body)?.observed() {
            Ok(Presence::Kept(observed)) => Ok(Some(observed)),
            Ok(Presence::NotKept(_)) => Ok(None),
            Err(skipped) => Err(unreadable(skipped.error)),
        }
    }

    /// Like [`read`](Self::read), but also reads an object that is not kept.
    pub fn read_any<W: Wire<View = V>>(body: &[u8]) -> serde_json::Result<Self> {
        let Lenient { meta, object } = guarded::<W>(body)?;
        decode(&meta, object).map_err(|error| unreadable(Chain(&error)))
    }
}

fn guarded<W: Wire>(body: &[u8]) -> serde_json::Result<Lenient<W>> {
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
mod tests {
    use std::collections::BTreeMap;

    use kube::core::ObjectList;

    use super::*;
    use crate::informer::View;
    use crate::informer::protobuf::{FieldKind, METADATA, Message, TEXTS_BY_NAME};

    #[derive(Clone, Deserialize)]
    struct Strict {
        spec: u8,
    }

    #[derive(PartialEq)]
    struct Kept(ObjectKey, u8);

    impl View for Kept {
        type Index = std::convert::Infallible;

        fn key(&self) -> &ObjectKey {
            &self.0
        }

        fn index(&self, _: &mut Vec<Self::Index>) {}
    }

    impl Wire for Strict {
        type View = Kept;

        const MESSAGE: Option<Message> = Some(&[METADATA, (2, "spec", FieldKind::Int)]);

        fn into_view(self, object: Identity) -> Result<Kept, DecodeError> {
            Ok(Kept(object.key, self.spec))
        }
    }

    #[test]
    fn a_deletion_at_a_time_that_cannot_be_represented_is_a_deletion() {
        let deleting = |time: &str| {
            let object = format!(r#"{{"metadata":{{"deletionTimestamp":{time}}}}}"#);
            read_meta(&object).is_deleting
        };
        let times = [
            r#""2026-01-01T00:00:00Z""#,
            r#""99999-01-01T00:00:00Z""#,
            r#""soon""#,
            "null",
        ];
        assert_eq!(times.map(deleting), [true, true, true, false]);
    }

    const BAD: &str = r#"{"spec":256,"metadata":{"name":"n","namespace":7,"uid":"u","resourceVersion":"5"}}"#;

    fn assert_skipped(object: Lenient<Strict>, why: &str) {
        assert_eq!(object.version(), Some("5"));
        let Err(skipped) = object.observed() else {
            panic!("256 is no u8");
        };
        assert_eq!(
            skipped.key,
            Some(ObjectKey::cluster("n")),
            "what is readable is kept"
        );
        assert_eq!(skipped.uid, Some(Uid::from("u")));
        assert_eq!(skipped.version.as_deref(), Some("5"));
        assert_eq!(
            Chain(&skipped.error).to_string(),
            format!("decode the object: invalid value: integer `256`, expected u8{why}")
        );
    }

    #[test]
    fn a_bad_object_does_not_fail_its_list() {
        let json =
            format!(r#"{{"kind":"L","apiVersion":"v1","metadata":{{}},"items":[{BAD},null,{{"spec":1}}]}}"#);
        let list: ObjectList<Lenient<Strict>> = serde_json::from_str(&json).unwrap();
        assert_eq!(list.items.len(), 3);
        let bad = list.items.into_iter().next().unwrap();
        assert_skipped(bad, " at line 1 column 11");
    }

    #[test]
    fn a_bad_object_in_protobuf_has_the_name_that_is_readable() {
        let bad = b"\x10\x80\x02\x0a\x0b\x0a\x01n\x18\x07\x2a\x01u\x32\x015";
        assert_skipped(Lenient::read_protobuf(bad), "");
    }

    /// Texts of a map, a list and a pointer, with a byte that is no UTF-8.
    #[derive(Clone, Deserialize)]
    struct Texts {
        metadata: BTreeMap<String, BTreeMap<String, String>>,
        list: Vec<String>,
        port: String,
    }

    impl Wire for Texts {
        type View = Kept;

        const MESSAGE: Option<Message> = Some(&[
            (
                1,
                "metadata",
                FieldKind::Message(&[(11, "labels", TEXTS_BY_NAME)]),
            ),
            (2, "list", FieldKind::List(&FieldKind::TextPointer)),
            (3, "port", FieldKind::IntOrString),
        ]);

        fn into_view(self, _: Identity) -> Result<Kept, DecodeError> {
            unreachable!("it has no name")
        }
    }

    #[test]
    fn what_is_no_utf_8_is_read_alike_in_both_encodings() {
        let json = r#"{"metadata":{"labels":{"a\ufffd":"\ufffdb"}},"list":["c\ufffd"],"port":"\ufffd"}"#;
        let protobuf = b"\x0a\x0a\x5a\x08\x0a\x02a\xff\x12\x02\xffb\x12\x02c\xff\x1a\x05\x08\x01\x1a\x01\xff";
        for object in [
            Lenient::<Texts>::read_json(json),
            Lenient::read_protobuf(protobuf),
        ] {
            let Texts { metadata, list, port } =
                object.object.map_err(|error| Chain(&error).to_string()).unwrap();
            assert_eq!(metadata["labels"]["a\u{fffd}"], "\u{fffd}b");
            assert_eq!((&*list[0], &*port), ("c\u{fffd}", "\u{fffd}"));
        }
    }

    #[test]
    fn an_object_without_a_name_is_skipped_whatever_else_it_holds() {
        let object = Lenient::<Strict>::read_json(r#"{"spec":1,"metadata":{"name":"","uid":"u"}}"#);
        let Err(skipped) = object.observed() else {
            panic!("it has no name");
        };
        assert_eq!(
            (skipped.key, skipped.error.to_string()),
            (None, "the object has no name".to_owned())
        );
    }
}
