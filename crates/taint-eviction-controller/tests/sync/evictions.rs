//! Who goes, and when.

use serde_json::json;

use crate::world::{For, PENDING, World};

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_bound_to_a_tainted_node_is_evicted() {
    let world = World::with_nodes(["n"]);
    world.taint_added("n", 0);
    let _controller = world.start_and_pass(100).await;
    world.pod("intolerant", "n", For::No);
    world.pod("five", "n", For::Seconds(5));
    world.settle().await;
    assert!(!world.lives("intolerant"));
    // The taint is a hundred seconds old, the pod has just come.
    world.pass_millis(4_800).await;
    assert!(world.lives("five"));
    world.pass_millis(300).await;
    assert!(!world.lives("five"));
}

#[tokio::test(start_paused = true)]
async fn a_toleration_that_compares_counts_whatever_our_gate_says() {
    let world = World::with_nodes(["n"]);
    for (name, value) in [("below", "10"), ("above", "100")] {
        world.pod(name, "n", For::No);
        let toleration = json!({ "key": "k", "operator": "Gt", "value": value, "effect": "NoExecute" });
        world.edit(name, |pod| pod["spec"]["tolerations"] = json!([toleration]));
    }
    let _controller = world.start_and_settle().await;
    world.set_taints("n", json!([{ "key": "k", "value": "50", "effect": "NoExecute" }]));
    assert!(world.lives_after(10, "below").await);
    assert!(!world.lives("above"));
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_node_is_left_alone_until_it_is_bound() {
    let world = World::with_nodes(["n"]);
    world.taint("n");
    world.pod("p", "", For::No);
    let _controller = world.start_and_pass(100).await;
    assert!(world.lives("p"));
    world.edit("p", |pod| pod["spec"]["nodeName"] = json!("n"));
    world.settle().await;
    assert!(!world.lives("p"));
}

#[tokio::test(start_paused = true)]
async fn a_taint_without_effect_on_running_pods_evicts_nobody() {
    let world = World::with_pod(For::No);
    let _controller = world.start();
    world.set_taints("n", json!([{ "key": "k", "effect": "NoSchedule" }]));
    assert!(world.lives_after(1000, "p").await);
}

#[tokio::test(start_paused = true)]
async fn a_toleration_that_is_shortened_counts_and_one_that_is_lengthened_does_not() {
    let world = World::with_nodes(["n"]);
    world.pod("shortened", "n", For::Seconds(100));
    world.pod("lengthened", "n", For::Seconds(100));
    let _controller = world.start();
    world.taint("n");
    world.pass(10).await;
    for (name, seconds) in [("shortened", 50), ("lengthened", 500)] {
        world.edit(name, |pod| {
            pod["spec"]["tolerations"][0]["tolerationSeconds"] = json!(seconds);
        });
    }
    assert!(world.lives_after(39, "shortened").await);
    assert!(!world.lives_after(2, "shortened").await);
    assert!(world.lives_after(48, "lengthened").await);
    assert!(!world.lives_after(2, "lengthened").await);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_evicts_nobody() {
    let world = World::with_pod(For::Seconds(20));
    let controller = world.start();
    world.taint("n");
    world.pass(10).await;
    assert_eq!(controller.metric(PENDING), 1);
    world.server.delete(&embedded_apiserver::NODES, "", "n").unwrap();
    assert!(world.lives_after(1000, "p").await);
    assert_eq!(controller.metric(PENDING), 0);
}
