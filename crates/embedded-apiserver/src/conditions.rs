//! `status.conditions`, as the helpers of pods and of `metav1.Condition` set them.

use serde_json::{Value, json};

use super::object::{items, set_at, text};

/// Sets a condition by its `type`. Its `lastTransitionTime` is `now` unless it had that `status` before.
pub(super) fn set(object: &mut Value, mut condition: Value, now: &str) {
    let mut conditions = items(object, "status.conditions").to_vec();
    let is_same = |other: &&mut Value| text(other, "type") == text(&condition, "type");
    if let Some(old) = conditions.iter_mut().find(is_same) {
        let since = match old.get("lastTransitionTime") {
            Some(since) if old["status"] == condition["status"] => since.clone(),
            _ => json!(now),
        };
        condition["lastTransitionTime"] = since;
        *old = condition;
    } else {
        condition["lastTransitionTime"] = json!(now);
        conditions.push(condition);
    }
    set_at(object, "status.conditions", Value::Array(conditions));
}

/// Finds a condition by its `type`.
pub(super) fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, "status.conditions")
        .iter()
        .find(|condition| text(condition, "type") == kind)
}

/// Whether the condition of this `type` is there with the status `True`.
pub(super) fn is_true(object: &Value, kind: &str) -> bool {
    find(object, kind).is_some_and(|condition| text(condition, "status") == "True")
}
