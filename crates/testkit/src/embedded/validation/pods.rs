//! Pods and pod templates.

use serde_json::{Value, json};

use super::super::object::text;
use super::syntax::{label, qualified_name, subdomain};
use super::{Causes, at, pod_groups};

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
    check_claims(items(spec, "resourceClaims"), field, causes);
    if let Some(group) = spec.get("schedulingGroup") {
        let at = format!("{field}.schedulingGroup.podGroupName");
        match group["podGroupName"].as_str() {
            None => causes.invalid(&at, &Value::Null, "must specify one of: `podGroupName`"),
            Some(name) => causes.syntax(&at, name, subdomain),
        }
    }
    for (number, toleration) in items(spec, "tolerations").iter().enumerate() {
        check_toleration(toleration, &format!("{field}.tolerations[{number}]"), causes);
    }
}

/// The claims that a pod names, each once: a claim that is there or a template.
fn check_claims(claims: &[Value], field: &str, causes: &mut Causes) {
    let mut names = Vec::new();
    for (number, claim) in claims.iter().enumerate() {
        let at = format!("{field}.resourceClaims[{number}]");
        match text(claim, "name") {
            "" => causes.required(&format!("{at}.name"), ""),
            name if names.contains(&name) => causes.duplicate(&format!("{at}.name"), &json!(name)),
            name => {
                causes.syntax(&format!("{at}.name"), name, label);
                names.push(name);
            }
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let given = sources.map(|source| claim[source].as_str());
        match given {
            [Some(_), Some(_)] => {
                let why =
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                causes.invalid(&at, claim, why);
            }
            [None, None] => {
                let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                causes.invalid(&at, claim, why);
            }
            _ => {}
        }
        for (source, name) in sources.into_iter().zip(given) {
            if let Some(name) = name {
                causes.syntax(&format!("{at}.{source}"), name, subdomain);
            }
        }
    }
}

/// A pod whose status is written: what it tells of its claims.
pub(super) fn check_status(pod: &Value, causes: &mut Causes) {
    const FIELD: &str = "status.resourceClaimStatuses";
    let statuses = items(&pod["status"], "resourceClaimStatuses");
    let mut names = Vec::new();
    for (number, status) in statuses.iter().enumerate() {
        let name = text(status, "name");
        pod_groups::check_told(pod, &statuses[number..=number], FIELD, causes);
        if names.contains(&name) {
            causes.duplicate(&format!("{FIELD}[{number}].name"), &json!(name));
        }
        names.push(name);
        if let Some(claim) = status["resourceClaimName"].as_str() {
            causes.syntax(&format!("{FIELD}[{number}].resourceClaimName"), claim, subdomain);
        }
    }
    if let Some(extended) = pod["status"].get("extendedResourceClaimStatus") {
        check_extended(&pod["spec"], extended, causes);
    }
}

/// The claim that a scheduler made for what the containers of a pod ask for by number.
fn check_extended(spec: &Value, status: &Value, causes: &mut Causes) {
    const FIELD: &str = "status.extendedResourceClaimStatus";
    let container = |name: &str| {
        ["containers", "initContainers"]
            .iter()
            .flat_map(|list| items(spec, list))
            .find(|container| text(container, "name") == name)
    };
    let mappings = items(status, "requestMappings");
    if mappings.is_empty() {
        let why = "at least one request mapping is required";
        causes.required(&format!("{FIELD}.requestMappings"), why);
    }
    for (number, mapping) in mappings.iter().enumerate() {
        let at = format!("{FIELD}.requestMappings[{number}]");
        let (name, resource) = (text(mapping, "containerName"), text(mapping, "resourceName"));
        match container(name) {
            None => {
                let why =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                causes.invalid(&format!("{at}.containerName"), &json!(name), why);
            }
            Some(container) if container["resources"]["requests"].get(resource).is_none() => {
                let why = "must match the extended resource name of an entry in \
                           spec.initContainers.resources.requests or spec.containers.resources.requests";
                causes.invalid(&format!("{at}.resourceName"), &json!(resource), why);
            }
            Some(_) => {}
        }
        causes.syntax(
            &format!("{FIELD}.requestName"),
            text(mapping, "requestName"),
            label,
        );
        if mappings[..number].contains(mapping) {
            for part in ["containerName", "resourceName", "requestName"] {
                causes.duplicate(&format!("{at}.{part}"), &mapping[part]);
            }
        }
    }
    match text(status, "resourceClaimName") {
        "" => causes.required(&format!("{FIELD}.resourceClaimName"), ""),
        name => causes.syntax(&format!("{FIELD}.resourceClaimName"), name, subdomain),
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
