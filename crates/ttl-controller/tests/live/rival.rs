//! The built-in loop running beside ours (CORE-17).

use std::time::Duration;

use controller_core::clock::Clock;
use testkit::real::eventually;

use crate::support::{Cluster, SOON};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_built_in_loop_beside_ours_starts_no_patch_war() {
    let cluster = Cluster::new().await;
    // 95 nodes at 15: ours keeps 15 (TTL-6), the built-in loop starts from 0.
    cluster.add(0..95, Some("15")).await;
    let replica = cluster.start(&[]);
    replica.until_leading().await;
    let _built_in = cluster
        .control_plane
        .start_controller_manager(&["ttl-controller"], &[])
        .unwrap();

    eventually(SOON * 3, "the rival is named", async || {
        (replica.said("\"manager\"") > 0).then_some(())
    })
    .await
    .unwrap();
    let settled = eventually(SOON * 3, "writes stop for five seconds", {
        let mut last = (replica.requests("PATCH").await, Clock::system().instant());
        let replica = &replica;
        async move || {
            let patches = replica.requests("PATCH").await;
            if patches != last.0 {
                last = (patches, Clock::system().instant());
            }
            (last.1.elapsed() > Duration::from_secs(5)).then_some(patches)
        }
    })
    .await
    .unwrap();
    // Three writes a node, and not one more.
    assert!(settled <= 285, "{settled} patches");

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
