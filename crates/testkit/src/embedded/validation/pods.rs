//! Pods and pod templates.

use serde_json::{Value, json};

use super::super::object::text;
use super::syntax::{label, qualified_name};
use super::{Causes, at};

const MUTABLE: &str = "pod updates may not change fields other than \
     `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
     additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
     previously negative)";
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// The spec of a pod, which is at `field` of its object.
pub(super) fn check(spec: &Value, field: &str, causes: &mut Causes) {
    if items(spec, "containers").is_empty() {
        causes.required(&format!("{field}.containers"), "");
    }
    let mut names = Vec::new();
    for list in CONTAINERS {
        for (number, container) in items(spec, list).iter().enumerate() {
            let at = format!("{field}.{list}[{number}]");
            let name = text(container, "name");
            if name.is_empty() {
                causes.required(&format!("{at}.name"), "");
            } else if names.contains(&name) {
                let message = format!("Duplicate value: \"{name}\"");
                causes.add("FieldValueDuplicate", &format!("{at}.name"), message);
            } else {
                causes.syntax(&format!("{at}.name"), name, label);
                names.push(name);
            }
            if text(container, "image").is_empty() {
                causes.required(&format!("{at}.image"), "");
            }
        }
    }
    for (number, toleration) in items(spec, "tolerations").iter().enumerate() {
        check_toleration(toleration, &format!("{field}.tolerations[{number}]"), causes);
    }
}

fn check_toleration(toleration: &Value, at: &str, causes: &mut Causes) {
    let (key, operator, effect) = (
        text(toleration, "key"),
        text(toleration, "operator"),
        text(toleration, "effect"),
    );
    if !key.is_empty() {
        causes.syntax(&format!("{at}.key"), key, qualified_name);
    } else if operator != "Exists" {
        let why =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        causes.invalid(&format!("{at}.operator"), &json!(operator), why);
    }
    if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        causes.invalid(&format!("{at}.effect"), &json!(effect), why);
    }
    let value = text(toleration, "value");
    if operator == "Exists" && !value.is_empty() {
        let why = "value must be empty when `operator` is 'Exists'";
        causes.invalid(&format!("{at}.operator"), &json!(value), why);
    }
}

/// What of a pod's spec has changed that cannot.
pub(super) fn check_change(old: &Value, new: &Value, causes: &mut Causes) {
    for list in ["containers", "initContainers"] {
        if items(old, list).len() != items(new, list).len() {
            causes.forbidden(
                &format!("spec.{list}"),
                "pod updates may not add or remove containers",
            );
            return;
        }
    }
    let deadline = |spec: &Value| spec["activeDeadlineSeconds"].as_i64();
    match (deadline(old), deadline(new)) {
        (Some(_), None) => {
            let why = "must not update from a positive integer to nil value";
            causes.invalid("spec.activeDeadlineSeconds", &Value::Null, why);
            return;
        }
        (Some(before), Some(after)) if after > before => {
            let why = "must be less than or equal to previous value";
            causes.invalid("spec.activeDeadlineSeconds", &json!(after), why);
            return;
        }
        _ => {}
    }
    let still_tolerated = items(old, "tolerations").iter().all(|toleration| {
        let unlimited = |toleration: &Value| without(toleration, "tolerationSeconds");
        items(new, "tolerations")
            .iter()
            .any(|other| unlimited(other) == unlimited(toleration))
    });
    if !still_tolerated {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        causes.forbidden("spec.tolerations", why);
        return;
    }
    if immutable_part(old) != immutable_part(new) {
        causes.forbidden("spec", MUTABLE);
    }
}

/// A spec without what may change.
fn immutable_part(spec: &Value) -> Value {
    let mut spec = without(spec, "activeDeadlineSeconds");
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("tolerations");
        if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64) < Some(0) {
            spec.insert("terminationGracePeriodSeconds".to_owned(), json!(1));
        }
        // A gated pod may lose its gates.
        spec.remove("schedulingGates");
    }
    for list in CONTAINERS {
        for container in spec
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            container["image"] = Value::Null;
        }
    }
    spec
}

fn without(object: &Value, field: &str) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
    object
}

fn items<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    at(object, field)
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
}
