//! Evictions that wait for the client-side limits.

use std::time::Duration;

use controller_testing::{long_or_short, soon};
use local_control_plane::eventually;

use crate::support::{Cluster, For, now, seconds_after, until};

/// Deletes that may come after the taint has gone, until the watch shows it: those of one second, by the default limits
/// and with a request for the condition of each pod.
const ON_THEIR_WAY: usize = 25;
/// How long is looked for deletes that come all the same: with the default limits all 600 pods take half a minute.
const LOOKED_FOR: u64 = 20;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_no_delete_is_sent_once_the_watch_shows_that_the_taint_is_gone() {
    let cluster = Cluster::with_nodes(["n"]).await;
    cluster.pods(600, "p", "n", For::No).await;
    let replica = cluster.start_leading(&[]).await;
    cluster.taint("n").await;
    let tainted = now();
    let begun = async || (cluster.deleting("Pod").await > 20).then_some(());
    soon("evictions have begun", begun).await;
    until(seconds_after(tainted, 4)).await;
    cluster.untaint("n").await;
    let untainted = now();

    until(seconds_after(untainted, LOOKED_FOR)).await;
    let evicted = cluster.deleting("Pod").await;
    assert!((20..590).contains(&evicted), "{evicted} evicted");
    let requests = cluster.requests();
    let late = requests
        .iter()
        .filter(|asked| asked.is("delete", "pods") && asked.received > untainted);
    let late = late.count();
    assert!(
        late <= ON_THEIR_WAY,
        "{late} deletes came after the taint had gone"
    );
    assert_eq!(replica.stop().await, Some(0));
}

/// With the default limits, of requests and of events.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_every_eviction_of_a_mass_event_is_told() {
    let pods = long_or_short(2_000, 300);
    let cluster = Cluster::with_nodes(["n"]).await;
    cluster.pods(pods, "p", "n", For::No).await;
    let replica = cluster.start_leading(&[]).await;
    cluster.taint("n").await;
    let all = async || (cluster.deleting("Pod").await == pods).then_some(());
    eventually(Duration::from_mins(3), "all are evicted", all)
        .await
        .unwrap();
    let told = async || (cluster.all("Event").await.len() >= pods).then_some(());
    eventually(Duration::from_mins(1), "all are told", told)
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
