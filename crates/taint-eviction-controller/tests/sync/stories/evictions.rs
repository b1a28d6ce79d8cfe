//! Who goes when, and who stays.

use std::time::Duration;

use controller_testing::SOON;
use controller_testing::objects::{condition, is_deleting, name, text};
use controller_testing::stories::StoryStage;
use jiff::SignedDuration;
use serde_json::json;

use crate::stories::{
    CANCELLED, DELETIONS, Evicted, For, assert_prompt, deleted_at, seconds_after, until_pending,
};

crate::told![
    intolerant_pods_go_at_once_others_when_their_tolerations_end,
    a_taint_that_is_removed_after_two_seconds_spares_those_who_still_wait,
];

/// A busy machine is late, but in order.
const LATE: SignedDuration = SignedDuration::from_secs(30);

async fn intolerant_pods_go_at_once_others_when_their_tolerations_end(stage: StoryStage) {
    const NODES: [&str; 3] = ["a", "b", "c"];
    stage.nodes(NODES.into_iter().chain(["other"])).await;
    for node in NODES {
        for (prefix, tolerates) in [
            ("intolerant", For::No),
            ("five", For::Seconds(5)),
            ("endless", For::Ever),
        ] {
            stage.pods(3, &format!("{prefix}-{node}"), node, tolerates).await;
        }
    }
    stage.pods(3, "elsewhere", "other", For::No).await;
    let controller = stage.start_leading(&[]).await;
    stage.advance(Duration::from_secs(10)).await;

    let mut due = Vec::new();
    for node in NODES {
        let tainted = stage.now();
        stage.taint(node).await;
        due.push((format!("intolerant-{node}"), tainted));
        due.push((format!("five-{node}"), seconds_after(tainted, 5)));
        stage.until_time(seconds_after(tainted, 2)).await;
    }
    stage.until_evicted(18, SOON).await;
    // Nobody else is to go, at whatever time.
    until_pending(&controller, 0).await;
    stage.advance(Duration::from_hours(1)).await;

    let deleted = deleted_at(&stage, 18).await;
    let due: Vec<_> = due.iter().map(|(pods, at)| (pods.as_str(), *at)).collect();
    deleted.assert_in_order(&due);
    for (pods, at) in due {
        assert_prompt(&deleted.lags(pods, at), stage.late(LATE));
    }

    let pods = stage.all("Pod").await;
    let evicted: Vec<_> = pods.iter().filter(|pod| is_deleting(pod)).collect();
    assert_eq!(evicted.len(), 18);
    for pod in evicted {
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
        let marked = format!(
            "Normal TaintManagerEviction Marking for deletion Pod default/{name}: taint k:NoExecute of node {node}, deadline "
        );
        stage.until_told_once(&name, &marked).await;
    }
    controller.stop().await;
}

async fn a_taint_that_is_removed_after_two_seconds_spares_those_who_still_wait(stage: StoryStage) {
    stage.nodes(["n"]).await;
    stage.pods(1, "intolerant", "n", For::No).await;
    stage.pods(5, "five", "n", For::Seconds(5)).await;
    let controller = stage.start_leading(&[]).await;

    let tainted = stage.now();
    stage.taint("n").await;
    stage.until_evicted(1, SOON).await;
    stage.until_time(seconds_after(tainted, 2)).await;
    until_pending(&controller, 5).await;
    stage.untaint("n").await;
    until_pending(&controller, 0).await;
    stage.until_time(seconds_after(tainted, 6)).await;
    stage.advance(Duration::from_secs(1000)).await;

    controller.until_metric(CANCELLED, "", 5).await;
    assert_eq!(controller.total(DELETIONS).await, 1);
    assert_eq!(stage.deleting("Pod").await, 1);
    for number in 0..5 {
        let name = format!("five-{number}");
        let kept = format!(
            "Normal TaintManagerEviction Cancelling deletion of Pod default/{name}: taint k:NoExecute of node n, deadline "
        );
        stage.until_told_once(&name, &kept).await;
    }
    // What is back begins anew.
    let tainted = stage.now();
    stage.taint("n").await;
    let deleted = deleted_at(&stage, 6).await;
    assert_prompt(&deleted.lags("five", seconds_after(tainted, 5)), stage.late(LATE));
    controller.stop().await;
}
