//! Who may do what.

use std::time::Duration;

use http::{Method, Request, header};
use kube::Client;
use serde_json::{Value, json};
use testkit::embedded::User;
use tokio::time::sleep;

use crate::http::*;
use crate::server;
use crate::twin::Ground;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const PODS: &str = "/api/v1/namespaces/default/pods";

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
];

fn labelled(name: &str) -> Value {
    json!({ "name": name, "labels": { "scenario": "access" } })
}

pub(crate) fn resources(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

pub(crate) fn alice() -> Value {
    json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice" })
}

pub(crate) fn binding(name: &str, kind: &str, subject: &Value) -> Value {
    json!({
        "metadata": labelled(name),
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name },
        "subjects": [subject],
    })
}

pub(crate) async fn grant_everywhere(ground: &Ground, name: &str, rules: Value) {
    let role = json!({ "metadata": labelled(name), "rules": rules });
    create(&ground.admin, CLUSTER_ROLES, role).await;
    let binding = binding(name, "ClusterRole", &alice());
    create(&ground.admin, CLUSTER_ROLE_BINDINGS, binding).await;
}

/// Asks until the answer has this code: permissions take effect when the authorizer has seen them.
async fn becomes(client: &Client, uri: &str, code: u16) -> Answer {
    for _ in 0..500 {
        let answer = get(client, uri).await;
        if answer.code == code {
            return answer;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("{uri} never answers {code}")
}

async fn code(client: &Client, uri: &str) -> u16 {
    get(client, uri).await.code
}

async fn ask(client: &Client, method: Method, uri: &str) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header(header::CONTENT_TYPE, JSON);
    send(client, request, b"{}".to_vec()).await
}

async fn a_user_without_permissions_is_refused_in_the_servers_words(ground: Ground) {
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    for (method, uri, subject, action, details) in [
        (
            Method::GET,
            NODES.to_owned(),
            "nodes",
            "list resource \"nodes\" in API group \"\" at the cluster scope",
            json!({ "kind": "nodes" }),
        ),
        (
            Method::GET,
            format!("{NODES}/n"),
            "nodes \"n\"",
            "get resource \"nodes\" in API group \"\" at the cluster scope",
            json!({ "kind": "nodes", "name": "n" }),
        ),
        (
            Method::GET,
            format!("{PODS}?watch=1"),
            "pods",
            "watch resource \"pods\" in API group \"\" in the namespace \"default\"",
            json!({ "kind": "pods" }),
        ),
        (
            Method::POST,
            NODES.to_owned(),
            "nodes",
            "create resource \"nodes\" in API group \"\" at the cluster scope",
            json!({ "kind": "nodes" }),
        ),
        (
            Method::PUT,
            format!("{NODES}/n"),
            "nodes \"n\"",
            "update resource \"nodes\" in API group \"\" at the cluster scope",
            json!({ "kind": "nodes", "name": "n" }),
        ),
        (
            Method::PATCH,
            format!("{NODES}/n/status"),
            "nodes \"n\"",
            "patch resource \"nodes/status\" in API group \"\" at the cluster scope",
            json!({ "kind": "nodes", "name": "n" }),
        ),
        (
            Method::POST,
            format!("{PODS}/p/eviction"),
            "pods \"p\"",
            "create resource \"pods/eviction\" in API group \"\" in the namespace \"default\"",
            json!({ "kind": "pods", "name": "p" }),
        ),
        (
            Method::DELETE,
            format!("{deployments}/d"),
            "deployments.apps \"d\"",
            "delete resource \"deployments\" in API group \"apps\" in the namespace \"default\"",
            json!({ "group": "apps", "kind": "deployments", "name": "d" }),
        ),
        (
            Method::DELETE,
            deployments.to_owned(),
            "deployments.apps",
            "deletecollection resource \"deployments\" in API group \"apps\" in the namespace \"default\"",
            json!({ "group": "apps", "kind": "deployments" }),
        ),
    ] {
        let answer = ask(&ground.alice, method, &uri).await;
        let message = format!("{subject} is forbidden: User \"alice\" cannot {action}");
        assert_eq!(
            answer.body,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403,
                "reason": "Forbidden", "message": message, "details": details,
            })
        );
    }
}

async fn a_request_without_permissions_is_refused_before_anything_else(ground: Ground) {
    for (method, uri) in [
        (Method::GET, "/apis/nope/v1/foos"),
        (Method::GET, "/api/v1/foos"),
        (Method::GET, "/api/v1/nodes?limit=many"),
        (Method::POST, "/api/v1/nodes/n"),
    ] {
        assert_eq!(ask(&ground.alice, method, uri).await.code, 403, "{uri}");
    }
}

async fn a_namespace_is_within_itself(ground: Ground) {
    let answer = get(&ground.alice, "/api/v1/namespaces/default").await;
    assert_eq!(
        answer.body["message"],
        "namespaces \"default\" is forbidden: User \"alice\" cannot get resource \"namespaces\" in API group \"\" \
         in the namespace \"default\""
    );
}

