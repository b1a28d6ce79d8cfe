//! What is served, in which version, and whether all is well.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;

crate::scenarios![
    the_core_group_lists_its_resources,
    named_groups_list_their_resources,
    status_is_listed_as_a_resource_of_its_own,
    groups_are_listed_with_their_preferred_versions,
    the_core_group_tells_its_versions,
    protobuf_is_preferred_in_vain_where_json_will_do,
    the_release_is_told,
    health_is_told_in_one_word,
    a_slash_at_the_end_changes_nothing,
    openapi_says_that_the_server_validates_fields,
];

/// The entry of a resource in an `APIResourceList`.
async fn entry(client: &Client, path: &str, name: &str) -> Value {
    let list = get(client, path).await;
    assert_eq!((list.code, &list.body["kind"]), (200, &json!("APIResourceList")));
    let mut entry = found(&list.body["resources"], "name", name);
    for untold in ["storageVersionHash", "categories"] {
        entry.as_object_mut().unwrap().remove(untold);
    }
    entry
}

fn found(list: &Value, field: &str, value: &str) -> Value {
    let mut items = list.as_array().unwrap().iter();
    let item = items.find(|item| item[field] == value);
    item.unwrap_or_else(|| panic!("no {value} in {list}")).clone()
}

const ALL: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

async fn the_core_group_lists_its_resources(client: Client) {
    let list = read(&client, "/api/v1").await;
    assert_eq!(
        (&list["groupVersion"], &list["apiVersion"]),
        (&json!("v1"), &Value::Null)
    );
    assert_eq!(
        entry(&client, "/api/v1", "nodes").await,
        json!({
            "name": "nodes", "singularName": "node", "namespaced": false, "kind": "Node",
            "verbs": ALL, "shortNames": ["no"],
        })
    );
    assert_eq!(
        entry(&client, "/api/v1", "pods").await,
        json!({
            "name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod",
            "verbs": ALL, "shortNames": ["po"],
        })
    );
    assert_eq!(
        entry(&client, "/api/v1", "namespaces").await,
        json!({
            "name": "namespaces", "singularName": "namespace", "namespaced": false, "kind": "Namespace",
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"], "shortNames": ["ns"],
        })
    );
    for (name, kind, short) in [
        ("configmaps", "ConfigMap", "cm"),
        ("events", "Event", "ev"),
        ("serviceaccounts", "ServiceAccount", "sa"),
    ] {
        let found = entry(&client, "/api/v1", name).await;
        found.shows(json!({ "kind": kind, "shortNames": [short], "namespaced": true, "verbs": ALL }));
    }
}

/// Group, name, kind, whether it is namespaced, short names.
type Known = (
    &'static str,
    &'static str,
    &'static str,
    bool,
    &'static [&'static str],
);

const KNOWN: &[Known] = &[
    ("apps", "daemonsets", "DaemonSet", true, &["ds"]),
    ("apps", "deployments", "Deployment", true, &["deploy"]),
    ("apps", "replicasets", "ReplicaSet", true, &["rs"]),
    ("apps", "statefulsets", "StatefulSet", true, &["sts"]),
    ("batch", "jobs", "Job", true, &[]),
    (COORDINATION, "leases", "Lease", true, &[]),
    ("events.k8s.io", "events", "Event", true, &["ev"]),
    (
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        true,
        &["pdb"],
    ),
    (RBAC, "clusterrolebindings", "ClusterRoleBinding", false, &[]),
    (RBAC, "clusterroles", "ClusterRole", false, &[]),
    (RBAC, "rolebindings", "RoleBinding", true, &[]),
    (RBAC, "roles", "Role", true, &[]),
    (DEVICES, "deviceclasses", "DeviceClass", false, &[]),
    (DEVICES, "resourceclaims", "ResourceClaim", true, &[]),
    (
        DEVICES,
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        true,
        &[],
    ),
    (DEVICES, "resourceslices", "ResourceSlice", false, &[]),
    (
        EXTENSIONS,
        DEFINITIONS,
        "CustomResourceDefinition",
        false,
        &["crd", "crds"],
    ),
];

const COORDINATION: &str = "coordination.k8s.io";
const DEVICES: &str = "resource.k8s.io";
const EXTENSIONS: &str = "apiextensions.k8s.io";
const DEFINITIONS: &str = "customresourcedefinitions";
const RBAC: &str = "rbac.authorization.k8s.io";

