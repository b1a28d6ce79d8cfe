//! Objects in Kubernetes' protobuf, read into JSON.
//!
//! client-go's typed clients write it without asking whether the server can read it, so `kubectl drain` and `kubectl
//! create namespace` need it. Only what those send is known. Answers are always JSON, which every client takes.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Map, Value, json};

const MEDIA: &str = "application/vnd.kubernetes.protobuf";
/// What an envelope (`runtime.Unknown`) starts with.
const MAGIC: &[u8] = b"k8s\0";

/// What a field of a message reads as in JSON.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Integer,
    Texts,
    /// Texts by name.
    Map,
    Message(Fields),
}

/// The fields of a message: number, name in JSON.
type Fields = &'static [(u64, &'static str, Kind)];

const NAMESPACE: Fields = &[(1, "metadata", Kind::Message(METADATA))];
const EVICTION: Fields = &[
    (1, "metadata", Kind::Message(METADATA)),
    (2, "deleteOptions", Kind::Message(DELETE_OPTIONS)),
];
const METADATA: Fields = &[
    (1, "name", Kind::Text),
    (2, "generateName", Kind::Text),
    (3, "namespace", Kind::Text),
    (11, "labels", Kind::Map),
    (12, "annotations", Kind::Map),
];
const DELETE_OPTIONS: Fields = &[
    (1, "gracePeriodSeconds", Kind::Integer),
    (2, "preconditions", Kind::Message(PRECONDITIONS)),
    (4, "propagationPolicy", Kind::Text),
    (5, "dryRun", Kind::Texts),
];
const PRECONDITIONS: Fields = &[(1, "uid", Kind::Text), (2, "resourceVersion", Kind::Text)];

/// Bytes that are no protobuf, or not of a message that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Malformed;

/// A field's value, as far as the wire format tells.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
}

/// The body of a request in JSON, its `Content-Type` with it. What is not known stays as it is.
pub(super) fn to_json(headers: &mut HeaderMap, body: Bytes) -> Bytes {
    let is_protobuf = headers
        .get(header::CONTENT_TYPE)
        .and_then(|media| media.to_str().ok())
        .is_some_and(|media| media.starts_with(MEDIA));
    if !is_protobuf {
        return body;
    }
    match object(&body) {
        Ok(object) => {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            object.to_string().into()
        }
        Err(Malformed) => body,
    }
}

/// The object in an envelope: 1 is its apiVersion (1) and kind (2), 2 are its bytes.
fn object(body: &[u8]) -> Result<Value, Malformed> {
    const TYPE: Fields = &[(1, "apiVersion", Kind::Text), (2, "kind", Kind::Text)];
    let (mut types, mut raw) = (Map::new(), &[] as &[u8]);
    let mut rest = body.strip_prefix(MAGIC).ok_or(Malformed)?;
    while let Some((number, value)) = field(&mut rest)? {
        match number {
            1 => types = message(TYPE, value.bytes()?)?,
            2 => raw = value.bytes()?,
            _ => {}
        }
    }
    let fields = match types.get("kind").and_then(Value::as_str) {
        Some("DeleteOptions") => DELETE_OPTIONS,
        Some("Eviction") => EVICTION,
        Some("Namespace") => NAMESPACE,
        _ => return Err(Malformed),
    };
    let mut object = message(fields, raw)?;
    object.append(&mut types);
    Ok(Value::Object(object))
}

/// What a message says of the fields that are known; empty texts are none.
fn message(fields: Fields, mut raw: &[u8]) -> Result<Map<String, Value>, Malformed> {
    let mut object = Map::new();
    while let Some((number, wire)) = field(&mut raw)? {
        let Some((_, name, kind)) = fields.iter().find(|(known, _, _)| *known == number) else {
            continue;
        };
        match kind {
            Kind::Text if wire.bytes()?.is_empty() => {}
            Kind::Text => {
                object.insert((*name).to_owned(), json!(wire.text()?));
            }
            Kind::Integer => {
                object.insert((*name).to_owned(), json!(wire.integer()?));
            }
            Kind::Texts => {
                let list = object.entry(*name).or_insert_with(|| json!([]));
                list.as_array_mut().ok_or(Malformed)?.push(json!(wire.text()?));
            }
            Kind::Map => {
                let entry = message(&[(1, "key", Kind::Text), (2, "value", Kind::Text)], wire.bytes()?)?;
                let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
                object.entry(*name).or_insert_with(|| json!({}))[text("key")] = json!(text("value"));
            }
            Kind::Message(part) => {
                let part = message(part, wire.bytes()?)?;
                object.insert((*name).to_owned(), Value::Object(part));
            }
        }
    }
    Ok(object)
}

/// Takes the next field of a message: its number and value; none at the end.
fn field<'a>(rest: &mut &'a [u8]) -> Result<Option<(u64, Wire<'a>)>, Malformed> {
    if rest.is_empty() {
        return Ok(None);
    }
    let tag = varint(rest)?;
    let value = match tag & 7 {
        0 => Wire::Varint(varint(rest)?),
        2 => {
            let length = usize::try_from(varint(rest)?).map_err(|_| Malformed)?;
            Wire::Bytes(take(rest, length)?)
        }
        _ => return Err(Malformed),
    };
    Ok(Some((tag >> 3, value)))
}

fn varint(rest: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *take(rest, 1)?.first().ok_or(Malformed)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Malformed)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let (taken, left) = rest.split_at_checked(count).ok_or(Malformed)?;
    *rest = left;
    Ok(taken)
}

impl<'a> Wire<'a> {
    fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Varint(_) => Err(Malformed),
        }
    }

    fn text(self) -> Result<String, Malformed> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Malformed)
    }

    /// Negative numbers are their two's complement in 64 bits.
    fn integer(self) -> Result<i64, Malformed> {
        match self {
            Self::Varint(value) => Ok(value.cast_signed()),
            Self::Bytes(_) => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_as_kubectl_sends_it_is_read() {
        // `kubectl create namespace x`, off the wire.
        let body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x19\x0a\x11\x0a\x01x\x12\x00\x1a\x00\
            \x22\x00*\x002\x008\x00B\x00\x12\x00\x1a\x02\x0a\x00\x1a\x00\x22\x00";
        assert_eq!(
            object(body),
            Ok(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "x" } }))
        );
    }

    #[test]
    fn maps_lists_and_negative_numbers_are_read() {
        let metadata = b"\x0a\x08\x5a\x06\x0a\x01a\x12\x01b";
        let options = b"\x12\x10\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x2a\x03All";
        let raw = [&metadata[..], &options[..]].concat();
        let types = b"\x0a\x15\x0a\x09policy/v1\x12\x08Eviction";
        let length = u8::try_from(raw.len()).unwrap();
        let body = [MAGIC, types, &[2 << 3 | 2, length], &raw].concat();
        assert_eq!(
            object(&body),
            Ok(json!({
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": { "labels": { "a": "b" } },
                "deleteOptions": { "gracePeriodSeconds": -1, "dryRun": ["All"] },
            }))
        );
    }

    #[test]
    fn what_is_cut_off_or_unknown_is_left_as_it_is() {
        assert_eq!(object(b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Secret"), Err(Malformed));
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA));
        let cut = Bytes::from_static(b"k8s\0\x0a\x0f\x0a\x02v1");
        assert_eq!(to_json(&mut headers, cut.clone()), cut);
        assert_eq!(headers[header::CONTENT_TYPE], MEDIA);
    }
}
