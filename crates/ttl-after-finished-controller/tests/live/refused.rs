//! Deletes that the API server refuses for a minute: for want of a right, or by admission.

use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::cluster::now;
use controller_testing::soon;
use jiff::SignedDuration;
use local_control_plane::eventually;
use serde_json::json;

use crate::support::{CHART, Cluster, Jobs, PROBE, Replica};

const JOBS: usize = 20;
/// Deletes of refused Jobs that may go between the expiry of another Job and its delete: those of three seconds, by the
/// share of retries in the default limits.
const JUMPED: usize = 40;
const REFUSED_FOR: Duration = Duration::from_mins(1);
/// Within which all is done once the deletes are let through.
const MADE_UP_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_deletes_without_the_right_for_a_minute_are_made_up_for_within_ten_seconds() {
    let cluster = Cluster::new().await;
    let without_delete = json!([
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch"]},
    ]);
    cluster.grant(without_delete).await;
    let replica = cluster.start_leading(&[]).await;
    all_expire_and_none_is_deleted(&cluster, &replica).await;

    cluster.grant(CHART.rules()).await;
    until_made_up(&cluster, JOBS).await;
    assert_eq!(replica.stop().await, Some(0));
}

/// By a `ValidatingAdmissionPolicy`: it refuses as a webhook does, and needs no server.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_deletes_that_admission_refuses_for_a_minute_are_made_up_for_within_ten_seconds() {
    let cluster = Cluster::new().await;
    cluster.keep_jobs().await;
    let replica = cluster.start_leading(&[]).await;
    all_expire_and_none_is_deleted(&cluster, &replica).await;
    // Between its expiry and its delete.
    cluster.set_ttl("job-0", Some(3600)).await;

    cluster.allow_deletes("default", "Job", PROBE).await;
    until_made_up(&cluster, JOBS - 1).await;
    assert_eq!(cluster.deleted("job-0").await, None);
    assert_eq!(replica.stop().await, Some(0));
}

/// Of 1,500 Jobs whose deletes admission refuses, all have been tried when another one expires.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_jobs_that_admission_refuses_keep_no_other_job_waiting() {
    let cluster = Cluster::new().await;
    cluster.keep_jobs_but("good").await;
    cluster.finished_jobs("kept", 1_500).await;
    let replica = cluster.start_leading(&[]).await;
    // Retries count, too, and take a quarter.
    eventually(Duration::from_mins(4), "each is refused", async || {
        let refused = replica.metric("rest_client_requests_total", "code=\"403\"");
        (refused.await >= 2_200).then_some(())
    })
    .await
    .unwrap();

    let finished = cluster.finished_job("good", 1).await;
    let expired = now().max(finished + SignedDuration::from_secs(1));
    cluster.until_deleted("good").await;
    let deletes = || {
        cluster
            .requests()
            .into_iter()
            .filter(|asked| asked.is("delete", "jobs"))
    };
    let good = soon("the audit log has it", async || {
        deletes().find(|asked| asked.name == "good")
    })
    .await;
    let before = deletes().filter(|asked| asked.received > expired && asked.received < good.received);
    let before = before.count();
    assert!(
        before <= JUMPED,
        "{before} deletes went before that of a Job that had expired"
    );
    let warnings = replica.said("sync failed");
    assert!(warnings <= 10, "{warnings} warnings of one cause");
    assert_eq!(replica.stop().await, Some(0));
}

async fn all_expire_and_none_is_deleted(cluster: &Cluster, replica: &Replica) {
    for number in 0..JOBS {
        cluster.finished_job(&format!("job-{number}"), 0).await;
    }
    Clock::system().sleep(REFUSED_FOR).await;
    assert_eq!(cluster.deleting("Job").await, 0);
    let refused = replica.metric("rest_client_requests_total", "code=\"403\"");
    assert!(refused.await >= 2 * JOBS as u64, "each is tried again and again");
}

async fn until_made_up(cluster: &Cluster, jobs: usize) {
    eventually(MADE_UP_WITHIN, "the Jobs are deleted", async || {
        (cluster.deleting("Job").await == jobs).then_some(())
    })
    .await
    .unwrap();
}
