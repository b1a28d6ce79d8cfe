//! When permissions are enforced, and which of them nobody needed.

use embedded_apiserver::User;
use kube::Client;
use serde_json::{Value, json};

use crate::http::*;
use crate::objects::claim;
use crate::server;
use crate::twin::ground_of;

const RBAC: &str = "rbac.authorization.k8s.io";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

fn resources(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

/// Creates a role, and binds it to a subject.
async fn grant(admin: &Client, paths: [&str; 2], kind: &str, subject: &Value, rules: Value) {
    let name = json!({ "name": "granted" });
    create(admin, paths[0], json!({ "metadata": name, "rules": rules })).await;
    let role = json!({ "apiGroup": RBAC, "kind": kind, "name": "granted" });
    let binding = json!({ "metadata": name, "roleRef": role, "subjects": [subject] });
    create(admin, paths[1], binding).await;
}

/// Fails unless each URI is answered with its code.
async fn codes(client: &Client, expected: &[(&str, u16)]) {
    for (uri, code) in expected {
        assert_eq!(get(client, uri).await.code, *code, "{uri}");
    }
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
    let subject = json!({ "kind": "ServiceAccount", "namespace": "kube-system", "name": "robot" });
    let everywhere = [CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS];
    let rules = json!([nodes, lease, path]);
    grant(&ground.admin, everywhere, "ClusterRole", &subject, rules).await;
    let rules = json!([resources("apps", &["*/scale"], &["get"])]);
    grant(&ground.admin, [ROLES, ROLE_BINDINGS], "Role", &subject, rules).await;

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

#[tokio::test(start_paused = true)]
async fn the_right_to_bind_claims_is_used_by_who_binds_them() {
    let server = server();
    let ground = ground_of(&server);
    create(&ground.admin, CLAIMS, claim("bound")).await;
    let status = format!("{CLAIMS}/bound/status");
    let device = json!({ "driver": "gpu.example.com", "pool": "node", "device": "gpu-0", "request": "r" });
    let allocation = json!({ "devices": { "results": [device] } });
    merge(
        &ground.admin,
        &status,
        json!({ "status": { "allocation": allocation } }),
    )
    .await;
    let parts = ["resourceclaims/status", "resourceclaims/binding"];
    let rules = json!([resources("resource.k8s.io", &parts, &["patch"])]);
    let alice = json!({ "apiGroup": RBAC, "kind": "User", "name": "alice" });
    let everywhere = [CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS];
    grant(&ground.admin, everywhere, "ClusterRole", &alice, rules).await;
    let unused = || server.unused_permissions(&User::new("alice", &["dev"]));
    let (to_bind, to_write) = (
        "patch resourceclaims.resource.k8s.io/binding",
        "patch resourceclaims.resource.k8s.io/status",
    );
    assert_eq!(unused(), [to_bind, to_write]);
    strategic(&ground.alice, &status, json!({ "status": {} })).await;
    assert_eq!(unused(), [to_bind]);
    let pod = json!({ "resource": "pods", "name": "a", "uid": "1" });
    strategic(
        &ground.alice,
        &status,
        json!({ "status": { "reservedFor": [pod] } }),
    )
    .await;
    assert_eq!(unused(), [""; 0]);
}
