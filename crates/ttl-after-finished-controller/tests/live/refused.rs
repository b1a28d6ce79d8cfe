//! Deletes that the API server refuses for a minute: for want of a right, or by admission.

use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::cluster::now;
use controller_testing::soon;
use jiff::SignedDuration;
use local_control_plane::eventually;
use serde_json::json;

use crate::crowds::{OTHER, another};
use crate::support::{CHART, Cluster, Jobs, PROBE};

const JOBS: usize = 20;
/// Deletes of refused Jobs that may go between the expiry of another Job and its delete: those of three seconds, by the
/// share of retries in the default limits.
const JUMPED: usize = 40;
const REFUSED_FOR: Duration = Duration::from_mins(1);
/// Within which all is done once the deletes are let through.
const MADE_UP_WITHIN: Duration = Duration::from_secs(10);

/// For want of the right in one namespace, by a `ValidatingAdmissionPolicy` in the other: it refuses as a webhook does, and
/// needs no server.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_deletes_that_are_refused_for_a_minute_are_made_up_for_within_ten_seconds() {
    let cluster = Cluster::new().await;
    cluster.namespace(OTHER).await;
    let rule = |verbs: &[&str]| json!([{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": verbs}]);
    cluster.grant_in("default", rule(&["delete"])).await;
    cluster.grant(rule(&["get", "list", "watch"])).await;
    cluster.keep_jobs().await;
    let replica = cluster.start_leading(&[]).await;
    for number in 0..JOBS {
        let name = format!("job-{number}");
        cluster.finished_job(&name, 0).await;
        another(&cluster, &name).await;
    }
    Clock::system().sleep(REFUSED_FOR).await;
    assert_eq!(cluster.deleting("Job").await, 0);
    let requests = cluster.requests();
    for namespace in ["default", OTHER] {
        let refused = requests
            .iter()
            .filter(|asked| asked.is("delete", "jobs") && asked.namespace == namespace && asked.code == 403);
        assert!(refused.count() >= 2 * JOBS, "each is tried again and again");
    }
    // Between its expiry and its delete.
    cluster.set_ttl("job-0", Some(3600)).await;

    cluster.allow_deletes("default", "Job", PROBE).await;
    cluster.grant(CHART.rules()).await;
    eventually(MADE_UP_WITHIN, "the Jobs are deleted", async || {
        (cluster.deleting("Job").await == 2 * JOBS - 1).then_some(())
    })
    .await
    .unwrap();
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
