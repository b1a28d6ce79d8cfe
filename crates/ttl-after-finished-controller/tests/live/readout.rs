//! What people can read, without anything being written.

use jiff::SignedDuration;
use serde_json::json;

use crate::support::{Cluster, Finish, Jobs, SOON};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_explain_tells_each_state_and_a_dry_run_deletes_nothing() {
    let cluster = Cluster::new().await;
    cluster.job("without-ttl", None).await;
    cluster.job("unfinished", Some(60)).await;
    cluster.job("waiting", Some(3600)).await;
    let waiting = cluster.finish("waiting", Finish::Complete, 60).await;
    cluster.job("expired", Some(10)).await;
    let expired = cluster.finish("expired", Finish::Failed, 60).await;
    cluster.job("undated", Some(10)).await;
    let undated = json!({
        "startTime": expired,
        "conditions": [{"type": "FailureTarget", "status": "True"}, {"type": "Failed", "status": "True"}],
    });
    cluster.merge_status("Job", "undated", undated).await;
    let versions = cluster.versions("Job").await;

    let told = async |job: &str| cluster.explain(job).await;
    assert_eq!(
        told("without-ttl").await,
        "Job default/without-ttl: ttlSecondsAfterFinished not set\nwould leave it: it has no ttl\n"
    );
    assert_eq!(
        told("unfinished").await,
        "Job default/unfinished: ttlSecondsAfterFinished 60 s\n\
         would leave it: it has not finished (no condition Complete or Failed is True)\n"
    );
    let words = told("waiting").await;
    let expiry = waiting + SignedDuration::from_secs(3600);
    let expected = format!(
        "Job default/waiting: ttlSecondsAfterFinished 3600 s\n\
         finished at {waiting}, expires at {expiry}: would delete it in "
    );
    assert!(words.starts_with(&expected), "{words}");
    let expiry = expired + SignedDuration::from_secs(10);
    assert_eq!(
        told("expired").await,
        format!(
            "Job default/expired: ttlSecondsAfterFinished 10 s\n\
             finished at {expired}, expired at {expiry}: would delete it now\n"
        )
    );
    assert_eq!(
        told("undated").await,
        "Job default/undated: ttlSecondsAfterFinished 10 s\n\
         would leave it: its finished condition has no lastTransitionTime\n"
    );
    let mut nobody = cluster.start(&["explain", "default/nobody"]);
    let code = nobody.process.wait_exit(SOON).await.unwrap().code();
    assert_eq!(
        (code, &*nobody.process.log()),
        (Some(1), "ttl-after-finished-controller: no Job default/nobody\n")
    );

    let dry = cluster.start(&["--dry-run"]);
    dry.until_metric("controller_planned_writes_total", "action=\"delete\"", 1)
        .await;
    assert_eq!(dry.stop().await, Some(0));
    assert_eq!(cluster.versions("Job").await, versions);
    assert_eq!(cluster.lease_holder().await, None);

    let replica = cluster.start_leading(&[]).await;
    cluster.until_deleted("expired").await;
    assert_eq!(
        told("expired").await,
        "Job default/expired: ttlSecondsAfterFinished 10 s\n\
         would leave it: it is being deleted, and may wait for finalizers\n"
    );
    let event = cluster.event("undated", "FinishTimeUnknown").await;
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(cluster.deleting("Job").await, 1);
    assert_eq!(replica.stop().await, Some(0));
}
