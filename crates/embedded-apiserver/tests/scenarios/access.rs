//! Authentication and RBAC.

use embedded_apiserver::User;
use http::{Request, header};
use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::server;
use crate::twin::{Ground, ground_of, repeated};

const RBAC: &str = "rbac.authorization.k8s.io";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

crate::scenarios![
    a_user_without_permissions_is_refused_in_the_servers_words,
    a_request_without_permissions_is_refused_before_anything_else,
    a_namespace_is_within_itself,
    an_unknown_token_opens_nothing,
    strangers_see_health_and_release_alone,
    everybody_who_is_known_may_look_around,
    a_path_that_is_no_resource_is_refused_by_its_method,
    a_cluster_binding_grants_everywhere,
    a_binding_grants_in_its_namespace,
    a_cluster_role_can_be_bound_in_one_namespace,
    a_group_passes_its_permissions_on,
    a_name_limits_a_right,
    a_subresource_is_a_right_of_its_own,
    a_subresource_of_everything_can_be_granted,
    a_star_stands_for_everything,
    paths_are_granted_with_what_is_below_them,
    a_binding_without_its_role_is_named_in_the_refusal,
    a_right_ends_with_its_binding,
    everybody_who_is_known_may_ask_what_they_may,
];

/// Metadata with the label by which the cleanup finds the object.
fn labelled(name: &str) -> Value {
    json!({ "name": name, "labels": { "scenario": "access" } })
}

