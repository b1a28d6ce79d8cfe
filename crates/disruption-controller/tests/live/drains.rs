//! `kubectl drain` next to kube-controller-manager's loop of `ReplicaSets`, which makes a new pod for each that goes.

use controller_testing::cluster::{ended_well, kubectl};
use rstest::rstest;
use serde_json::json;

use crate::actors::Actors;
use crate::budget::numbers;
use crate::record::{Moment, Record};
use crate::support::{Budgets, Cluster};

/// How many pods there are, and how many of them must be healthy.
const PODS: usize = 8;
const DESIRED: usize = 6;

#[rstest]
#[case::one(&["a"])]
#[case::two_at_once(&["a", "b"])]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_drains_honour_the_budget_at_every_moment(#[case] drained: &[&str]) {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::new().await;
    let _actors = Actors::with_nodes(&cluster, &["a", "b"]).await;
    let _manager = cluster
        .control_plane
        .start_controller_manager(&["replicaset-controller"], &[])
        .unwrap();
    cluster.pdb("web", "maxUnavailable", json!("25%")).await;
    let replica = cluster.start_leading(&[]).await;
    cluster.workload("ReplicaSet", "web", 8, None).await;
    cluster.until("web", numbers(2, 8, 6, 8)).await;
    // Where the pods go to.
    cluster
        .create(json!({"kind": "Node", "metadata": {"name": "c"}}))
        .await;

    let record = Record::start(&cluster).await;
    let drain = |node: &&str| cluster.spawn_kubectl(&kubectl, &["drain", node, "--timeout=80s"]);
    let mut drains: Vec<_> = drained.iter().map(drain).collect();
    for drain in &mut drains {
        let told = ended_well(drain).await;
        assert!(
            told.contains("Cannot evict pod as it would violate the pod's disruption budget"),
            "{told}"
        );
    }
    cluster.until("web", numbers(2, 8, 6, 8)).await;
    for pod in cluster.all("Pod").await {
        let node = pod["spec"]["nodeName"].as_str().unwrap();
        assert!(!drained.contains(&node), "{pod:#}");
    }

    let moments = record.end(&cluster, "web").await;
    for moment in &moments {
        moment.assert_honoured(DESIRED);
    }
    let lowest = moments.iter().map(Moment::healthy).min();
    assert_eq!(lowest, Some(DESIRED), "the budget was used to the full");
    let evicted = cluster.all_requests().into_iter();
    let evicted = evicted.filter(|asked| asked.is("create", "pods/eviction") && asked.code == 201);
    assert_eq!(evicted.count(), PODS / 2 * drained.len());
    assert_eq!(replica.stop().await, Some(0));
}
