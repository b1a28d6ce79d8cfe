//! Objects in Kubernetes' protobuf, read into JSON.
//!
//! client-go's typed clients write it without asking whether the server can read it, so `kubectl create
//! namespace`, `drain` and `auth can-i` need it. Answers are always JSON, which every client takes.

mod messages;
mod wire;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use serde_json::{Value, json};

use wire::{Malformed, Reader};

const MEDIA: &str = "application/vnd.kubernetes.protobuf";
/// What an envelope (`runtime.Unknown`) starts with.
const MAGIC: &[u8] = b"k8s\0";

/// The body of a request in JSON, its `Content-Type` with it. What is not an object of a kind in
/// `messages.txt` stays as it is.
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
    let mut envelope = Reader::new(body.strip_prefix(MAGIC).ok_or(Malformed)?);
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[] as &[u8]);
    while let Some((number, value)) = envelope.field()? {
        match number {
            1 => {
                let mut types = Reader::new(value.bytes()?);
                while let Some((number, value)) = types.field()? {
                    match number {
                        1 => api_version = value.text()?,
                        2 => kind = value.text()?,
                        _ => {}
                    }
                }
            }
            2 => raw = value.bytes()?,
            _ => {}
        }
    }
    let mut object = messages::decode(&api_version, &kind, raw)?;
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    Ok(Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field that holds text or another message.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        [&[number << 3 | 2, length], content].concat()
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let types = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC, &field(1, &types), &field(2, raw)].concat()
    }

    #[test]
    fn a_namespace_as_kubectl_sends_it_is_read() {
        // `kubectl create namespace x`, off the wire.
        let body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x19\x0a\x11\x0a\x01x\x12\x00\x1a\x00\
            \x22\x00*\x002\x008\x00B\x00\x12\x00\x1a\x02\x0a\x00\x1a\x00\x22\x00";
        assert_eq!(
            object(body),
            Ok(json!({
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": { "name": "x" },
                "spec": {},
                "status": {},
            }))
        );
    }

    #[test]
    fn maps_lists_numbers_and_times_are_read() {
        let labels = field(11, &[field(1, b"a"), field(2, b"b")].concat());
        let deleted = field(9, &[1 << 3, 0x80, 0xf2, 0xd6, 0xca, 0x6]);
        let metadata = field(1, &[labels, deleted].concat());
        let min_available = field(1, &[1 << 3, 0, 2 << 3, 3]);
        let max_unavailable = field(3, &[field(3, b"50%"), vec![1 << 3, 1]].concat());
        let spec = field(2, &[min_available, max_unavailable].concat());
        let status = field(3, &[vec![1 << 3, 0, 3 << 3], vec![0xff; 9], vec![1]].concat());
        let raw = [metadata, spec, status].concat();
        assert_eq!(
            object(&envelope("policy/v1", "PodDisruptionBudget", &raw)),
            Ok(json!({
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": { "labels": { "a": "b" }, "deletionTimestamp": "2026-01-01T00:00:00Z" },
                "spec": { "minAvailable": 3, "maxUnavailable": "50%" },
                "status": { "disruptionsAllowed": -1 },
            }))
        );
    }

    #[test]
    fn parts_without_a_name_of_their_own_belong_to_the_object_around_them() {
        let secret = field(6, &field(1, b"s"));
        let volume = [field(1, b"v"), field(2, &secret)].concat();
        let raw = field(2, &field(1, &volume));
        let object = object(&envelope("v1", "Pod", &raw)).unwrap();
        assert_eq!(
            object["spec"]["volumes"],
            json!([{ "name": "v", "secret": { "secretName": "s" } }])
        );
    }

    #[test]
    fn what_is_cut_off_or_unknown_is_left_as_it_is() {
        let whole = envelope("v1", "Namespace", &field(1, &field(1, b"x")));
        assert!(object(&whole).is_ok());
        let readable = (0..whole.len()).filter(|length| object(&whole[..*length]).is_ok());
        assert_eq!(
            readable.count(),
            1,
            "but for the one that ends between two fields"
        );
        assert_eq!(object(&envelope("v1", "Secret", &[])), Err(Malformed));
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA));
        let cut = Bytes::copy_from_slice(&whole[..9]);
        assert_eq!(to_json(&mut headers, cut.clone()), cut);
        assert_eq!(headers[header::CONTENT_TYPE], MEDIA);
    }
}
