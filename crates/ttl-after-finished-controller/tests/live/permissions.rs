//! The permissions that the chart gives.

use crate::support::Cluster;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_permissions_of_the_chart_are_enough_and_none_is_unused() {
    let cluster = Cluster::new().await;
    let replica = cluster.start_leading(&[]).await;
    // A standby watches the lease.
    let standby = cluster.start(&[]);
    let expiry = cluster.finished_job("gone", 0).await;
    cluster.until_deleted_at("gone", expiry).await;

    // A delete that a policy refuses again and again is one event, which is then patched.
    cluster.keep_jobs().await;
    cluster.finished_job("kept", 0).await;
    let event = cluster.event("kept", "FailedDelete").await;
    assert!(event.note.unwrap().contains("Jobs are kept"));

    cluster.until_all_used().await;
    assert_eq!(replica.stop().await, Some(0));
    assert_eq!(standby.stop().await, Some(0));
    // The policy's refusals are of the Job that it keeps.
    let mut refused = cluster.refused();
    refused.retain(|asked| asked.name != "kept");
    assert_eq!(refused, []);
    assert_eq!(cluster.beyond(), []);
}
