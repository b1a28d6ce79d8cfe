//! The rights that are needed.

use harness::rights::{refused, unused};
use testkit::real::{AuditLevel, Options, eventually};

use crate::support::{Cluster, NAME, SOON};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_rights_of_the_readme_are_enough_and_none_is_unused() {
    let options = Options {
        audit: Some(AuditLevel::Metadata),
        ..Options::default()
    };
    let cluster = Cluster::with(options).await;
    let replica = cluster.lead(&[]).await;
    // A standby watches the lease.
    let standby = cluster.start(&[]);
    let expiry = cluster.finished_job("gone", 0).await;
    cluster.until_deleted_at("gone", expiry).await;

    // A delete that a policy refuses again and again is one event, which is then patched.
    cluster.keep_jobs().await;
    cluster.finished_job("kept", 0).await;
    let event = cluster.event("kept", "FailedDelete").await;
    assert!(event.note.unwrap().contains("Jobs are kept"));

    let all = [
        ("get", "jobs"),
        ("list", "jobs"),
        ("watch", "jobs"),
        ("delete", "jobs"),
        ("create", "events"),
        ("patch", "events"),
        ("create", "leases"),
        ("get", "leases"),
        ("update", "leases"),
        ("list", "leases"),
        ("watch", "leases"),
    ];
    let left = || unused(&cluster.control_plane, NAME, &all);
    let all_used = async || left().is_empty().then_some(());
    let in_time = eventually(SOON, "every right is used", all_used).await;
    assert!(in_time.is_ok(), "not used: {:?}", left());
    assert_eq!(replica.stop().await, Some(0));
    assert_eq!(standby.stop().await, Some(0));
    // The policy's refusals are of the Job that it keeps.
    let mut refused = refused(&cluster.control_plane, NAME);
    refused.retain(|asked| asked.name != "kept");
    assert!(refused.is_empty(), "{refused:#?}");
}
