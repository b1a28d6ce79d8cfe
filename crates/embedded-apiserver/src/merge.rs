//! Merge patch (RFC 7386) and strategic merge patch.

use serde_json::{Map, Value};

use super::failure::StatusError;
use super::schema::{Merge, Schema};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";

/// Applies a JSON merge patch: objects are merged, null removes, any other value replaces.
pub(super) fn merge_patch(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    if let Value::Object(fields) = target {
        for (key, value) in patch {
            if value.is_null() {
                fields.remove(&key);
            } else {
                merge_patch(fields.entry(key).or_insert(Value::Null), value);
            }
        }
    }
}

/// Applies a strategic merge patch to an object or part of one; `schema` is its type.
pub(super) fn strategic_merge_patch(
    schema: Schema,
    target: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<(), StatusError> {
    match patch.remove(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "replace" => {
            *target = patch;
            return Ok(());
        }
        Some(Value::String(directive)) if directive == "delete" => {
            target.clear();
            return Ok(());
        }
        Some(other) => return Err(refuse(format!("unknown patch type: {}", plain(&other)))),
    }
    if let Some(kept) = patch.remove(RETAIN_KEYS) {
        retain_keys(target, &patch, &kept)?;
    }
    for (key, order) in take_prefixed(&mut patch, ELEMENT_ORDER) {
        merge_ordered(schema, target, &mut patch, &key, &order)?;
    }
    for (key, doomed) in take_prefixed(&mut patch, DELETE_FROM_LIST) {
        if let (Some(Value::Array(items)), Value::Array(doomed)) = (target.get_mut(&key), doomed) {
            items.retain(|item| !doomed.contains(item));
        }
    }
    for (key, value) in patch {
        let below = below(schema, &key);
        match (target.get_mut(&key), value) {
            (_, Value::Null) => {
                target.remove(&key);
            }
            (Some(Value::Object(old)), Value::Object(new)) => strategic_merge_patch(below, old, new)?,
            (Some(Value::Array(old)), Value::Array(new)) => merge_list(below, old, new, None)?,
            (_, value) => match without_directives(value) {
                Some(value) => {
                    target.insert(key, value);
                }
                None => {
                    target.remove(&key);
                }
            },
        }
    }
    Ok(())
}

/// Merges the list under `key`, and orders its items as the patch demands.
fn merge_ordered(
    schema: Schema,
    target: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    key: &str,
    order: &Value,
) -> Result<(), StatusError> {
    let Value::Array(order) = order else {
        return Err(refuse(format!("{ELEMENT_ORDER}{key} is not a list")));
    };
    let new = match patch.remove(key) {
        None => Vec::new(),
        Some(Value::Array(items)) => items,
        Some(other) => {
            patch.insert(key.to_owned(), other);
            return Ok(());
        }
    };
    if !new.is_empty() || target.contains_key(key) {
        let list = target.entry(key).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(old) = list {
            merge_list(below(schema, key), old, new, Some(order))?;
        }
    }
    Ok(())
}

fn merge_list(
    schema: Schema,
    target: &mut Vec<Value>,
    patch: Vec<Value>,
    order: Option<&[Value]>,
) -> Result<(), StatusError> {
    let before = target.clone();
    match schema.merge() {
        Merge::Values => {
            let order = order.unwrap_or(&patch).to_vec();
            for item in patch {
                if !target.contains(&item) {
                    target.push(item);
                }
            }
            sort_as_asked(target, &order, &before, |item| Some(item));
        }
        Merge::Key(key) => {
            let patch = merge_keyed(schema.items(), key, target, patch)?;
            sort_as_asked(target, order.unwrap_or(&patch), &before, |item| item.get(key));
        }
        Merge::Replace => *target = patch,
    }
    Ok(())
}

/// Merges items by key. Returns the patch's items without directives.
fn merge_keyed(
    schema: Schema,
    key: &str,
    target: &mut Vec<Value>,
    patch: Vec<Value>,
) -> Result<Vec<Value>, StatusError> {
    let mut replace = false;
    let mut items = Vec::new();
    for item in patch {
        match item.get(DIRECTIVE).and_then(Value::as_str) {
            None => items.push(item),
            Some("replace") => replace = true,
            Some("delete") => {
                let doomed = key_of(&item, key)?.clone();
                target.retain(|item| item.get(key) != Some(&doomed));
            }
            Some(other) => return Err(refuse(format!("unknown patch type: {other}"))),
        }
    }
    if replace {
        target.clear();
    }
    for item in &items {
        let wanted = key_of(item, key)?;
        let found = target.iter_mut().find(|old| old.get(key) == Some(wanted));
        match (found, item) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                strategic_merge_patch(schema, old, new.clone())?;
            }
            _ => target.extend(without_directives(item.clone())),
        }
    }
    Ok(items)
}

/// A refusal of a malformed strategic merge patch: 500 without a reason, like kube-apiserver's.
fn refuse(message: String) -> StatusError {
    StatusError::new(500, "", message)
}

fn key_of<'a>(item: &'a Value, key: &str) -> Result<&'a Value, StatusError> {
    item.get(key)
        .ok_or_else(|| refuse(format!("map: {item} does not contain declared merge key: {key}")))
}

