//! Access to the parts of an object in JSON.

use serde_json::{Map, Value, json};

/// A text field; empty if absent.
pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The name of the value's type in errors of Go's decoder.
pub(super) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

pub(super) fn remove(object: &mut Value, field: &str) {
    if let Some(object) = object.as_object_mut() {
        object.remove(field);
    }
}

/// Sets a field to its value in `old`, or removes it if `old` lacks it.
pub(super) fn keep(object: &mut Map<String, Value>, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => object.insert(field.to_owned(), value.clone()),
        None => object.remove(field),
    };
}

/// Sets all fields except `changeable` to their values in `old`.
pub(super) fn keep_all_but(object: &mut Map<String, Value>, old: &Value, changeable: &[&str]) {
    object.retain(|field, _| changeable.contains(&field.as_str()));
    for (field, value) in old.as_object().into_iter().flatten() {
        if !changeable.contains(&field.as_str()) {
            object.insert(field.clone(), value.clone());
        }
    }
}

pub(super) fn finalizers(object: &Value) -> &[Value] {
    object["metadata"]["finalizers"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// True if the objects differ in a top-level field other than `ignored`.
pub(super) fn differs_ignoring(ignored: &[&str], old: &Value, new: &Value) -> bool {
    let rest = |object: &Value| -> Map<String, Value> {
        object
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(field, _)| !ignored.contains(&field.as_str()))
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect()
    };
    rest(old) != rest(new)
}

/// The value at a path of fields joined by dots.
pub(super) fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, field| value.get(field))
}

/// Sets the value at a path of fields joined by dots; false if the path leads through something that is not an object.
pub(super) fn set_at(object: &mut Value, path: &str, value: Value) -> bool {
    let mut target = object;
    for field in path.split('.') {
        if target.is_null() {
            *target = json!({});
        }
        let Some(fields) = target.as_object_mut() else {
            return false;
        };
        target = fields.entry(field).or_insert(Value::Null);
    }
    *target = value;
    true
}

/// The items of the list at a path of fields joined by dots.
pub(super) fn items<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    at(object, path)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The uid of the object number `identity`.
pub(super) fn uid(identity: u64) -> String {
    format!("00000000-0000-4000-8000-{identity:012x}")
}

/// A suffix for generated names: five characters of Kubernetes' alphabet, the same on every run.
pub(super) fn suffix(identity: u64) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    // The last step of SplitMix64 makes the suffixes of consecutive numbers differ.
    let mut mixed = identity.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^= mixed >> 27;
    (0..5)
        .map(|_| {
            let letter = ALPHABET[usize::try_from(mixed % 27).unwrap_or_default()];
            mixed /= 27;
            char::from(letter)
        })
        .collect()
}
