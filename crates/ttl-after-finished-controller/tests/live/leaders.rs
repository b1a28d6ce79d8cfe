//! The time counts from the finish, whichever replica leads.

use jiff::SignedDuration;

use crate::support::{Cluster, QUICK_LEASE};

const TTL: i64 = 8;
const TTL_PASSES: SignedDuration = SignedDuration::from_secs(TTL);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_restart_and_a_killed_leader_keep_the_time() {
    let cluster = Cluster::new().await;
    let first = cluster.start_leading(&QUICK_LEASE).await;
    let finish = cluster.finished_job("restart", TTL).await;
    // The Job waits for its expiry.
    first
        .until_metric("ttl_after_finished_controller_jobs_pending", "", 1)
        .await;
    assert_eq!(first.stop().await, Some(0));
    let mut second = cluster.start_leading(&QUICK_LEASE).await;
    cluster.until_deleted_at("restart", finish + TTL_PASSES).await;

    let standby = cluster.start(&QUICK_LEASE);
    let finish = cluster.finished_job("hand-over", TTL).await;
    // It knows the Job.
    standby
        .until_metric("informer_objects", "resource=\"jobs\"", 1)
        .await;
    assert!(second.leads().await && !standby.leads().await);
    second.process.kill().unwrap();
    cluster.until_deleted_at("hand-over", finish + TTL_PASSES).await;
    assert!(standby.leads().await);
    assert_eq!(standby.stop().await, Some(0));
}
