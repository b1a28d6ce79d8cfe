//! The rules of each kind for all but its metadata.

use serde_json::{Map, Value, json};

use super::super::object::text;
use super::super::resource::Resource;
use super::metadata::labels;
use super::syntax::qualified_name;
use super::{Causes, at, claims, pod_groups, pods};

/// Group, kind, field: what never changes once it is set.
const IMMUTABLE: &[(&str, &str, &str)] = &[
    ("apps", "DaemonSet", "spec.selector"),
    ("apps", "Deployment", "spec.selector"),
    ("apps", "ReplicaSet", "spec.selector"),
    ("batch", "Job", "spec.backoffLimitPerIndex"),
    ("batch", "Job", "spec.completionMode"),
    ("batch", "Job", "spec.managedBy"),
    ("batch", "Job", "spec.podFailurePolicy"),
    ("batch", "Job", "spec.selector"),
    ("batch", "Job", "spec.successPolicy"),
    ("resource.k8s.io", "ResourceClaim", "spec"),
    ("resource.k8s.io", "ResourceClaimTemplate", "spec"),
];

/// Group, kind, field: numbers that are not negative.
const NOT_NEGATIVE: &[(&str, &str, &str)] = &[
    ("", "ReplicationController", "spec.minReadySeconds"),
    ("", "ReplicationController", "spec.replicas"),
    ("apps", "DaemonSet", "spec.minReadySeconds"),
    ("apps", "Deployment", "spec.minReadySeconds"),
    ("apps", "Deployment", "spec.replicas"),
    ("apps", "ReplicaSet", "spec.minReadySeconds"),
    ("apps", "ReplicaSet", "spec.replicas"),
    ("apps", "StatefulSet", "spec.minReadySeconds"),
    ("apps", "StatefulSet", "spec.replicas"),
    ("batch", "Job", "spec.parallelism"),
    ("batch", "Job", "spec.completions"),
    ("batch", "Job", "spec.activeDeadlineSeconds"),
    ("batch", "Job", "spec.backoffLimit"),
    ("batch", "Job", "spec.ttlSecondsAfterFinished"),
    ("coordination.k8s.io", "Lease", "spec.leaseTransitions"),
];

pub(super) fn check(resource: &Resource, old: Option<&Value>, new: &Value, causes: &mut Causes) {
    let rows = |table: &'static [(&'static str, &'static str, &'static str)]| {
        table
            .iter()
            .filter(|(group, kind, _)| *group == resource.group && *kind == resource.kind)
            .map(|(_, _, field)| *field)
    };
    for field in rows(NOT_NEGATIVE) {
        causes.not_negative(new, field);
    }
    match (resource.group, resource.kind) {
        ("", "ConfigMap") => config_map(old, new, causes),
        ("", "Event") => event(new, causes),
        ("", "Node") => node(old, new, causes),
        ("", "Pod") => match old {
            None => pods::check(&new["spec"], "spec", causes),
            Some(old) => pods::check_change(&old["spec"], &new["spec"], causes),
        },
        ("", "ReplicationController") => controller(&new["spec"]["selector"], new, &["Always"], causes),
        ("apps", _) => {
            selector(&new["spec"]["selector"], true, causes);
            controller(&new["spec"]["selector"]["matchLabels"], new, &["Always"], causes);
            if let Some(old) = old.filter(|_| resource.kind == "StatefulSet") {
                stateful_set_change(old, new, causes);
            }
        }
        ("batch", "Job") => job(old, new, causes),
        ("coordination.k8s.io", "Lease") => lease(new, causes),
        ("policy", "PodDisruptionBudget") => budget(new, causes),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            binding(resource, old, new, causes);
        }
        ("resource.k8s.io", "ResourceClaim") => claims::check(&new["spec"], "spec", causes),
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            claims::check(&new["spec"]["spec"], "spec.spec", causes);
        }
        ("scheduling.k8s.io", "PodGroup") => pod_groups::check(old, new, causes),
        _ => {}
    }
    if let Some(old) = old {
        for field in rows(IMMUTABLE) {
            causes.immutable(old, new, field);
        }
    }
}

