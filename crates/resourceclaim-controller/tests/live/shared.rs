//! A claim that a user made.

use serde_json::json;

use crate::support::{Cluster, FINALIZER, NODE, is_free, named, pod, reserved_for, uid};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_a_shared_claim_is_held_as_long_as_one_of_its_pods_runs() {
    let cluster = Cluster::new().await;
    let claim = cluster.claim("shared").await;
    let controller = cluster.controller().await;
    let one = cluster.pod("one", &[named("gpu", "shared")]).await;
    let two = cluster.pod("two", &[named("gpu", "shared")]).await;
    for pod in ["one", "two"] {
        cluster.until_running(pod).await;
    }
    let both = cluster.get("ResourceClaim", "shared").await;
    let mut uids = reserved_for(&both);
    uids.sort_unstable();
    let mut wanted = [uid(&one), uid(&two)];
    wanted.sort_unstable();
    assert_eq!(uids, wanted);
    let pod = cluster.get("Pod", "one").await;
    assert_eq!(pod["status"].get("resourceClaimStatuses"), None);

    cluster.finish("one").await;
    let left = cluster
        .until_is("ResourceClaim", "shared", "one has left", |claim| {
            reserved_for(claim) == [uid(&two)]
        })
        .await;
    assert_eq!(left["status"]["allocation"], both["status"]["allocation"]);
    assert_eq!(left["metadata"]["finalizers"], json!([FINALIZER]));
    // A pod that comes while the other holds it shares it.
    cluster.pod("three", &[named("gpu", "shared")]).await;
    cluster.until_running("three").await;
    cluster.kubelet.assert_sound();
    for pod in ["two", "three"] {
        cluster.finish(pod).await;
    }
    let free = cluster
        .until_is("ResourceClaim", "shared", "it is free", is_free)
        .await;
    assert_eq!(uid(&free), uid(&claim));
    // And may be used again.
    cluster.pod("four", &[named("gpu", "shared")]).await;
    cluster.until_running("four").await;
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_a_pod_that_no_scheduler_placed_gets_a_claim_that_is_allocated_reserved() {
    let cluster = Cluster::new().await;
    cluster.claim("shared").await;
    let controller = cluster.controller().await;
    cluster.pod("placed", &[named("gpu", "shared")]).await;
    cluster.until_running("placed").await;
    let mut direct = pod("direct", &[named("gpu", "shared")]);
    direct["spec"]["nodeName"] = json!(NODE);
    let direct = cluster.create(direct).await;
    cluster.until_running("direct").await;
    let claim = cluster.get("ResourceClaim", "shared").await;
    assert!(reserved_for(&claim).contains(&uid(&direct)), "{claim:#}");
    cluster.kubelet.assert_sound();
    controller.stop().await;
}
