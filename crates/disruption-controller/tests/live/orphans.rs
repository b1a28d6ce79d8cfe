//! Whose scale counts when an owner goes next to kube-controller-manager.

use controller_testing::cluster::kubectl;
use serde_json::{Value, json};

use crate::actors::Actors;
use crate::budget::numbers;
use crate::record::Record;
use crate::support::{Budgets, Cluster};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_a_deployment_deleted_with_its_orphans_left_blocks_nobody() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::new().await;
    let _actors = Actors::with_nodes(&cluster, &["n"]).await;
    let controllers = [
        "deployment-controller",
        "replicaset-controller",
        "garbage-collector-controller",
    ];
    let _manager = cluster
        .control_plane
        .start_controller_manager(&controllers, &[])
        .unwrap();
    cluster.pdb("web", "maxUnavailable", json!(1)).await;
    let replica = cluster.start_leading(&[]).await;
    cluster.workload("Deployment", "web", 3, None).await;
    cluster.until("web", numbers(1, 3, 2, 3)).await;

    cluster
        .kubectl(&kubectl, &["scale", "deployment", "web", "--replicas=5"])
        .await;
    cluster.until("web", numbers(1, 5, 4, 5)).await;
    let record = Record::start(&cluster).await;
    cluster
        .kubectl(&kubectl, &["delete", "deployment", "web", "--cascade=orphan"])
        .await;
    // Only the ReplicaSet is left to say so.
    let replica_set = cluster.all("ReplicaSet").await.remove(0);
    assert_eq!(replica_set["metadata"]["ownerReferences"], Value::Null);
    let name = replica_set["metadata"]["name"].as_str().unwrap();
    cluster
        .kubectl(&kubectl, &["scale", "replicaset", name, "--replicas=6"])
        .await;
    cluster.until("web", numbers(1, 6, 5, 6)).await;
    for moment in record.end(&cluster, "web").await {
        moment.assert_honoured(4);
    }
    let failures = cluster.events().await;
    let failures = failures
        .iter()
        .filter(|event| event.contains("CalculateExpectedPodCountFailed"));
    assert_eq!(failures.collect::<Vec<_>>(), Vec::<&String>::new());
    assert_eq!(replica.stop().await, Some(0));
}
