//! The rules of each kind, except those for metadata.

use serde_json::{Value, json};

use super::{Causes, at, claims, pod_groups, pods};
use crate::object::text;
use crate::resource::Resource;
use crate::syntax::qualified_name;

/// Group, kind, immutable field.
const IMMUTABLE: &[(&str, &str, &str)] = &[
    ("apps", "DaemonSet", "spec.selector"),
    ("apps", "Deployment", "spec.selector"),
    ("apps", "ReplicaSet", "spec.selector"),
    ("batch", "Job", "spec.selector"),
    ("resource.k8s.io", "ResourceClaim", "spec"),
    ("resource.k8s.io", "ResourceClaimTemplate", "spec"),
];

/// Group, kind, field that must not be negative.
const NOT_NEGATIVE: &[(&str, &str, &str)] = &[
    ("", "ReplicationController", "spec.replicas"),
    ("apps", "Deployment", "spec.replicas"),
    ("apps", "ReplicaSet", "spec.replicas"),
    ("apps", "StatefulSet", "spec.replicas"),
    ("batch", "Job", "spec.ttlSecondsAfterFinished"),
    ("coordination.k8s.io", "Lease", "spec.leaseTransitions"),
    ("policy", "PodDisruptionBudget", "spec.maxUnavailable"),
    ("policy", "PodDisruptionBudget", "spec.minAvailable"),
];

pub(super) fn check(resource: &Resource, old: Option<&Value>, new: &Value, causes: &mut Causes) {
    let rows = |table: &'static [(&'static str, &'static str, &'static str)]| {
        table
            .iter()
            .filter(|(group, kind, _)| *group == resource.group && *kind == resource.kind)
            .map(|(_, _, field)| *field)
    };
    if resource.kind == "Lease" {
        lease(new, causes);
    }
    for field in rows(NOT_NEGATIVE) {
        causes.not_negative(new, field);
    }
    match (resource.group, resource.kind) {
        ("", "Event") => event(new, causes),
        ("", "Node") => taints(new, causes),
        ("policy", "PodDisruptionBudget") => budget(new, causes),
        ("", "Pod") if old.is_none() => pods::check(&new["spec"], causes),
        // What may not change is not checked again.
        ("resource.k8s.io", _) if old.is_some() => {}
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

fn event(new: &Value, causes: &mut Causes) {
    let about = text(&new["involvedObject"], "namespace");
    let own = text(&new["metadata"], "namespace");
    // Events about cluster-scoped objects are in the namespace `default`.
    if about != own && !(about.is_empty() && own == "default") {
        let why = "does not match event.namespace";
        causes.invalid("involvedObject.namespace", &json!(about), why);
    }
}

fn taints(new: &Value, causes: &mut Causes) {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    for (number, taint) in new["spec"]["taints"].as_array().into_iter().flatten().enumerate() {
        // Upstream names this path, too.
        let at = format!("metadata.taints[{number}]");
        causes.syntax(&format!("{at}.key"), text(taint, "key"), qualified_name);
        match text(taint, "effect") {
            "" => causes.required(&format!("{at}.effect"), ""),
            effect if EFFECTS.contains(&effect) => {}
            other => causes.unsupported(&format!("{at}.effect"), other, &EFFECTS),
        }
    }
}

fn budget(new: &Value, causes: &mut Causes) {
    const POLICIES: [&str; 2] = ["AlwaysAllow", "IfHealthyBudget"];
    let policy = at(new, "spec.unhealthyPodEvictionPolicy").as_str();
    if let Some(other) = policy.filter(|policy| !POLICIES.contains(policy)) {
        causes.unsupported("spec.unhealthyPodEvictionPolicy", other, &POLICIES);
    }
}

fn lease(new: &Value, causes: &mut Causes) {
    let duration = at(new, "spec.leaseDurationSeconds");
    if duration.as_i64().is_some_and(|seconds| seconds <= 0) {
        causes.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0");
    }
}