async fn named_groups_list_their_resources(client: Client) {
    for (group, name, kind, namespaced, short) in KNOWN {
        let path = format!("/apis/{group}/v1");
        let list = read(&client, &path).await;
        assert_eq!(list["apiVersion"], "v1", "{group}");
        assert_eq!(list["groupVersion"], format!("{group}/v1"));
        let mut expected = json!({
            "name": name, "singularName": kind.to_lowercase(), "namespaced": namespaced, "kind": kind,
            "verbs": ALL, "shortNames": short,
        });
        expected
            .as_object_mut()
            .unwrap()
            .retain(|_, value| *value != json!([]));
        assert_eq!(entry(&client, &path, name).await, expected);
    }
}

async fn status_is_listed_as_a_resource_of_its_own(client: Client) {
    for (path, plural, kind, namespaced) in [
        ("/api/v1", "nodes", "Node", false),
        ("/api/v1", "pods", "Pod", true),
        ("/api/v1", "namespaces", "Namespace", false),
        ("/apis/batch/v1", "jobs", "Job", true),
        (
            "/apis/policy/v1",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            true,
        ),
        (
            "/apis/resource.k8s.io/v1",
            "resourceclaims",
            "ResourceClaim",
            true,
        ),
    ] {
        let name = format!("{plural}/status");
        assert_eq!(
            entry(&client, path, &name).await,
            json!({
                "name": name, "singularName": "", "namespaced": namespaced, "kind": kind,
                "verbs": ["get", "patch", "update"],
            })
        );
    }
}

async fn groups_are_listed_with_their_preferred_versions(client: Client) {
    let list = read(&client, "/apis").await;
    list.shows(json!({ "kind": "APIGroupList", "apiVersion": "v1" }));
    for group in ["apps", "batch", "policy", "resource.k8s.io"] {
        let version = json!({ "groupVersion": format!("{group}/v1"), "version": "v1" });
        assert_eq!(
            found(&list["groups"], "name", group),
            json!({ "name": group, "versions": [version], "preferredVersion": version })
        );
    }
    let groups = list["groups"].as_array().unwrap();
    assert!(groups.iter().all(|group| group["name"] != ""));
}

async fn the_core_group_tells_its_versions(client: Client) {
    let api = read(&client, "/api").await;
    api.shows(json!({ "kind": "APIVersions", "versions": ["v1"] }));
}

async fn protobuf_is_preferred_in_vain_where_json_will_do(client: Client) {
    let accept = "application/vnd.example.unknown,application/json";
    let list = get_as(&client, NODES, accept).await;
    assert_eq!((list.code, &list.body["kind"]), (200, &json!("NodeList")));
    let version = get_as(&client, "/version", accept).await;
    assert_eq!(version.code, 200);
}

async fn the_release_is_told(client: Client) {
    let version = read(&client, "/version").await;
    version.shows(json!({ "gitVersion": "v1.36.3", "major": "1", "minor": "36" }));
}

async fn health_is_told_in_one_word(client: Client) {
    for path in ["/healthz", "/livez", "/readyz"] {
        let answer = get(&client, path).await;
        assert_eq!((answer.code, answer.body), (200, json!("ok")), "{path}");
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    }
}

async fn a_slash_at_the_end_changes_nothing(client: Client) {
    for path in ["/api", "/api/v1", "/apis", "/apis/apps/v1", "/version"] {
        let with = get(&client, format!("{path}/")).await;
        assert_eq!(with.code, 200, "{path}");
        assert_eq!(with.body, read(&client, path).await);
    }
}

async fn openapi_says_that_the_server_validates_fields(client: Client) {
    let index = read(&client, "/openapi/v3").await;
    for (group, path, kind) in [
        (
            "api/v1",
            "/api/v1/nodes/{name}",
            json!({ "group": "", "version": "v1", "kind": "Node" }),
        ),
        (
            "apis/apps/v1",
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}",
            json!({ "group": "apps", "version": "v1", "kind": "Deployment" }),
        ),
    ] {
        let url = index["paths"][group]["serverRelativeURL"].as_str().unwrap();
        let document = read(&client, url).await;
        let patch = &document["paths"][path]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
        let parameter = found(&patch["parameters"], "name", "fieldValidation");
        assert_eq!(parameter["in"], "query");
    }
}
