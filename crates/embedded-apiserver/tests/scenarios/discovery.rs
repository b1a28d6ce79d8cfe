//! Discovery, the version, and health.

use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::rows;

crate::scenarios![
    the_core_group_lists_its_resources,
    named_groups_list_their_resources,
    status_is_listed_as_a_resource_of_its_own,
    groups_are_listed_with_their_preferred_versions,
    a_group_tells_its_versions,
    the_core_group_tells_its_versions,
    protobuf_is_preferred_in_vain_where_json_will_do,
    the_release_is_told,
    health_is_told_in_one_word,
    a_slash_at_the_end_changes_nothing,
    openapi_says_that_the_server_validates_fields,
];

/// The entry of a resource in an `APIResourceList`.
async fn entry(client: &Client, path: &str, name: &str) -> Value {
    let list = read(client, path).await;
    assert_eq!(list["kind"], "APIResourceList");
    let mut entry = found(&list["resources"], "name", name).clone();
    for untold in ["storageVersionHash", "categories"] {
        entry.as_object_mut().unwrap().remove(untold);
    }
    entry
}

/// The expected entry of a resource.
fn resource(name: &str, kind: &str, namespaced: bool, short: &[&str], verbs: &[&str]) -> Value {
    let singular = if name.contains('/') {
        String::new()
    } else {
        kind.to_lowercase()
    };
    let mut entry = json!({
        "name": name, "singularName": singular, "namespaced": namespaced, "kind": kind, "verbs": verbs,
    });
    if !short.is_empty() {
        entry["shortNames"] = json!(short);
    }
    entry
}

const ALL: [&str; 8] = [
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
    list.shows(json!({ "groupVersion": "v1", "apiVersion": null }));
    let one_by_one = ["create", "delete", "get", "list", "patch", "update", "watch"];
    for (name, kind, namespaced, short, verbs) in rows! {
        "nodes", "Node", false, "no" => &ALL[..];
        "pods", "Pod", true, "po" => &ALL;
        "namespaces", "Namespace", false, "ns" => &one_by_one;
        "configmaps", "ConfigMap", true, "cm" => &ALL;
        "events", "Event", true, "ev" => &ALL;
        "serviceaccounts", "ServiceAccount", true, "sa" => &ALL;
    } {
        let expected = resource(name, kind, namespaced, &[short], verbs);
        assert_eq!(entry(&client, "/api/v1", name).await, expected);
    }
}

async fn named_groups_list_their_resources(client: Client) {
    const SHARED: bool = false;
    const NAMESPACED: bool = true;
    for (group, name, kind, namespaced, short) in rows! {
        "apps", "daemonsets", "DaemonSet", NAMESPACED => &["ds"][..];
        "apps", "deployments", "Deployment", NAMESPACED => &["deploy"];
        "apps", "replicasets", "ReplicaSet", NAMESPACED => &["rs"];
        "apps", "statefulsets", "StatefulSet", NAMESPACED => &["sts"];
        "batch", "jobs", "Job", NAMESPACED => &[];
        "coordination.k8s.io", "leases", "Lease", NAMESPACED => &[];
        "events.k8s.io", "events", "Event", NAMESPACED => &["ev"];
        "policy", "poddisruptionbudgets", "PodDisruptionBudget", NAMESPACED => &["pdb"];
        "rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding", SHARED => &[];
        "rbac.authorization.k8s.io", "clusterroles", "ClusterRole", SHARED => &[];
        "rbac.authorization.k8s.io", "rolebindings", "RoleBinding", NAMESPACED => &[];
        "rbac.authorization.k8s.io", "roles", "Role", NAMESPACED => &[];
        "resource.k8s.io", "deviceclasses", "DeviceClass", SHARED => &[];
        "resource.k8s.io", "resourceclaims", "ResourceClaim", NAMESPACED => &[];
        "resource.k8s.io", "resourceclaimtemplates", "ResourceClaimTemplate", NAMESPACED => &[];
        "resource.k8s.io", "resourceslices", "ResourceSlice", SHARED => &[];
        "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", SHARED => &["crd", "crds"];
    } {
        let path = format!("/apis/{group}/v1");
        let list = read(&client, &path).await;
        list.shows(json!({ "apiVersion": "v1", "groupVersion": format!("{group}/v1") }));
        let expected = resource(name, kind, namespaced, short, &ALL);
        assert_eq!(entry(&client, &path, name).await, expected);
    }
}

async fn status_is_listed_as_a_resource_of_its_own(client: Client) {
    for (path, name, kind, namespaced) in rows! {
        "/api/v1", "nodes/status", "Node" => false;
        "/api/v1", "pods/status", "Pod" => true;
        "/api/v1", "namespaces/status", "Namespace" => false;
        "/apis/batch/v1", "jobs/status", "Job" => true;
        "/apis/policy/v1", "poddisruptionbudgets/status", "PodDisruptionBudget" => true;
        "/apis/resource.k8s.io/v1", "resourceclaims/status", "ResourceClaim" => true;
    } {
        let expected = resource(name, kind, namespaced, &[], &["get", "patch", "update"]);
        assert_eq!(entry(&client, path, name).await, expected);
    }
}

async fn groups_are_listed_with_their_preferred_versions(client: Client) {
    let list = read(&client, "/apis").await;
    list.shows(json!({ "kind": "APIGroupList", "apiVersion": "v1" }));
    for group in ["apps", "batch", "policy", "resource.k8s.io"] {
        let version = json!({ "groupVersion": format!("{group}/v1"), "version": "v1" });
        let expected = json!({ "name": group, "versions": [version], "preferredVersion": version });
        assert_eq!(*found(&list["groups"], "name", group), expected);
    }
    let groups = list["groups"].as_array().unwrap();
    assert!(groups.iter().all(|group| group["name"] != ""));
}

async fn a_group_tells_its_versions(client: Client) {
    let list = read(&client, "/apis").await;
    for name in ["apps", "resource.k8s.io"] {
        let mut expected = found(&list["groups"], "name", name).clone();
        expected["kind"] = json!("APIGroup");
        expected["apiVersion"] = json!("v1");
        assert_eq!(read(&client, format!("/apis/{name}")).await, expected);
    }
    let unknown = get(&client, "/apis/example.com").await;
    assert_eq!((unknown.code, unknown.body), (404, json!("404 page not found\n")));
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
    version.shows(json!({ "gitVersion": "v1.37.2", "major": "1", "minor": "37" }));
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
    for (document, path, group, kind) in rows! {
        "api/v1", "/api/v1/nodes/{name}", "" => "Node";
        "apis/apps/v1", "/apis/apps/v1/namespaces/{namespace}/deployments/{name}", "apps" => "Deployment";
    } {
        let kind = json!({ "group": group, "version": "v1", "kind": kind });
        let url = index["paths"][document]["serverRelativeURL"].as_str().unwrap();
        let document = read(&client, url).await;
        let patch = &document["paths"][path]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
        let parameter = found(&patch["parameters"], "name", "fieldValidation");
        assert_eq!(parameter["in"], "query");
    }
}
