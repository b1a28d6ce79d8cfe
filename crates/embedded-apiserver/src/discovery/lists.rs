//! `APIGroupList` and `APIResourceList`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::resource::table::NAMESPACES;
use crate::resource::{Action, Resource, Target};

/// Verbs of a resource.
const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
/// Verbs of `/status` and `/scale`.
const PART_VERBS: &[&str] = &["get", "patch", "update"];

/// Group and version of `PriorityClass`: every kube-apiserver serves them, this one without the kind.
const PRIORITY_CLASSES: (&str, &str) = ("scheduling.k8s.io", "v1");

/// The served versions by group, the preferred one first.
pub(super) fn versions(served: &[&'static Resource]) -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    let of_kinds = served.iter().map(|resource| (resource.group, resource.version));
    for (group, version) in of_kinds.chain([PRIORITY_CLASSES]) {
        let versions = groups.entry(group).or_default();
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|version| Reverse(stability(version)));
    }
    groups
}

pub(crate) fn has_group(served: &[&'static Resource], name: &str) -> bool {
    name == PRIORITY_CLASSES.0 || served.iter().any(|resource| resource.group == name)
}

pub(super) fn has_version(served: &[&'static Resource], group: &str, version: &str) -> bool {
    let is_of_kind = |resource: &&Resource| (resource.group, resource.version) == (group, version);
    (group, version) == PRIORITY_CLASSES || served.iter().any(is_of_kind)
}

/// `GET /apis`: all groups but the core group.
pub(super) fn groups(served: &[&'static Resource]) -> Value {
    let named = versions(served)
        .into_iter()
        .filter(|(group, _)| !group.is_empty());
    let groups: Vec<Value> = named.map(|(name, versions)| entry(name, &versions)).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `GET /apis/<group>`; `None` if the group is not served.
pub(super) fn group(served: &[&'static Resource], name: &str) -> Option<Value> {
    let mut document = entry(name, versions(served).get(name)?);
    document["kind"] = json!("APIGroup");
    document["apiVersion"] = json!("v1");
    Some(document)
}

/// A group without `kind` and `apiVersion`.
fn entry(name: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({ "groupVersion": format!("{name}/{version}"), "version": version }))
        .collect();
    json!({ "name": name, "preferredVersion": versions.first(), "versions": versions })
}

/// `GET /apis/<group>/<version>` and `GET /api/<version>`; `None` if the version is not served.
pub(super) fn resources(served: &[&'static Resource], group: &str, version: &str) -> Option<Value> {
    if !has_version(served, group, version) {
        return None;
    }
    let mut within: Vec<&'static Resource> = served
        .iter()
        .copied()
        .filter(|resource| resource.group == group && resource.version == version)
        .collect();
    within.sort_by_key(|resource| resource.plural);
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let resources: Vec<Value> = within.into_iter().flat_map(with_parts).collect();
    let mut document =
        json!({ "kind": "APIResourceList", "groupVersion": api_version, "resources": resources });
    // kube-apiserver leaves this out for the core group.
    if !group.is_empty() {
        document["apiVersion"] = json!("v1");
    }
    Some(document)
}

/// A resource, then its subresources by name.
fn with_parts(resource: &'static Resource) -> Vec<Value> {
    let verbs = VERBS
        .iter()
        // Namespaces can only be deleted one by one.
        .filter(|verb| **verb != "deletecollection" || !resource.is(&NAMESPACES));
    let mut own = json!({
        "name": resource.plural,
        "singularName": resource.kind.to_lowercase(),
        "namespaced": resource.is_namespaced(),
        "kind": resource.kind,
        "verbs": verbs.collect::<Vec<_>>(),
    });
    if !resource.short_names.is_empty() {
        own["shortNames"] = json!(resource.short_names);
    }
    let mut names = resource.subresources();
    names.sort_unstable();
    let parts = names
        .into_iter()
        .filter_map(|name| Some(part(resource, name, resource.target(name)?)));
    std::iter::once(own).chain(parts).collect()
}

fn part(resource: &'static Resource, name: &str, target: Target) -> Value {
    let (of, kind, verbs): (Option<(&str, &str)>, &str, &[&str]) = match target {
        Target::Object | Target::Status => (None, resource.kind, PART_VERBS),
        Target::Scale(_) => (Some(("autoscaling", "v1")), "Scale", PART_VERBS),
        Target::Action(Action::Bind) => (None, "Binding", &["create"]),
        Target::Action(Action::Evict) => (Some(("policy", "v1")), "Eviction", &["create"]),
    };
    let mut document = json!({
        "name": format!("{}/{name}", resource.plural),
        "singularName": "",
        "namespaced": resource.is_namespaced(),
        "kind": kind,
        "verbs": verbs,
    });
    if let Some((group, version)) = of {
        document["group"] = json!(group);
        document["version"] = json!(version);
    }
    document
}

/// Sort key of versions: `v2` before `v1` before `v1beta2` before `v1alpha1` before anything else.
fn stability(version: &str) -> (u8, u32, u32) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, stage) = rest.split_at(digits);
        let major = major.parse().ok()?;
        if stage.is_empty() {
            return Some((3, major, 0));
        }
        if let Some(minor) = stage.strip_prefix("beta") {
            return Some((2, major, minor.parse().ok()?));
        }
        Some((1, major, stage.strip_prefix("alpha")?.parse().ok()?))
    };
    parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_by_stability_then_by_number() {
        let mut versions = ["other", "v1alpha1", "v1beta2", "v1", "v2alpha1", "v10", "v2"];
        versions.sort_by_key(|version| Reverse(stability(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v1beta2", "v2alpha1", "v1alpha1", "other"]
        );
    }
}
