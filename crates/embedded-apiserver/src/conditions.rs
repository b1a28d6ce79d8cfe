//! `status.conditions`, set like the helpers for pods and for `metav1.Condition` do.

use serde_json::{Value, json};

use super::object::{items, set_at, text};

/// Sets a condition by its `type`. `lastTransitionTime` becomes `now` unless the condition had this `status` before.
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

/// The condition of this `type`.
pub(super) fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    items(object, "status.conditions")
        .iter()
        .find(|condition| text(condition, "type") == kind)
}

/// True if the condition of this `type` exists and has the status `True`.
pub(super) fn is_true(object: &Value, kind: &str) -> bool {
    find(object, kind).is_some_and(|condition| text(condition, "status") == "True")
}
