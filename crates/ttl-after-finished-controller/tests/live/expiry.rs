//! Which Jobs are deleted, when, and what becomes of them.

use controller_testing::soon;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use rstest::rstest;
use serde_json::json;

use crate::support::{Cluster, Finish, NAME};

const LARGE_JOBS: u64 = 200;

const fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_jobs_are_deleted_when_their_ttl_has_passed_and_no_others() {
    let cluster = Cluster::new().await;
    let replica = cluster.start_leading(&[]).await;
    cluster.job("without-ttl", None).await;
    cluster.job("unfinished", Some(0)).await;
    cluster.job("failed", Some(0)).await;
    for name in ["soon", "raised", "removed", "last"] {
        cluster.job(name, Some(5)).await;
    }
    cluster.set_ttl("last", Some(7)).await;
    cluster.finish("raised", Finish::Complete, 0).await;
    cluster.set_ttl("raised", Some(3600)).await;
    cluster.finish("removed", Finish::Failed, 0).await;
    cluster.set_ttl("removed", None).await;
    cluster.finish("without-ttl", Finish::Complete, 3600).await;
    let at_once = cluster.finished_job("at-once", 0).await;
    let failed = cluster.finish("failed", Finish::Failed, 0).await;
    let soon = cluster.finish("soon", Finish::Complete, 0).await;
    let last = cluster.finish("last", Finish::Complete, 0).await;

    cluster.until_deleted_at("at-once", at_once).await;
    cluster.until_deleted_at("failed", failed).await;
    cluster.until_deleted_at("soon", soon + seconds(5)).await;
    // Later than the others would have been.
    cluster.until_deleted_at("last", last + seconds(7)).await;
    assert_eq!(cluster.deleting("Job").await, 4);
    assert_eq!(cluster.deleted("raised").await, None);
    assert_eq!(cluster.deleted("removed").await, None);
    // The one whose ttl was raised.
    let pending = replica.metric("ttl_after_finished_controller_jobs_pending", "");
    assert_eq!(pending.await, 1);

    let event = cluster.event("soon", "TTLExpired").await;
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(event.reporting_controller.as_deref(), Some(NAME));
    let note = event.note.unwrap();
    let expected = format!("finished at {soon}, expired at {}, deleted ", soon + seconds(5));
    assert!(note.starts_with(&expected), "{note}");
    assert_eq!(replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_finalizers_hold_the_job_and_its_pods_go_first() {
    let cluster = Cluster::new().await;
    let _collector = cluster
        .control_plane
        .start_controller_manager(&["garbage-collector-controller"], &[])
        .unwrap();
    let job = cluster.job("job", Some(0)).await;
    cluster
        .merge(
            "Job",
            "job",
            json!({"metadata": {"finalizers": ["example.com/hold"]}}),
        )
        .await;
    let pods: Api<Pod> = Api::default_namespaced(cluster.control_plane.client());
    let pod = json!({
        "metadata": {
            "name": "pod",
            "finalizers": ["example.com/hold"],
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": job["metadata"]["uid"],
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"containers": [{"name": "main", "image": "registry.example/job"}]},
    });
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    cluster.finish("job", Finish::Complete, 0).await;
    let replica = cluster.start_leading(&[]).await;

    soon("the pod is being deleted", async || {
        let pod = pods.get("pod").await.unwrap();
        pod.metadata.deletion_timestamp.map(drop)
    })
    .await;
    let finalizers = async || cluster.api("Job").get("job").await.unwrap().metadata.finalizers;
    assert_eq!(
        finalizers().await,
        Some(vec![
            "example.com/hold".to_owned(),
            "foregroundDeletion".to_owned()
        ]),
        "the Job waits for its pod"
    );

    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    pods.patch("pod", &PatchParams::default(), &release)
        .await
        .unwrap();
    soon("the garbage collector is done with the Job", async || {
        (finalizers().await == Some(vec!["example.com/hold".to_owned()])).then_some(())
    })
    .await;
    assert!(pods.get_opt("pod").await.unwrap().is_none());
    assert!(cluster.deleted("job").await.is_some());
    let deletes = replica.metric("rest_client_requests_total", "method=\"DELETE\"");
    assert_eq!(deletes.await, 1, "one delete, however long the finalizers take");

    cluster
        .merge("Job", "job", json!({"metadata": {"finalizers": null}}))
        .await;
    assert!(cluster.api("Job").get_opt("job").await.unwrap().is_none());
    assert_eq!(replica.stop().await, Some(0));
}

/// 200 Jobs of 250 KB: as JSON in pages of client-go's size they took 150 MB.
#[rstest]
#[case::in_protobuf("application/vnd.kubernetes.protobuf")]
#[case::in_json("application/json")]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_large_jobs_cost_no_more_than_a_few_of_them(#[case] encoding: &str) {
    let cluster = Cluster::new().await;
    let ballast = json!({ "metadata": { "annotations": { "ballast": "x".repeat(250_000) } } });
    for number in 0..LARGE_JOBS {
        let name = format!("large-{number}");
        cluster.job(&name, Some(0)).await;
        cluster.merge("Job", &name, ballast.clone()).await;
    }
    let replica = cluster
        .start_leading(&[&format!("--kube-api-content-type={encoding}")])
        .await;
    replica.until_knowing("jobs", LARGE_JOBS).await;
    let peak = replica.process.usage().unwrap().peak_rss >> 20;
    println!("{encoding}: peak {peak} MiB");
    assert!(peak < 50, "{peak} MiB");
    assert_eq!(replica.stop().await, Some(0));
}
