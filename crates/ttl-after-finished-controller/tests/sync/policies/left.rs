//! What goes, and what stays.

use embedded_apiserver::PODS;
use serde_json::json;

use super::support::with;
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn each_object_takes_one_delete_of_just_the_state_that_was_judged() {
    let world = World::new();
    world.succeeded("job", -60);
    world.pod("pod", "Succeeded", -60);
    let uids = [
        world.uid("job"),
        controller_testing::objects::uid(&world.get_of(&PODS, "pod")),
    ];
    let versions = [&world.get("job"), &world.get_of(&PODS, "pod")]
        .map(|object| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
    let policies = json!([{ "name": "p", "kinds": ["Job", "Pod"], "ttlAfterSucceeded": "1s" }]);
    let _controller = world.start_with(with(&policies, 0));
    world.pass(5).await;
    let ours = world.ours();
    let mut writes: Vec<_> = ours.to("jobs").writes().lines();
    writes.extend(ours.to("pods").writes().lines());
    assert_eq!(
        writes,
        [
            format!(
                "delete default/jobs/job {{\"preconditions\":{{\"resourceVersion\":\"{}\",\"uid\":\"{}\"}},\
                 \"propagationPolicy\":\"Foreground\"}}",
                versions[0], uids[0]
            ),
            format!(
                "delete default/pods/pod {{\"preconditions\":{{\"resourceVersion\":\"{}\",\"uid\":\"{}\"}}}}",
                versions[1], uids[1]
            ),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_ttl_of_its_own_wins_later_and_sooner() {
    let world = World::new();
    world.finished_job("sooner", 60, 0);
    world.finished_job("later", 7_200, 0);
    world.succeeded("by-policy", 0);
    let _controller = world.start_with(with(&json!([{ "name": "p", "ttlAfterSucceeded": "1h" }]), 0));
    world.pass(70).await;
    assert_eq!(world.left(), ["by-policy", "later"]);
    world.pass(3_600).await;
    assert_eq!(world.left(), ["later"]);
    world.pass(3_600).await;
    assert_eq!(world.left(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn jobs_with_a_ttl_are_left_to_the_clusters_own_loop_with_only_policies() {
    let world = World::new();
    world.finished_job("with-ttl", 60, 0);
    world.succeeded("by-policy", 0);
    let policies = json!([{ "name": "p", "ttlAfterSucceeded": "1h" }]);
    let _controller = world.start_with(with(&policies, 0).configured(|config| config.only_policies = true));
    world.pass(10_000).await;
    assert_eq!(world.left(), ["with-ttl"]);
}

#[tokio::test(start_paused = true)]
async fn pods_are_neither_watched_nor_deleted_unless_a_policy_names_them() {
    let world = World::new();
    world.pod("pod", "Succeeded", -60);
    let _controller = world.start_with(with(&json!([{ "name": "p", "ttlAfterSucceeded": "1s" }]), 0));
    world.pass(100).await;
    assert!(world.pod_lives("pod"));
    assert_eq!(world.ours().to("pods").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn only_finished_pods_go_and_a_pod_that_ends_is_seen() {
    let world = World::new();
    world.pod("runs", "Running", -60);
    world.pod("ends", "Running", -60);
    world.pod("failed", "Failed", -60);
    let policies = json!([
        { "name": "p", "kinds": ["Pod"], "ttlAfterSucceeded": "10s", "ttlAfterFailed": "never" },
    ]);
    let _controller = world.start_with(with(&policies, 0));
    world.pass(10).await;
    world.edit_of(&PODS, "ends", |pod| pod["status"]["phase"] = json!("Succeeded"));
    world.pass(10).await;
    assert_eq!(
        ["runs", "ends", "failed"].map(|pod| world.pod_lives(pod)),
        [true, false, true]
    );
}

#[tokio::test(start_paused = true)]
async fn owned_objects_stay_unless_the_policy_includes_them() {
    let world = World::new();
    for name in ["left", "included"] {
        world.ended(name, "Complete", -60, &json!({ "app": name }));
        world.edit(name, |job| {
            job["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "c", "controller": true,
            }]);
        });
    }
    let policies = json!([
        { "name": "included", "ttlAfterSucceeded": "1s", "includeOwned": true,
          "selector": { "matchLabels": { "app": "included" } } },
        { "name": "rest", "ttlAfterSucceeded": "1s" },
    ]);
    let _controller = world.start_with(with(&policies, 0));
    world.pass(100).await;
    assert_eq!(world.left(), ["left"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_annotated_stays() {
    let world = World::new();
    world.succeeded("kept", -60);
    world.succeeded("gone", -60);
    world.edit("kept", |job| {
        job["metadata"]["annotations"] = json!({ "ttl-after-finished-controller/keep": "true" });
    });
    let _controller = world.start_with(with(&json!([{ "name": "p", "ttlAfterSucceeded": "1s" }]), 0));
    world.pass(100).await;
    assert_eq!(world.left(), ["kept"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_that_failed_stay_until_others_fail() {
    let world = World::new();
    for (name, ago) in [("a", -50), ("b", -40), ("c", -30), ("d", -20)] {
        world.failed(name, ago);
    }
    world.succeeded("ok", -10);
    let policies =
        json!([{ "name": "p", "ttlAfterSucceeded": "1s", "ttlAfterFailed": "1s", "keepLastFailed": 2 }]);
    let _controller = world.start_with(with(&policies, 0));
    world.pass(100).await;
    assert_eq!(world.left(), ["c", "d"]);
    world.failed("e", 0);
    world.pass(100).await;
    assert_eq!(world.left(), ["d", "e"]);
    world.delete("e");
    world.pass(100).await;
    assert_eq!(world.left(), ["d"]);
}

#[tokio::test(start_paused = true)]
async fn what_finalizers_would_hold_is_reported_once_and_left() {
    let world = World::new();
    world.pod("held", "Failed", -60);
    world.edit_of(&PODS, "held", |pod| {
        pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    });
    let policies = json!([{ "name": "p", "kinds": ["Pod"], "ttlAfterFailed": "1s" }]);
    let _controller = world.start_with(with(&policies, 0));
    world.pass(10_000).await;
    world.edit_of(&PODS, "held", |pod| {
        pod["metadata"]["labels"] = json!({ "a": "b" });
    });
    world.pass(100).await;
    assert!(world.pod_lives("held"));
    assert_eq!(
        world.events(),
        ["held Warning HeldByFinalizers policy p leaves it: its finalizers (example.com/hold) would hold it"]
    );
    world.edit_of(&PODS, "held", |pod| pod["metadata"]["finalizers"] = json!(null));
    world.pass(10).await;
    assert!(!world.pod_lives("held"));
}

#[tokio::test(start_paused = true)]
async fn deleted_objects_leave_nothing_behind() {
    let world = World::new();
    for number in 0..50 {
        world.failed(&format!("job-{number}"), -60);
    }
    let policies = json!([{ "name": "p", "ttlAfterFailed": "1s", "keepLastFailed": 10 }]);
    let controller = world.start_with(with(&policies, 0));
    world.pass(60).await;
    assert_eq!(world.alive(), 10);
    for name in world.left() {
        world.delete(&name);
    }
    world.pass(1).await;
    assert_eq!(controller.metric("informer_objects"), 4, "the namespaces");
    assert_eq!(controller.metric("workqueue_depth"), 0);
}
