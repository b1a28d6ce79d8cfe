//! The brake, and evictions through budgets, with the permissions of the chart.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::support::{Cluster, DELETIONS, Evicted, For, NAME, SOON, now, until};
use kube::api::{Patch, PatchParams};

const ENGAGED: &str = "taint_eviction_controller_brake_engaged";
const WAITING: &str = "taint_eviction_controller_evictions_waiting_for_budgets";
/// For so long nothing may go.
const HELD: SignedDuration = SignedDuration::from_mins(1);
const LIMITED: [&str; 2] = ["--eviction-brake-pods=50", "--eviction-brake-window=45s"];
/// A window, for as long as the last leader said that it may evict, and some more.
const A_WINDOW: Duration = Duration::from_secs(45 + 90 + 30);

impl Cluster {
    /// Makes a node with pods, which its taint evicts.
    async fn tainted(&self, node: &str, pods: usize) {
        self.create(json!({"kind": "Node", "metadata": {"name": node}}))
            .await;
        self.pods(pods, node, node, For::No).await;
        self.taint(node).await;
    }

    async fn annotate(&self, value: &str) {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"eviction-brake-off-until": value}}}));
        let leases = self.api_in("kube-system", "Lease");
        leases.patch(NAME, &PatchParams::default(), &patch).await.unwrap();
    }
}

fn later(duration: SignedDuration) -> Timestamp {
    now().checked_add(duration).unwrap()
}

/// 200 pods at once, of which none goes; then so few that they go; then a trickle, a failover, and a person.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_more_than_the_limit_waits_whatever_happens_until_a_person_lets_it_go() {
    let cluster = Cluster::with_nodes([]).await;
    let replica = cluster.start_leading(&LIMITED).await;
    cluster.tainted("many", 160).await;
    cluster.tainted("few", 40).await;
    replica.until_metric(ENGAGED, "", 1).await;
    until(later(HELD)).await;
    assert_eq!(cluster.deleting("Pod").await, 0);
    let explained = cluster
        .subcommand(&["explain", "default/few-0", LIMITED[0]])
        .await
        .0;
    assert!(explained.contains(", held back by the brake: "), "{explained}");

    cluster.untaint("many").await;
    cluster.until_evicted(40, SOON).await;
    replica.until_metric(ENGAGED, "", 0).await;

    let standby = cluster.start(&LIMITED);
    for node in ["trickle-1", "trickle-2"] {
        cluster.tainted(node, 5).await;
    }
    cluster.until_evicted(50, SOON).await;
    cluster.tainted("trickle-3", 5).await;
    replica.until_metric(ENGAGED, "", 1).await;
    assert_eq!(cluster.deleting("Pod").await, 50);

    drop(replica);
    standby.until_leading().await;
    let leads = now();
    cluster.until_evicted(55, A_WINDOW).await;
    let deletes = cluster.deleted_at(55).await;
    let last = deletes.lags("trickle-3", leads);
    assert!(
        last.iter().all(|(_, lag)| *lag > SignedDuration::from_secs(20)),
        "{last:?}"
    );

    cluster.tainted("more", 60).await;
    standby.until_metric(ENGAGED, "", 1).await;
    cluster
        .annotate(&later(SignedDuration::from_hours(25)).to_string())
        .await;
    until(later(SignedDuration::from_secs(7))).await;
    assert_eq!(cluster.deleting("Pod").await, 55);
    cluster
        .annotate(&later(SignedDuration::from_hours(1)).to_string())
        .await;
    cluster.until_evicted(115, SOON).await;
    standby.until_metric(DELETIONS, "", 65).await;
    assert_eq!(standby.stop().await, Some(0));
    assert_eq!(cluster.refused(), []);
    assert_eq!(cluster.beyond(), []);
}

/// With a budget that lets nothing go, under audit: the permissions are enough.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_pods_wait_for_their_budget_and_are_deleted_when_the_wait_is_over() {
    let cluster = Cluster::through_budgets(["n"]).await;
    cluster.pods(3, "p", "n", For::No).await;
    cluster
        .merge("Pod", "p-0", json!({"metadata": {"labels": {"app": "free"}}}))
        .await;
    for pod in ["p-1", "p-2"] {
        cluster
            .merge("Pod", pod, json!({"metadata": {"labels": {"app": "held"}}}))
            .await;
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        cluster.merge_status("Pod", pod, ready).await;
    }
    cluster
        .create(json!({
            "kind": "PodDisruptionBudget", "metadata": {"namespace": "default", "name": "b"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "held"}}},
        }))
        .await;
    let replica = cluster.start_leading(&["--evict-through-budgets=k:20s"]).await;
    cluster.taint("n").await;
    cluster.until_evicted(1, SOON).await;
    replica.until_metric(WAITING, "", 2).await;
    cluster.until_evicted(3, Duration::from_mins(1)).await;
    let deletes = cluster.deleted_at(2).await;
    let lags = deletes.lags("p", cluster.tainted_at("n").await);
    assert!(
        lags.iter().all(|(_, lag)| *lag >= SignedDuration::from_secs(20)),
        "{lags:?}"
    );
    let explained = cluster.explain("p-0").await;
    assert!(explained.contains("being deleted"), "{explained}");
    let requests = cluster.requests();
    let tries = requests
        .iter()
        .filter(|asked| asked.is("create", "pods/eviction"));
    let codes: BTreeSet<_> = tries.map(|asked| asked.code).collect();
    assert_eq!(codes, BTreeSet::from([201, 429]));
    assert_eq!(replica.stop().await, Some(0));
    assert_eq!(cluster.refused(), []);
    assert_eq!(cluster.beyond(), []);
}
