//! What one tenant makes in masses, or has hang, keeps no other one waiting.
//!
//! No scheduler and no kubelet runs: claims are made for pods without a node.

use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::audit::{Asked, writes_to};
use controller_testing::cluster::{Cluster, shipped_or_debug};
use controller_testing::silence::HELD;
use controller_testing::soon;
use jiff::{SignedDuration, Timestamp};
use local_control_plane::eventually;
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{BUILT, Setup, TEMPLATE, claims_of, made, pod};

const TENANT: &str = "tenant";
const OTHER: &str = "other";
/// How long one pod of another tenant comes after the other.
const EVERY: Duration = Duration::from_secs(2);
/// How long anything may take, so that a slow binary shows how slow it is.
const WITHIN: Duration = Duration::from_mins(10);
/// Within which another tenant's pod has its claim, from a binary as it ships.
const AT_MOST: SignedDuration = SignedDuration::from_millis(1_100);
const ALIVE_WITHIN: Duration = Duration::from_millis(200);

/// Ours with two tenants, each with a template.
async fn cluster() -> Cluster {
    let cluster = Cluster::new(Setup::PLAIN.chart(), BUILT).await;
    for namespace in [TENANT, OTHER] {
        cluster.namespace(namespace).await;
        let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu"}});
        cluster
            .create(json!({
                "kind": "ResourceClaimTemplate", "metadata": {"namespace": namespace, "name": TEMPLATE},
                "spec": {"spec": {"devices": {"requests": [request]}}},
            }))
            .await;
    }
    cluster
}

/// A pod with this number of entries for which claims are made. No container names them.
fn crowded(namespace: &str, name: &str, entries: usize) -> Value {
    let entries: Vec<Value> = (0..entries).map(|entry| made(&format!("e-{entry}"))).collect();
    let mut pod = pod(name, &entries);
    pod["metadata"]["namespace"] = json!(namespace);
    pod["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
    pod
}

/// How many claims the pods of a tenant say that they have.
async fn told(cluster: &Cluster, namespace: &str) -> usize {
    let pods = cluster.api_in(namespace, "Pod");
    let pods = pods.list(&kube::api::ListParams::default()).await.unwrap();
    let told = pods.iter().map(|pod| claims_of(&pod.data).len());
    told.sum()
}

/// Makes a pod of the other tenant and waits until it has its claim.
async fn serve_another(cluster: &Cluster, number: usize) {
    cluster.create(crowded(OTHER, &format!("p-{number}"), 1)).await;
    let served = async || (told(cluster, OTHER).await == number + 1).then_some(());
    eventually(WITHIN, "the other tenant's pod has its claim", served)
        .await
        .unwrap();
}

/// When each pod of the other tenant was made, and its claim. There is one pod at a time.
fn spans(requests: &[Asked]) -> Vec<(Timestamp, Timestamp)> {
    let made = |asked: &&Asked| asked.namespace == OTHER && asked.verb == "create" && asked.code == 201;
    let of = |resource: &'static str| {
        let of_it = requests
            .iter()
            .filter(made)
            .filter(move |asked| asked.resource == resource);
        of_it.map(|asked| asked.answered)
    };
    of("pods").zip(of("resourceclaims")).collect()
}

fn waits(spans: &[(Timestamp, Timestamp)]) -> Vec<SignedDuration> {
    spans
        .iter()
        .map(|(pod, claim)| claim.duration_since(*pod))
        .collect()
}

#[rstest]
#[case::of_ten_pods(10, 500)]
#[case::of_one_pod(1, 4_000)]
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
#[allow(clippy::print_stdout, reason = "the figures")]
async fn live_thousands_of_entries_keep_no_other_pod_waiting(#[case] pods: usize, #[case] entries: usize) {
    const CPU: Duration = Duration::from_secs(4);
    let entries = shipped_or_debug(BUILT, entries, entries / 5);
    let cluster = cluster().await;
    let replica = cluster.start_leading(&[]).await;
    let pulse = replica.pulse().await;
    let clock = Clock::system();
    let before = replica.process.usage().unwrap();

    let crowd = (0..pods).map(|number| crowded(TENANT, &format!("crowd-{number}"), entries));
    cluster.create_all(crowd).await;
    let begun = clock.instant();
    let mut served = 0;
    while told(&cluster, TENANT).await < pods * entries {
        assert!(begun.elapsed() < WITHIN, "{served} others were served meanwhile");
        serve_another(&cluster, served).await;
        served += 1;
        clock.sleep(EVERY).await;
    }
    let took = begun.elapsed();
    let after = replica.process.usage().unwrap();
    let cpu = after.cpu.saturating_sub(before.cpu);
    let spans = spans(&cluster.all_requests());
    let (slowest, waits) = (pulse.slowest(), waits(&spans));
    let ours = cluster.requests();
    let ahead = spans.iter().map(|span| writes_to(&ours, TENANT, *span));
    let ahead: Vec<usize> = ahead.collect();
    let longest = waits.iter().max().unwrap();
    println!(
        "{pods} of {entries}: {took:.1?}, {cpu:.1?} of CPU, peak {} MiB",
        after.peak_rss >> 20
    );
    println!(
        "/livez within {slowest:.1?}, claims of {served} others after {ahead:?} of its writes, {waits:?}"
    );
    assert_eq!(waits.len(), served);
    assert!(served > 5, "the others came too late");
    let most = pods * entries / 4;
    assert!(ahead.iter().all(|writes| *writes <= most), "{ahead:?}");
    assert!(
        *longest <= shipped_or_debug(BUILT, AT_MOST, SignedDuration::MAX),
        "{longest:#}"
    );
    assert!(
        slowest <= shipped_or_debug(BUILT, ALIVE_WITHIN, ALIVE_WITHIN * 5),
        "{slowest:?}"
    );
    if pods == 1 {
        assert!(cpu <= shipped_or_debug(BUILT, CPU, CPU * 10), "{cpu:?} of CPU");
    }
    assert_eq!(replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane with all programs: cargo xtask test"]
#[allow(clippy::print_stdout, reason = "the figures")]
async fn live_claims_behind_a_webhook_that_hangs_keep_no_other_pod_waiting() {
    const PODS: usize = 400;
    let cluster = cluster().await;
    let webhook = cluster.hang(TENANT, "ResourceClaim", "CREATE").await;
    let crowd = (0..PODS).map(|number| crowded(TENANT, &format!("crowd-{number}"), 1));
    cluster.create_all(crowd).await;
    let replica = cluster.start_leading(&[]).await;
    webhook.until_asked(5).await;
    // From the first tries on, and until the first ones are tried again.
    let clock = Clock::system();
    for number in 0..10 {
        serve_another(&cluster, number).await;
        clock.sleep(EVERY).await;
    }
    let logged = async || Some(waits(&spans(&cluster.all_requests()))).filter(|waits| waits.len() == 10);
    let waits = soon("the audit log has them all", logged).await;
    let longest = waits.iter().max().unwrap();
    println!(
        "{} connections; others within {longest:#}: {waits:?}",
        webhook.connections()
    );
    assert!(*longest < HELD / 2, "{longest:#}");
    assert_eq!(told(&cluster, TENANT).await, 0);
    // What hangs may take as long as a drain.
    drop(webhook);
    assert_eq!(replica.stop().await, Some(0));
}
