//! `/scale` (read only): the replicas of an object as an `autoscaling/v1` Scale.

use serde_json::{Value, json};

use super::failure::StatusError;
use super::label_selector;
use super::object::at;
use super::resource::{Resource, Scale, Selector};

const KIND: &str = "Scale";
const API_VERSION: &str = "autoscaling/v1";

/// The number of replicas if the field is absent.
const DEFAULT_REPLICAS: i64 = 1;

/// The scale of an object.
pub(super) fn of(resource: &Resource, scale: &Scale, object: &Value) -> Result<Value, StatusError> {
    let replicas = match at(object, scale.replicas).and_then(Value::as_i64) {
        Some(replicas) => replicas,
        None if resource.is_custom() => {
            let message = format!("the spec replicas field \".{}\" does not exist", scale.replicas);
            let details = json!({ "causes": [{ "message": message }] });
            let message = format!("Internal error occurred: {message}");
            return Err(StatusError::new(500, "InternalError", message).with(details));
        }
        None => DEFAULT_REPLICAS,
    };
    let metadata = &object["metadata"];
    let mut shown = json!({
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": {},
        "spec": {},
        "status": { "replicas": at(object, scale.status_replicas).and_then(Value::as_i64).unwrap_or(0) },
    });
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(field) {
            shown["metadata"][field] = value.clone();
        }
    }
    if replicas != 0 {
        shown["spec"]["replicas"] = json!(replicas);
    }
    let selector = match scale.selector {
        Selector::None => None,
        Selector::Text(path) => at(object, path).and_then(Value::as_str).map(str::to_owned),
        Selector::Labels(path) => at(object, path).map(label_selector::of_labels),
        Selector::Expressions(path) => at(object, path).and_then(label_selector::to_text),
    };
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        shown["status"]["selector"] = json!(selector);
    }
    Ok(shown)
}
