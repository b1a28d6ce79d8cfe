//! Kubernetes' protobuf, read by the same serde types as JSON.
//!
//! A [`Message`] names the fields that are read of a message, with their names in JSON and their kinds; all others are
//! skipped on the wire. Texts are borrowed from the answer. Source: the files `generated.proto` of k8s.io/api and
//! k8s.io/apimachinery.
//!
//! Go writes a field that is no pointer even if it is empty. JSON then leaves the field out, and so does this reader:
//! an empty text and a time that was never set are absent. Go writes invalid UTF-8 in a text as it is; this reader
//! makes it U+FFFD, as Go does in JSON. So a client that can write one such label hides no object from readers of
//! protobuf.

mod messages;
mod value;
mod wire;

use serde::Deserialize;
use serde::de::Error as _;

pub use self::messages::{
    CONDITION, CONDITIONS, LABEL_SELECTOR, METADATA, METADATA_ONLY, OBJECT_META, OWNER_REFERENCE,
    TEXTS_BY_NAME,
};
use self::messages::{LIST_META, STATUS};
pub(super) use self::value::Object;
use self::value::Value;
use self::wire::{Wire, bytes_of, malformed, next_field};

/// The fields of a message that are read: number, name in JSON, kind; at most 16.
pub type Message = &'static [(u32, &'static str, FieldKind)];

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub enum FieldKind {
    /// A `string`; absent if it is empty.
    Text,
    /// A `string` that Go has a pointer to: it may be present and empty.
    TextPointer,
    /// An `int32` or `int64`.
    Int,
    /// A `bool`.
    Bool,
    /// A `metav1.Time`: a text in JSON, by RFC 3339.
    Time,
    /// An `intstr.IntOrString`.
    IntOrString,
    /// Another message.
    Message(Message),
    /// A `repeated` field.
    List(&'static Self),
    /// A `map` from texts.
    Map(&'static Self),
}

/// The first bytes of an answer.
const MAGIC: &[u8] = b"k8s\0";
/// The field of the envelope (`runtime.Unknown`) that holds the object.
const RAW: u32 = 2;

/// The bytes are malformed, or the message does not fit the type that reads it.
pub type Error = serde::de::value::Error;

/// A list whose objects are not decoded yet.
pub(super) struct List<'a> {
    pub(super) version: String,
    /// Continues the list, if there is more.
    pub(super) token: Option<String>,
    pub(super) items: Vec<&'a [u8]>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    r#continue: Option<String>,
}

/// Returns whether an answer is in protobuf.
pub fn is_enveloped(body: &[u8]) -> bool {
    body.starts_with(MAGIC)
}

/// The content of an answer, without its envelope.
pub(crate) fn unwrapped(body: &[u8]) -> Result<&[u8], Error> {
    let fields = body.strip_prefix(MAGIC).ok_or_else(malformed)?;
    bytes_of(fields, RAW)
}

/// Reads `message` from bytes without an envelope.
pub(crate) fn read<'de, T: Deserialize<'de>>(message: Message, bytes: &'de [u8]) -> Result<T, Error> {
    T::deserialize(Value::message(message, bytes))
}

/// Reads the `Status` of a failed request.
pub fn read_status(body: &[u8]) -> Result<kube_core::Status, Error> {
    read(STATUS, unwrapped(body)?)
}

pub(super) fn read_list(body: &[u8]) -> Result<List<'_>, Error> {
    let mut rest = unwrapped(body)?;
    let mut meta = ListMeta::default();
    let mut items = Vec::new();
    while let Some((number, wire)) = next_field(&mut rest)? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => meta = read(LIST_META, bytes)?,
            (2, Wire::Bytes(bytes)) => items.push(bytes),
            _ => {}
        }
    }
    Ok(List {
        version: meta.resource_version,
        token: meta.r#continue,
        items,
    })
}

/// The type and the object of a `metav1.WatchEvent`, which has no envelope; its object has one.
pub(super) fn read_event(frame: &[u8]) -> Result<(&str, &[u8]), Error> {
    let kind = std::str::from_utf8(bytes_of(frame, 1)?).map_err(Error::custom)?;
    Ok((kind, bytes_of(bytes_of(frame, 2)?, 1)?))
}

#[cfg(test)]
mod tests {
    use embedded_apiserver::to_protobuf;
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    use super::*;

    #[test]
    fn a_status_is_read_with_the_time_to_stay_away() {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "m",
            "reason": "TooManyRequests", "details": { "retryAfterSeconds": 7 }, "code": 429,
        });
        let read = read_status(&to_protobuf(&status).unwrap()).unwrap();
        assert_eq!(
            (&*read.message, &*read.reason, read.code),
            ("m", "TooManyRequests", 429)
        );
        assert_eq!(read.details.unwrap().retry_after_seconds, 7);
    }

    /// The conditions of two messages lie apart: other fields come between.
    #[test]
    fn a_list_has_all_its_items_wherever_they_are_and_of_other_fields_the_last_counts() {
        const OF: Message = &[
            (1, "texts", FieldKind::List(&FieldKind::TextPointer)),
            (2, "number", FieldKind::Int),
        ];
        let bytes =
            b"\x0a\x01a\x10\x01\x0a\x00\x1a\x01x\x0a\x01b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        let read: Json = read(OF, bytes).unwrap();
        assert_eq!(read, json!({ "texts": ["a", "", "b"], "number": -1 }));
    }

    #[test]
    fn what_is_cut_off_or_of_another_type_is_refused() {
        const OF: Message = &[(1, "text", FieldKind::Text), (2, "number", FieldKind::Int)];
        for bytes in [
            &b"\x0a\x02a"[..],
            b"\x0a",
            b"\x08\x01",
            b"\x12\x01a",
            b"\x0d\0\0\0\0",
            b"\x0b",
        ] {
            assert!(read::<Json>(OF, bytes).is_err(), "{bytes:?}");
        }
        assert_eq!(
            read::<Json>(OF, b"\x1d\0\0\0\0").unwrap(),
            json!({}),
            "no field that is read"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = read::<Json>(METADATA_ONLY, &bytes);
            let _ = read_event(&bytes);
            let _ = read_list(&[MAGIC, &bytes].concat());
            let _ = read_status(&[MAGIC, &bytes].concat());
        }
    }
}
