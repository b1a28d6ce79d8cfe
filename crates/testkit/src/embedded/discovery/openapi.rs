//! As much of `/openapi/v3` as makes `kubectl` leave the validation of fields to the server: each kind's
//! patch operation, with the parameter `fieldValidation`. There are no schemas, so `kubectl explain` fails.

use serde_json::{Map, Value, json};

use super::lists::Groups;
use super::{Entry, RELEASE};

/// `GET /openapi/v3`.
pub(super) fn index(groups: &Groups<'_>) -> Value {
    let paths: Map<String, Value> = groups
        .paths()
        .map(|(group, version)| {
            let path = root(group, version);
            let url = format!("/openapi/v3/{path}");
            (path, json!({ "serverRelativeURL": url }))
        })
        .collect();
    json!({ "paths": paths })
}

/// `GET /openapi/v3/<group and version>`; none where nothing is served.
pub(super) fn document(entries: &[Entry], group: &str, version: &str) -> Option<Value> {
    let paths: Map<String, Value> = entries
        .iter()
        .map(|entry| entry.resource)
        .filter(|resource| resource.group == group && resource.version == version)
        .map(|resource| {
            let namespace = if resource.is_namespaced() {
                "namespaces/{namespace}/"
            } else {
                ""
            };
            let of_object = format!(
                "/{}/{namespace}{}/{{name}}",
                root(group, version),
                resource.plural
            );
            let kind = json!({ "group": group, "version": version, "kind": resource.kind });
            let patch = json!({
                "parameters": [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")],
                "responses": {},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": kind,
            });
            (of_object, json!({ "patch": patch }))
        })
        .collect();
    if paths.is_empty() {
        return None;
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": RELEASE },
        "paths": paths,
        "components": { "schemas": {} },
    }))
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

fn parameter(name: &str) -> Value {
    json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } })
}
