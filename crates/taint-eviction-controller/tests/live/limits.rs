//! Events that wait for the client-side limits.

use std::time::Duration;

use controller_testing::long_or_short;
use local_control_plane::eventually;

use crate::support::{Cluster, Evicted, For};

/// With the default limits, of requests and of events.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_every_eviction_of_a_mass_event_is_reported() {
    let pods = long_or_short(2_000, 300);
    let cluster = Cluster::with_nodes(["n"]).await;
    cluster.pods(pods, "p", "n", For::No).await;
    let replica = cluster.start_leading(&[]).await;
    cluster.taint("n").await;
    let all = async || (cluster.deleting("Pod").await == pods).then_some(());
    eventually(Duration::from_mins(3), "all are evicted", all)
        .await
        .unwrap();
    let told = async || {
        let events = cluster.all("Event").await;
        let of_pods = events.iter().filter(|event| event["regarding"]["kind"] == "Pod");
        (of_pods.count() >= pods).then_some(())
    };
    eventually(Duration::from_mins(1), "all events are there", told)
        .await
        .unwrap();
    assert_eq!(
        replica
            .metric("events_dropped_total", "reason=\"queue_full\"")
            .await,
        0
    );
    assert_eq!(replica.stop().await, Some(0));
}
