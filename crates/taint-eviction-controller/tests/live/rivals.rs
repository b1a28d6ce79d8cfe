//! The built-in loop running next to ours (CORE-17).

use crate::support::{Cluster, DELETIONS, Evicted, For, SOON};

const PODS: usize = 50;
/// The most that our brake lets go at once.
const LIMIT: u64 = 5;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_the_built_in_loop_next_to_ours_starts_no_war() {
    let cluster = Cluster::with_nodes(["a"]).await;
    cluster.pods(PODS, "intolerant", "a", For::No).await;
    cluster.pods(PODS, "five", "a", For::Seconds(5)).await;
    cluster.pods(PODS, "endless", "a", For::Ever).await;
    let replica = cluster.start_leading(&[]).await;
    let _built_in = cluster.start_built_in("").await;
    cluster.taint("a").await;
    cluster.until_evicted(2 * PODS, SOON).await;

    // A condition and a delete of each pod at most: the loop that comes second leaves it.
    let written = cluster.written_next_to_ours().await.all;
    assert!(written <= 2 * 2 * PODS, "{written} writes");
    assert_eq!(cluster.deleting("Pod").await, 2 * PODS);
    assert_eq!(replica.stop().await, Some(0));
}

/// What the built-in loop deletes no brake of ours holds back, and it does not count for ours, which lets the last few go
/// if that loop is slow.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_the_brake_holds_back_only_what_we_would_evict() {
    let cluster = Cluster::with_nodes(["a"]).await;
    cluster.pods(PODS, "intolerant", "a", For::No).await;
    let replica = cluster
        .start_leading(&[&format!("--eviction-brake-pods={LIMIT}")])
        .await;
    let _built_in = cluster.start_built_in("").await;
    cluster.taint("a").await;
    // On a busy machine that loop takes its time to begin.
    cluster.until_evicted(PODS, SOON * 3).await;
    replica
        .until_metric("taint_eviction_controller_brake_engaged", "", 0)
        .await;
    let ours = replica.total(DELETIONS).await;
    assert!(ours <= LIMIT, "{ours} deletions of ours");
    assert_eq!(replica.stop().await, Some(0));
}
