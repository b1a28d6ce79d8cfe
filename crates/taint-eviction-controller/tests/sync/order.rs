//! Who goes first, and by which taint.

use serde_json::json;

use crate::brake::limited;
use crate::world::{For, PENDING, World, process};

#[tokio::test(start_paused = true)]
async fn the_earliest_deadline_goes_first() {
    let world = World::with_nodes(["n", "m"]);
    world.pod("third", "n", For::Seconds(12));
    world.pod("first", "m", For::Seconds(10));
    world.pod("second", "n", For::Seconds(11));
    let start = process().configured(|config| {
        config.max_concurrent_evictions = 1;
        config.eviction_qps = 0.2;
    });
    let _controller = world.start_with(start);
    world.pass(10).await;
    // Something to be busy with when all three become due.
    world.pod("busy", "n", For::No);
    world.taint("n");
    world.taint("m");
    world.pass(60).await;
    assert_eq!(world.deletes(), ["busy", "first", "second", "third"]);
}

#[tokio::test(start_paused = true)]
async fn evictions_run_side_by_side_up_to_the_limit() {
    let world = World::with_pods(100, For::No);
    let _controller = world.start_with(process().configured(|config| config.max_concurrent_evictions = 10));
    world.pass(10).await;
    world.fail_those(
        usize::MAX,
        |request| request.resource == "pods" && request.verb.is_write(),
        embedded_apiserver::Fault::Delay(std::time::Duration::from_secs(1)),
    );
    world.taint("n");
    // A patch and a delete of a second each: ten pods in two seconds.
    assert_eq!(world.alive_after(3).await, 90);
    assert_eq!(world.alive_after(18).await, 0);
}

#[tokio::test(start_paused = true)]
async fn evictions_are_paced() {
    let world = World::with_pods(100, For::No);
    let _controller = world.start_with(process().configured(|config| config.eviction_qps = 2.0));
    world.pass(10).await;
    world.taint("n");
    world.pass_millis(10_100).await;
    let gone = 100 - world.alive();
    assert!((20..=22).contains(&gone), "{gone} gone");
}

#[tokio::test(start_paused = true)]
async fn many_waiting_pods_cost_one_timer() {
    let world = World::with_pods(2_000, For::Seconds(100));
    let controller = world.start_and_pass(10).await;
    world.taint("n");
    world.pass(10).await;
    assert_eq!(controller.metric(PENDING), 2_000);
    assert_eq!(world.alive_after(89).await, 2_000);
    assert_eq!(world.alive_after(2).await, 0);
}

/// An agent finds a failed device while the brake holds the pods of a mistake.
#[tokio::test(start_paused = true)]
async fn an_exempt_taint_evicts_what_the_brake_holds_by_another() {
    let world = World::with_nodes(["n", "m"]);
    world.pods(6, "n", For::No);
    world.pods(6, "m", For::No);
    let exempt =
        limited().configured(|config| config.eviction_brake_exempt_taints = Some("failed".to_owned()));
    let _controller = world.start_with(exempt);
    world.pass(20).await;
    world.taint("n");
    world.taint("m");
    assert_eq!(world.alive_after(60).await, 12);
    let taint = |key| json!({ "key": key, "effect": "NoExecute" });
    world.set_taints("n", json!([taint("k"), taint("failed")]));
    assert_eq!(world.alive_after(5).await, 6);
}

/// The budget refuses for ever, and the node dies.
#[tokio::test(start_paused = true)]
async fn a_taint_that_waits_for_no_budget_evicts_what_waits_by_another() {
    let world = World::with_budget(1, 0);
    let unreachable = "node.kubernetes.io/unreachable";
    world.edit("n-0000", |pod| {
        pod["spec"]["tolerations"] =
            json!([{ "key": unreachable, "operator": "Exists", "tolerationSeconds": 300 }]);
    });
    let start = process().configured(|config| config.evict_through_budgets = Some("k:forever".to_owned()));
    let _controller = world.start_with(start);
    world.pass(20).await;
    world.taint("n");
    assert_eq!(world.alive_after(600).await, 1);
    let taint = |key| json!({ "key": key, "effect": "NoExecute" });
    world.set_taints("n", json!([taint("k"), taint(unreachable)]));
    assert_eq!(world.alive_after(295).await, 1);
    assert_eq!(world.alive_after(65).await, 0);
}
