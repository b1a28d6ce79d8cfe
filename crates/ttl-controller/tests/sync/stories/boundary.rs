//! Growing and shrinking across the boundaries, restarts, removal.

use std::collections::BTreeMap;
use std::time::Duration;

use controller_testing::stories::{StoryProcess, StoryStage};
use controller_testing::{SOON, long_or_short, soon};

use crate::stories::Nodes;

crate::told![
    the_boundary_scenario,
    a_restart_at_95_nodes_on_15_writes_nothing,
    a_foreign_value_is_put_right_at_once,
    removal_takes_the_lease_first_and_leaves_no_annotation,
    a_dry_run_says_what_it_would_do_and_takes_no_lease,
];

const QUIET: Duration = Duration::from_mins(1);

async fn the_boundary_scenario(stage: StoryStage) {
    stage.add(0..120, None).await;
    let controller = stage.start(&[]);
    stage.until_all_carry(120, "15").await;

    // 90 nodes are the fewest that step 1 holds.
    stage.remove(90..120).await;
    controller.until_metric("ttl_controller_nodes", "", 90).await;
    stage.advance(QUIET).await;
    stage.until_all_carry(90, "15").await;

    stage.remove([89]).await;
    let within = long_or_short(Duration::from_secs(2), SOON);
    stage.until_all_carry_within(within, 89, "0").await;
    stage.advance(QUIET).await;

    // 120 times 15, then 89 times 0: each node was written once a change.
    stage.until_requests("patch", "nodes", 209).await;
    assert_eq!(controller.total("ttl_controller_desired_ttl_seconds").await, 0);
    assert_eq!(controller.total("ttl_controller_nodes_out_of_date").await, 0);
    controller.stop().await;
}

async fn a_restart_at_95_nodes_on_15_writes_nothing(stage: StoryStage) {
    stage.add(0..120, None).await;
    let first = stage.start(&[]);
    stage.until_all_carry(120, "15").await;
    stage.remove(95..120).await;
    first.until_metric("ttl_controller_nodes", "", 95).await;
    first.stop().await;
    let before = stage.versions("Node").await;

    let second = stage.start_leading(&[]).await;
    soon("all 95 nodes have been looked at", async || {
        let done = second.metric("workqueue_work_duration_seconds_count", "name=\"ttlcontroller\"");
        (done.await >= 95).then_some(())
    })
    .await;
    stage.advance(Duration::from_hours(1)).await;
    stage.until_requests("patch", "nodes", 120).await;
    assert_eq!(stage.versions("Node").await, before);
    assert_eq!(second.total("ttl_controller_desired_ttl_seconds").await, 15);
    second.stop().await;
}

async fn a_foreign_value_is_put_right_at_once(stage: StoryStage) {
    const VALUES: [&str; 4] = ["17", "soon", "-9223372036854775808", "99999999999999999999"];
    let at_once = Duration::from_secs(5);
    stage.add(0..3, None).await;
    let controller = stage.start(&[]);
    stage.until_all_carry(3, "0").await;
    for value in VALUES {
        stage.annotate(1, value).await;
        stage.until_all_carry_within(at_once, 3, "0").await;
        // Three in five minutes is what a rival gets: start afresh.
        stage.remove([1]).await;
        stage.add([1], None).await;
        stage.until_all_carry_within(at_once, 3, "0").await;
    }
    stage.until_requests("patch", "nodes", 3 + 2 * VALUES.len()).await;
    controller.stop().await;
}

async fn removal_takes_the_lease_first_and_leaves_no_annotation(stage: StoryStage) {
    stage.add(0..120, None).await;
    let running = stage.start_leading(&[]).await;
    stage.until_all_carry(120, "15").await;

    let removal = stage.start(&["--remove"]);
    if let StoryProcess::Binary(replica) = &removal {
        let waits = async || (replica.said("lease holder") > 0).then_some(());
        soon("the removal waits next to the leader", waits).await;
    }
    stage.advance(QUIET).await;
    assert_eq!(stage.carried().await, BTreeMap::from([("15".to_owned(), 120)]));
    running.stop().await;
    removal.end().await;
    stage.until_all_carry(120, "none").await;
    assert_eq!(stage.lease_holder().await, None);
}

async fn a_dry_run_says_what_it_would_do_and_takes_no_lease(stage: StoryStage) {
    stage.add(0..120, Some("30")).await;
    let before = stage.versions("Node").await;
    let dry = stage.start(&["--dry-run"]);
    dry.until_metric("controller_planned_writes_total", "action=\"annotate\"", 120)
        .await;
    assert_eq!(stage.versions("Node").await, before);
    assert_eq!(stage.lease_holder().await, None);
    dry.stop().await;
}
