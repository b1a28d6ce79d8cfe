//! What is served, in which version, and whether all is well.

use http::{Method, Request, header};
use kube::Client;
use serde_json::{Value, json};

use crate::http::*;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

crate::scenarios![
    the_core_group_lists_its_resources,
    named_groups_list_their_resources,
    status_is_listed_as_a_resource_of_its_own,
    reviews_can_only_be_created,
    groups_are_listed_with_their_preferred_versions,
    one_group_tells_its_versions,
    the_core_group_tells_its_versions,
    the_aggregated_form_tells_the_core_group_at_once,
    the_aggregated_form_tells_all_groups_at_once,
    the_aggregated_form_is_one_of_several_that_kubectl_takes,
    protobuf_is_preferred_in_vain_where_json_will_do,
    the_release_is_told,
    health_is_told_in_one_word,
    the_index_tells_the_paths,
    a_slash_at_the_end_changes_nothing,
    paths_of_unknown_groups_are_no_pages,
    paths_within_known_groups_are_no_resources,
    discovery_is_read_only,
    other_forms_than_json_are_not_acceptable,
    openapi_says_that_the_server_validates_fields,
];

/// The entry of a resource in an `APIResourceList`.
async fn entry(client: &Client, path: &str, name: &str) -> Value {
    let list = get(client, path).await;
    assert_eq!((list.code, &list.body["kind"]), (200, &json!("APIResourceList")));
    let mut entry = found(&list.body["resources"], "name", name);
    entry.as_object_mut().unwrap().remove("storageVersionHash");
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
    let list = get(&client, "/api/v1").await.body;
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
            "verbs": ALL, "shortNames": ["po"], "categories": ["all"],
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
        assert_eq!(
            (&found["kind"], &found["shortNames"]),
            (&json!(kind), &json!([short]))
        );
        assert_eq!(
            (&found["namespaced"], &found["verbs"]),
            (&json!(true), &json!(ALL))
        );
    }
}

/// Group, name, kind, whether it is namespaced, short names, categories.
type Known = (
    &'static str,
    &'static str,
    &'static str,
    bool,
    &'static [&'static str],
    &'static [&'static str],
);

const KNOWN: &[Known] = &[
    ("apps", "daemonsets", "DaemonSet", true, &["ds"], &["all"]),
    ("apps", "deployments", "Deployment", true, &["deploy"], &["all"]),
    ("apps", "replicasets", "ReplicaSet", true, &["rs"], &["all"]),
    ("apps", "statefulsets", "StatefulSet", true, &["sts"], &["all"]),
    ("batch", "jobs", "Job", true, &[], &["all"]),
    (COORDINATION, "leases", "Lease", true, &[], &[]),
    ("events.k8s.io", "events", "Event", true, &["ev"], &[]),
    (
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        true,
        &["pdb"],
        &[],
    ),
    (RBAC, "clusterrolebindings", "ClusterRoleBinding", false, &[], &[]),
    (RBAC, "clusterroles", "ClusterRole", false, &[], &[]),
    (RBAC, "rolebindings", "RoleBinding", true, &[], &[]),
    (RBAC, "roles", "Role", true, &[], &[]),
    (DEVICES, "deviceclasses", "DeviceClass", false, &[], &[]),
    (DEVICES, "resourceclaims", "ResourceClaim", true, &[], &[]),
    (
        DEVICES,
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        true,
        &[],
        &[],
    ),
    (DEVICES, "resourceslices", "ResourceSlice", false, &[], &[]),
    (
        EXTENSIONS,
        DEFINITIONS,
        "CustomResourceDefinition",
        false,
        &["crd", "crds"],
        &["api-extensions"],
    ),
];

const COORDINATION: &str = "coordination.k8s.io";
const DEVICES: &str = "resource.k8s.io";
const EXTENSIONS: &str = "apiextensions.k8s.io";
const DEFINITIONS: &str = "customresourcedefinitions";
const RBAC: &str = "rbac.authorization.k8s.io";

