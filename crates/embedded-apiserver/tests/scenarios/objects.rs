//! Objects that several files of scenarios write.

use serde_json::{Value, json};

/// The labels of everything that is selected.
pub(crate) fn labels() -> Value {
    json!({ "a": "b" })
}

pub(crate) fn containers() -> Value {
    json!([{ "name": "c", "image": "i" }])
}

/// A pod of one container, and what else its spec says.
pub(crate) fn pod(name: &str, more: Value) -> Value {
    let mut pod = json!({ "metadata": { "name": name }, "spec": { "containers": containers() } });
    if let Value::Object(more) = more {
        pod["spec"].as_object_mut().unwrap().extend(more);
    }
    pod
}

/// A deployment, a replica set or a stateful set of pods with this spec.
pub(crate) fn workload(name: &str, pod: &Value) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": labels() },
            "template": { "metadata": { "labels": labels() }, "spec": pod["spec"] },
        },
    })
}

pub(crate) fn job(name: &str) -> Value {
    let once = pod("once", json!({ "restartPolicy": "Never" }));
    json!({ "metadata": { "name": name }, "spec": { "template": { "spec": once["spec"] } } })
}

/// A claim that asks for one device.
pub(crate) fn claim(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "c" } }] } },
    })
}
