//! Which requests are made, and no others.

use serde_json::json;

use crate::budget::numbers;
use crate::world::World;

#[tokio::test(start_paused = true)]
async fn one_status_write_is_one_patch_with_every_number() {
    let world = World::with_budget(2, "minAvailable", &json!(2));
    let entries = json!({ "gone": world.seconds(0), "web-0": world.seconds(-1) });
    world.edit_pdb("web", |pdb| pdb["status"]["disruptedPods"] = entries);
    let pdb = world.get_of(&embedded_apiserver::POD_DISRUPTION_BUDGETS, "web");
    let mark = world.server.mark();
    let _controller = world.start_and_pass(60).await;
    let status = json!({
        "metadata": {
            "resourceVersion": pdb["metadata"]["resourceVersion"],
            "uid": pdb["metadata"]["uid"],
        },
        "status": {
            "conditions": [{
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "message": "",
                "observedGeneration": 1,
                "reason": "InsufficientPods",
                "status": "False",
                "type": "DisruptionAllowed",
            }],
            "currentHealthy": 1,
            "desiredHealthy": 2,
            "disruptedPods": { "gone": null },
            "disruptionsAllowed": 0,
            "expectedPods": 2,
            "observedGeneration": 1,
        },
    });
    assert_eq!(
        world.requests_since(mark),
        [format!("patch default/poddisruptionbudgets/web/status {status}")]
    );
    assert_eq!(
        world.status("web")["disruptedPods"],
        json!({ "web-0": "2025-12-31T23:59:59Z" })
    );
}

#[tokio::test(start_paused = true)]
async fn what_no_rule_reads_wakes_nothing() {
    let world = World::with_budget(2, "minAvailable", &json!(1));
    let controller = world.start_and_pass(10).await;
    let (added, mark) = (controller.metric("workqueue_adds_total"), world.server.mark());
    for number in 0..20 {
        world.edit("web-0", |pod| {
            pod["status"]["hostIP"] = json!(format!("10.0.0.{number}"));
        });
        world.edit("web-0", |pod| {
            pod["metadata"]["annotations"] = json!({ "n": number.to_string() });
        });
        world.edit_pdb("web", |pdb| {
            pdb["metadata"]["annotations"] = json!({ "n": number.to_string() });
        });
        world.pod_of("db", &format!("db-{number}"), None);
        world.pass(1).await;
    }
    assert_eq!(controller.metric("workqueue_adds_total"), added);
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
    // The version that was only annotated is the one that the next write is for.
    world.ready("web-0", false);
    world.settle().await;
    assert_eq!(world.status_writes(mark), [Some(200)]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing_that_is_there_already() {
    let (world, _) = World::with_set(3, 3);
    world.pdb("web", "maxUnavailable", &json!(1));
    let selector = json!({ "matchLabels": { "app": "none" } });
    world.pdb_of("none", "minAvailable", &json!(1), &selector);
    let first = world.start_and_pass(60).await;
    first.stop().await;
    let mark = world.server.mark();
    let _second = world.start_and_pass(60).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_one_write_after_100_ms_and_one_that_allows_less_after_10_ms() {
    let world = World::new();
    world.pods(50, None);
    for number in 0..50 {
        world.ready(&format!("web-{number}"), false);
    }
    world.pdb("web", "minAvailable", &json!(10));
    let _controller = world.start_and_settle().await;
    let mark = world.server.mark();
    for number in 0..50 {
        world.ready(&format!("web-{number}"), true);
        world.pass_millis(1).await;
    }
    world.pass_millis(40).await;
    assert_eq!(world.status_writes(mark), []);
    world.pass_millis(20).await;
    assert_eq!(world.numbers("web"), numbers(40, 50, 10, 50));
    assert_eq!(world.status_writes(mark), [Some(200)]);
    for number in 0..3 {
        world.ready(&format!("web-{number}"), false);
        world.pass_millis(3).await;
    }
    assert_eq!(world.status_writes(mark).len(), 1);
    world.pass_millis(2).await;
    assert_eq!(world.allowed("web"), 37);
    assert_eq!(world.status_writes(mark).len(), 2);
}
