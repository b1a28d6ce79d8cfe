//! The protobuf encoding of Kubernetes objects: to and from JSON.
//!
//! client-go's typed clients send protobuf without asking whether the server reads it, and clients that prefer it
//! receive it. The fields of each message come from `schema/kubernetes.txt`.

mod decode;
mod encode;
mod wire;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Map, Value, json};

use crate::schema::{Message, Schema};
use wire::Malformed;

pub(super) use encode::encode;

pub(super) const MEDIA: &str = "application/vnd.kubernetes.protobuf";
/// First bytes of an envelope (`runtime.Unknown`).
const MAGIC: &[u8] = b"k8s\0";
/// Last bytes of an envelope: empty content encoding and content type.
const TAIL: &[u8] = b"\x1a\0\x22\0";
/// Suffix of list kinds. In a list, field 1 is the metadata and field 2 the items.
const LIST: &str = "List";
const LIST_META: &str = "meta.v1.ListMeta";
/// Clients send it with the group of the deleted resource.
const DELETE_OPTIONS: &str = "DeleteOptions";

/// Encodes an object or list of a built-in kind in protobuf, as kube-apiserver does; `None` if the kind is unknown.
pub fn to_protobuf(object: &Value) -> Option<Bytes> {
    let text = |field: &str| object.get(field).and_then(Value::as_str);
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let mut raw = Vec::new();
    if let Some(of) = Message::of_kind(api_version, kind) {
        encode(of, object, &mut raw);
    } else {
        let of = Message::of_kind(api_version, kind.strip_suffix(LIST)?)?;
        put_list_metadata(&object["metadata"], &mut raw);
        for item in object["items"].as_array()? {
            put_item(of, item, &mut raw);
        }
    }
    Some(envelope(api_version, kind, &raw))
}

/// Decodes an object or list from an answer in protobuf into the JSON of the same answer; `None` if it is malformed or
/// its kind is unknown.
pub fn from_protobuf(body: &[u8]) -> Option<Value> {
    let mut object = object(body).ok()?;
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
    match (object.get_mut("items"), kind.strip_suffix(LIST)) {
        (Some(Value::Array(items)), Some(kind)) => {
            let schema = Schema::of(None, &api_version, kind);
            for item in items {
                schema.complete(item);
            }
        }
        _ => Schema::of(None, &api_version, &kind).complete(&mut object),
    }
    Some(object)
}

/// Removes the complete events from the start of a watch's received bytes, JSON or protobuf; returns type and object of
/// each.
pub fn watch_events(arrived: &mut Vec<u8>) -> Vec<(String, Value)> {
    std::iter::from_fn(|| watch_event(arrived)).collect()
}

fn watch_event(arrived: &mut Vec<u8>) -> Option<(String, Value)> {
    // A JSON line starts with a brace. The length of a protobuf event never does: that event would be too long.
    if arrived.first() == Some(&b'{') {
        let end = arrived.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = arrived.drain(..=end).collect();
        let mut event: Value = serde_json::from_slice(&line).ok()?;
        return Some((event["type"].as_str()?.to_owned(), event["object"].take()));
    }
    let length = usize::try_from(u32::from_be_bytes(*arrived.first_chunk()?)).ok()?;
    let frame = arrived.get(4..4 + length)?.to_vec();
    arrived.drain(..4 + length);
    let (kind, extension) = two_fields(&frame).ok()?;
    let (object, _) = two_fields(extension).ok()?;
    Some((String::from_utf8(kind.to_vec()).ok()?, from_protobuf(object)?))
}

fn two_fields(mut raw: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut one, mut two) = (&[][..], &[][..]);
    while let Some((number, value)) = wire::field(&mut raw)? {
        match number {
            1 => one = value.bytes()?,
            2 => two = value.bytes()?,
            _ => {}
        }
    }
    Ok((one, two))
}

/// Converts a protobuf body, and its `Content-Type`, to JSON. Leaves bodies that cannot be decoded as they are.
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

/// The object in an envelope: field 1 holds apiVersion (1) and kind (2), field 2 the message.
fn object(body: &[u8]) -> Result<Value, Malformed> {
    let (mut types, mut raw) = (&[] as &[u8], &[] as &[u8]);
    let mut rest = body.strip_prefix(MAGIC).ok_or(Malformed)?;
    while let Some((number, value)) = wire::field(&mut rest)? {
        match number {
            1 => types = value.bytes()?,
            2 => raw = value.bytes()?,
            _ => {}
        }
    }
    let (mut api_version, mut kind) = (String::new(), String::new());
    while let Some((number, value)) = wire::field(&mut types)? {
        match number {
            1 => api_version = value.text()?,
            2 => kind = value.text()?,
            _ => {}
        }
    }
    let mut object = content(&api_version, &kind, raw)?;
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    Ok(Value::Object(object))
}