fn retain_keys(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    kept: &Value,
) -> Result<(), StatusError> {
    let kept = kept.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_kept = |key: &String| kept.iter().any(|kept| kept.as_str() == Some(key));
    // The list must contain every field that the patch sets.
    if kept.is_empty() || patch.iter().any(|(key, value)| !value.is_null() && !is_kept(key)) {
        return Err(StatusError::bad_request("invalid patch format of retainKeys"));
    }
    target.retain(|key, _| is_kept(key));
    Ok(())
}

fn take_prefixed(patch: &mut Map<String, Value>, prefix: &str) -> Vec<(String, Value)> {
    let keys: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(prefix))
        .cloned()
        .collect();
    keys.into_iter()
        .filter_map(|key| {
            let value = patch.remove(&key)?;
            Some((key.get(prefix.len()..)?.to_owned(), value))
        })
        .collect()
}

/// Prepares a value that is new to the object: drops nulls and directives.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) => {
            if fields.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
                return None;
            }
            let fields = fields
                .into_iter()
                .filter(|(key, value)| !value.is_null() && !is_directive(key))
                .filter_map(|(key, value)| Some((key, without_directives(value)?)))
                .collect();
            Some(Value::Object(fields))
        }
        Value::Array(items) => {
            let items = items
                .into_iter()
                .filter(|item| item.get(DIRECTIVE).and_then(Value::as_str) != Some("replace"))
                .filter_map(without_directives)
                .collect();
            Some(Value::Array(items))
        }
        other => Some(other),
    }
}

fn is_directive(key: &str) -> bool {
    key == DIRECTIVE
        || key == RETAIN_KEYS
        || key.starts_with(ELEMENT_ORDER)
        || key.starts_with(DELETE_FROM_LIST)
}

/// Sorts the items named in `order` into that order. The other items keep their order and stay as far in front as they
/// were in `before`.
fn sort_as_asked<'v, K>(merged: &mut Vec<Value>, order: &'v [Value], before: &'v [Value], key: K)
where
    K: for<'a> Fn(&'a Value) -> Option<&'a Value>,
{
    let place = |list: &[Value], item: &Value| list.iter().position(|other| key(other) == key(item));
    let (mut asked, mut others): (Vec<Value>, Vec<Value>) = std::mem::take(merged)
        .into_iter()
        .partition(|item| place(order, item).is_some());
    asked.sort_by_key(|item| place(order, item));
    others.sort_by_key(|item| place(before, item));
    let mut asked = asked.into_iter().peekable();
    for other in others {
        while let Some(next) = asked.peek() {
            let other_first =
                matches!((place(before, &other), place(before, next)), (Some(a), Some(b)) if a < b);
            if other_first {
                break;
            }
            merged.extend(asked.next());
        }
        merged.push(other);
    }
    merged.extend(asked);
}

/// The schema of a field; an unknown field may hold anything.
fn below(schema: Schema, field: &str) -> Schema {
    schema.field(field).unwrap_or_else(Schema::any)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::NODES;

    fn merged(target: Value, patch: Value) -> Value {
        let (Value::Object(mut target), Value::Object(patch)) = (target, patch) else {
            panic!("objects");
        };
        strategic_merge_patch(NODES.schema(), &mut target, patch).unwrap();
        Value::Object(target)
    }

    #[test]
    fn a_keyed_list_merges_deletes_and_replaces_items() {
        let node = json!({ "status": { "conditions": [
            { "type": "Ready", "status": "True", "reason": "KubeletReady" },
            { "type": "DiskPressure", "status": "False" },
        ] } });
        let patch = json!({ "status": { "conditions": [
            { "type": "Ready", "status": "False" },
            { "type": "DiskPressure", "$patch": "delete" },
            { "type": "New", "status": "True" },
        ] } });
        assert_eq!(
            merged(node.clone(), patch)["status"]["conditions"],
            json!([
                { "type": "Ready", "status": "False", "reason": "KubeletReady" },
                { "type": "New", "status": "True" },
            ])
        );
        let patch = json!({ "status": { "conditions": [{ "$patch": "replace" }, { "type": "Only" }] } });
        assert_eq!(
            merged(node, patch)["status"]["conditions"],
            json!([{ "type": "Only" }])
        );
    }

    #[test]
    fn taints_are_replaced_as_a_whole() {
        let node = json!({ "spec": { "taints": [{ "key": "a" }, { "key": "b" }] } });
        let patch = json!({ "spec": { "taints": [{ "key": "c" }] } });
        assert_eq!(merged(node, patch)["spec"]["taints"], json!([{ "key": "c" }]));
    }

    #[test]
    fn maps_are_replaced_emptied_and_cut_by_directives() {
        let labels = |patch: Value| {
            merged(
                json!({ "metadata": { "labels": { "a": "1", "b": "2" } } }),
                json!({ "metadata": { "labels": patch } }),
            )["metadata"]["labels"]
                .clone()
        };
        assert_eq!(
            labels(json!({ "$patch": "replace", "q": "r" })),
            json!({ "q": "r" })
        );
        assert_eq!(labels(json!({ "$patch": "delete" })), json!({}));
        assert_eq!(
            labels(json!({ "$retainKeys": ["a"], "a": "5" })),
            json!({ "a": "5" })
        );
        assert_eq!(
            labels(json!({ "a": null, "c": "3" })),
            json!({ "b": "2", "c": "3" })
        );
    }
}
