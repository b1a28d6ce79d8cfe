//! A change of leader while tolerations run, which go on as if nothing had happened.

use controller_testing::SOON;
use controller_testing::cluster::whole;
use controller_testing::stories::StoryStage;
use jiff::SignedDuration;

use crate::stories::{
    DELETIONS, Evicted, For, PENDING, assert_prompt, deleted_at, seconds_after, until_pending,
};

crate::told![a_standby_that_takes_over_at_10_s_evicts_at_20_s];

const TOLERATED: u64 = 20;
/// How late a pod may go. A replica that waits for a Lease to end, or counts from its own start, evicts 5 s late or later.
const LATE: SignedDuration = SignedDuration::from_secs(4);

/// The standby has seen the taints as well, so it knows when those came that say nothing of their time.
async fn a_standby_that_takes_over_at_10_s_evicts_at_20_s(stage: StoryStage) {
    const PAIRS: [(&str, &str); 2] = [("a", "c"), ("b", "d")];
    stage.nodes(["a", "b", "c", "d"]).await;
    for node in ["a", "b", "c", "d"] {
        stage.pods(5, node, node, For::Seconds(20)).await;
    }
    let leader = stage.start_leading(&[]).await;
    let standby = stage.start_standby(&[], "pods", 20).await;

    let mut due = Vec::new();
    for (stamped, unstamped) in PAIRS {
        let now = stage.now();
        stage.taint_added(stamped, whole(now)).await;
        due.push((stamped, seconds_after(whole(now), TOLERATED)));
        let now = stage.now();
        stage.taint(unstamped).await;
        due.push((unstamped, seconds_after(now, TOLERATED)));
        stage.until_time(seconds_after(now, 3)).await;
    }
    until_pending(&leader, 20).await;
    // A standby has nothing to do.
    assert_eq!(standby.total(PENDING).await, 0);
    stage.until_time(due[0].1 - SignedDuration::from_secs(10)).await;
    leader.stop().await;
    stage.until_evicted(20, SOON).await;

    let deleted = deleted_at(&stage, 20).await;
    for (node, at) in due {
        let lags = deleted.lags(node, at);
        assert_eq!(lags.len(), 5);
        assert_prompt(&lags, stage.late(LATE));
    }
    standby.until_metric(DELETIONS, "", 20).await;
    standby.stop().await;
}