pub(crate) fn resources(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

pub(crate) fn alice() -> Value {
    json!({ "apiGroup": RBAC, "kind": "User", "name": "alice" })
}

pub(crate) fn binding(name: &str, kind: &str, subject: &Value) -> Value {
    json!({
        "metadata": labelled(name),
        "roleRef": { "apiGroup": RBAC, "kind": kind, "name": name },
        "subjects": [subject],
    })
}

async fn bind(ground: &Ground, collection: &str, name: &str, kind: &str, subject: &Value) {
    create(&ground.admin, collection, binding(name, kind, subject)).await;
}

async fn create_role(ground: &Ground, collection: &str, name: &str, rules: Value) {
    let object = json!({ "metadata": labelled(name), "rules": rules });
    create(&ground.admin, collection, object).await;
}

/// Fails unless each URI is answered with its code.
async fn codes(client: &Client, expected: &[(&str, u16)]) {
    for (uri, code) in expected {
        assert_eq!(get(client, uri).await.code, *code, "{uri}");
    }
}

pub(crate) async fn grant_everywhere(ground: &Ground, name: &str, rules: Value) {
    create_role(ground, CLUSTER_ROLES, name, rules).await;
    bind(ground, CLUSTER_ROLE_BINDINGS, name, "ClusterRole", &alice()).await;
}

/// Repeats a get until its answer has this code: the authorizer needs a moment to see new permissions.
async fn becomes(client: &Client, uri: &str, code: u16) {
    repeated(uri, || get(client, uri), |answer| answer.code == code).await;
}

/// Sends `request`, a method and a path.
async fn ask(client: &Client, request: &str) -> Answer {
    let (method, uri) = request.split_once(' ').unwrap();
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header(header::CONTENT_TYPE, JSON);
    send(client, request, b"{}".to_vec()).await
}

async fn a_user_without_permissions_is_refused_in_the_servers_words(ground: Ground) {
    const IN_CLUSTER: &str = "in API group \"\" at the cluster scope";
    const IN_DEFAULT: &str = "in API group \"\" in the namespace \"default\"";
    const OF_APPS: &str = "in API group \"apps\" in the namespace \"default\"";
    let nodes = json!({ "kind": "nodes" });
    let node = json!({ "kind": "nodes", "name": "n" });
    let apps = json!({ "group": "apps", "kind": "deployments" });
    let app = json!({ "group": "apps", "kind": "deployments", "name": "d" });
    let pods = json!({ "kind": "pods" });
    let pod = json!({ "kind": "pods", "name": "p" });
    for (request, subject, action, place, details) in crate::rows! {
        "GET /api/v1/nodes", "nodes", "list resource \"nodes\"", IN_CLUSTER => &nodes;
        "GET /api/v1/nodes/n", "nodes \"n\"", "get resource \"nodes\"", IN_CLUSTER => &node;
        "POST /api/v1/nodes", "nodes", "create resource \"nodes\"", IN_CLUSTER => &nodes;
        "PUT /api/v1/nodes/n", "nodes \"n\"", "update resource \"nodes\"", IN_CLUSTER => &node;
        "PATCH /api/v1/nodes/n/status", "nodes \"n\"", "patch resource \"nodes/status\"", IN_CLUSTER => &node;
        "GET /api/v1/namespaces/default/pods?watch=1", "pods", "watch resource \"pods\"", IN_DEFAULT => &pods;
        "POST /api/v1/namespaces/default/pods/p/eviction", "pods \"p\"", "create resource \"pods/eviction\"",
            IN_DEFAULT => &pod;
        "DELETE /apis/apps/v1/namespaces/default/deployments/d", "deployments.apps \"d\"",
            "delete resource \"deployments\"", OF_APPS => &app;
        "DELETE /apis/apps/v1/namespaces/default/deployments", "deployments.apps",
            "deletecollection resource \"deployments\"", OF_APPS => &apps;
    } {
        let message = format!("{subject} is forbidden: User \"alice\" cannot {action} {place}");
        ask(&ground.alice, request)
            .await
            .refuses(403, "Forbidden", &message, details);
    }
}

async fn a_request_without_permissions_is_refused_before_anything_else(ground: Ground) {
    for request in [
        "GET /apis/nope/v1/foos",
        "GET /api/v1/foos",
        "GET /api/v1/nodes?limit=many",
        "POST /api/v1/nodes/n",
    ] {
        assert_eq!(ask(&ground.alice, request).await.code, 403, "{request}");
    }
}

async fn a_namespace_is_within_itself(ground: Ground) {
    get(&ground.alice, "/api/v1/namespaces/default").await.says(
        403,
        "namespaces \"default\" is forbidden: User \"alice\" cannot get resource \"namespaces\" in API group \"\" in the \
         namespace \"default\"",
    );
}

async fn an_unknown_token_opens_nothing(ground: Ground) {
    for uri in [NODES, "/version", "/healthz", "/nope"] {
        let answer = get(&ground.stranger, uri).await;
        answer.refuses(401, "Unauthorized", "Unauthorized", &Value::Null);
    }
}

async fn strangers_see_health_and_release_alone(ground: Ground) {
    let open = ["/version", "/healthz", "/livez", "/readyz"].map(|uri| (uri, 200));
    codes(&ground.anonymous, &open).await;
    let api = get(&ground.anonymous, "/api").await;
    let message = "forbidden: User \"system:anonymous\" cannot get path \"/api\"";
    api.says(403, message);
    get(&ground.anonymous, NODES).await.says(
        403,
        "nodes is forbidden: User \"system:anonymous\" cannot list resource \"nodes\" in API group \"\" at the cluster \
         scope",
    );
}

async fn everybody_who_is_known_may_look_around(ground: Ground) {
    let open = [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps/v1",
        "/openapi/v3",
        "/version",
    ];
    codes(&ground.alice, &open.map(|uri| (uri, 200))).await;
}

async fn a_path_that_is_no_resource_is_refused_by_its_method(ground: Ground) {
    for method in ["GET", "POST", "DELETE"] {
        let answer = ask(&ground.alice, &format!("{method} /nope/a&b")).await;
        let action = method.to_lowercase();
        let message = format!("forbidden: User \"alice\" cannot {action} path \"/nope/a&amp;b\"");
        answer.refuses(403, "Forbidden", &message, &json!({}));
    }
}

async fn a_cluster_binding_grants_everywhere(ground: Ground) {
    let rules = json!([resources("", &["nodes", "pods"], &["list"])]);
    grant_everywhere(&ground, "reader", rules).await;
    becomes(&ground.alice, NODES, 200).await;
    let expected = [
        (PODS, 200),
        ("/api/v1/pods", 200),
        ("/api/v1/namespaces/kube-system/pods", 200),
        ("/api/v1/nodes/n", 403),
        (CONFIG_MAPS, 403),
    ];
    codes(&ground.alice, &expected).await;
    codes(&ground.anonymous, &[(NODES, 403)]).await;
}

async fn a_binding_grants_in_its_namespace(ground: Ground) {
    let rules = json!([resources("", &["pods"], &["get", "list"])]);
    create_role(&ground, ROLES, "reader", rules).await;
    bind(&ground, ROLE_BINDINGS, "reader", "Role", &alice()).await;
    becomes(&ground.alice, PODS, 200).await;
    let elsewhere = "/api/v1/namespaces/kube-system/pods";
    codes(
        &ground.alice,
        &[
            (&format!("{PODS}/p"), 404),
            ("/api/v1/pods", 403),
            (elsewhere, 403),
        ],
    )
    .await;
}

async fn a_cluster_role_can_be_bound_in_one_namespace(ground: Ground) {
    let rules = json!([resources("", &["pods"], &["list"])]);
    create_role(&ground, CLUSTER_ROLES, "lister", rules).await;
    bind(&ground, ROLE_BINDINGS, "lister", "ClusterRole", &alice()).await;
    becomes(&ground.alice, PODS, 200).await;
    codes(&ground.alice, &[("/api/v1/pods", 403)]).await;
}

async fn a_group_passes_its_permissions_on(ground: Ground) {
    let rules = json!([resources("", &["nodes"], &["list"])]);
    create_role(&ground, CLUSTER_ROLES, "devs", rules).await;
    let devs = json!({ "apiGroup": RBAC, "kind": "Group", "name": "dev" });
    bind(&ground, CLUSTER_ROLE_BINDINGS, "devs", "ClusterRole", &devs).await;
    becomes(&ground.alice, NODES, 200).await;
    codes(&ground.anonymous, &[(NODES, 403)]).await;
}

async fn a_name_limits_a_right(ground: Ground) {
    let mut rule = resources("", &["nodes"], &["get", "list", "create"]);
    rule["resourceNames"] = json!(["mine"]);
    grant_everywhere(&ground, "one", json!([rule])).await;
    becomes(&ground.alice, "/api/v1/nodes/mine", 404).await;
    let selected = "/api/v1/nodes?fieldSelector=metadata.name%3Dmine";
    codes(
        &ground.alice,
        &[("/api/v1/nodes/other", 403), (NODES, 403), (selected, 200)],
    )
    .await;
    let created = post(&ground.alice, NODES, named("mine")).await;
    assert_eq!(created.code, 403, "a create has no name in its path");
}

async fn a_subresource_is_a_right_of_its_own(ground: Ground) {
    let rules = json!([resources("", &["nodes/status"], &["get"])]);
    grant_everywhere(&ground, "statuses", rules).await;
    becomes(&ground.alice, "/api/v1/nodes/n/status", 404).await;
    codes(&ground.alice, &[("/api/v1/nodes/n", 403)]).await;
}

async fn a_subresource_of_everything_can_be_granted(ground: Ground) {
    let rules = json!([resources("", &["*/status"], &["get"])]);
    grant_everywhere(&ground, "all-statuses", rules).await;
    becomes(&ground.alice, "/api/v1/nodes/n/status", 404).await;
    let of_pod = format!("{PODS}/p/status");
    codes(&ground.alice, &[(&of_pod, 404), ("/api/v1/nodes/n", 403)]).await;
}

async fn a_star_stands_for_everything(ground: Ground) {
    grant_everywhere(&ground, "all", json!([resources("*", &["*"], &["*"])])).await;
    becomes(&ground.alice, NODES, 200).await;
    // Rules for resources do not cover other paths.
    codes(
        &ground.alice,
        &[(LEASES, 200), ("/api/v1/nodes/n/status", 404), ("/nope", 403)],
    )
    .await;
}

async fn paths_are_granted_with_what_is_below_them(ground: Ground) {
    let rule = json!({ "nonResourceURLs": ["/nope", "/some/*"], "verbs": ["get"] });
    grant_everywhere(&ground, "paths", json!([rule])).await;
    becomes(&ground.alice, "/nope", 404).await;
    codes(&ground.alice, &[("/nope/below", 403), ("/some/thing/below", 404)]).await;
    assert_eq!(ask(&ground.alice, "POST /nope").await.code, 403);
}

async fn a_binding_without_its_role_is_named_in_the_refusal(ground: Ground) {
    bind(&ground, CLUSTER_ROLE_BINDINGS, "ghost", "ClusterRole", &alice()).await;
    let refused = "nodes is forbidden: User \"alice\" cannot list resource \"nodes\" in API group \"\" at the cluster \
                   scope";
    let is_news = |answer: &Answer| message(answer) != refused;
    let answer = repeated(NODES, || get(&ground.alice, NODES), is_news).await;
    let why = "rbac: RBAC: clusterrole.rbac.authorization.k8s.io \"ghost\" not found";
    answer.says(403, &format!("{refused}: {why}"));
}

async fn a_right_ends_with_its_binding(ground: Ground) {
    grant_everywhere(&ground, "for-now", json!([resources("", &["nodes"], &["list"])])).await;
    becomes(&ground.alice, NODES, 200).await;
    let uri = format!("{CLUSTER_ROLE_BINDINGS}/for-now");
    delete(&ground.admin, uri, Value::Null).await;
    becomes(&ground.alice, NODES, 403).await;
}

async fn everybody_who_is_known_may_ask_what_they_may(ground: Ground) {
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = |resource: &str, subresource: &str| {
        let attributes = json!({
            "verb": "patch", "group": "", "resource": resource, "subresource": subresource, "namespace": "default",
        });
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": { "resourceAttributes": attributes },
        })
    };
    let allowed = async |resource: &str, subresource: &str| {
        let answer = post(&ground.alice, reviews, review(resource, subresource)).await;
        assert_eq!(answer.code, 201);
        answer.body["status"]["allowed"] == true
    };
    assert!(!allowed("pods", "status").await);
    grant_everywhere(
        &ground,
        "patches",
        json!([resources("", &["pods/status"], &["patch"])]),
    )
    .await;
    let asked = || post(&ground.alice, reviews, review("pods", "status"));
    repeated("the permission is in force", asked, |answer| {
        answer.body["status"]["allowed"] == true
    })
    .await;
    assert!(!allowed("pods", "").await);
    let answer = post(&ground.anonymous, reviews, review("pods", "")).await;
    assert_eq!(answer.code, 403);
}

