//! Objects for the scenarios of several files.

use serde_json::{Value, json};

/// Labels that the selectors of workloads match.
pub(crate) fn labels() -> Value {
    json!({ "a": "b" })
}

pub(crate) fn containers() -> Value {
    json!([{ "name": "c", "image": "i" }])
}

/// A pod with one container and these further fields in its spec.
pub(crate) fn pod(name: &str, more: Value) -> Value {
    let mut pod = json!({ "metadata": { "name": name }, "spec": { "containers": containers() } });
    if let Value::Object(more) = more {
        pod["spec"].as_object_mut().unwrap().extend(more);
    }
    pod
}

/// A deployment, replica set or stateful set with this pod template.
pub(crate) fn workload(name: &str, pod: &Value) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": labels() },
            "template": { "metadata": { "labels": labels() }, "spec": pod["spec"] },
        },
    })
}

/// A claim for one device.
pub(crate) fn claim(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "c" } }] } },
    })
}