fn config_map(old: Option<&Value>, new: &Value, causes: &mut Causes) {
    let Some(old) = old.filter(|old| old["immutable"] == true) else {
        return;
    };
    for field in ["immutable", "data", "binaryData"] {
        if at(old, field) != at(new, field) {
            causes.forbidden(field, "field is immutable when `immutable` is set");
        }
    }
}

fn event(new: &Value, causes: &mut Causes) {
    let about = text(&new["involvedObject"], "namespace");
    let own = text(&new["metadata"], "namespace");
    // What is in no namespace has its events in this one.
    if about != own && !(about.is_empty() && own == "default") {
        let why = "does not match event.namespace";
        causes.invalid("involvedObject.namespace", &json!(about), why);
    }
}

fn node(old: Option<&Value>, new: &Value, causes: &mut Causes) {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    for (number, taint) in new["spec"]["taints"].as_array().into_iter().flatten().enumerate() {
        // Upstream says metadata, too.
        let at = format!("metadata.taints[{number}]");
        causes.syntax(&format!("{at}.key"), text(taint, "key"), qualified_name);
        match text(taint, "effect") {
            "" => causes.required(&format!("{at}.effect"), ""),
            effect if EFFECTS.contains(&effect) => {}
            other => causes.unsupported(&format!("{at}.effect"), other, &EFFECTS),
        }
    }
    let provider = |node: &Value| text(&node["spec"], "providerID").to_owned();
    if let Some(old) = old.map(provider).filter(|old| !old.is_empty())
        && old != provider(new)
    {
        let why = "node updates may not change providerID except from \"\" to valid";
        causes.forbidden("spec.providerID", why);
    }
}

fn lease(new: &Value, causes: &mut Causes) {
    let duration = at(new, "spec.leaseDurationSeconds");
    if duration.as_i64().is_some_and(|seconds| seconds <= 0) {
        causes.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0");
    }
}

/// What makes pods from a template: its labels must be selected, its pods must restart in such a way.
fn controller(selected: &Value, new: &Value, restart: &[&str], causes: &mut Causes) {
    let template = &new["spec"]["template"];
    let own = &template["metadata"]["labels"];
    let nothing = Map::new();
    let mut wanted = selected.as_object().unwrap_or(&nothing).iter();
    if selected.is_null() || !wanted.all(|(key, value)| own.get(key) == Some(value)) {
        let why = "`selector` does not match template `labels`";
        causes.invalid("spec.template.metadata.labels", own, why);
    }
    pod_template(template, restart, causes);
}

fn pod_template(template: &Value, restart: &[&str], causes: &mut Causes) {
    labels(&template["metadata"], "labels", "spec.template.labels", causes);
    pods::check(&template["spec"], "spec.template.spec", causes);
    let policy = text(&template["spec"], "restartPolicy");
    if !restart.contains(&policy) && !policy.is_empty() {
        causes.unsupported("spec.template.spec.restartPolicy", policy, restart);
    }
}

fn stateful_set_change(old: &Value, new: &Value, causes: &mut Causes) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |object: &Value| -> Vec<(String, Value)> {
        object["spec"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(field, _)| !MUTABLE.contains(&field.as_str()))
            .map(|(field, value)| (field.clone(), value.clone()))
            .collect()
    };
    if fixed(old) != fixed(new) {
        let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                   'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                   'minReadySeconds' are forbidden";
        causes.forbidden("spec", why);
    }
}

