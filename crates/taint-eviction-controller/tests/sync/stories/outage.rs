//! The API server away.

use std::time::Duration;

use controller_testing::stories::StoryStage;

use crate::stories::{CANCELLED, DELETIONS, Evicted, For, seconds_after, until_pending};

crate::told![an_outage_longer_than_the_toleration_kills_nobody_if_the_nodes_come_back];

/// How long it is away: three times as long as the pods tolerate their taints.
const AWAY: Duration = Duration::from_mins(1);
const TOLERATED: i64 = 20;
/// How long after its return the nodes are well again.
const WELL_AFTER: u64 = 5;

async fn an_outage_longer_than_the_toleration_kills_nobody_if_the_nodes_come_back(mut stage: StoryStage) {
    const NODES: [&str; 4] = ["a", "b", "c", "d"];
    stage.nodes(NODES).await;
    for node in NODES {
        stage.pods(50, node, node, For::Seconds(TOLERATED)).await;
    }
    let controller = stage.start_leading(&[]).await;
    let tainted = stage.now();
    for node in NODES {
        stage.taint_added(node, tainted).await;
    }
    until_pending(&controller, 200).await;

    stage.away(AWAY).await;
    // Who does not lead counts nothing, and who sees nothing evicts nobody.
    controller.until_leading().await;
    for resource in ["nodes", "pods"] {
        let watching = format!("resource=\"{resource}\"");
        controller.until_metric("informer_watching", &watching, 1).await;
    }
    let back = stage.now();
    stage.until_time(seconds_after(back, WELL_AFTER)).await;
    for node in NODES {
        stage.untaint(node).await;
    }
    assert!(stage.now() < seconds_after(back, 10), "the nodes are late");
    until_pending(&controller, 0).await;

    // Each is reported after it was judged.
    controller.until_metric(CANCELLED, "", 200).await;
    stage.advance(Duration::from_hours(1)).await;
    assert_eq!(controller.total(DELETIONS).await, 0);
    let overdue = "taint_eviction_controller_overdue_evictions";
    assert_eq!(controller.total(overdue).await, 0);
    assert_eq!(stage.deleting("Pod").await, 0);
    controller.stop().await;
}
