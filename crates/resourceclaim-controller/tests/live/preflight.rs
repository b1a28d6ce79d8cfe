//! What `preflight` says next to the built-in loop.

use std::cell::Cell;

use crate::support::{Cluster, made, pod};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_preflight_sees_that_the_leader_makes_claims() {
    let cluster = Cluster::with_template().await;
    let _manager = cluster.start_manager(&["resourceclaim-controller"]).await;
    let count = Cell::new(0);
    let stir = async || {
        let number = count.replace(count.get() + 1);
        cluster.create(pod(&format!("pod-{number}"), &[made("a")])).await;
    };
    cluster
        .until_preflight_sees_work("resourceclaims default/pod-", stir)
        .await;
}
