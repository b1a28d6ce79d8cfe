//! The API server away, or refusing.

use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::soon;
use local_control_plane::Stop;

use crate::support::{Cluster, SOON};

/// How long the API server is away.
const AWAY: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_an_outage_of_a_minute_under_load_ends_in_the_right_state_without_a_restart() {
    let mut cluster = Cluster::with_nodes(0..100, None).await;
    // Slow enough that the outage falls into the roll-out.
    let args = ["--kube-api-qps=20", "--kube-api-burst=1"];
    let replica = cluster.start(&args);
    cluster.until_all_carry(100, "0", SOON).await;
    cluster.add([100, 101], None).await;
    soon("the roll-out of 15 has begun", async || {
        let begun = cluster
            .carried()
            .await
            .get("15")
            .is_some_and(|nodes| (10..90).contains(nodes));
        begun.then_some(())
    })
    .await;

    cluster.control_plane.stop_api_server(Stop::AtOnce).await.unwrap();
    Clock::system().sleep(AWAY).await;
    cluster.control_plane.start_api_server().await.unwrap();
    cluster.until_all_carry(102, "15", AWAY + SOON).await;
    replica.until_ready().await;

    // 102 nodes were written 15 once, 100 of them 0 once before; the audit log counts what arrived.
    let mut accepted = 0;
    for event in cluster.control_plane.audit_events().unwrap() {
        let ours = event["userAgent"]
            .as_str()
            .is_some_and(|agent| agent.starts_with("ttl-controller/"));
        let patch = event["verb"] == "patch" && event["objectRef"]["resource"] == "nodes";
        accepted += u32::from(ours && patch && event["responseStatus"]["code"] == 200);
    }
    // A server that is killed may not have logged its last answers, hence the lower bound.
    assert!(
        (190..=202).contains(&accepted),
        "{accepted} accepted patches for 202 changes"
    );
    assert_eq!(replica.stop().await, Some(0));
}