async fn an_unknown_token_opens_nothing(ground: Ground) {
    for uri in [NODES, "/version", "/healthz", "/nope"] {
        let answer = get(&ground.stranger, uri).await;
        assert_eq!(
            answer.body,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 401,
                "reason": "Unauthorized", "message": "Unauthorized",
            })
        );
    }
}

async fn strangers_see_health_and_release_alone(ground: Ground) {
    for uri in ["/version", "/healthz", "/livez", "/readyz"] {
        assert_eq!(code(&ground.anonymous, uri).await, 200, "{uri}");
    }
    let answer = get(&ground.anonymous, "/api").await;
    answer.says(
        403,
        "forbidden: User \"system:anonymous\" cannot get path \"/api\"",
    );
    let nodes = get(&ground.anonymous, NODES).await;
    assert_eq!(
        nodes.body["message"],
        "nodes is forbidden: User \"system:anonymous\" cannot list resource \"nodes\" in API group \"\" at the \
         cluster scope"
    );
}

async fn everybody_who_is_known_may_look_around(ground: Ground) {
    for uri in [
        "/api",
        "/api/v1",
        "/apis",
        "/apis/apps/v1",
        "/openapi/v3",
        "/version",
    ] {
        assert_eq!(code(&ground.alice, uri).await, 200, "{uri}");
    }
}

async fn a_path_that_is_no_resource_is_refused_by_its_method(ground: Ground) {
    for (method, action) in [
        (Method::GET, "get"),
        (Method::POST, "post"),
        (Method::DELETE, "delete"),
    ] {
        let answer = ask(&ground.alice, method, "/nope/a&b").await;
        assert_eq!(
            answer.body,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403,
                "reason": "Forbidden", "details": {},
                "message": format!("forbidden: User \"alice\" cannot {action} path \"/nope/a&amp;b\""),
            })
        );
    }
}

async fn a_cluster_binding_grants_everywhere(ground: Ground) {
    grant_everywhere(
        &ground,
        "reader",
        json!([resources("", &["nodes", "pods"], &["list"])]),
    )
    .await;
    becomes(&ground.alice, NODES, 200).await;
    assert_eq!(code(&ground.alice, PODS).await, 200);
    assert_eq!(code(&ground.alice, "/api/v1/pods").await, 200);
    assert_eq!(
        code(&ground.alice, "/api/v1/namespaces/kube-system/pods").await,
        200
    );
    assert_eq!(code(&ground.alice, &format!("{NODES}/n")).await, 403);
    assert_eq!(
        code(&ground.alice, "/api/v1/namespaces/default/configmaps").await,
        403
    );
    assert_eq!(code(&ground.anonymous, NODES).await, 403);
}

async fn a_binding_grants_in_its_namespace(ground: Ground) {
    let role = json!({
        "metadata": labelled("reader"),
        "rules": [resources("", &["pods"], &["get", "list"])],
    });
    create(&ground.admin, ROLES, role).await;
    create(&ground.admin, ROLE_BINDINGS, binding("reader", "Role", &alice())).await;
    becomes(&ground.alice, PODS, 200).await;
    assert_eq!(code(&ground.alice, &format!("{PODS}/p")).await, 404);
    assert_eq!(code(&ground.alice, "/api/v1/pods").await, 403);
    assert_eq!(
        code(&ground.alice, "/api/v1/namespaces/kube-system/pods").await,
        403
    );
}

async fn a_cluster_role_can_be_bound_in_one_namespace(ground: Ground) {
    let role = json!({ "metadata": labelled("lister"), "rules": [resources("", &["pods"], &["list"])] });
    create(&ground.admin, CLUSTER_ROLES, role).await;
    create(
        &ground.admin,
        ROLE_BINDINGS,
        binding("lister", "ClusterRole", &alice()),
    )
    .await;
    becomes(&ground.alice, PODS, 200).await;
    assert_eq!(code(&ground.alice, "/api/v1/pods").await, 403);
}

async fn a_group_passes_its_permissions_on(ground: Ground) {
    let role = json!({ "metadata": labelled("devs"), "rules": [resources("", &["nodes"], &["list"])] });
    create(&ground.admin, CLUSTER_ROLES, role).await;
    let devs = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "dev" });
    create(
        &ground.admin,
        CLUSTER_ROLE_BINDINGS,
        binding("devs", "ClusterRole", &devs),
    )
    .await;
    becomes(&ground.alice, NODES, 200).await;
    assert_eq!(code(&ground.anonymous, NODES).await, 403);
}

async fn a_name_limits_a_right(ground: Ground) {
    let mut rule = resources("", &["nodes"], &["get", "list", "create"]);
    rule["resourceNames"] = json!(["mine"]);
    grant_everywhere(&ground, "one", json!([rule])).await;
    becomes(&ground.alice, &format!("{NODES}/mine"), 404).await;
    assert_eq!(code(&ground.alice, &format!("{NODES}/other")).await, 403);
    assert_eq!(code(&ground.alice, NODES).await, 403);
    let selected = format!("{NODES}?fieldSelector=metadata.name%3Dmine");
    assert_eq!(code(&ground.alice, &selected).await, 200);
    let created = post(&ground.alice, NODES, json!({ "metadata": { "name": "mine" } })).await;
    assert_eq!(created.code, 403, "a create names nobody yet");
}

