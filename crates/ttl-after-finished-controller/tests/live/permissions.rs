//! The permissions that the chart gives.

use harness::permissions::{beyond, refused, until_all_used};

use crate::support::{CHART, Cluster, NAME};

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

    until_all_used(&cluster.control_plane, CHART).await;
    assert_eq!(replica.stop().await, Some(0));
    assert_eq!(standby.stop().await, Some(0));
    // The policy's refusals are of the Job that it keeps.
    let mut refused = refused(&cluster.control_plane, NAME);
    refused.retain(|asked| asked.name != "kept");
    assert_eq!(refused, []);
    assert_eq!(beyond(&cluster.control_plane, CHART), []);
}
