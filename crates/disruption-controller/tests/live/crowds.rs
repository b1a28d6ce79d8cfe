//! What one tenant makes in masses, or has hang, keeps no other one waiting, and costs little.

use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::audit::writes_to;
use controller_testing::cluster::{now, shipped_or_debug};
use controller_testing::objects::owner;
use controller_testing::silence::Silence;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use local_control_plane::eventually;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::budget::{definition, numbers};
use crate::support::{BUILT, Budgets, Cluster, set_ready, writes_a_status};

const TENANT: &str = "tenant";
/// How long anything may take, so that a slow binary shows how slow it is.
const WITHIN: Duration = Duration::from_mins(10);
/// How long a binary is left alone before it is measured.
const REST: Duration = Duration::from_secs(10);

fn budget(name: &str, selector: &Value, field: &str, amount: u32) -> Value {
    json!({
        "kind": "PodDisruptionBudget", "metadata": {"namespace": TENANT, "name": name},
        "spec": {"selector": selector, field: amount},
    })
}

fn pod(name: &str, app: &str) -> Value {
    json!({
        "kind": "Pod", "metadata": {"namespace": TENANT, "name": name, "labels": {"app": app}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    })
}

/// Waits until every budget of the tenant has a status.
async fn until_computed(cluster: &Cluster) {
    let computed = async || {
        let written = cluster.requests();
        let written = written
            .iter()
            .filter(|asked| writes_a_status(asked) && asked.namespace == TENANT);
        let names: std::collections::BTreeSet<_> = written.map(|asked| &asked.name).collect();
        let budgets = cluster.api_in(TENANT, "PodDisruptionBudget");
        let all = budgets
            .list_metadata(&kube::api::ListParams::default())
            .await
            .unwrap();
        (names.len() == all.items.len()).then_some(())
    };
    eventually(WITHIN, "all budgets are computed", computed)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
#[allow(clippy::print_stdout, reason = "the figures")]
async fn live_budgets_with_as_many_values_as_fit_cost_little_memory() {
    const BUDGETS: usize = 4;
    const VALUES: usize = 150_000;
    const MEMORY: u64 = 64 << 20;
    let cluster = Cluster::new().await;
    cluster.namespace(TENANT).await;
    let replica = cluster.start_leading(&[]).await;
    let clock = Clock::system();
    clock.sleep(REST).await;
    let before = replica.process.usage().unwrap();
    for number in 0..BUDGETS {
        let values: Vec<String> = (0..VALUES).map(|value| value.to_string()).collect();
        let selector = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": values}]});
        cluster
            .create(budget(&format!("long-{number}"), &selector, "minAvailable", 1))
            .await;
    }
    until_computed(&cluster).await;
    clock.sleep(REST).await;
    let after = replica.process.usage().unwrap();
    let cost = after.rss.saturating_sub(before.rss);
    println!(
        "{BUDGETS} budgets of {VALUES} values: {} MiB after {}, peak {}",
        after.rss >> 20,
        before.rss >> 20,
        after.peak_rss >> 20
    );
    assert!(cost <= MEMORY, "{} MiB", cost >> 20);
    assert_eq!(replica.stop().await, Some(0));
}

/// A pod of the tenant is ready, and is not, all the time.
fn flap(cluster: &Cluster, name: &'static str) -> JoinSet<()> {
    const EVERY: Duration = Duration::from_millis(50);
    let pods: Api<Pod> = Api::namespaced(cluster.control_plane.client(), TENANT);
    let mut flapping = JoinSet::new();
    flapping.spawn(async move {
        let clock = Clock::system();
        for flip in 0_usize.. {
            set_ready(&pods, name, flip.is_multiple_of(2)).await.unwrap();
            clock.sleep(EVERY).await;
        }
    });
    flapping
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
#[allow(clippy::print_stdout, reason = "the figures")]
async fn live_budgets_over_a_flapping_pod_put_off_no_other_decrease() {
    const OTHERS: usize = 8;
    const EVERY: Duration = Duration::from_secs(3);
    /// Of a binary as it ships: a debug build has a core to itself too seldom.
    const AT_MOST: SignedDuration = SignedDuration::from_secs(2);
    let budgets = shipped_or_debug(BUILT, 2_000, 500);
    let cluster = Cluster::new().await;
    cluster.namespace(TENANT).await;
    cluster.create(pod("flapping", "flapping")).await;
    let selector = json!({"matchLabels": {"app": "flapping"}});
    let crowd = (0..budgets).map(|number| budget(&format!("crowd-{number}"), &selector, "minAvailable", 0));
    cluster.create_all(crowd).await;
    // The tenant next to it: each of its budgets has one decrease.
    let others: Vec<String> = (0..OTHERS).map(|number| format!("other-{number}")).collect();
    for other in &others {
        cluster.pdb(other, "minAvailable", json!(0)).await;
        cluster.some_pods(other, 1, None).await;
    }
    let replica = cluster.start_leading(&[]).await;
    for other in &others {
        cluster.until_late(other, numbers(1, 1, 0, 1), WITHIN).await;
    }
    until_computed(&cluster).await;

    let _flapping = flap(&cluster, "flapping");
    let clock = Clock::system();
    let mut spans = Vec::new();
    for other in &others {
        clock.sleep(EVERY).await;
        let begun = now();
        cluster.ready(&format!("{other}-0"), false).await;
        let decreased = async || {
            let mut requests = cluster.requests().into_iter().rev();
            requests.find(|asked| writes_a_status(asked) && asked.name == *other && asked.answered >= begun)
        };
        let decreased = eventually(WITHIN, "the other tenant's budget is decreased", decreased).await;
        spans.push((begun, decreased.unwrap().answered));
        cluster.until(other, numbers(0, 0, 0, 1)).await;
    }
    let requests = cluster.requests();
    let ahead = spans.iter().map(|span| writes_to(&requests, TENANT, *span));
    let ahead: Vec<usize> = ahead.collect();
    let waits = spans.iter().map(|(from, to)| to.duration_since(*from));
    let waits: Vec<SignedDuration> = waits.collect();
    let longest = waits.iter().max().unwrap();
    println!(
        "{budgets} budgets over a flapping pod: others decreased after {ahead:?} of its writes, {waits:?}"
    );
    // In the order of the queue nearly all would go ahead.
    assert!(ahead.iter().all(|writes| *writes <= budgets / 2), "{ahead:?}");
    assert!(
        *longest <= shipped_or_debug(BUILT, AT_MOST, SignedDuration::MAX),
        "{longest:#}"
    );
    assert_eq!(replica.stop().await, Some(0));
}

/// A kind of whose objects the API server must ask a webhook that never answers, to show them as they are in `v2`.
async fn define_one_that_hangs(cluster: &Cluster) -> Silence {
    let webhook = Silence::listen().await;
    let mut kind = definition("Gadget", true);
    let mut second = kind["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(false);
    kind["spec"]["versions"].as_array_mut().unwrap().push(second);
    kind["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": webhook.url()}, "conversionReviewVersions": ["v1"]},
    });
    cluster.define_as(kind, "Gadget").await;
    webhook
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
#[allow(clippy::print_stdout, reason = "the figures")]
async fn live_budgets_over_scales_that_hang_cost_little_cpu() {
    const MEASURED: Duration = Duration::from_secs(20);
    /// Of one core.
    const SHARE: f64 = 0.2;
    let budgets = shipped_or_debug(BUILT, 1_000, 200);
    let cluster = Cluster::new().await;
    cluster.namespace(TENANT).await;
    let webhook = define_one_that_hangs(&cluster).await;
    let names = || (0..budgets).map(|number| format!("g-{number}"));
    let gadget = |name| json!({"kind": "Gadget", "metadata": {"namespace": TENANT, "name": name}, "spec": {"replicas": 1}});
    cluster.create_all(names().map(gadget)).await;
    let gadgets = cluster.api_in(TENANT, "Gadget");
    let gadgets = gadgets.list(&kube::api::ListParams::default()).await.unwrap();
    let owned = gadgets.iter().map(|gadget| {
        let name = gadget.metadata.name.as_ref().unwrap();
        let mut pod = pod(name, name);
        let mut controller = owner(&serde_json::to_value(gadget).unwrap());
        controller["apiVersion"] = json!("example.com/v2");
        controller["kind"] = json!("Gadget");
        pod["metadata"]["ownerReferences"] = json!([controller]);
        pod
    });
    cluster.create_all(owned).await;
    let over = |name: String| budget(&name, &json!({"matchLabels": {"app": name}}), "maxUnavailable", 1);
    cluster.create_all(names().map(over)).await;

    let replica = cluster.start_leading(&[]).await;
    webhook.until_asked(1).await;
    let clock = Clock::system();
    clock.sleep(REST).await;
    let before = replica.process.usage().unwrap();
    clock.sleep(MEASURED).await;
    let after = replica.process.usage().unwrap();
    let share = after.cpu.saturating_sub(before.cpu).as_secs_f64() / MEASURED.as_secs_f64();
    println!(
        "{budgets} budgets over scales that hang: {share:.3} of a core, {} connections",
        webhook.connections()
    );
    let limit = shipped_or_debug(BUILT, SHARE, 5.0 * SHARE);
    assert!(share < limit, "{share:.3} of a core");
    assert_eq!(replica.stop().await, Some(0));
}