#[tokio::test(start_paused = true)]
async fn permissions_are_not_looked_at_until_a_test_asks_for_it() {
    let server = server();
    let alice = server.add_user("alice", &[], "token");
    let client = server.client_for(&alice);
    codes(&client, &[(NODES, 200)]).await;
    server.enforce_rbac();
    codes(&client, &[(NODES, 403)]).await;
    codes(&server.client(), &[(NODES, 200)]).await;
}

#[tokio::test(start_paused = true)]
async fn permissions_that_no_request_needed_are_listed() {
    let server = server();
    let ground = ground_of(&server);
    let robot = User::service_account("kube-system", "robot", "1");
    let mut lease = resources("coordination.k8s.io", &["leases"], &["get", "update"]);
    lease["resourceNames"] = json!(["robot"]);
    let path = json!({ "nonResourceURLs": ["/metrics"], "verbs": ["get"] });
    let nodes = resources("", &["nodes", "nodes/status"], &["list", "patch"]);
    create_role(&ground, CLUSTER_ROLES, "robot", json!([nodes, lease, path])).await;
    let subject = json!({ "kind": "ServiceAccount", "namespace": "kube-system", "name": "robot" });
    bind(&ground, CLUSTER_ROLE_BINDINGS, "robot", "ClusterRole", &subject).await;
    let rules = json!([resources("apps", &["*/scale"], &["get"])]);
    create_role(&ground, ROLES, "within", rules).await;
    bind(&ground, ROLE_BINDINGS, "within", "Role", &subject).await;

    let client = server.client_for(&robot);
    let leases = LEASES.replace("default", "kube-system");
    let (own, other) = (format!("{leases}/robot"), format!("{leases}/other"));
    codes(&client, &[(NODES, 200), (&own, 404), (&other, 403)]).await;
    assert_eq!(
        server.unused_permissions(&robot),
        [
            "get *.apps/scale in default",
            "get /metrics",
            "list nodes/status",
            "patch nodes",
            "patch nodes/status",
            "update leases.coordination.k8s.io \"robot\"",
        ]
    );
}