async fn named_groups_list_their_resources(client: Client) {
    for (group, name, kind, namespaced, short, categories) in KNOWN {
        let path = format!("/apis/{group}/v1");
        let list = get(&client, &path).await.body;
        assert_eq!(list["apiVersion"], "v1", "{group}");
        assert_eq!(list["groupVersion"], format!("{group}/v1"));
        let mut expected = json!({
            "name": name, "singularName": kind.to_lowercase(), "namespaced": namespaced, "kind": kind,
            "verbs": ALL, "shortNames": short, "categories": categories,
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

async fn reviews_can_only_be_created(client: Client) {
    for (group, name, kind) in [
        ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
        (
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
        ),
    ] {
        let path = format!("/apis/{group}/v1");
        assert_eq!(
            entry(&client, &path, name).await,
            json!({
                "name": name, "singularName": kind.to_lowercase(), "namespaced": false, "kind": kind,
                "verbs": ["create"],
            })
        );
        assert_eq!(get(&client, format!("{path}/{name}")).await.code, 405);
        assert_eq!(get(&client, format!("{path}/{name}/x")).await.code, 404);
    }
}

async fn groups_are_listed_with_their_preferred_versions(client: Client) {
    let list = get(&client, "/apis").await.body;
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("APIGroupList"), &json!("v1"))
    );
    for group in [
        "apps",
        "batch",
        "policy",
        "resource.k8s.io",
        "authorization.k8s.io",
    ] {
        let version = json!({ "groupVersion": format!("{group}/v1"), "version": "v1" });
        assert_eq!(
            found(&list["groups"], "name", group),
            json!({ "name": group, "versions": [version], "preferredVersion": version })
        );
    }
    let groups = list["groups"].as_array().unwrap();
    assert!(groups.iter().all(|group| group["name"] != ""));
}

async fn one_group_tells_its_versions(client: Client) {
    let version = json!({ "groupVersion": "apps/v1", "version": "v1" });
    assert_eq!(
        get(&client, "/apis/apps").await.body,
        json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": "apps",
            "versions": [version], "preferredVersion": version,
        })
    );
}

async fn the_core_group_tells_its_versions(client: Client) {
    let api = get(&client, "/api").await.body;
    assert_eq!(
        (&api["kind"], &api["versions"]),
        (&json!("APIVersions"), &json!(["v1"]))
    );
    assert_eq!(api["serverAddressByClientCIDRs"][0]["clientCIDR"], "0.0.0.0/0");
}

async fn the_aggregated_form_tells_the_core_group_at_once(client: Client) {
    let answer = get_as(&client, "/api", AGGREGATED).await;
    assert_eq!(answer.headers["content-type"], AGGREGATED);
    let list = answer.body;
    assert_eq!(
        (&list["kind"], &list["apiVersion"], &list["metadata"]),
        (
            &json!("APIGroupDiscoveryList"),
            &json!("apidiscovery.k8s.io/v2"),
            &json!({})
        )
    );
    let group = &list["items"][0];
    assert_eq!(group["metadata"], json!({}));
    let version = &group["versions"][0];
    assert_eq!(
        (&version["version"], &version["freshness"]),
        (&json!("v1"), &json!("Current"))
    );
    let mut nodes = found(&version["resources"], "resource", "nodes");
    assert_eq!(
        found(&nodes["subresources"], "subresource", "status"),
        json!({
            "subresource": "status",
            "responseKind": { "group": "", "version": "", "kind": "Node" },
            "verbs": ["get", "patch", "update"],
        })
    );
    nodes.as_object_mut().unwrap().remove("subresources");
    assert_eq!(
        nodes,
        json!({
            "resource": "nodes", "responseKind": { "group": "", "version": "", "kind": "Node" },
            "scope": "Cluster", "singularResource": "node", "verbs": ALL, "shortNames": ["no"],
        })
    );
    assert_eq!(
        found(&version["resources"], "resource", "configmaps"),
        json!({
            "resource": "configmaps", "responseKind": { "group": "", "version": "", "kind": "ConfigMap" },
            "scope": "Namespaced", "singularResource": "configmap", "verbs": ALL, "shortNames": ["cm"],
        })
    );
}

async fn the_aggregated_form_tells_all_groups_at_once(client: Client) {
    let list = get_as(&client, "/apis", AGGREGATED).await.body;
    let groups = list["items"].as_array().unwrap();
    let group = |name: &str| {
        groups
            .iter()
            .find(|group| group["metadata"]["name"] == name)
            .unwrap()
    };
    let leases = &group("coordination.k8s.io")["versions"][0]["resources"];
    assert_eq!(
        found(leases, "resource", "leases"),
        json!({
            "resource": "leases", "responseKind": { "group": "", "version": "", "kind": "Lease" },
            "scope": "Namespaced", "singularResource": "lease", "verbs": ALL,
        })
    );
    let reviews = &group("authorization.k8s.io")["versions"][0]["resources"];
    let review = found(reviews, "resource", "selfsubjectaccessreviews");
    assert_eq!(review["verbs"], json!(["create"]));
}

