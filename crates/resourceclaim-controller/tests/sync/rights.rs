//! The rights that the README names: they suffice, and each is used.

use serde_json::json;

use crate::world::{World, made, own, process};

#[tokio::test(start_paused = true)]
async fn the_rights_of_the_readme_suffice_and_are_used() {
    let world = World::new();
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let rules = [
        rule("", &["pods"], &["get", "list", "watch"]),
        rule("", &["pods/status"], &["patch"]),
        rule(
            "resource.k8s.io",
            &["resourceclaims"],
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        rule(
            "resource.k8s.io",
            &["resourceclaims/status", "resourceclaims/binding"],
            &["patch"],
        ),
        rule("resource.k8s.io", &["resourceclaimtemplates"], &["list", "watch"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ];
    let group = "rbac.authorization.k8s.io";
    world.insert(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "ours" },
        "rules": rules,
    }));
    world.insert(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "ours" },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "ours" },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": "ours" }],
    }));
    let user = world.server.add_user("ours", &[], "token");
    world.server.enforce_rbac();
    world.template("t");
    world.claim("shared");
    world.pod("gone");
    world.allocate("shared", &["gone"]);
    world.force_delete("gone");
    let _controller = process().start(world.server.client_for(&user), &world.clock);
    world.pass(10).await;
    assert!(!world.is_allocated("shared"));
    world.pod_of("p", &[made("gpu", "t"), own("shared", "shared")]);
    world.pass(10).await;
    world.schedule("p");
    world.allocate("shared", &[]);
    world.pass(10).await;
    assert_eq!(world.reserved("shared"), ["p"]);
    world.delete_claim(&world.claim_of("p"));
    world.finish("p");
    world.pod("deleted");
    world.pass(10).await;
    world.finish("deleted");
    // The same event twice, soon: a series.
    for _ in 0..2 {
        world.pod_of("q", &[made("gpu", "none")]);
        world.pass(10).await;
        world.edit_pod("q", |pod| pod["spec"]["nodeName"] = json!("n"));
        world.pass(10).await;
        world.template("none");
        world.pass(10).await;
        world.delete_claim(&world.claim_of("q"));
        world.delete_template("none");
        world.pass(10).await;
        world.force_delete("q");
    }
    world.pass(400).await;
    assert_eq!(world.claims(), ["shared"]);
    let refused = world.server.requests().only(|request| request.code == Some(403));
    assert_eq!(refused.lines(), Vec::<String>::new());
    assert_eq!(world.server.unused_rights(&user), Vec::<String>::new());
}
