//! The demo on a real cluster.

use std::fmt::Debug;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use local_control_plane::{Leased, Options};
use serde::de::DeserializeOwned;

use crate::demo::{Demo, turn};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_story_is_the_same_on_a_real_cluster_and_nothing_is_left() {
    let _turn = turn().await;
    let control_plane = Leased::bare(Options::default()).await.unwrap();
    let ended = Demo::start_on(control_plane.kubeconfig(), &["--fast", "--within=60"])
        .end()
        .await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    // Without numbers of writes: on a shared cluster the last events may come after the check.
    for expected in [
        ": 120 × 15 s; ",
        ": 95 × 15 s; no writes",
        ": 520 × 30 s; ",
        ": 6 × demo-node-0001, 6 × demo-node-0002, 7 × demo-node-0003; ",
        ": 6 × demo-node-0001, 1 × demo-node-0002, 7 × demo-node-0003; ",
        ": 3 × demo-node-0031, 3 × demo-node-0032, 3 × demo-node-0033; ",
        "  Event BrakeEngaged on demo-node-003",
        ": 2 × demo-node-0031, 3 × demo-node-0032, 3 × demo-node-0033; ",
        "  Event EvictionWaits on demo-shop-",
        ": 1 × demo-node-0031, 4 × demo-node-0032, 3 × demo-node-0033; ",
        ": 4 × ttl 3 s, 4 × ttl 8 s; ",
        ": 1 × no ttl, 1 × ttl 3600 s; ",
        ": 3 × demo-node-0011, 3 × demo-node-0012; ",
        "is refused: The disruption budget demo-web needs 5 healthy pods and has 5 currently",
        "│ disruptionsAllowed 0: 5 healthy less 5 desired",
        ": 1 × demo-node-0011, 4 × demo-node-0012; ",
        "│ disruptionsAllowed 1: 4 healthy less 3 desired",
        "is refused: The disruption budget demo-api needs 2 healthy pods and has 2 currently",
        "Pod default/demo-api-1 on demo-node-0021. Fix: set maxUnavailable: 1 instead of minAvailable in demo-api.",
        "│ waits: PodDisruptionBudget demo-api keeps 1 pod healthy, and has 1; waits for ",
        ": 1 × demo-node-0022; ",
        ": 7 × not allocated; ",
        "│ gpu: a claim from ResourceClaimTemplate demo-gpu",
        " was deleted. The gpu of demo-train-2 is demo-train-2-gpu-",
        ": 6 × held by 1 pod, 1 × held by 4 pods; ",
        "│   pod demo-probe stays reserved",
        ": 2 × held by 1 pod, 1 × held by 2 pods; ",
        ": 1 × not allocated; ",
    ] {
        assert!(
            ended.stdout.iter().any(|line| line.contains(expected)),
            "{expected}"
        );
    }
    let client = control_plane.client();
    assert_eq!(count::<Node>(&client).await, 0);
    assert_eq!(count::<Pod>(&client).await, 0);
    assert_eq!(count::<Job>(&client).await, 0);
    assert_eq!(count::<Deployment>(&client).await, 0);
    assert_eq!(count::<PodDisruptionBudget>(&client).await, 0);
    assert_eq!(count::<ResourceClaimTemplate>(&client).await, 0);
    assert_eq!(count::<ResourceClaim>(&client).await, 0);
}

/// Number of objects of a kind.
async fn count<K>(client: &Client) -> usize
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let all = Api::<K>::all(client.clone())
        .list_metadata(&ListParams::default())
        .await;
    all.unwrap().items.len()
}
