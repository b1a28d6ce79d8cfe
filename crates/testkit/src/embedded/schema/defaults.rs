//! What the API server fills in where a client says nothing, by the Go type that holds the field.
//!
//! Whoever writes an object owns what is filled in. Values that depend on more than their own type come at
//! the end.

use serde_json::{Map, Value, json};

/// The value of a field that was not given.
#[derive(Clone, Copy, Debug)]
enum Given {
    Text(&'static str),
    Number(i64),
    Flag(bool),
    /// A struct of this type with its own defaults.
    Struct(&'static str),
}

use Given::{Flag, Number, Struct, Text};

/// Type, field, default. Later rows see what earlier ones set.
const DEFAULTS: &[(&str, &str, Given)] = &[
    (
        "apiextensions.v1.CustomResourceDefinitionSpec",
        "conversion",
        Struct("apiextensions.v1.CustomResourceConversion"),
    ),
    (
        "apiextensions.v1.CustomResourceConversion",
        "strategy",
        Text("None"),
    ),
    ("apps.v1.DaemonSetSpec", "revisionHistoryLimit", Number(10)),
    ("apps.v1.DaemonSetUpdateStrategy", "type", Text("RollingUpdate")),
    ("apps.v1.DeploymentSpec", "progressDeadlineSeconds", Number(600)),
    ("apps.v1.DeploymentSpec", "replicas", Number(1)),
    ("apps.v1.DeploymentSpec", "revisionHistoryLimit", Number(10)),
    ("apps.v1.DeploymentStrategy", "type", Text("RollingUpdate")),
    ("apps.v1.ReplicaSetSpec", "replicas", Number(1)),
    ("apps.v1.RollingUpdateDaemonSet", "maxSurge", Number(0)),
    ("apps.v1.RollingUpdateDaemonSet", "maxUnavailable", Number(1)),
    ("apps.v1.RollingUpdateDeployment", "maxSurge", Text("25%")),
    ("apps.v1.RollingUpdateDeployment", "maxUnavailable", Text("25%")),
    ("apps.v1.RollingUpdateStatefulSetStrategy", "partition", Number(0)),
    (
        "apps.v1.StatefulSetSpec",
        "persistentVolumeClaimRetentionPolicy",
        Struct("apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy"),
    ),
    (
        "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy",
        "whenDeleted",
        Text("Retain"),
    ),
    (
        "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy",
        "whenScaled",
        Text("Retain"),
    ),
    (
        "apps.v1.StatefulSetSpec",
        "podManagementPolicy",
        Text("OrderedReady"),
    ),
    ("apps.v1.StatefulSetSpec", "replicas", Number(1)),
    ("apps.v1.StatefulSetSpec", "revisionHistoryLimit", Number(10)),
    ("batch.v1.JobSpec", "completionMode", Text("NonIndexed")),
    ("batch.v1.JobSpec", "manualSelector", Flag(false)),
    ("batch.v1.JobSpec", "suspend", Flag(false)),
    (
        "batch.v1.PodFailurePolicyOnPodConditionsPattern",
        "status",
        Text("True"),
    ),
    ("core.v1.ConfigMapVolumeSource", "defaultMode", Number(0o644)),
    (
        "core.v1.Container",
        "terminationMessagePath",
        Text("/dev/termination-log"),
    ),
    ("core.v1.Container", "terminationMessagePolicy", Text("File")),
    ("core.v1.DownwardAPIVolumeSource", "defaultMode", Number(0o644)),
    (
        "core.v1.EphemeralContainer",
        "terminationMessagePath",
        Text("/dev/termination-log"),
    ),
    (
        "core.v1.EphemeralContainer",
        "terminationMessagePolicy",
        Text("File"),
    ),
    ("core.v1.HTTPGetAction", "path", Text("/")),
    ("core.v1.HTTPGetAction", "scheme", Text("HTTP")),
    ("core.v1.HostPathVolumeSource", "type", Text("")),
    ("core.v1.NamespaceStatus", "phase", Text("Active")),
    ("core.v1.ObjectFieldSelector", "apiVersion", Text("v1")),
    ("core.v1.PodSpec", "dnsPolicy", Text("ClusterFirst")),
    ("core.v1.PodSpec", "restartPolicy", Text("Always")),
    ("core.v1.PodSpec", "schedulerName", Text("default-scheduler")),
    (
        "core.v1.PodSpec",
        "securityContext",
        Struct("core.v1.PodSecurityContext"),
    ),
    ("core.v1.PodSpec", "terminationGracePeriodSeconds", Number(30)),
    ("core.v1.Probe", "failureThreshold", Number(3)),
    ("core.v1.Probe", "periodSeconds", Number(10)),
    ("core.v1.Probe", "successThreshold", Number(1)),
    ("core.v1.Probe", "timeoutSeconds", Number(1)),
    ("core.v1.ProjectedVolumeSource", "defaultMode", Number(0o644)),
    ("core.v1.SecretVolumeSource", "defaultMode", Number(0o644)),
    (
        "core.v1.ServiceAccountTokenProjection",
        "expirationSeconds",
        Number(3600),
    ),
    ("rbac.v1.RoleRef", "apiGroup", Text(RBAC)),
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

const RBAC: &str = "rbac.authorization.k8s.io";

/// Sets the defaults of a struct whose own parts have theirs.
pub(super) fn set(of: &str, fields: &mut Map<String, Value>) {
    // The table is in the order of its types.
    for (_, field, given) in DEFAULTS.iter().filter(|(name, _, _)| *name == of) {
        let is_unset = fields.get(*field).is_none_or(|value| *value == json!(""));
        if is_unset {
            fields.insert((*field).to_owned(), value_of(*given));
        }
    }
    match of {
        "apiextensions.v1.CustomResourceDefinitionNames" => name_the_rest(fields),
        "apps.v1.DaemonSetUpdateStrategy" => set_rolling(fields, "apps.v1.RollingUpdateDaemonSet"),
        "apps.v1.DeploymentStrategy" => set_rolling(fields, "apps.v1.RollingUpdateDeployment"),
        "apps.v1.StatefulSetUpdateStrategy" if !fields.contains_key("type") || fields["type"] == "" => {
            fields.insert("type".to_owned(), json!("RollingUpdate"));
            set_rolling(fields, "apps.v1.RollingUpdateStatefulSetStrategy");
        }
        "apps.v1.DaemonSet" => annotate_generation(fields),
        "batch.v1.JobSpec" => set_job_spec(fields),
        "batch.v1.Job" => label_as_template(fields),
        "core.v1.Container" | "core.v1.EphemeralContainer" => set_pull_policy(fields),
        "core.v1.Namespace" => label_with_name(fields),
        "core.v1.NodeStatus" => copy_unless_set(fields, "capacity", "allocatable"),
        "core.v1.Pod" => set_pod(fields),
        "core.v1.ReplicationController" => {
            label_as_template(fields);
            select_template(fields);
        }
        // Where a volume comes from stands beside its name.
        "core.v1.Volume" if fields.len() == 1 => {
            fields.insert("emptyDir".to_owned(), json!({}));
        }
        "rbac.v1.Subject" if matches!(fields.get("kind"), Some(kind) if kind == "User" || kind == "Group") => {
            fields.entry("apiGroup").or_insert_with(|| json!(RBAC));
        }
        "resource.v1.DeviceSubRequest" | "resource.v1.ExactDeviceRequest"
            if fields["allocationMode"] == "ExactCount" =>
        {
            fields.entry("count").or_insert_with(|| json!(1));
        }
        _ => {}
    }
}

fn value_of(given: Given) -> Value {
    match given {
        Text(text) => json!(text),
        Number(number) => json!(number),
        Flag(flag) => json!(flag),
        Struct(of) => {
            let mut fields = Map::new();
            set(of, &mut fields);
            Value::Object(fields)
        }
    }
}

fn copy_unless_set(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = fields.get(from).cloned() {
        fields.entry(to).or_insert(value);
    }
}

/// The parameters of a rolling update, where that is the strategy.
fn set_rolling(fields: &mut Map<String, Value>, of: &'static str) {
    if fields.get("type").is_some_and(|kind| kind == "RollingUpdate") {
        fields
            .entry("rollingUpdate")
            .or_insert_with(|| value_of(Struct(of)));
    }
}

/// Singular and list kind of a custom resource.
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

/// The generation of the template, which `apps/v1` shows in an annotation only.
fn annotate_generation(object: &mut Map<String, Value>) {
    const ANNOTATION: &str = "deprecated.daemonset.template.generation";
    let annotations = &mut object.entry("metadata").or_insert_with(|| json!({}))["annotations"];
    if annotations.get(ANNOTATION).is_none() {
        annotations[ANNOTATION] = json!("1");
    }
}

fn set_job_spec(spec: &mut Map<String, Value>) {
    if !spec.contains_key("parallelism") {
        spec.insert("parallelism".to_owned(), json!(1));
        spec.entry("completions").or_insert_with(|| json!(1));
    }
    let backoff = if spec.contains_key("backoffLimitPerIndex") {
        i32::MAX
    } else {
        6
    };
    spec.entry("backoffLimit").or_insert_with(|| json!(backoff));
    let replaced = if spec.contains_key("podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    spec.entry("podReplacementPolicy")
        .or_insert_with(|| json!(replaced));
}

/// The labels of the pod template, for an object that has none.
pub(in crate::embedded) fn label_as_template(object: &mut Map<String, Value>) {
    let labels = object
        .get("spec")
        .map(|spec| &spec["template"]["metadata"]["labels"]);
    if let Some(labels) = labels.filter(|labels| labels.is_object()).cloned() {
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        if metadata.get("labels").is_none() {
            metadata["labels"] = labels;
        }
    }
}

fn select_template(object: &mut Map<String, Value>) {
    let Some(spec) = object.get_mut("spec") else {
        return;
    };
    let labels = spec["template"]["metadata"]["labels"].clone();
    if labels.is_object() && spec.get("selector").is_none() {
        spec["selector"] = labels;
    }
}

/// An image without a tag or digest is the latest, which can change.
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

/// What holds for pods but not for pod templates.
fn set_pod(pod: &mut Map<String, Value>) {
    let Some(Value::Object(spec)) = pod.get_mut("spec") else {
        return;
    };
    spec.entry("enableServiceLinks").or_insert_with(|| json!(true));
    for list in ["containers", "initContainers"] {
        for container in spec
            .get_mut(list)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            let Some(limits) = container["resources"]
                .get("limits")
                .and_then(Value::as_object)
                .cloned()
            else {
                continue;
            };
            let requests = &mut container["resources"]["requests"];
            for (resource, quantity) in limits {
                if requests.get(&resource).is_none() {
                    requests[resource] = quantity;
                }
            }
        }
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
