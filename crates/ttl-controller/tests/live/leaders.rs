//! Who leads, and what happens when it stops, is killed, or is somebody else's program.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::{long_or_short, soon};
use futures::StreamExt;
use kube::ResourceExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use parking_lot::Mutex;
use rand::RngExt;
use tokio::time::Instant;

use crate::support::{Cluster, Nodes, QUICK_LEASE, Replica, SOON, TTL, name};

/// Starts a leader and a standby with `args`.
async fn leader_and_standby(cluster: &Cluster, args: &[&str]) -> (Replica, Replica) {
    let leader = cluster.start(args);
    leader.until_leading().await;
    let standby = cluster.start(args);
    // Its cache is warm.
    standby.until_knowing("nodes", 10).await;
    assert!(!standby.leads().await);
    (leader, standby)
}

async fn until_leading_since(replica: &Replica, began: Instant) -> Duration {
    replica.until_leading().await;
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_stopped_leader_hands_over_at_once() {
    let cluster = Cluster::with_nodes(0..10, None).await;
    let (mut leader, standby) = leader_and_standby(&cluster, &[]).await;
    let began = Clock::system().instant();
    leader.process.terminate().unwrap();
    let gap = until_leading_since(&standby, began).await;
    println!("gap after SIGTERM, lease of 15 s: {gap:?}");
    // By half of the Lease's 15 s: it was given back.
    assert!(gap < Duration::from_secs(8), "took {gap:?}");
    assert_eq!(leader.process.wait_exit(SOON).await.unwrap().code(), Some(0));
    let lease = cluster.lease().await.unwrap();
    assert_eq!(lease.lease_duration_seconds, Some(15));
    assert_eq!(standby.stop().await, Some(0));
    assert_eq!(cluster.lease_holder().await, None);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_killed_leader_is_replaced_when_its_lease_expires() {
    let cluster = Cluster::with_nodes(0..10, None).await;
    let (mut leader, standby) = leader_and_standby(&cluster, &QUICK_LEASE).await;
    let began = Clock::system().instant();
    leader.process.kill().unwrap();
    let gap = until_leading_since(&standby, began).await;
    println!("gap after SIGKILL, lease of 1.5 s: {gap:?}");
    // Not before the Lease can have expired (2 s on the wire, seen up to one renewal ago), and not by the default of 15 s.
    assert!(
        gap > Duration::from_secs(1) && gap < Duration::from_secs(10),
        "took {gap:?}"
    );
    assert_eq!(standby.stop().await, Some(0));
}

/// kube-controller-manager stands for any client-go program: it and ours share one Lease.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_a_client_go_replica_and_ours_share_one_lease() {
    let cluster = Cluster::with_nodes(0..10, None).await;
    let election = [
        "--leader-elect=true",
        "--leader-elect-resource-name=ttl-controller",
        "--leader-elect-resource-namespace=kube-system",
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=1s",
    ];
    let ours_args = [
        "--leader-elect-lease-duration=3s",
        "--leader-elect-renew-deadline=2s",
        "--leader-elect-retry-period=0.5s",
    ];
    let mut theirs = cluster
        .control_plane
        .start_controller_manager(&["ttl-controller"], &election)
        .unwrap();
    let holder = soon("client-go holds the lease", async || cluster.lease_holder().await).await;

    let ours = cluster.start(&ours_args);
    let began = Clock::system().instant();
    // Two of its lease durations: a replica that misread its renewals would have taken the lease by then.
    let undisturbed = async || {
        assert!(!ours.leads().await, "ours took a lease that client-go holds");
        (began.elapsed() > Duration::from_secs(6)).then_some(())
    };
    soon("client-go keeps the lease", undisturbed).await;
    assert_eq!(cluster.lease_holder().await, Some(holder));

    theirs.kill().unwrap();
    theirs.wait_exit(SOON).await.unwrap();
    ours.until_leading().await;
    assert_eq!(cluster.lease().await.unwrap().lease_transitions, Some(1));

    let mut verbose = election.to_vec();
    verbose.push("--v=2");
    let back = cluster
        .control_plane
        .start_controller_manager(&["ttl-controller"], &verbose)
        .unwrap();
    let waits = async || {
        back.log()
            .contains("Attempting to acquire leader lease")
            .then_some(())
    };
    soon("client-go waits for the lease", waits).await;
    assert!(ours.leads().await);
    assert_eq!(ours.stop().await, Some(0));
    soon("client-go takes the released lease", async || {
        cluster.lease_holder().await
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_kills_of_the_leader_lose_nothing_and_write_nothing_wrong() {
    let cluster = Cluster::with_nodes(0..101, None).await;
    let values = Mutex::new(BTreeMap::new());
    let kills = long_or_short(50, 10);
    let kill = async {
        across_the_boundary(&cluster, kills).await;
        let are_told = |values: &BTreeMap<_, Vec<_>>| {
            let mut nodes = (0..89).map(|number| values.get(&name(number)));
            nodes.all(|values| values.is_some_and(|values| values.len() > kills))
        };
        let told = async || are_told(&values.lock()).then_some(());
        soon("the watch tells the last change", told).await;
    };
    tokio::select! {
        () = note_values(&cluster, &values) => {}
        () = kill => {}
    }
    // A write of what was not wanted any more would have been one change too many, and its correction another.
    let expected: Vec<_> = ["15", "0"].into_iter().cycle().take(kills + 1).collect();
    for number in 0..89 {
        assert_eq!(values.lock()[&name(number)], expected, "node {number}");
    }
}

/// Notes each value that a node comes to carry.
async fn note_values(cluster: &Cluster, values: &Mutex<BTreeMap<String, Vec<String>>>) {
    let nodes = cluster.api("Node");
    let list = nodes.list_metadata(&ListParams::default()).await.unwrap();
    let mut version = list.metadata.resource_version.unwrap();
    loop {
        let events = nodes
            .watch_metadata(&WatchParams::default().disable_bookmarks(), &version)
            .await;
        let mut events = pin!(events.unwrap());
        while let Some(event) = events.next().await {
            let (WatchEvent::Added(mut node)
            | WatchEvent::Modified(mut node)
            | WatchEvent::Deleted(mut node)) = event.unwrap()
            else {
                panic!("the watch of the nodes ended");
            };
            version = node.resource_version().unwrap();
            let mut values = values.lock();
            let known = values.entry(node.name_any()).or_default();
            known.extend(node.annotations_mut().remove(TTL));
            known.dedup();
        }
    }
}

/// Every kill falls into or near a roll-out.
async fn across_the_boundary(cluster: &Cluster, kills: usize) {
    let mut replicas = vec![cluster.start(&QUICK_LEASE), cluster.start(&QUICK_LEASE)];
    cluster.until_all_carry(101, "15").await;
    let mut wanted = "15";
    for kill in 0..kills {
        wanted = if wanted == "15" { "0" } else { "15" };
        match wanted {
            "0" => cluster.remove(89..101).await,
            _ => cluster.add(89..101, None).await,
        }
        let moment = Duration::from_millis(rand::rng().random_range(0..400));
        Clock::system().sleep(moment).await;
        let mut leading = 0;
        for (number, replica) in replicas.iter().enumerate() {
            if replica.leads().await {
                leading = number;
            }
        }
        let mut killed = replicas.remove(leading);
        killed.process.kill().unwrap();
        killed.process.wait_exit(SOON).await.unwrap();
        replicas.push(cluster.start(&QUICK_LEASE));
        let nodes = if wanted == "0" { 89 } else { 101 };
        cluster.until_all_carry(nodes, wanted).await;
        if kill % 10 == 9 {
            println!("{} kills, all {nodes} nodes at {wanted}", kill + 1);
        }
    }
}
