//! What one tenant makes in masses, or has hang, keeps no other one waiting.

use controller_testing::silence;

use crate::support::{Cluster, Evicted, For, NAMESPACE, SOON, assert_prompt};

const TENANT: &str = "tenant";
/// Twice as many as may be evicted at a time.
const HELD: usize = 200;
const OTHERS: usize = 10;

/// A webhook holds each delete of a pod of one tenant for ten seconds, and fails.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
#[allow(clippy::print_stdout, reason = "the figures")]
async fn live_pods_behind_a_webhook_that_hangs_keep_no_other_pod_waiting() {
    let cluster = Cluster::with_nodes(["held", "other"]).await;
    cluster.namespace(TENANT).await;
    cluster.pods_in(TENANT, HELD, "held", "held", For::No).await;
    cluster.pods_in(NAMESPACE, OTHERS, "p", "other", For::No).await;
    let webhook = cluster.hang(TENANT, "Pod", "DELETE").await;
    let replica = cluster.start_leading(&[]).await;
    cluster.taint("held").await;
    webhook.until_asked(10).await;
    cluster.taint("other").await;
    cluster.until_evicted(OTHERS, SOON * 4).await;
    let deletes = cluster.deleted_at(OTHERS).await;
    let lags = deletes.lags("p", cluster.tainted_at("other").await);
    println!("{} connections; others after {lags:?}", webhook.connections());
    assert_prompt(&lags, silence::HELD / 2);
    // What hangs may take as long as a drain.
    drop(webhook);
    assert_eq!(replica.stop().await, Some(0));
}
