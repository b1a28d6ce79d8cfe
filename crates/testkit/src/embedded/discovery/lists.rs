//! Discovery documents: `APIGroupList`, `APIResourceList`, `APIGroupDiscoveryList`.

use std::cmp::Reverse;

use serde_json::{Value, json};

use super::Entry;
use super::entries::Subresource;

/// The served groups, in the order in which they were first served, the core group first.
pub(super) struct Groups<'a> {
    entries: &'a [Entry],
    /// Names, each with its versions, the preferred one first.
    groups: Vec<(&'static str, Vec<&'static str>)>,
}

impl<'a> Groups<'a> {
    pub(super) fn of(entries: &'a [Entry]) -> Self {
        let mut groups: Vec<(&'static str, Vec<&'static str>)> = vec![("", vec!["v1"])];
        for resource in entries.iter().map(|entry| entry.resource) {
            match groups.iter_mut().find(|(group, _)| *group == resource.group) {
                None => groups.push((resource.group, vec![resource.version])),
                Some((_, versions)) if !versions.contains(&resource.version) => {
                    versions.push(resource.version);
                }
                Some(_) => {}
            }
        }
        groups[1..].sort_unstable();
        for (_, versions) in &mut groups {
            versions.sort_by_key(|version| Reverse(stability(version)));
        }
        Self { entries, groups }
    }

    pub(super) fn has(&self, group: &str) -> bool {
        self.named().any(|(name, _)| *name == group)
    }

    /// Every group and version, as `group/version` and, in the core group, `version`.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.groups
            .iter()
            .flat_map(|(group, versions)| versions.iter().map(|version| (*group, *version)))
    }

    /// All groups but the core group.
    fn named(&self) -> impl Iterator<Item = &(&'static str, Vec<&'static str>)> {
        self.groups.iter().filter(|(group, _)| !group.is_empty())
    }

    /// `GET /apis`.
    pub(super) fn list(&self) -> Value {
        let groups: Vec<Value> = self
            .named()
            .map(|(group, versions)| group_of(group, versions))
            .collect();
        json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
    }

    /// `GET /apis/<group>`.
    pub(super) fn group(&self, group: &str) -> Value {
        let mut document = json!({ "kind": "APIGroup", "apiVersion": "v1" });
        if let Some((name, versions)) = self.named().find(|(name, _)| *name == group)
            && let (Some(document), Value::Object(fields)) =
                (document.as_object_mut(), group_of(name, versions))
        {
            document.extend(fields);
        }
        document
    }

    /// `GET /apis/<group>/<version>` and `GET /api/<version>`; none where nothing is served.
    pub(super) fn resources(&self, group: &str, version: &str) -> Option<Value> {
        let resources: Vec<Value> = self
            .within(group, version)
            .flat_map(|entry| {
                let parts = entry
                    .subresources
                    .iter()
                    .map(|part| api_subresource(entry, *part));
                std::iter::once(api_resource(entry)).chain(parts)
            })
            .collect();
        if resources.is_empty() {
            return None;
        }
        let mut document = json!({ "kind": "APIResourceList", "resources": resources });
        // The core group says so in its older way.
        if group.is_empty() {
            document["groupVersion"] = json!(version);
        } else {
            document["apiVersion"] = json!("v1");
            document["groupVersion"] = json!(format!("{group}/{version}"));
        }
        Some(document)
    }

    /// The aggregated form of the core group or of all others.
    pub(super) fn aggregated(&self, core: bool) -> Value {
        let groups = self.groups.iter().filter(|(group, _)| group.is_empty() == core);
        let items: Vec<Value> = groups
            .map(|(group, versions)| {
                let versions: Vec<Value> = versions
                    .iter()
                    .map(|version| {
                        let resources: Vec<Value> = self.within(group, version).map(discovered).collect();
                        json!({ "version": version, "resources": resources, "freshness": "Current" })
                    })
                    .collect();
                let metadata = if core { json!({}) } else { json!({ "name": group }) };
                json!({ "metadata": metadata, "versions": versions })
            })
            .collect();
        json!({
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        })
    }

    fn within(&self, group: &str, version: &str) -> impl Iterator<Item = &'a Entry> {
        self.entries
            .iter()
            .filter(move |entry| entry.resource.group == group && entry.resource.version == version)
    }
}

/// `GET /api`.
pub(super) fn core_versions(host: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": host }],
    })
}

/// `GET /`.
pub(super) fn index(groups: &Groups<'_>) -> Value {
    let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
    for (group, version) in groups.paths() {
        if group.is_empty() {
            paths.push(format!("/api/{version}"));
        } else {
            paths.extend([format!("/apis/{group}"), format!("/apis/{group}/{version}")]);
        }
    }
    paths.extend(["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    paths.sort_unstable();
    paths.dedup();
    json!({ "paths": paths })
}

fn group_of(group: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({ "groupVersion": format!("{group}/{version}"), "version": version }))
        .collect();
    json!({ "name": group, "preferredVersion": versions.first(), "versions": versions })
}

fn api_resource(entry: &Entry) -> Value {
    let resource = entry.resource;
    let mut document = json!({
        "name": resource.plural,
        "singularName": resource.kind.to_lowercase(),
        "namespaced": resource.is_namespaced(),
        "kind": resource.kind,
        "verbs": entry.verbs,
    });
    set_names(&mut document, entry);
    document
}

fn api_subresource(entry: &Entry, part: Subresource) -> Value {
    let resource = entry.resource;
    let mut document = json!({
        "name": format!("{}/{}", resource.plural, part.name),
        "singularName": "",
        "namespaced": resource.is_namespaced(),
        "kind": part.kind,
        "verbs": part.verbs,
    });
    if let Some((group, version)) = part.of {
        document["group"] = json!(group);
        document["version"] = json!(version);
    }
    document
}

fn discovered(entry: &Entry) -> Value {
    let resource = entry.resource;
    let mut document = json!({
        "resource": resource.plural,
        "responseKind": { "group": "", "version": "", "kind": resource.kind },
        "scope": if resource.is_namespaced() { "Namespaced" } else { "Cluster" },
        "singularResource": resource.kind.to_lowercase(),
        "verbs": entry.verbs,
    });
    set_names(&mut document, entry);
    let parts = entry.subresources.iter().map(|part| {
        let (group, version) = part.of.unwrap_or_default();
        json!({
            "subresource": part.name,
            "responseKind": { "group": group, "version": version, "kind": part.kind },
            "verbs": part.verbs,
        })
    });
    let parts: Vec<Value> = parts.collect();
    if !parts.is_empty() {
        document["subresources"] = json!(parts);
    }
    document
}

fn set_names(document: &mut Value, entry: &Entry) {
    if !entry.resource.short_names.is_empty() {
        document["shortNames"] = json!(entry.resource.short_names);
    }
    if !entry.categories.is_empty() {
        document["categories"] = json!(entry.categories);
    }
}

/// What orders versions: `v2` before `v1` before `v1beta2` before `v1alpha1` before anything else.
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
