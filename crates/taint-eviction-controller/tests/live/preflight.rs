//! What `preflight` says next to the built-in loop.

use std::cell::Cell;

use crate::support::{Cluster, Evicted, For};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_preflight_sees_the_events_of_the_leader() {
    let cluster = Cluster::with_nodes(["a"]).await;
    cluster.taint("a").await;
    let count = Cell::new(0);
    let stir = async || {
        let number = count.replace(count.get() + 1);
        cluster.pods(1, &format!("pod{number}"), "a", For::No).await;
    };
    let _manager = cluster.start_manager(&["taint-eviction-controller"]).await;
    cluster
        .until_preflight_sees_work("an event about default/pod", stir)
        .await;
}
