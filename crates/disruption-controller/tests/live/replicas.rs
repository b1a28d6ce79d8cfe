//! A restart, a standby that takes over, and an API server that is killed.

use controller_testing::soon;
use local_control_plane::Stop;
use serde_json::json;

use crate::budget::numbers;
use crate::support::{Budgets, Cluster, QUICK_LEASE, SOON, writes_a_status};

const SAME_POD: [&str; 1] = ["--leader-elect-identity=uid-of-the-pod"];

/// As one container of a pod follows the other: under the uid of the pod it leads at once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_what_happens_between_two_containers_is_made_up_for() {
    let cluster = Cluster::new().await;
    for app in ["stays", "deleted"] {
        cluster.pdb(app, "minAvailable", json!(1)).await;
        cluster.some_pods(app, 4, None).await;
    }
    let mut killed = cluster.start_leading(&SAME_POD).await;
    for app in ["stays", "deleted"] {
        cluster.until(app, numbers(3, 4, 1, 4)).await;
    }
    killed.process.kill().unwrap();
    killed.process.wait_exit(SOON).await.unwrap();
    // One is approved to go and goes, one is not ready any more, one is new.
    assert_eq!(cluster.evict("stays-0").await, 201);
    cluster.force_delete("Pod", "stays-0").await;
    cluster.ready("stays-1", false).await;
    cluster.pod("stays", "new", None).await;
    cluster.force_delete("PodDisruptionBudget", "deleted").await;
    cluster.pdb("made", "minAvailable", json!(2)).await;
    cluster.some_pods("made", 3, None).await;
    assert_eq!(cluster.status("stays").await["disruptionsAllowed"], 2);

    let restarted = cluster.start_leading(&SAME_POD).await;
    cluster.until("stays", numbers(2, 3, 1, 4)).await;
    cluster.until("made", numbers(1, 3, 2, 3)).await;
    assert!(cluster.status("stays").await["disruptedPods"].is_null());
    // It says nothing new of what it finds to be true.
    let writes = cluster
        .all_requests()
        .into_iter()
        .filter(|asked| writes_a_status(asked) && asked.code == 200);
    let writes = writes.count();
    assert_eq!(restarted.stop().await, Some(0));
    let again = cluster.start_leading(&SAME_POD).await;
    cluster.ready("stays-2", false).await;
    cluster.until("stays", numbers(1, 2, 1, 4)).await;
    assert_eq!(again.stop().await, Some(0));
    let since = cluster
        .all_requests()
        .into_iter()
        .filter(|asked| writes_a_status(asked) && asked.code == 200);
    assert_eq!(since.count(), writes + 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_standby_takes_over_from_one_that_stops_and_one_that_is_killed() {
    let cluster = Cluster::new().await;
    cluster.pdb("web", "minAvailable", json!(1)).await;
    cluster.some_pods("web", 4, None).await;
    let leader = cluster.start_leading(&QUICK_LEASE).await;
    cluster.until("web", numbers(3, 4, 1, 4)).await;
    let mut second = cluster.start(&QUICK_LEASE);
    second.until_ready().await;
    // A standby writes nothing.
    cluster.ready("web-0", false).await;
    cluster.until("web", numbers(2, 3, 1, 4)).await;
    assert_eq!(
        second.metric("workqueue_adds_total", "name=\"disruption\"").await,
        0
    );

    assert_eq!(leader.stop().await, Some(0));
    cluster.ready("web-1", false).await;
    cluster.until("web", numbers(1, 2, 1, 4)).await;
    assert!(second.leads().await);

    let third = cluster.start(&QUICK_LEASE);
    third.until_ready().await;
    second.process.kill().unwrap();
    second.process.wait_exit(SOON).await.unwrap();
    assert_eq!(cluster.evict("web-2").await, 201);
    cluster.ready("web-0", true).await;
    cluster.until("web", numbers(1, 2, 1, 4)).await;
    assert!(third.leads().await);
    assert_eq!(third.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_killed_api_server_costs_no_true_status() {
    let mut cluster = Cluster::new().await;
    cluster.define("Widget", true).await;
    let widget = cluster.custom("Widget", "scaled", 3).await;
    cluster.pdb("scaled", "maxUnavailable", json!(1)).await;
    cluster.some_pods("scaled", 3, Some(&widget)).await;
    cluster.pdb("web", "minAvailable", json!(1)).await;
    cluster.some_pods("web", 4, None).await;
    let mut replica = cluster.start_leading(&[]).await;
    cluster.until("scaled", numbers(1, 3, 2, 3)).await;
    cluster.until("web", numbers(3, 4, 1, 4)).await;

    // While what it has to say is on its way.
    cluster.ready("web-0", false).await;
    cluster.control_plane.stop_api_server(Stop::AtOnce).await.unwrap();
    cluster.control_plane.start_api_server().await.unwrap();
    cluster.until("web", numbers(2, 3, 1, 4)).await;
    cluster.ready("web-1", false).await;
    cluster.ready("scaled-0", false).await;
    cluster.until("web", numbers(1, 2, 1, 4)).await;
    cluster.until("scaled", numbers(0, 2, 2, 3)).await;
    soon("it leads", async || replica.leads().await.then_some(())).await;
    assert!(replica.process.exited().unwrap().is_none());
    assert_eq!(replica.stop().await, Some(0));
}
