//! What one tenant makes keeps no other one waiting.

use controller_testing::cluster::now;
use controller_testing::long_or_short;
use jiff::SignedDuration;
use serde_json::json;

use crate::budget::numbers;
use crate::support::{AT_ONCE, Budgets, Cluster};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_made_up_controllers_of_one_tenant_keep_no_other_budget_waiting() {
    let cluster = Cluster::new().await;
    cluster.some_pods("good", 1, None).await;
    cluster.pdb("good", "minAvailable", json!(1)).await;
    cluster
        .create(json!({"kind": "Namespace", "metadata": {"name": "tenant"}}))
        .await;
    let bad = |number: usize| {
        json!({
            "kind": "Pod",
            "metadata": {
                "namespace": "tenant", "name": format!("bad-{number}"), "labels": {"app": "bad"},
                "ownerReferences": [{
                    "apiVersion": format!("made-up-{number}.example.com/v1"), "kind": "Widget", "name": "web",
                    "uid": format!("made-up-{number}"), "controller": true,
                }],
            },
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        })
    };
    cluster.create_all((0..long_or_short(1_000, 300)).map(bad)).await;
    let replica = cluster.start_leading(&[]).await;
    cluster.until("good", numbers(0, 1, 1, 1)).await;

    cluster
        .create(json!({
            "kind": "PodDisruptionBudget", "metadata": {"namespace": "tenant", "name": "bad"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "bad"}}},
        }))
        .await;
    let begun = now();
    cluster.ready("good-0", false).await;
    let status = cluster
        .patched("poddisruptionbudgets/status", "good", begun)
        .await;
    let within = long_or_short(SignedDuration::from_secs(1), AT_ONCE);
    assert!(status.answered <= begun + within, "{begun} {status:?}");
    cluster.until("good", numbers(0, 0, 1, 1)).await;
    assert_eq!(replica.stop().await, Some(0));
}
