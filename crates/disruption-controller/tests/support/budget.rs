//! What the status of a budget says, next to the embedded API server and the real one.

use serde_json::{Value, json};

/// The numbers of a budget's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) allowed: i64,
    pub(crate) current: i64,
    pub(crate) desired: i64,
    pub(crate) expected: i64,
}

impl Numbers {
    pub(crate) fn of(status: &Value) -> Self {
        let number = |field: &str| status[field].as_i64().unwrap_or_default();
        numbers(
            number("disruptionsAllowed"),
            number("currentHealthy"),
            number("desiredHealthy"),
            number("expectedPods"),
        )
    }
}

pub(crate) fn numbers(allowed: i64, current: i64, desired: i64, expected: i64) -> Numbers {
    Numbers {
        allowed,
        current,
        desired,
        expected,
    }
}

/// The condition `DisruptionAllowed`; null where there is none.
fn condition_of(status: &Value) -> &Value {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut ours = conditions.filter(|condition| condition["type"] == "DisruptionAllowed");
    ours.next().unwrap_or(&Value::Null)
}

/// Status, reason and message of it.
pub(crate) fn condition(status: &Value) -> String {
    let ours = condition_of(status);
    let text = ["status", "reason", "message"].map(|field| ours[field].as_str().unwrap_or_default());
    text.join(" ").trim_end().to_owned()
}

/// The definition of a kind of `example.com/v1`, with a `/scale` or without.
pub(crate) fn definition(kind: &str, scale: bool) -> Value {
    let mut subresources = json!({ "status": {} });
    if scale {
        subresources["scale"] =
            json!({ "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" });
    }
    let singular = kind.to_lowercase();
    let names = json!({
        "plural": format!("{singular}s"), "singular": singular, "kind": kind, "listKind": format!("{kind}List"),
    });
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "subresources": subresources,
        "schema": { "openAPIV3Schema": schema },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{singular}s.example.com") },
        "spec": { "group": "example.com", "scope": "Namespaced", "names": names, "versions": [version] },
    })
}
