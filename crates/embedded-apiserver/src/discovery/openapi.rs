//! The part of `/openapi/v3` that makes `kubectl apply` leave the validation of fields to the server: the patch
//! operation of each kind, with the parameter `fieldValidation`. There are no schemas, so `kubectl explain` fails.

use serde_json::{Map, Value, json};

use super::RELEASE;
use super::lists::{has_version, versions};
use crate::resource::Resource;

/// `GET /openapi/v3`.
pub(super) fn index(served: &[&'static Resource]) -> Value {
    let mut paths = Map::new();
    for (group, versions) in versions(served) {
        for version in versions {
            let path = root(group, version);
            let url = format!("/openapi/v3/{path}");
            paths.insert(path, json!({ "serverRelativeURL": url }));
        }
    }
    json!({ "paths": paths })
}

/// `GET /openapi/v3/<group and version>`; `None` if the version is not served.
pub(super) fn document(served: &[&'static Resource], group: &str, version: &str) -> Option<Value> {
    let of_group = |resource: &&&Resource| resource.group == group && resource.version == version;
    let paths: Map<String, Value> = served
        .iter()
        .filter(of_group)
        .map(|resource| {
            let namespace = if resource.is_namespaced() {
                "namespaces/{namespace}/"
            } else {
                ""
            };
            let uri = format!(
                "/{}/{namespace}{}/{{name}}",
                root(group, version),
                resource.plural
            );
            let kind = json!({ "group": group, "version": version, "kind": resource.kind });
            let parameters = ["dryRun", "fieldManager", "fieldValidation"]
                .map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string" } }));
            let patch = json!({
                "parameters": parameters,
                "responses": {},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": kind,
            });
            (uri, json!({ "patch": patch }))
        })
        .collect();
    has_version(served, group, version).then(|| {
        json!({
            "openapi": "3.0.0",
            "info": { "title": "Kubernetes", "version": RELEASE },
            "paths": paths,
            "components": { "schemas": {} },
        })
    })
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}
