//! What the API server sets in a new object of some kinds, whatever a client says. Nobody owns it.

use serde_json::{Map, Value, json};

use super::namespaces;
use super::object::finalizers;
use super::resource::{Resource, StatusRule};
use super::schema::label_as_template;
use super::write::{Origin, Write};

impl Write<'_> {
    /// Sets status and the like of an object that has its name and uid.
    pub(super) fn prepare(&self, object: &mut Value) {
        let has_own_status = self.origin == Origin::Test && object.get("status").is_some_and(is_told);
        // A kind that is completed by rules of its own has its first status from them.
        let is_complete = self.resource.on_create.is_some();
        if self.resource.status == StatusRule::SubresourceOnly && !has_own_status && !is_complete {
            set_first_status(self.resource, object);
        }
        match (self.resource.group, self.resource.kind) {
            ("", "Namespace") => {
                namespaces::label(object);
                namespaces::activate(object, self.part);
            }
            ("scheduling.k8s.io", "PodGroup") => protect(object),
            ("batch", "Job") if object["spec"]["manualSelector"] != true => select_own_pods(object),
            _ => {}
        }
    }
}

/// A group stays until no pod is in it: a controller takes the finalizer away.
fn protect(group: &mut Value) {
    const PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";
    if !finalizers(group).iter().any(|finalizer| finalizer == PROTECTION) {
        let mut all = finalizers(group).to_vec();
        all.push(json!(PROTECTION));
        group["metadata"]["finalizers"] = Value::Array(all);
    }
}

/// Whether a status says more than that there is one.
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

/// A pod is pending until a kubelet runs it, and not to be scheduled while gates hold it.
fn pod_status(spec: &Value) -> Value {
    let mut status = json!({ "phase": "Pending", "qosClass": qos_class(spec) });
    if spec["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty())
    {
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]);
    }
    status
}

/// How a pod is treated when memory is short: by its requests and limits of CPU and memory.
fn qos_class(spec: &Value) -> &'static str {
    let containers = || {
        ["containers", "initContainers"]
            .iter()
            .filter_map(|list| spec[*list].as_array())
            .flatten()
    };
    let amount = |container: &Value, kind: &str, resource: &str| {
        container["resources"][kind]
            .get(resource)
            .and_then(Value::as_str)
            .filter(|amount| *amount != "0")
            .map(str::to_owned)
    };
    let is_asked = containers().any(|container| {
        ["requests", "limits"].iter().any(|kind| {
            ["cpu", "memory"]
                .iter()
                .any(|resource| amount(container, kind, resource).is_some())
        })
    });
    let is_guaranteed = containers().all(|container| {
        ["cpu", "memory"].iter().all(|resource| {
            let limit = amount(container, "limits", resource);
            limit.is_some() && limit == amount(container, "requests", resource)
        })
    });
    match (is_asked, is_guaranteed) {
        (false, _) => "BestEffort",
        (true, false) => "Burstable",
        (true, true) => "Guaranteed",
    }
}

/// Gives the pods of a job labels of their own, and the job a selector for them.
fn select_own_pods(job: &mut Value) {
    const UID: &str = "batch.kubernetes.io/controller-uid";
    let (name, uid) = (job["metadata"]["name"].clone(), job["metadata"]["uid"].clone());
    let template = &mut job["spec"]["template"];
    if template["metadata"].is_null() {
        template["metadata"] = json!({});
    }
    for (label, value) in [
        ("batch.kubernetes.io/job-name", &name),
        ("job-name", &name),
        (UID, &uid),
        ("controller-uid", &uid),
    ] {
        set_unless_set(&mut template["metadata"]["labels"], label, value);
    }
    let selector = &mut job["spec"]["selector"];
    set_unless_set(&mut selector["matchLabels"], UID, &uid);
    if let Some(job) = job.as_object_mut() {
        label_as_template(job);
    }
}

fn set_unless_set(labels: &mut Value, label: &str, value: &Value) {
    if labels.is_null() {
        *labels = Value::Object(Map::new());
    }
    if let Some(labels) = labels.as_object_mut() {
        labels.entry(label).or_insert_with(|| value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_classed_by_what_they_ask_for() {
        let class = |resources: Value| qos_class(&json!({ "containers": [{ "resources": resources }] }));
        let both = json!({ "cpu": "1", "memory": "1Gi" });
        assert_eq!(class(json!({})), "BestEffort");
        assert_eq!(class(json!({ "requests": { "cpu": "0" } })), "BestEffort");
        assert_eq!(
            class(json!({ "requests": { "example.com/gpu": "1" } })),
            "BestEffort"
        );
        assert_eq!(class(json!({ "requests": { "cpu": "1" } })), "Burstable");
        assert_eq!(
            class(json!({ "limits": both, "requests": { "cpu": "1" } })),
            "Burstable"
        );
        assert_eq!(class(json!({ "limits": both, "requests": both })), "Guaranteed");
    }
}
