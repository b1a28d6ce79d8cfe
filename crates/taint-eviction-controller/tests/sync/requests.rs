//! Which requests are made, and no others.

use std::time::Duration;

use embedded_apiserver::{Fault, FaultRule, RecordedRequest, RequestVerb};
use serde_json::json;

use crate::world::{For, World};

#[tokio::test(start_paused = true)]
async fn an_eviction_is_one_read_of_the_node_a_condition_and_a_delete() {
    let world = World::with_pod(For::Seconds(5));
    let uid = world.uid("p");
    let _controller = world.start_and_pass(10).await;
    let mark = world.server.mark();
    world.taint("n");
    world.pass(10).await;
    let condition = json!({
        "metadata": { "uid": uid },
        "status": { "conditions": [{
            "lastTransitionTime": "2026-01-01T00:00:15Z",
            "message": "Taint manager: deleting due to NoExecute taint",
            "observedGeneration": 1,
            "reason": "DeletionByTaintManager",
            "status": "True",
            "type": "DisruptionTarget",
        }] },
    });
    assert_eq!(
        world.requests_since(mark),
        [
            "get nodes/n".to_owned(),
            format!("patch default/pods/p/status {condition}"),
            format!(
                "delete default/pods/p {}",
                json!({ "preconditions": { "uid": uid } })
            ),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_burst_share_one_read_of_their_node() {
    let world = World::with_nodes(["n", "m"]);
    world.pods(100, "n", For::No);
    world.pods(100, "m", For::No);
    let _controller = world.start_and_pass(10).await;
    let mark = world.server.mark();
    world.taint("n");
    world.taint("m");
    assert_eq!(world.alive_after(1).await, 0);
    assert_eq!(world.node_reads(mark), 2);
}

#[tokio::test(start_paused = true)]
async fn a_node_is_read_in_protobuf_and_since_that_was_refused_in_json() {
    let world = World::with_nodes(["n", "m"]);
    world.pod("p", "n", For::No);
    world.pod("q", "m", For::No);
    let _controller = world.start();
    world.pass(10).await;
    let mark = world.server.mark();
    let read_in_protobuf =
        |request: &RecordedRequest| request.verb == RequestVerb::Get && request.accept.contains("protobuf");
    let refused = Fault::status(406, "NotAcceptable");
    world
        .server
        .fail(FaultRule::new(refused).matching(read_in_protobuf));
    for node in ["n", "m"] {
        world.taint(node);
        world.pass(1).await;
    }
    assert_eq!(world.alive(), 0);
    let reads = world.sent_since(mark).to("nodes");
    let reads = reads.only(|request| request.verb == RequestVerb::Get);
    let asked: Vec<_> = reads.iter().map(|read| (&*read.accept, read.code)).collect();
    let both = "application/vnd.kubernetes.protobuf,application/json";
    assert_eq!(asked, [(both, Some(406)), ("", Some(200)), ("", Some(200))]);
}

#[tokio::test(start_paused = true)]
async fn a_read_from_before_a_change_spares_nobody() {
    let world = World::with_nodes(["n"]);
    world.pod("a", "n", For::No);
    world.pod("b", "n", For::Ever);
    let _controller = world.start_and_pass(10).await;
    world.taint("n");
    world.settle().await;
    assert!(!world.lives("a"));
    // The node that was read for the first pod did not have this one yet.
    let taints = json!([{ "key": "k", "effect": "NoExecute" }, { "key": "another", "effect": "NoExecute" }]);
    world.set_taints("n", taints);
    world.settle().await;
    assert!(!world.lives("b"));
}

#[tokio::test(start_paused = true)]
async fn the_cache_decides_when_the_node_cannot_be_read_within_a_second() {
    let world = World::with_pods(3, For::No);
    let _controller = world.start_and_pass(10).await;
    world.fail_next(
        100,
        RequestVerb::Get,
        "nodes",
        Fault::Delay(Duration::from_secs(20)),
    );
    world.taint("n");
    world.pass_millis(900).await;
    assert_eq!(world.alive(), 3);
    world.pass_millis(200).await;
    assert_eq!(world.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_is_refused_as_invalid_does_not_stop_the_delete() {
    let world = World::with_pod(For::No);
    let _controller = world.start();
    let fault = Fault::status(422, "Invalid");
    world.fail_those(usize::MAX, |request| request.subresource == "status", fault);
    world.taint("n");
    world.settle().await;
    assert!(!world.lives("p"));
}

#[tokio::test(start_paused = true)]
async fn what_no_rule_reads_wakes_nothing() {
    let world = World::with_pod(For::Ever);
    world.taint("n");
    let controller = world.start_and_pass(10).await;
    let before = controller.metric("workqueue_adds_total");
    let mark = world.server.mark();
    for _ in 0..100 {
        world.heartbeat("n");
        world.edit("p", |pod| pod["status"]["phase"] = json!("Running"));
        world.edit("p", |pod| pod["metadata"]["labels"] = json!({ "a": "b" }));
        world.pass(10).await;
    }
    assert_eq!(controller.metric("workqueue_adds_total"), before);
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_being_deleted_is_not_touched() {
    let world = World::with_pod(For::No);
    world.edit("p", |pod| {
        pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    });
    world.delete("p");
    let _controller = world.start();
    let mark = world.server.mark();
    world.taint("n");
    world.pass(1000).await;
    assert_eq!(world.requests_since(mark), Vec::<String>::new());
    assert_eq!(world.events_of("p"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_a_finalizer_holds_is_deleted_once() {
    let world = World::with_pod(For::No);
    world.edit("p", |pod| {
        pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
    });
    let _controller = world.start();
    world.taint("n");
    world.pass(1000).await;
    assert_eq!(world.deletes(), ["p"]);
}