fn job(old: Option<&Value>, new: &Value, causes: &mut Causes) {
    selector(&new["spec"]["selector"], false, causes);
    let template = &new["spec"]["template"];
    pods::check(&template["spec"], "spec.template.spec", causes);
    match text(&template["spec"], "restartPolicy") {
        "OnFailure" | "Never" => {}
        // The default, which says that nobody thought of it.
        "" | "Always" if old.is_none() => {
            let why = "valid values: \"OnFailure\", \"Never\"";
            causes.required("spec.template.spec.restartPolicy", why);
        }
        other => causes.unsupported("spec.template.spec.restartPolicy", other, &["OnFailure", "Never"]),
    }
    let Some(old) = old else {
        return;
    };
    if new["spec"]["completionMode"] != "Indexed" {
        causes.immutable(old, new, "spec.completions");
    }
    let has_pods = old["status"].get("startTime").is_some() || old["status"].get("active").is_some();
    if old["spec"]["suspend"] != true || has_pods {
        causes.immutable(old, new, "spec.template");
    }
}

fn budget(new: &Value, causes: &mut Causes) {
    let spec = &new["spec"];
    selector(&spec["selector"], false, causes);
    if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
        causes.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set");
    }
    for name in ["minAvailable", "maxUnavailable"] {
        let field = format!("spec.{name}");
        causes.not_negative(new, &field);
        if let Value::String(text) = &spec[name] {
            match percentage(text) {
                None => {
                    let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. \
                               '1%',  or '93%', regex used for validation is '[0-9]+%')";
                    causes.invalid(&field, &spec[name], why);
                }
                Some(percent) if percent > 100 => {
                    causes.invalid(&field, &spec[name], "must not be greater than 100%");
                }
                Some(_) => {}
            }
        }
    }
}

fn percentage(text: &str) -> Option<u64> {
    let number = text.strip_suffix('%')?;
    number
        .chars()
        .all(|c| c.is_ascii_digit())
        .then(|| number.parse().ok())
        .flatten()
}

/// A label selector at `spec.selector`.
fn selector(selector: &Value, is_required: bool, causes: &mut Causes) {
    const FIELD: &str = "spec.selector";
    if selector.is_null() {
        if is_required {
            causes.required(FIELD, "");
        }
        return;
    }
    labels(selector, "matchLabels", "spec.selector.matchLabels", causes);
    for (number, expression) in selector["matchExpressions"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let at = format!("{FIELD}.matchExpressions[{number}]");
        let has_values = expression.get("values").is_some();
        match text(expression, "operator") {
            "In" | "NotIn" if !has_values => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                causes.required(&format!("{at}.values"), why);
            }
            "Exists" | "DoesNotExist" if has_values => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.forbidden(&format!("{at}.values"), why);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => causes.invalid(
                &format!("{at}.operator"),
                &json!(other),
                "not a valid selector operator",
            ),
        }
        causes.syntax(&format!("{at}.key"), text(expression, "key"), qualified_name);
    }
}

fn binding(resource: &Resource, old: Option<&Value>, new: &Value, causes: &mut Causes) {
    let role = &new["roleRef"];
    let kinds: &[&str] = if resource.is_namespaced() {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&text(role, "kind")) {
        causes.unsupported("roleRef.kind", text(role, "kind"), kinds);
    }
    if text(role, "name").is_empty() {
        causes.required("roleRef.name", "");
    }
    for (number, subject) in new["subjects"].as_array().into_iter().flatten().enumerate() {
        let at = format!("subjects[{number}]");
        if text(subject, "name").is_empty() {
            causes.required(&format!("{at}.name"), "");
        }
        match text(subject, "kind") {
            // In a namespace it can only be meant to be of the same.
            "ServiceAccount" if text(subject, "namespace").is_empty() && !resource.is_namespaced() => {
                causes.required(&format!("{at}.namespace"), "");
            }
            "ServiceAccount" | "User" | "Group" => {}
            other => causes.unsupported(&format!("{at}.kind"), other, &["ServiceAccount", "User", "Group"]),
        }
    }
    if old.is_some_and(|old| old["roleRef"] != *role) {
        causes.invalid("roleRef", role, "cannot change roleRef");
    }
}
