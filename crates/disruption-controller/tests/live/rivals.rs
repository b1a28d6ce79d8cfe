//! The built-in loop running next to ours (CORE-17).

use serde_json::json;

use crate::budget::numbers;
use crate::support::{Budgets, Cluster};

/// What a contested budget is worth in two minutes: three writes at once, one after a minute.
const MOST_WRITES_A_BUDGET: usize = 4;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_the_built_in_loop_next_to_ours_starts_no_war_and_is_named() {
    let cluster = Cluster::new().await;
    cluster.pdb("agreed", "minAvailable", json!(1)).await;
    cluster.some_pods("agreed", 3, None).await;
    // Their controller is gone: both say so, in other words.
    cluster.pdb("gone", "maxUnavailable", json!(1)).await;
    let replica_set = cluster.workload("ReplicaSet", "gone", 2, None).await;
    cluster.delete("ReplicaSet", "gone").await;
    cluster.some_pods("gone", 2, Some(&replica_set)).await;
    let replica = cluster.start_leading(&[]).await;
    cluster.until("agreed", numbers(2, 3, 1, 3)).await;
    let _built_in = cluster.start_built_in(" disruption controller").await;

    let written = cluster.written_next_to_ours().await;
    // The first status of each, and those of the contested one. A conflict is no such write: the other loop came between.
    assert!(
        written.all - written.conflicts <= 2 + MOST_WRITES_A_BUDGET,
        "{written:?}"
    );
    assert!(written.conflicts <= MOST_WRITES_A_BUDGET, "{written:?}");
    cluster.until("agreed", numbers(2, 3, 1, 3)).await;
    assert_eq!(replica.said("\"manager\":\"kube-controller-manager\""), 1);
    assert!(replica.metric("controller_rival_writes_total", "").await >= 3);
    assert_eq!(replica.stop().await, Some(0));
}
