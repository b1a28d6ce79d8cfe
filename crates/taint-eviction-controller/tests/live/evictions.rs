//! Who goes when, and who stays.

use controller_testing::objects::{condition, is_deleting, name, text};
use controller_testing::soon;
use serde_json::json;

use crate::support::{
    CANCELLED, Cluster, DELETIONS, For, NAMESPACE, PENDING, SOON, now, seconds_after, until, until_pending,
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_intolerant_pods_go_at_once_others_when_their_tolerations_end() {
    const NODES: [&str; 3] = ["a", "b", "c"];
    let cluster = Cluster::with_nodes([NODES[0], NODES[1], NODES[2], "other"]).await;
    for node in NODES {
        cluster
            .pods(3, &format!("intolerant-{node}"), node, For::No)
            .await;
        cluster
            .pods(3, &format!("five-{node}"), node, For::Seconds(5))
            .await;
        cluster.pods(3, &format!("endless-{node}"), node, For::Ever).await;
    }
    cluster.pods(3, "elsewhere", "other", For::No).await;
    let replica = cluster.start_leading(&[]).await;

    for node in NODES {
        cluster.taint(node).await;
        until(seconds_after(now(), 2)).await;
    }
    cluster.until_evicted(18, SOON).await;
    // Nobody else is to go, at whatever time.
    until_pending(&replica, 0, SOON).await;

    let deleted = cluster.deleted_at(18).await;
    let mut due = Vec::new();
    for node in NODES {
        let tainted = cluster.tainted_at(node).await;
        due.push((format!("intolerant-{node}"), tainted));
        due.push((format!("five-{node}"), seconds_after(tainted, 5)));
    }
    let due: Vec<_> = due.iter().map(|(pods, at)| (pods.as_str(), *at)).collect();
    deleted.assert_in_order(&due);

    for pod in cluster.all("Pod").await.iter().filter(|pod| is_deleting(pod)) {
        let (name, node) = (name(pod), text(&pod["spec"]["nodeName"]));
        let target = condition(pod, "DisruptionTarget");
        let told = ["status", "reason", "message", "observedGeneration"].map(|field| &target[field]);
        let expected = json!([
            "True",
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
            1
        ]);
        assert_eq!(json!(told), expected, "{name}");
        let announced = async || {
            let events = cluster.described(NAMESPACE, &name).await;
            let marked = format!(
                "Normal TaintManagerEviction Marking for deletion Pod default/{name}: taint k:NoExecute of node {node}, deadline "
            );
            (events.len() == 1 && events[0].starts_with(&marked)).then_some(())
        };
        soon("the event of each pod is shown", announced).await;
    }
    if let Some(text) = cluster.kubectl_describes("five-b-0").await {
        assert!(text.contains("\nDisruptionTarget True\n"), "{text}");
        let (_, events) = text.split_once("\nEvents:\n").unwrap();
        assert!(events.contains("\nNormal TaintManagerEviction "), "{events}");
        let marked = " taint-eviction-controller Marking for deletion Pod default/five-b-0: taint k:NoExecute of node b, ";
        assert!(events.contains(marked), "{events}");
    }
    assert_eq!(replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_taint_that_is_removed_after_two_seconds_spares_those_who_still_wait() {
    let cluster = Cluster::with_nodes(["n"]).await;
    cluster.pods(1, "intolerant", "n", For::No).await;
    cluster.pods(5, "five", "n", For::Seconds(5)).await;
    let replica = cluster.start_leading(&[]).await;

    cluster.taint("n").await;
    cluster.until_evicted(1, SOON).await;
    let tainted = cluster.tainted_at("n").await;
    until(seconds_after(tainted, 2)).await;
    assert_eq!(replica.total(PENDING).await, 5);
    cluster.untaint("n").await;
    until_pending(&replica, 0, SOON).await;
    until(seconds_after(tainted, 6)).await;

    assert_eq!(cluster.deleting("Pod").await, 1);
    assert_eq!(
        (replica.total(DELETIONS).await, replica.total(CANCELLED).await),
        (1, 5)
    );
    for number in 0..5 {
        let name = format!("five-{number}");
        let told = async || {
            let events = cluster.described(NAMESPACE, &name).await;
            let kept = format!(
                "Normal TaintManagerEviction Cancelling deletion of Pod default/{name}: taint k:NoExecute of node n, deadline "
            );
            (events.len() == 1 && events[0].starts_with(&kept)).then_some(())
        };
        soon("the event of each pod is shown", told).await;
    }
    if let Some(text) = cluster.kubectl_describes("five-0").await {
        let (_, events) = text.split_once("\nEvents:\n").unwrap();
        let kept = " taint-eviction-controller Cancelling deletion of Pod default/five-0: taint k:NoExecute of node n, ";
        assert!(events.contains(kept), "{events}");
    }
    assert_eq!(replica.stop().await, Some(0));
}
