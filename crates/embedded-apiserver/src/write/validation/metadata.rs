//! Names, labels, annotations, finalizers and owners.

use serde_json::{Value, json};

use super::{Causes, in_order};
use crate::failure::Cause;
use crate::object::{finalizers, text};
use crate::resource::Resource;
use crate::resource::table::{CUSTOM_RESOURCE_DEFINITIONS, LEASES, POD_DISRUPTION_BUDGETS};
use crate::syntax::{label, label_value, path_segment, qualified_name, subdomain};

/// Limit for the total size of an object's annotations, in bytes.
const ANNOTATIONS_SIZE: usize = 256 * 1024;

pub(super) fn check(resource: &Resource, object: &Value, name: &str, is_new: bool, causes: &mut Causes) {
    let metadata = &object["metadata"];
    if is_new {
        let rule = rule_for_names(resource);
        let prefix = text(metadata, "generateName");
        // The suffix makes a trailing `-` or `.` valid.
        if !prefix.is_empty() && !rule(prefix.trim_end_matches(['-', '.'])).is_empty() {
            causes.syntax("metadata.generateName", prefix, rule);
        }
        causes.syntax("metadata.name", name, rule);
        if resource.kind == "Namespace" && name.contains('.') && subdomain(name).is_empty() {
            // Replaces the less precise error that the name is not a label.
            causes.0.retain(|cause| cause.field != "metadata.name");
            causes.invalid("metadata.name", &json!(name), "must not contain dots");
        }
    }
    labels(metadata, "labels", "metadata.labels", causes);
    annotations(metadata, causes);
    owners(metadata, causes);
    for (number, finalizer) in finalizers(object).iter().filter_map(Value::as_str).enumerate() {
        causes.syntax("metadata.finalizers", finalizer, qualified_name);
        let is_standard = matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion");
        // Extensions and these kinds lack this rule.
        let lacking = [&CUSTOM_RESOURCE_DEFINITIONS, &LEASES, &POD_DISRUPTION_BUDGETS];
        let is_extension = resource.is_custom() || lacking.iter().any(|of| resource.is(of));
        if !finalizer.contains('/') && !is_standard && !is_extension {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.invalid(&format!("metadata.finalizers[{number}]"), &json!(finalizer), why);
        }
    }
}

fn rule_for_names(resource: &Resource) -> fn(&str) -> Vec<String> {
    match (resource.group, resource.kind) {
        ("", "Namespace") => label,
        ("rbac.authorization.k8s.io", _) => path_segment,
        _ => subdomain,
    }
}

/// Checks the labels in `holder[name]`; `field` is their path in the object.
pub(super) fn labels(holder: &Value, name: &str, field: &str, causes: &mut Causes) {
    for (key, value) in holder[name].as_object().into_iter().flatten() {
        causes.syntax(field, key, qualified_name);
        causes.syntax(field, value.as_str().unwrap_or_default(), label_value);
    }
}

fn annotations(metadata: &Value, causes: &mut Causes) {
    const FIELD: &str = "metadata.annotations";
    let mut size = 0;
    for (key, value) in metadata["annotations"].as_object().into_iter().flatten() {
        size += key.len() + value.as_str().unwrap_or_default().len();
        for why in qualified_name(&key.to_lowercase()) {
            causes.invalid(FIELD, &json!(key), &why);
        }
    }
    if size > ANNOTATIONS_SIZE {
        let message = format!("Too long: may not be more than {ANNOTATIONS_SIZE} bytes");
        causes.add("FieldValueTooLong", FIELD, message);
    }
}

fn owners(metadata: &Value, causes: &mut Causes) {
    const FIELD: &str = "metadata.ownerReferences";
    let owners = metadata["ownerReferences"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for (number, owner) in owners.iter().enumerate() {
        let at = format!("{FIELD}[{number}]");
        let api_version = text(owner, "apiVersion");
        for name in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, name).is_empty() {
                causes.required(&format!("{at}.{name}"), "must not be empty");
            } else if name == "apiVersion"
                && (api_version.matches('/').count() > 1 || api_version.ends_with('/'))
            {
                let why = "must be <group>/<version> or <version>";
                causes.invalid(&format!("{at}.{name}"), &json!(api_version), why);
            }
        }
        if (api_version, text(owner, "kind")) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.0.push(Cause::invalid(&at, &shown(owner), why));
        }
    }
    let mut controllers = owners.iter().filter(|owner| owner["controller"] == true);
    if let (Some(first), Some(second)) = (controllers.next(), controllers.next()) {
        let named = |owner: &Value| format!("{}/{}", text(owner, "kind"), text(owner, "name"));
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
            named(first),
            named(second)
        );
        let all: Vec<String> = owners.iter().map(shown).collect();
        let all = format!("[{}]", all.join(","));
        causes.0.push(Cause::invalid(FIELD, &all, &why));
    }
}

/// The owner as kube-apiserver quotes it.
fn shown(owner: &Value) -> String {
    let order = [
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    in_order(owner, &order)
}

/// Errors for fields that only a delete may set.
pub(crate) fn causes_of_update(old: &Value, new: &Value) -> Vec<Cause> {
    [
        ("deletionTimestamp", "metadata.deletionTimestamp"),
        (
            "deletionGracePeriodSeconds",
            "metadata.deletionGracePeriodSeconds",
        ),
    ]
    .into_iter()
    .filter_map(|(field, path)| {
        let wanted = new.get(field).filter(|wanted| !wanted.is_null())?;
        (old.get(field) != Some(wanted))
            .then(|| Cause::invalid(path, &wanted.to_string(), "field is immutable"))
    })
    .collect()
}
