//! Default values that the API server sets, by Go type.
//!
//! Defaults belong to the manager of the write. The table is not complete: it has the defaults that a controller reads,
//! and those that almost every pod relies on.

use serde_json::{Map, Value, json};

/// A default value.
#[derive(Clone, Copy, Debug)]
enum Given {
    Text(&'static str),
    Number(i64),
    Empty,
}

use Given::{Empty, Number, Text};

/// Type, field, default.
const DEFAULTS: &[(&str, &str, Given)] = &[
    ("apps.v1.DeploymentSpec", "replicas", Number(1)),
    ("apps.v1.ReplicaSetSpec", "replicas", Number(1)),
    ("apps.v1.StatefulSetSpec", "replicas", Number(1)),
    (
        "core.v1.Container",
        "terminationMessagePath",
        Text("/dev/termination-log"),
    ),
    ("core.v1.Container", "terminationMessagePolicy", Text("File")),
    ("core.v1.NamespaceStatus", "phase", Text("Active")),
    ("core.v1.PodSpec", "dnsPolicy", Text("ClusterFirst")),
    ("core.v1.PodSpec", "restartPolicy", Text("Always")),
    ("core.v1.PodSpec", "schedulerName", Text("default-scheduler")),
    ("core.v1.PodSpec", "securityContext", Empty),
    ("core.v1.PodSpec", "terminationGracePeriodSeconds", Number(30)),
    ("core.v1.ReplicationControllerSpec", "replicas", Number(1)),
    (
        "resource.v1.DeviceSubRequest",
        "allocationMode",
        Text("ExactCount"),
    ),
    (
        "resource.v1.ExactDeviceRequest",
        "allocationMode",
        Text("ExactCount"),
    ),
];

/// Sets the defaults of a struct, after those of its parts.
pub(super) fn set(of: &str, fields: &mut Map<String, Value>) {
    for (_, field, given) in DEFAULTS.iter().filter(|(name, _, _)| *name == of) {
        let is_unset = fields.get(*field).is_none_or(|value| *value == json!(""));
        if is_unset {
            let value = match given {
                Text(text) => json!(text),
                Number(number) => json!(number),
                Empty => json!({}),
            };
            fields.insert((*field).to_owned(), value);
        }
    }
    match of {
        "apiextensions.v1.CustomResourceDefinitionNames" => name_the_rest(fields),
        "core.v1.Container" => set_pull_policy(fields),
        "core.v1.Namespace" => label_with_name(fields),
        "core.v1.NodeStatus" => copy_unless_set(fields, "capacity", "allocatable"),
        "core.v1.Pod" => {
            if let Some(Value::Object(spec)) = fields.get_mut("spec") {
                spec.entry("enableServiceLinks").or_insert_with(|| json!(true));
            }
        }
        "scheduling.v1beta1.PodGroupSpec" => {
            let mode = fields.entry("disruptionMode");
            mode.or_insert_with(|| json!({ "single": {} }));
        }
        "resource.v1.DeviceSubRequest" | "resource.v1.ExactDeviceRequest"
            if fields["allocationMode"] == "ExactCount" =>
        {
            fields.entry("count").or_insert_with(|| json!(1));
        }
        _ => {}
    }
}

fn copy_unless_set(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = fields.get(from).cloned() {
        fields.entry(to).or_insert(value);
    }
}

/// Sets the singular name and the list kind of a custom resource.
fn name_the_rest(names: &mut Map<String, Value>) {
    let Some(kind) = names
        .get("kind")
        .and_then(Value::as_str)
        .filter(|kind| !kind.is_empty())
    else {
        return;
    };
    let (singular, list) = (kind.to_lowercase(), format!("{kind}List"));
    names.entry("singular").or_insert_with(|| json!(singular));
    names.entry("listKind").or_insert_with(|| json!(list));
}

/// An image without tag or digest has the tag `latest`, which can change.
fn set_pull_policy(container: &mut Map<String, Value>) {
    let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    let is_latest = match last.split_once(':') {
        _ if last.contains('@') => false,
        Some((_, tag)) => tag == "latest",
        None => !image.is_empty(),
    };
    let policy = if is_latest { "Always" } else { "IfNotPresent" };
    container
        .entry("imagePullPolicy")
        .or_insert_with(|| json!(policy));
}

fn label_with_name(namespace: &mut Map<String, Value>) {
    let metadata = namespace.entry("metadata").or_insert_with(|| json!({}));
    let name = metadata.get("name").cloned().unwrap_or_default();
    if name.as_str().is_some_and(|name| !name.is_empty()) {
        metadata["labels"]["kubernetes.io/metadata.name"] = name;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_pulled_always_when_they_can_change() {
        let policy = |image: &str| {
            let mut container = Map::from_iter([("image".to_owned(), json!(image))]);
            set("core.v1.Container", &mut container);
            container["imagePullPolicy"].as_str().unwrap().to_owned()
        };
        assert_eq!(policy("i"), "Always");
        assert_eq!(policy("registry:5000/i"), "Always");
        assert_eq!(policy("i:latest"), "Always");
        assert_eq!(policy("registry:5000/i:1.2"), "IfNotPresent");
        assert_eq!(policy("i@sha256:0123"), "IfNotPresent");
    }
}