fn content(api_version: &str, kind: &str, mut raw: &[u8]) -> Result<Map<String, Value>, Malformed> {
    let found = match kind {
        DELETE_OPTIONS => Message::of_kind("v1", kind),
        _ => Message::of_kind(api_version, kind),
    };
    if let Some(of) = found {
        return decode::decode(of, raw);
    }
    let item = kind.strip_suffix(LIST).ok_or(Malformed)?;
    let item = Message::of_kind(api_version, item).ok_or(Malformed)?;
    let metadata = Message::named(LIST_META).ok_or(Malformed)?;
    let (mut list, mut items) = (Map::new(), Vec::new());
    while let Some((number, value)) = wire::field(&mut raw)? {
        match number {
            1 => {
                let metadata = decode::decode(metadata, value.bytes()?)?;
                list.insert("metadata".to_owned(), metadata.into());
            }
            2 => items.push(decode::decode(item, value.bytes()?)?.into()),
            _ => {}
        }
    }
    list.insert("items".to_owned(), Value::Array(items));
    Ok(list)
}

/// Wraps a message in an envelope.
pub(super) fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Bytes {
    let mut body = head(api_version, kind, raw.len());
    body.extend_from_slice(raw);
    body.extend_from_slice(TAIL);
    body.into()
}

/// The part of an envelope before a message of `length` bytes.
fn head(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(MAGIC.len() + api_version.len() + kind.len() + length + 32);
    head.extend_from_slice(MAGIC);
    wire::put_message(1, &mut head, |types| {
        wire::put_bytes(1, api_version.as_bytes(), types);
        wire::put_bytes(2, kind.as_bytes(), types);
    });
    wire::put_length(2, length, &mut head);
    head
}

/// A list in pieces: the part before its items, the items, the part after them.
pub(super) fn list(api_version: &str, kind: &str, metadata: &Value, items: Vec<Bytes>) -> Vec<Bytes> {
    let mut raw = Vec::new();
    put_list_metadata(metadata, &mut raw);
    let length = raw.len() + items.iter().map(Bytes::len).sum::<usize>();
    let mut head = head(api_version, kind, length);
    head.append(&mut raw);
    let mut pieces = vec![head.into()];
    pieces.extend(items);
    pieces.push(Bytes::from_static(TAIL));
    pieces
}

fn put_list_metadata(metadata: &Value, to: &mut Vec<u8>) {
    if let Some(of) = Message::named(LIST_META) {
        wire::put_message(1, to, |to| encode(of, metadata, to));
    }
}

pub(super) fn put_item(of: &Message, object: &Value, to: &mut Vec<u8>) {
    wire::put_message(2, to, |to| encode(of, object, to));
}

/// A watch event about an object in its envelope, prefixed with its length.
pub(super) fn frame(kind: &str, object: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(object.len() + 32);
    event.extend_from_slice(&[0; 4]);
    wire::put_bytes(1, kind.as_bytes(), &mut event);
    wire::put_message(2, &mut event, |extension| wire::put_bytes(1, object, extension));
    // Never exceeded: no object is that long.
    let length = u32::try_from(event.len() - 4).unwrap_or(u32::MAX);
    event.splice(..4, length.to_be_bytes());
    event.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_as_kubectl_sends_it_is_read() {
        // `kubectl create namespace x`, as sent.
        let body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x19\x0a\x11\x0a\x01x\x12\x00\x1a\x00\
            \x22\x00*\x002\x008\x00B\x00\x12\x00\x1a\x02\x0a\x00\x1a\x00\x22\x00";
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "x" }, "spec": {}, "status": {},
        });
        assert_eq!(object(body), Ok(namespace.clone()));
        // Encoding it gives the bytes that client-go sends.
        assert_eq!(to_protobuf(&namespace).as_deref(), Some(&body[..]));
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

    #[test]
    fn a_value_that_does_not_fit_spoils_its_message_and_no_other() {
        let event =
            json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": "e" }, "count": "many" });
        let body = to_protobuf(&event).unwrap();
        assert_eq!(object(&body), Err(Malformed));
        // Field 8 is the count, 5 a wire format that no field has; a reader that does not know it skips four bytes.
        assert!(body.windows(5).any(|part| part == [8 << 3 | 5, 0, 0, 0, 0]));
    }
}