async fn the_aggregated_form_is_one_of_several_that_kubectl_takes(client: Client) {
    let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    let accept = format!("{AGGREGATED},{beta},application/json");
    let answer = get_as(&client, "/apis", &accept).await;
    assert_eq!(answer.body["kind"], "APIGroupDiscoveryList");
    let answer = get_as(&client, "/apis", JSON).await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.body["kind"], "APIGroupList");
}

async fn protobuf_is_preferred_in_vain_where_json_will_do(client: Client) {
    let accept = "application/vnd.example.unknown,application/json";
    let list = get_as(&client, NODES, accept).await;
    assert_eq!((list.code, &list.body["kind"]), (200, &json!("NodeList")));
    let version = get_as(&client, "/version", accept).await;
    assert_eq!(version.code, 200);
}

async fn the_release_is_told(client: Client) {
    let version = get(&client, "/version").await.body;
    assert_eq!(
        (&version["gitVersion"], &version["major"], &version["minor"]),
        (&json!("v1.36.3"), &json!("1"), &json!("36"))
    );
}

async fn health_is_told_in_one_word(client: Client) {
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping"] {
        let answer = get(&client, path).await;
        assert_eq!((answer.code, answer.body), (200, json!("ok")), "{path}");
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    }
    let verbose = get(&client, "/healthz?verbose").await.body;
    let lines = verbose.as_str().unwrap();
    assert!(lines.starts_with("[+]ping ok\n"), "{lines}");
    assert!(lines.ends_with("\nhealthz check passed\n"), "{lines}");
}

async fn the_index_tells_the_paths(client: Client) {
    let index = get(&client, "/").await.body;
    let paths = index["paths"].as_array().unwrap();
    for path in [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/healthz",
        "/version",
    ] {
        assert!(paths.contains(&json!(path)), "{path}");
    }
}

async fn a_slash_at_the_end_changes_nothing(client: Client) {
    for path in [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/version",
    ] {
        let with = get(&client, format!("{path}/")).await;
        assert_eq!(with.code, 200, "{path}");
        assert_eq!(with.body, get(&client, path).await.body);
    }
}

async fn paths_of_unknown_groups_are_no_pages(client: Client) {
    for path in [
        "/nope",
        "/apis/nope",
        "/apis/nope/v1",
        "/apis/nope/v1/foos",
        "/healthz/nope",
    ] {
        let answer = get(&client, path).await;
        assert_eq!(
            (answer.code, answer.body),
            (404, json!("404 page not found\n")),
            "{path}"
        );
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    }
}

async fn paths_within_known_groups_are_no_resources(client: Client) {
    for path in [
        "/api/v2",
        "/api/v2/nodes",
        "/api/v1/foos",
        "/api/v1/namespaces/default/foos/a",
        "/apis/apps/v9",
        "/apis/apps/v9/deployments",
    ] {
        let answer = get(&client, path).await;
        assert_eq!(
            answer.body,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404,
                "message": "the server could not find the requested resource",
                "reason": "NotFound", "details": {},
            }),
            "{path}"
        );
    }
}

async fn discovery_is_read_only(client: Client) {
    for (method, path) in [
        (Method::POST, "/api"),
        (Method::POST, "/api/v1"),
        (Method::DELETE, "/version"),
    ] {
        let request = Request::builder().method(method).uri(path);
        let answer = send(&client, request, Vec::new()).await;
        assert_eq!(
            (answer.code, &answer.body["reason"]),
            (405, &json!("MethodNotAllowed")),
            "{path}"
        );
    }
}

async fn other_forms_than_json_are_not_acceptable(client: Client) {
    for path in ["/version", "/api", "/apis/apps/v1"] {
        let request = Request::get(path).header(header::ACCEPT, "text/html");
        let answer = send(&client, request, Vec::new()).await;
        assert_eq!(
            (answer.code, &answer.body["reason"]),
            (406, &json!("NotAcceptable")),
            "{path}"
        );
        let message = answer.body["message"].as_str().unwrap();
        let start = "406: Not Acceptable\n\nAvailable representations: application/json";
        assert!(message.starts_with(start), "{message}");
    }
}

async fn openapi_says_that_the_server_validates_fields(client: Client) {
    let index = get(&client, "/openapi/v3").await.body;
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
        let document = get(&client, url).await.body;
        let patch = &document["paths"][path]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
        let parameter = found(&patch["parameters"], "name", "fieldValidation");
        assert_eq!(parameter["in"], "query");
    }
}