async fn a_subresource_is_a_right_of_its_own(ground: Ground) {
    grant_everywhere(
        &ground,
        "statuses",
        json!([resources("", &["nodes/status"], &["get"])]),
    )
    .await;
    becomes(&ground.alice, &format!("{NODES}/n/status"), 404).await;
    assert_eq!(code(&ground.alice, &format!("{NODES}/n")).await, 403);
}

async fn a_subresource_of_everything_can_be_granted(ground: Ground) {
    grant_everywhere(
        &ground,
        "all-statuses",
        json!([resources("", &["*/status"], &["get"])]),
    )
    .await;
    becomes(&ground.alice, &format!("{NODES}/n/status"), 404).await;
    assert_eq!(code(&ground.alice, &format!("{PODS}/p/status")).await, 404);
    assert_eq!(code(&ground.alice, &format!("{NODES}/n")).await, 403);
}

async fn a_star_stands_for_everything(ground: Ground) {
    grant_everywhere(&ground, "all", json!([resources("*", &["*"], &["*"])])).await;
    becomes(&ground.alice, NODES, 200).await;
    assert_eq!(code(&ground.alice, LEASES).await, 200);
    assert_eq!(code(&ground.alice, &format!("{NODES}/n/status")).await, 404);
    assert_eq!(code(&ground.alice, "/nope").await, 403, "but not for paths");
}

async fn paths_are_granted_with_what_is_below_them(ground: Ground) {
    let rule = json!({ "nonResourceURLs": ["/nope", "/some/*"], "verbs": ["get"] });
    grant_everywhere(&ground, "paths", json!([rule])).await;
    becomes(&ground.alice, "/nope", 404).await;
    assert_eq!(code(&ground.alice, "/nope/below").await, 403);
    assert_eq!(code(&ground.alice, "/some/thing/below").await, 404);
    assert_eq!(ask(&ground.alice, Method::POST, "/nope").await.code, 403);
}

async fn a_binding_without_its_role_is_named_in_the_refusal(ground: Ground) {
    create(
        &ground.admin,
        CLUSTER_ROLE_BINDINGS,
        binding("ghost", "ClusterRole", &alice()),
    )
    .await;
    let refused = "nodes is forbidden: User \"alice\" cannot list resource \"nodes\" in API group \"\" at the cluster \
                   scope";
    let mut message = Value::Null;
    for _ in 0..500 {
        message = get(&ground.alice, NODES).await.body["message"].take();
        if message != refused {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(
        message,
        format!("{refused}: RBAC: clusterrole.rbac.authorization.k8s.io \"ghost\" not found")
    );
}

async fn a_right_ends_with_its_binding(ground: Ground) {
    grant_everywhere(&ground, "for-now", json!([resources("", &["nodes"], &["list"])])).await;
    becomes(&ground.alice, NODES, 200).await;
    delete(
        &ground.admin,
        format!("{CLUSTER_ROLE_BINDINGS}/for-now"),
        Value::Null,
    )
    .await;
    becomes(&ground.alice, NODES, 403).await;
}

#[tokio::test(start_paused = true)]
async fn permissions_are_not_looked_at_until_a_test_asks_for_it() {
    let server = server();
    let alice = server.add_user("alice", &[], "token");
    let client = server.client_for(&alice);
    assert_eq!(code(&client, NODES).await, 200);
    server.enforce_rbac();
    assert_eq!(code(&client, NODES).await, 403);
    assert_eq!(code(&server.client(), NODES).await, 200);
}

#[tokio::test(start_paused = true)]
async fn permissions_that_no_request_needed_are_listed() {
    let server = server();
    server.enforce_rbac();
    let robot = User::service_account("kube-system", "robot", "1");
    let admin = server.client();
    let mut lease = resources("coordination.k8s.io", &["leases"], &["get", "update"]);
    lease["resourceNames"] = json!(["robot"]);
    let path = json!({ "nonResourceURLs": ["/metrics"], "verbs": ["get"] });
    let role = json!({
        "metadata": { "name": "robot" },
        "rules": [resources("", &["nodes", "nodes/status"], &["list", "patch"]), lease, path],
    });
    create(&admin, CLUSTER_ROLES, role.clone()).await;
    let subject = json!({ "kind": "ServiceAccount", "namespace": "kube-system", "name": "robot" });
    create(
        &admin,
        CLUSTER_ROLE_BINDINGS,
        binding("robot", "ClusterRole", &subject),
    )
    .await;
    let within =
        json!({ "metadata": { "name": "within" }, "rules": [resources("apps", &["*/scale"], &["get"])] });
    create(&admin, ROLES, within).await;
    create(&admin, ROLE_BINDINGS, binding("within", "Role", &subject)).await;

    let client = server.client_for(&robot);
    assert_eq!(code(&client, NODES).await, 200);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    assert_eq!(code(&client, &format!("{leases}/robot")).await, 404);
    assert_eq!(code(&client, &format!("{leases}/other")).await, 403);
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
