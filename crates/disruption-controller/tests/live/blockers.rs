//! What `blockers` says of each pod, next to what the Eviction API answers.

use std::collections::BTreeSet;

use controller_testing::cluster::{kubectl, until};
use controller_testing::fault_history::Draw;
use serde_json::{Value, json};

use crate::support::{Budgets, Cluster, SOON};

const WORLDS: u64 = 40;

/// Makes a controller, if the world has one.
async fn controller(cluster: &Cluster, draw: &mut Draw, app: &str, replicas: i64) -> Option<Value> {
    let kinds = [
        "",
        "ReplicationController",
        "ReplicaSet",
        "StatefulSet",
        "Deployment",
        "Widget",
        "Gadget",
    ];
    Some(match draw.pick(&kinds) {
        "" => return None,
        "Deployment" => {
            let deployment = cluster.workload("Deployment", app, replicas, None).await;
            cluster
                .workload("ReplicaSet", app, replicas, Some(&deployment))
                .await
        }
        kind @ ("Widget" | "Gadget") => cluster.custom(kind, app, replicas).await,
        kind => cluster.workload(kind, app, replicas, None).await,
    })
}

async fn budget(cluster: &Cluster, draw: &mut Draw, name: &str, app: &str) {
    let field = draw.pick(&["minAvailable", "maxUnavailable"]);
    let amounts = [
        json!(0),
        json!(1),
        json!(2),
        json!("0%"),
        json!("50%"),
        json!("100%"),
    ];
    let mut spec = json!({
        "selector": {"matchLabels": {"app": app}},
        "unhealthyPodEvictionPolicy": draw.pick(&["AlwaysAllow", "IfHealthyBudget"]),
    });
    spec[field] = draw.pick(&amounts);
    cluster
        .create(json!({"kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}))
        .await;
}

/// Makes a pod in one of the states that count.
async fn pod(cluster: &Cluster, draw: &mut Draw, app: &str, name: &str, controller: Option<&Value>) {
    cluster.pod(app, name, controller).await;
    match draw.number(0..8) {
        0 | 1 => cluster.ready(name, false).await,
        2 => cluster.delete("Pod", name).await,
        3 => phase(cluster, name, "Succeeded").await,
        4 => phase(cluster, name, "Pending").await,
        _ => {}
    }
}

async fn phase(cluster: &Cluster, pod: &str, phase: &str) {
    cluster.merge_status("Pod", pod, json!({"phase": phase})).await;
}

async fn world(cluster: &Cluster, seed: u64) {
    let draw = &mut Draw::new(seed, 0);
    let app = format!("w{seed}");
    let replicas = draw.number(1..4);
    let controller = controller(cluster, draw, &app, i64::try_from(replicas).unwrap()).await;
    for number in 0..draw.pick(&[0, 1, 1, 1, 2]) {
        budget(cluster, draw, &format!("{app}-{number}"), &app).await;
    }
    for number in 0..draw.number(1..replicas + 2) {
        pod(
            cluster,
            draw,
            &app,
            &format!("{app}-{number}"),
            controller.as_ref(),
        )
        .await;
    }
}

/// The items of the report on every pod.
async fn items(cluster: &Cluster) -> Vec<Value> {
    let (text, code) = cluster.subcommand(&["blockers", "--output=json"]).await;
    assert_eq!(code, Some(3), "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    report["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_blockers_says_of_each_pod_what_the_eviction_api_answers() {
    let cluster = Cluster::new().await;
    cluster.define("Widget", true).await;
    cluster.define("Gadget", false).await;
    for seed in 0..WORLDS {
        world(&cluster, seed).await;
    }
    let replica = cluster.start_leading(&[]).await;
    // Statuses are still written in the first seconds.
    let differences = async || {
        let mut differences = Vec::new();
        for item in items(&cluster).await {
            let code = cluster.would_evict(item["pod"].as_str().unwrap()).await;
            if (item["verdict"] == "now") != (code == 201) {
                differences.push(format!("{code}: {item}"));
            }
        }
        differences
    };
    until(SOON, "no pod differs", differences, Vec::is_empty).await;
    let items = items(&cluster).await;
    assert_eq!(items.len(), cluster.all("Pod").await.len());
    let seen = |field: &str| -> BTreeSet<String> {
        items
            .iter()
            .map(|item| item[field].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(Vec::from_iter(seen("verdict")), ["never", "now", "waits"]);
    assert!(seen("reason").len() >= 8, "{:?}", seen("reason"));
    assert_eq!(replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_kubectl_runs_blockers_as_a_plugin() {
    let Some(kubectl) = kubectl() else { return };
    let cluster = Cluster::new().await;
    cluster.pod("web", "web-0", None).await;
    let (text, code) = cluster
        .plugin(
            &kubectl,
            "kubectl-drain_blockers",
            &["drain-blockers", "--namespace=default"],
        )
        .await;
    assert_eq!(
        text,
        "held: no controller makes it again, so kubectl drain asks for --force. Pod default/web-0 on n. Fix: give \
         kubectl drain --force, which loses the pod.\n1 pod on 1 node: 1 is held by something other than a budget\n"
    );
    assert_eq!(code, Some(3));
}
