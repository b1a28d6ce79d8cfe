//! What `preflight` says next to the built-in loop.

use std::cell::Cell;

use crate::support::{Cluster, Nodes};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_preflight_sees_that_the_leader_annotates_nodes() {
    let cluster = Cluster::new().await;
    let _manager = cluster.start_manager(&["ttl-controller"]).await;
    let count = Cell::new(0);
    let stir = async || {
        let number = count.replace(count.get() + 1);
        // Of an object in which nobody owns a field the API server keeps no owners.
        cluster.add([number], Some("15")).await;
    };
    cluster.until_preflight_sees_work("nodes node-", stir).await;
}
