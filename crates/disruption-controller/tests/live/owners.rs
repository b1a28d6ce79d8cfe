//! Pods whose controller has no scale, with the permissions of the chart and `rbac.extraRules`.

use std::time::Duration;

use serde_json::json;

use crate::budget::numbers;
use crate::support::{Budgets, Cluster};

/// How long a custom resource's scale may be old: it is read again every 30 s.
const REREAD: Duration = Duration::from_secs(35);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_pods_without_a_scale_count_by_the_owner_above_or_as_they_exist() {
    let cluster = Cluster::with_owners().await;
    for (kind, scales) in [
        ("Fleet", true),
        ("Gadget", false),
        ("Gizmo", false),
        ("Lone", false),
    ] {
        cluster.define(kind, scales).await;
    }
    let fleet = cluster.custom("Fleet", "fleet", 4).await;
    for app in ["gadget", "gizmo", "lone"] {
        cluster.pdb(app, "maxUnavailable", json!(1)).await;
    }
    for number in 0..4 {
        cluster
            .below("Gadget", &format!("gadget-{number}"), "gadget", &fleet)
            .await;
        // The chart grants no right to read these.
        cluster
            .below("Gizmo", &format!("gizmo-{number}"), "gizmo", &fleet)
            .await;
    }
    let lone = cluster.custom("Lone", "lone", 1).await;
    cluster.some_pods("lone", 3, Some(&lone)).await;
    let flags = ["--owner-chain", "--scale-less-owners=Lone.example.com"];
    let replica = cluster.start_leading(&flags).await;

    cluster.until("gadget", numbers(1, 4, 3, 4)).await;
    let way = "True SufficientPods expected: the scale of Fleet fleet, above Gadget";
    cluster.until_condition("gadget", way).await;
    cluster.until("lone", numbers(1, 3, 2, 3)).await;
    let way = "True SufficientPods expected: the pods of Lone.example.com that exist";
    cluster.until_condition("lone", way).await;
    cluster.until("gizmo", numbers(0, 4, 0, 0)).await;
    let refused = cluster.status("gizmo").await["conditions"][0].clone();
    assert_eq!(refused["reason"], "SyncFailed");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("cannot get resource \"gizmos\" in API group \"example.com\""),
        "{message}"
    );

    // One goes, and no other.
    for app in ["gadget", "lone"] {
        assert_eq!(cluster.evict(&format!("{app}-0")).await, 201);
        assert_eq!(cluster.evict(&format!("{app}-1")).await, 429);
    }
    assert_eq!(cluster.evict("gizmo-0").await, 429);
    cluster
        .merge("Fleet", "fleet", json!({"spec": {"replicas": 2}}))
        .await;
    // Four pods exist, so four are expected, whatever the owner wants.
    cluster.until_late("gadget", numbers(0, 3, 3, 4), REREAD).await;
    assert_eq!(replica.stop().await, Some(0));
}
