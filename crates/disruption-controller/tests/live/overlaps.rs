//! Several budgets over one pod, and pods that come and go by their labels.

use serde_json::json;

use crate::budget::numbers;
use crate::support::Cluster;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_every_budget_over_a_pod_is_true_and_the_overlap_is_told() {
    let cluster = Cluster::new().await;
    for name in ["first", "second"] {
        cluster.pdb_of(name, "two", "minAvailable", json!(1)).await;
    }
    for name in ["red", "green", "blue"] {
        cluster.pdb_of(name, "three", "minAvailable", json!(1)).await;
    }
    let replica = cluster.start_leading(&[]).await;
    // Who holds the Lease may still fill the caches; an overlap that begins by then is told by nobody.
    for pdb in ["first", "second", "red", "green", "blue"] {
        cluster.until(pdb, numbers(0, 0, 1, 0)).await;
    }
    cluster.some_pods("two", 3, None).await;
    cluster.some_pods("three", 3, None).await;
    let overlaps = [
        ("two", ["first", "second"].as_slice()),
        ("three", &["blue", "green", "red"]),
    ];
    for (app, pdbs) in overlaps {
        let pod = format!("{app}-0");
        for pdb in pdbs {
            cluster.until(pdb, numbers(2, 3, 1, 3)).await;
        }
        let names = pdbs.join(", ");
        let told = "so the eviction API refuses to evict it";
        cluster
            .until_event(&format!(
                "{pod} Warning MultiplePodDisruptionBudgets Pod default/{pod} matches multiple PodDisruptionBudgets, {told}: {names}"
            ))
            .await;
        assert_eq!(cluster.evict(&pod).await, 500);

        cluster.ready(&pod, false).await;
        for pdb in pdbs {
            cluster.until(pdb, numbers(1, 2, 1, 3)).await;
        }
        cluster.relabel(&pod, "none").await;
        for pdb in pdbs {
            cluster.until(pdb, numbers(1, 2, 1, 2)).await;
        }
        cluster.relabel(&pod, app).await;
        cluster.ready(&pod, true).await;
        for pdb in pdbs {
            cluster.until(pdb, numbers(2, 3, 1, 3)).await;
        }
    }
    // One goes: the other two know nothing of it.
    cluster.force_delete("PodDisruptionBudget", "red").await;
    cluster.force_delete("Pod", "three-1").await;
    for pdb in ["green", "blue"] {
        cluster.until(pdb, numbers(1, 2, 1, 2)).await;
    }
    assert_eq!(replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_pod_that_is_relabelled_moves_from_budget_to_budget() {
    let cluster = Cluster::new().await;
    for app in ["here", "there"] {
        cluster.pdb(app, "minAvailable", json!(1)).await;
    }
    let replica = cluster.start_leading(&[]).await;
    cluster.some_pods("here", 3, None).await;
    cluster.until("here", numbers(2, 3, 1, 3)).await;
    cluster.until("there", numbers(0, 0, 1, 0)).await;
    cluster.until_event("there Normal NoPods ").await;

    cluster.relabel("here-0", "there").await;
    cluster.until("here", numbers(1, 2, 1, 2)).await;
    cluster.until("there", numbers(0, 1, 1, 1)).await;
    cluster.relabel("here-1", "there").await;
    cluster.until("here", numbers(0, 1, 1, 1)).await;
    cluster.until("there", numbers(1, 2, 1, 2)).await;
    // Each answers for those that it has now.
    assert_eq!(cluster.evict("here-2").await, 429);
    assert_eq!(cluster.evict("here-1").await, 201);
    cluster.force_delete("Pod", "here-1").await;
    cluster.until("there", numbers(0, 1, 1, 1)).await;
    cluster.relabel("here-0", "here").await;
    cluster.until("here", numbers(1, 2, 1, 2)).await;
    assert_eq!(replica.stop().await, Some(0));
}
