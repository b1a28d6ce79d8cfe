//! The built-in loop running next to ours (CORE-17).

use std::collections::BTreeSet;
use std::time::Duration;

use controller_runtime::clock::Clock;
use local_control_plane::{Assets, eventually};
use serde_json::json;

use crate::support::{Cluster, SOON, claims_of, made, pod};

const PODS: usize = 50;
/// A create, and three times the record of each of two claims: what an entry gets before we leave it to the other.
const MOST_WRITES_AN_ENTRY: usize = 4;
/// That twice, and a record after a minute of each.
const MOST_WRITES_BESIDE: usize = 10;
/// What is deleted of a pod that is done before we leave it to the other: three claims of the other, and one of ours.
const MOST_DELETES_A_POD: usize = 4;
/// How long nothing of ours may be written to be at peace: less than the first back-off of a minute.
const PEACE: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_the_built_in_loop_next_to_ours_starts_no_war_about_statuses() {
    let cluster = Cluster::with_template().await;
    let replica = cluster.start_leading(&[]).await;
    let built_in = cluster.start_built_in(" resource claim controller").await;
    gated_pods(&cluster, &["a", "b"]).await;
    let begun = peace(&cluster).await;
    assert!(begun <= PODS * 2 * MOST_WRITES_AN_ENTRY, "{begun} writes");

    // Before 1.37 the built-in loop records what is new of a pod, and so drops the rest, which it records then, and so on
    // for ever.
    for pod in cluster.all("Pod").await {
        if let Some(claim) = claims_of(&pod).get("b") {
            cluster.delete("ResourceClaim", claim).await;
        }
    }
    let writes = peace(&cluster).await - begun;
    assert!(writes <= PODS * 2 * MOST_WRITES_AN_ENTRY, "{writes} writes");
    let written = cluster.written_next_to_ours().await.all;
    assert!(written <= PODS * 2 * MOST_WRITES_BESIDE, "{written} writes");
    // Since 1.37 it keeps what is recorded, and there is nothing to fight about.
    let fights = Assets::find().unwrap().minor().unwrap() < 37;
    assert_eq!(replica.said("\"manager\""), usize::from(fights));
    if fights {
        assert!(replica.metric("controller_rival_writes_total", "").await >= 3);
    }

    drop(built_in);
    let all = async || (recorded(&cluster).await.len() == PODS * 2).then_some(());
    eventually(SOON * 6, "all claims are recorded", all)
        .await
        .unwrap();
    assert_eq!(replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
async fn live_the_built_in_loop_next_to_ours_starts_no_war_about_pods_that_are_done() {
    let cluster = Cluster::with_template().await;
    let replica = cluster.start_leading(&[]).await;
    let built_in = cluster.start_built_in(" resource claim controller").await;
    gated_pods(&cluster, &["a"]).await;
    let begun = peace(&cluster).await;
    // The built-in loop makes the claim of a pod that is done anew, for each that is deleted.
    for number in 0..PODS {
        cluster.finish(&format!("pod-{number}")).await;
    }
    let writes = peace(&cluster).await - begun;
    assert!(writes <= PODS * MOST_DELETES_A_POD, "{writes} writes");

    drop(built_in);
    let none = async || cluster.all("ResourceClaim").await.is_empty().then_some(());
    eventually(SOON * 6, "all claims are given back", none)
        .await
        .unwrap();
    assert_eq!(replica.stop().await, Some(0));
}

/// Gated, so that no claim is allocated.
async fn gated_pods(cluster: &Cluster, entries: &[&str]) {
    let entries: Vec<_> = entries.iter().map(|entry| made(entry)).collect();
    for number in 0..PODS {
        let mut gated = pod(&format!("pod-{number}"), &entries);
        gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
        cluster.create(gated).await;
    }
}

/// Waits until we write no more; how much we have written so far.
async fn peace(cluster: &Cluster) -> usize {
    let clock = Clock::system();
    let mut last = (0, clock.instant());
    let quiet = async || {
        let requests = cluster.requests();
        let of_claims = requests.iter().filter(|asked| {
            asked.is("patch", "pods/status")
                || asked.is("create", "resourceclaims")
                || asked.is("delete", "resourceclaims")
        });
        let writes = of_claims.count();
        if writes != last.0 {
            last = (writes, clock.instant());
        }
        (writes > 0 && last.1.elapsed() > PEACE).then_some(writes)
    };
    eventually(SOON * 4, "we write no more", quiet).await.unwrap()
}

/// The claims that the statuses of pods name and that are there.
async fn recorded(cluster: &Cluster) -> BTreeSet<String> {
    let claims = cluster.all("ResourceClaim").await;
    let there = claims
        .iter()
        .filter_map(|claim| claim["metadata"]["name"].as_str());
    let there: BTreeSet<_> = there.collect();
    let pods = cluster.all("Pod").await;
    let recorded = pods.iter().flat_map(|pod| claims_of(pod).into_values());
    recorded.filter(|claim| there.contains(&**claim)).collect()
}
