//! Claims that are taken back while the scheduler binds others.

use std::time::Duration;

use controller_testing::audit::{self, Asked};
use controller_testing::long_or_short;
use futures::{StreamExt, stream};
use local_control_plane::eventually;
use serde_json::Value;

use crate::support::{Cluster, NAME, Setup, is_free, made, named};

/// Fewer than the pods ask for, so that most of them wait until others are done.
const DEVICES: usize = 40;
const WITHIN: Duration = Duration::from_mins(5);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
#[allow(clippy::print_stdout, reason = "what a run of it was worth")]
async fn live_the_scheduler_meets_no_conflict_because_of_us() {
    let cluster = Cluster::with(Setup {
        devices: DEVICES,
        ..Setup::PLAIN
    })
    .await;
    cluster.template().await;
    let replica = cluster.start_leading(&[]).await;
    let pods = long_or_short(300, 100);
    let create = stream::iter(0..pods).for_each_concurrent(16, async |number| {
        cluster.pod(&format!("p-{number}"), &["a", "b"].map(made)).await;
    });
    tokio::join!(create, finish_all(&cluster, pods));
    let none = async || cluster.all("ResourceClaim").await.is_empty().then_some(());
    eventually(WITHIN, "all claims are given back", none)
        .await
        .unwrap();
    cluster.kubelet.assert_sound();
    assert_eq!(replica.stop().await, Some(0));

    let requests = audit::requests(&cluster.control_plane);
    let bound = |asked: &&Asked| asked.is("update", "resourceclaims/status") && asked.code == 200;
    let bound: Vec<&Asked> = requests.iter().filter(bound).collect();
    let (first, last) = (bound[0].received, bound[bound.len() - 1].answered);
    let among = requests
        .iter()
        .filter(|asked| asked.is_by(NAME) && asked.is("patch", "resourceclaims/status"))
        .filter(|asked| first < asked.received && asked.answered < last);
    let (among, conflicts) = (among.count(), conflicts_of_others(&requests));
    println!(
        "{} bound, {among} freed meanwhile, {} conflicts of others",
        bound.len(),
        conflicts.len()
    );
    // Or hardly any of our writes could have met one of the scheduler's.
    assert!(bound.len() >= 2 * pods && among >= pods);
    let ours = conflicts
        .into_iter()
        .filter_map(|conflict| lost_against_us(&requests, conflict));
    let ours: Vec<&Asked> = ours.collect();
    assert!(ours.is_empty(), "{ours:#?}");
}

/// A claim that is freed is at once bound again, for the next pod, which the scheduler may have put next to the one before.
/// That we free the claim is then news to it; that we tidy up after that must never be.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
#[allow(clippy::print_stdout, reason = "what a run of it was worth")]
async fn live_claims_are_handed_from_pod_to_pod() {
    const CLAIMS: usize = 10;
    let hands = long_or_short(20, 8);
    let cluster = Cluster::with(Setup {
        devices: CLAIMS,
        ..Setup::PLAIN
    })
    .await;
    let controller = cluster.controller().await;
    stream::iter(0..CLAIMS)
        .for_each_concurrent(None, async |claim| {
            let name = format!("c-{claim}");
            cluster.claim(&name).await;
            for hand in 0..hands {
                let pod = format!("p-{claim}-{hand}");
                cluster.pod(&pod, &[named("gpu", &name)]).await;
                cluster.until_running(&pod).await;
                cluster.finish(&pod).await;
            }
            cluster
                .until_is("ResourceClaim", &name, "it is free", is_free)
                .await;
        })
        .await;
    cluster.kubelet.assert_sound();
    controller.stop().await;
    let requests = audit::requests(&cluster.control_plane);
    let conflicts = conflicts_of_others(&requests);
    let with_us = conflicts
        .iter()
        .filter_map(|conflict| lost_against_us(&requests, conflict));
    let with_us: Vec<&Asked> = with_us.collect();
    println!(
        "{} conflicts of others, {} with us",
        conflicts.len(),
        with_us.len()
    );
    assert!(
        with_us
            .iter()
            .all(|write| write.is("patch", "resourceclaims/status")),
        "{with_us:#?}"
    );
}

/// Has each pod end well as soon as it runs.
async fn finish_all(cluster: &Cluster, count: usize) {
    let all_done = async || {
        let pods = cluster.all("Pod").await;
        let in_phase = |phase: &'static str| {
            let is = move |pod: &&Value| pod["status"]["phase"] == phase;
            pods.iter().filter(is).map(name).collect::<Vec<_>>()
        };
        for pod in in_phase("Running") {
            cluster.finish(pod).await;
        }
        (in_phase("Succeeded").len() == count).then_some(())
    };
    eventually(WITHIN, "all pods are done", all_done).await.unwrap();
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

fn is_of_claim(asked: &Asked) -> bool {
    ["resourceclaims", "resourceclaims/status"].contains(&asked.resource.as_str())
}

/// Writes of claims by others that lost against another write.
fn conflicts_of_others(requests: &[Asked]) -> Vec<&Asked> {
    let lost = |asked: &&Asked| asked.code == 409 && is_of_claim(asked) && !asked.is_by(NAME);
    requests.iter().filter(lost).collect()
}

/// The write against which it lost, the last one of this claim before, if that was ours.
fn lost_against_us<'a>(requests: &'a [Asked], conflict: &Asked) -> Option<&'a Asked> {
    let writes = requests.iter().filter(|asked| {
        is_of_claim(asked)
            && asked.name == conflict.name
            && ["patch", "update", "delete"].contains(&asked.verb.as_str())
            && (200..300).contains(&asked.code)
            && asked.received < conflict.answered
    });
    let last = writes.max_by_key(|asked| asked.answered);
    last.filter(|asked| asked.is_by(NAME))
}
