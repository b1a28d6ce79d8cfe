//! What becomes of Jobs that are deleted, and what large ones cost.

use controller_testing::soon;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use rstest::rstest;
use serde_json::json;

use crate::support::{Cluster, Finish, Jobs};

const LARGE_JOBS: u64 = 200;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
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
