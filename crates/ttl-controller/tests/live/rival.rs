//! The built-in loop running next to ours (CORE-17).

use controller_testing::long_or_short;
use local_control_plane::eventually;

use crate::support::{Cluster, Nodes, SOON};

const NODES: usize = 95;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_the_built_in_loop_next_to_ours_starts_no_patch_war() {
    let cluster = Cluster::new().await;
    // `NODES` nodes at 15: ours keeps 15 (TTL-6), the built-in loop starts from 0.
    cluster.add(0..NODES, Some("15")).await;
    let replica = cluster.start(&[]);
    replica.until_leading().await;
    let _built_in = cluster.start_built_in(" TTL controller").await;

    eventually(SOON * 3, "the rival is named", async || {
        (replica.said("\"manager\"") > 0).then_some(())
    })
    .await
    .unwrap();
    // Three writes a node at once; within two minutes one more.
    let written = cluster.written_next_to_ours().await.all;
    assert!(written <= NODES * long_or_short(4, 3), "{written} writes");

    let warnings: Vec<_> = replica
        .lines()
        .into_iter()
        .filter(|line| line["manager"].is_string())
        .collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0]["manager"], "kube-controller-manager");
    assert!(replica.metric("controller_rival_writes_total", "").await >= 3);
    assert_eq!(replica.stop().await, Some(0));
}
