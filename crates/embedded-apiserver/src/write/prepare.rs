//! Fields of new objects that kube-apiserver always sets itself; nobody owns them.

use serde_json::{Value, json};

use crate::object::finalizers;
use crate::resource::{Resource, StatusRule};
use crate::write::namespaces;
use crate::write::{Origin, Write};

impl Write<'_> {
    /// Sets the initial status and the like of an object that has its name and uid.
    pub(super) fn prepare(&self, object: &mut Value) {
        let has_own_status = self.origin == Origin::Test && object.get("status").is_some_and(is_told);
        if self.resource.status == StatusRule::SubresourceOnly && !has_own_status {
            set_first_status(self.resource, object);
        }
        match (self.resource.group, self.resource.kind) {
            ("", "Namespace") => {
                namespaces::label(object);
                namespaces::activate(object);
            }
            ("scheduling.k8s.io", "PodGroup") => protect(object),
            _ => {}
        }
    }
}

/// Adds the finalizer that keeps a `PodGroup` until no pod is in it; a controller removes the finalizer.
fn protect(group: &mut Value) {
    const PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";
    if !finalizers(group).iter().any(|finalizer| finalizer == PROTECTION) {
        let mut all = finalizers(group).to_vec();
        all.push(json!(PROTECTION));
        group["metadata"]["finalizers"] = Value::Array(all);
    }
}

/// True if any field of the status is not empty.
fn is_told(status: &Value) -> bool {
    status
        .as_object()
        .is_some_and(|fields| fields.values().any(|value| !is_zero(value)))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_zero),
    }
}

fn set_first_status(resource: &Resource, object: &mut Value) {
    let status = match (resource.group, resource.kind) {
        ("", "Pod") => pod_status(&object["spec"]),
        _ => resource.schema().zero()["status"].clone(),
    };
    if let (Value::Object(object), false) = (object, status.is_null()) {
        object.insert("status".to_owned(), status);
    }
}

/// A new pod is pending, and not to be scheduled while it has scheduling gates.
fn pod_status(spec: &Value) -> Value {
    let mut status = json!({ "phase": "Pending", "qosClass": "BestEffort" });
    if spec["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty())
    {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": null,
            "lastTransitionTime": null,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    status
}
