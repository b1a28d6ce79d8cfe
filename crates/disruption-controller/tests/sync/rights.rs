//! The rights that the README names: they suffice, and each is used.

use serde_json::json;

use crate::world::{World, numbers, process};

#[tokio::test(start_paused = true)]
async fn the_rights_of_the_readme_suffice_and_are_used() {
    let world = World::new();
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": verbs });
    let rules = [
        rule("", &["pods", "replicationcontrollers"], &["list", "watch"]),
        rule(
            "apps",
            &["replicasets", "deployments", "statefulsets"],
            &["list", "watch"],
        ),
        rule("policy", &["poddisruptionbudgets"], &["list", "watch"]),
        rule("*", &["*/scale"], &["get"]),
        rule("policy", &["poddisruptionbudgets/status"], &["patch"]),
        rule("", &["pods/status"], &["patch"]),
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
    world.define_widgets(true);
    let widget = world.widget("web", 3);
    world.pods(2, Some(&widget));
    world.pod("naked", None);
    let since = world.seconds(-121);
    world.edit("web-0", |pod| {
        pod["status"]["conditions"] =
            json!([{ "type": "DisruptionTarget", "status": "True", "lastTransitionTime": since }]);
    });
    world.pdb("web", "maxUnavailable", &json!(1));
    let _controller = process().start(world.server.client_for(&user), &world.clock);
    world.pass(10).await;
    assert_eq!(world.numbers("web"), numbers(0, 2, 2, 3));
    assert_eq!(world.count_events("UnmanagedPods"), 1);
    // The same again, soon: a series.
    for app in ["none", "web"] {
        world.relabel("naked", app);
        world.pass(10).await;
    }
    assert_eq!(world.count_events("UnmanagedPods"), 2);
    world.pass(400).await;
    let refused = world.server.requests().only(|request| request.code == Some(403));
    assert_eq!(refused.lines(), Vec::<String>::new());
    assert_eq!(world.server.unused_rights(&user), Vec::<String>::new());
}
