//! Connections that die without a word.

use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::cluster::binary;
use controller_testing::proxy::Proxy;

use crate::support::{BUILT, Cluster, Nodes, Replica, SOON};

/// As client-go: a ping after 30 s of silence, and 15 s for its answer; then a new list. Without pings the watch would
/// be silent for five minutes.
const NOTICED_WITHIN: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_frozen_connections_are_noticed_by_pings_and_the_lease_is_kept() {
    let cluster = Cluster::new().await;
    cluster.add([0, 1], None).await;
    let proxy = Proxy::before(&cluster.kubeconfig).await;
    let replica = Replica::start(&binary(BUILT), proxy.kubeconfig(), &[]);
    cluster.until_all_carry(2, "0").await;

    let clock = Clock::system();
    let frozen = clock.instant();
    proxy.freeze();
    cluster.add([2], None).await;
    cluster
        .until_all_carry_within(NOTICED_WITHIN + SOON, 3, "0")
        .await;
    let took = clock.instant() - frozen;
    assert!(took <= NOTICED_WITHIN, "noticed after {took:?}");
    assert_eq!(replica.said("\"working\""), 1, "it leads all the time");
    assert!(replica.leads().await);
    assert_eq!(replica.metric("informer_watching", "resource=\"nodes\"").await, 1);
    assert_eq!(replica.stop().await, Some(0));
}
