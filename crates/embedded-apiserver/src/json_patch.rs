//! JSON patch (RFC 6902), as lenient as kube-apiserver's library: to `test` a missing field is null, `replace` adds a
//! missing field, and `copy` from a missing field copies null.

use serde_json::{Map, Value};

use super::failure::StatusError;

/// An operation that cannot be applied. Like upstream, the answer does not say which one or why.
struct Refused;

pub(super) fn json_patch(target: &mut Value, patch: &[Value]) -> Result<(), StatusError> {
    for operation in patch {
        apply(target, operation).map_err(|Refused| StatusError::unprocessable())?;
    }
    Ok(())
}

fn apply(target: &mut Value, operation: &Value) -> Result<(), Refused> {
    let text = |field: &str| operation.get(field).and_then(Value::as_str).ok_or(Refused);
    let path = text("path")?;
    let value = || operation.get("value").cloned().unwrap_or_default();
    match text("op")? {
        "add" => add(target, path, value()),
        "replace" => replace(target, path, value()),
        "remove" => remove(target, path).map(drop),
        "move" => {
            let moved = remove(target, text("from")?)?;
            add(target, path, moved)
        }
        "copy" => {
            let copied = read(target, text("from")?)?;
            add(target, path, copied)
        }
        "test" if read(target, path)? == value() => Ok(()),
        _ => Err(Refused),
    }
}

/// The object or list that holds the end of `path`, and the last part of the path.
fn parent<'a>(target: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), Refused> {
    let (above, last) = path.rsplit_once('/').ok_or(Refused)?;
    let parent = target.pointer_mut(above).ok_or(Refused)?;
    Ok((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), Refused> {
    match parent(target, path)? {
        (Value::Object(fields), last) => {
            fields.insert(last, value);
        }
        (Value::Array(items), last) if last == "-" => items.push(value),
        (Value::Array(items), last) => {
            let at = index(&last)?;
            if at > items.len() {
                return Err(Refused);
            }
            items.insert(at, value);
        }
        _ => return Err(Refused),
    }
    Ok(())
}

fn replace(target: &mut Value, path: &str, value: Value) -> Result<(), Refused> {
    match parent(target, path)? {
        (Value::Object(fields), last) => {
            fields.insert(last, value);
        }
        (Value::Array(items), last) => *items.get_mut(index(&last)?).ok_or(Refused)? = value,
        _ => return Err(Refused),
    }
    Ok(())
}

fn remove(target: &mut Value, path: &str) -> Result<Value, Refused> {
    match parent(target, path)? {
        (Value::Object(fields), last) => fields.remove(&last).ok_or(Refused),
        (Value::Array(items), last) => {
            let at = index(&last)?;
            if at >= items.len() {
                return Err(Refused);
            }
            Ok(items.remove(at))
        }
        _ => Err(Refused),
    }
}

/// The value at `path`; null if its object lacks the field.
fn read(target: &mut Value, path: &str) -> Result<Value, Refused> {
    match parent(target, path)? {
        (Value::Object(fields), last) => Ok(field(fields, &last)),
        (Value::Array(items), last) => items.get(index(&last)?).cloned().ok_or(Refused),
        _ => Err(Refused),
    }
}

fn field(fields: &Map<String, Value>, name: &str) -> Value {
    fields.get(name).cloned().unwrap_or_default()
}

fn index(text: &str) -> Result<usize, Refused> {
    text.parse().map_err(|_| Refused)
}
