//! The built-in loop running beside ours (CORE-17).

use crate::support::{Cluster, For, SOON};

const PODS: usize = 50;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_built_in_loop_beside_ours_starts_no_war() {
    let cluster = Cluster::with_nodes(["a"]).await;
    cluster.pods(PODS, "intolerant", "a", For::No).await;
    cluster.pods(PODS, "five", "a", For::Seconds(5)).await;
    cluster.pods(PODS, "endless", "a", For::Ever).await;
    let replica = cluster.start_leading(&[]).await;
    let _built_in = cluster.start_built_in("").await;
    cluster.taint("a").await;
    cluster.until_evicted(2 * PODS, SOON).await;

    // A condition and a delete of each pod at most: whoever comes second leaves it.
    let written = cluster.written_beside().await.all;
    assert!(written <= 2 * 2 * PODS, "{written} writes");
    assert_eq!(cluster.deleting("Pod").await, 2 * PODS);
    assert_eq!(replica.stop().await, Some(0));
}
