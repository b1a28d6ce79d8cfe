//! The binary next to large clusters on the embedded server, which takes gigabytes: only
//! `cargo xtask ci --nightly` runs it, on a release build (DIS-14).
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::time::Duration;

use controller_testing::large_cluster::LargeCluster;
use embedded_apiserver::{POD_DISRUPTION_BUDGETS, PODS, Server};
use serde_json::{Value, json};

const BINARY: &str = "DISRUPTION_CONTROLLER_BINARY";
const ARGS: [&str; 1] = ["--kube-api-qps=0"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "nightly: takes 1.5 GiB of memory, and a release build in $DISRUPTION_CONTROLLER_BINARY"]
async fn a_thousand_budgets_over_fifty_thousand_pods_take_little_memory() {
    const BUDGETS: usize = 1_000;
    const MEMORY: u64 = 60 << 20;
    const CPU: Duration = Duration::from_secs(8);

    let cluster = LargeCluster::start(BINARY, &ARGS, |server| {
        server.seed_nodes(5_000);
        server.seed_pods(50_000);
        // Pods come in sets of twenty, the sets in turns to the namespaces: every pod has one budget.
        for number in 0..BUDGETS {
            let apps = (number..2_500).step_by(BUDGETS).map(|set| format!("app-{set}"));
            let apps = json!({ "key": "app.kubernetes.io/name", "operator": "In", "values": apps.collect::<Vec<_>>() });
            insert_pdb(server, &format!("seed-{}", number % 50), number, &[apps], 18);
        }
    })
    .await;
    let allows = |pdb: &Value, field: &str, least| pdb["status"][field].as_i64() >= Some(least);
    let is = |pdb: &Value| allows(pdb, "expectedPods", 40) && allows(pdb, "disruptionsAllowed", 22);
    cluster
        .until_all(&POD_DISRUPTION_BUDGETS, "all are computed", is)
        .await;
    let used = cluster
        .assert_small("50,000 pods and 1,000 budgets", MEMORY)
        .await;
    assert!(used.cpu < CPU, "{:?} of CPU", used.cpu);

    let observer = cluster.another(&[&ARGS[..], &["--observe"]].concat());
    observer.until_ready().await;
    observer
        .until_metric("disruption_controller_pdbs", "", BUDGETS as u64)
        .await;
    let controller = cluster.usage_at_rest("the controller").await;
    let began = cluster.clock.instant();
    observer.metric("disruption_controller_node_blockers", "").await;
    println!("a scrape takes {:.0?}", began.elapsed());
    let used = cluster.usage_of(&observer, "an observer").await;
    assert!(
        used.rss * 10 < controller.rss * 11,
        "{} of {} bytes",
        used.rss,
        controller.rss
    );
    assert_eq!(observer.stop().await, Some(0));
    assert_eq!(cluster.replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "nightly: a release build in $DISRUPTION_CONTROLLER_BINARY"]
async fn a_change_costs_little_next_to_budgets_that_no_index_finds() {
    const PODS_OF_BUDGETS: usize = 20_000;
    const BUDGETS: usize = 500;
    const CHANGES: usize = 1_000;
    /// How many of them every pod belongs to.
    const OF_ALL: usize = 20;
    /// Each change is looked up among 500 selectors and changes the numbers of 20 to 22 budgets.
    const A_CHANGE: Duration = Duration::from_micros(400);
    /// The loop waits for it.
    const A_SCRAPE: Duration = Duration::from_millis(100);

    let cluster = LargeCluster::start(BINARY, &ARGS, |server| {
        for number in 0..PODS_OF_BUDGETS {
            let app = format!("app-{}", number % 250);
            let labels = json!({ "app": app, format!("of-{app}"): "yes", "tier": "front" });
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "namespace": "crowd", "name": pod_name(number), "labels": labels },
                "spec": { "nodeName": "node", "containers": [] },
                "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
            });
            server.insert(pod).unwrap();
        }
        for number in 0..BUDGETS {
            let without = |value: &str| json!({ "key": "tier", "operator": "NotIn", "values": [value] });
            let requirements = match (number < OF_ALL, number % 2) {
                (true, 0) => vec![],
                (true, _) => vec![without("back")],
                (false, 0) => {
                    vec![json!({ "key": format!("of-app-{}", number % 250), "operator": "Exists" })]
                }
                (false, _) => vec![without("front")],
            };
            insert_pdb(server, "crowd", number, &requirements, PODS_OF_BUDGETS);
        }
    })
    .await;
    let is = |pdb: &Value| pdb["status"]["observedGeneration"] == 1;
    cluster
        .until_all(&POD_DISRUPTION_BUDGETS, "all are computed", is)
        .await;
    let before = cluster.usage_at_rest("20,000 pods of 500 budgets").await;
    for number in 0..CHANGES {
        let edit = |pod: &mut Value| pod["status"]["conditions"][0]["status"] = json!("False");
        cluster.edit(&PODS, "crowd", &pod_name(number), edit);
    }
    let left = i64::try_from(PODS_OF_BUDGETS - CHANGES).unwrap();
    let is = |pdb: &Value| {
        let status = &pdb["status"];
        status["expectedPods"] != PODS_OF_BUDGETS || status["currentHealthy"] == left
    };
    cluster
        .until_all(&POD_DISRUPTION_BUDGETS, "all have the changes", is)
        .await;
    let after = cluster.usage_at_rest("1,000 changes").await;
    let a_change = after.cpu.saturating_sub(before.cpu) / u32::try_from(CHANGES).unwrap();
    println!("{a_change:.1?} a change");
    assert!(a_change < A_CHANGE, "{a_change:?}");
    let began = cluster.clock.instant();
    cluster
        .replica
        .metric("disruption_controller_node_blockers", "")
        .await;
    let a_scrape = began.elapsed();
    println!("{a_scrape:.1?} a scrape");
    assert!(a_scrape < A_SCRAPE, "{a_scrape:?}");
    assert_eq!(cluster.replica.stop().await, Some(0));
}

/// For every node; each pod has a line. The embedded server takes most of the time, so the report's own CPU counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "nightly: a release build in $DISRUPTION_CONTROLLER_BINARY"]
async fn what_blocks_drains_of_fifty_thousand_pods_takes_little_memory_and_cpu() {
    const BUDGETS: usize = 2_000;
    const CPU: Duration = Duration::from_secs(3);
    const MEMORY: u64 = 80 << 20;

    let cluster = LargeCluster::start(BINARY, &ARGS, |server| {
        server.seed_nodes(5_000);
        server.seed_pods(50_000);
        for number in 0..BUDGETS {
            let app = json!({ "key": "app.kubernetes.io/name", "operator": "In", "values": [format!("app-{number}")] });
            insert_pdb(server, &format!("seed-{}", number % 50), number, &[app], 18 + number % 3);
        }
    })
    .await;
    let is = |pdb: &Value| pdb["status"]["observedGeneration"] == 1;
    cluster
        .until_all(&POD_DISRUPTION_BUDGETS, "all are computed", is)
        .await;
    let (text, took, usage) = cluster.subcommand(&["blockers"]).await;
    let sum = text.lines().last().unwrap();
    println!(
        "{sum}: {took:.1?}, {:.1?} of CPU, {} MiB",
        usage.cpu,
        usage.peak_rss >> 20
    );
    assert!(sum.starts_with("50000 pods on 5000 nodes: "), "{sum}");
    assert!(usage.cpu < CPU, "{:?} of CPU", usage.cpu);
    assert!(usage.peak_rss < MEMORY, "{} MiB", usage.peak_rss >> 20);
    assert_eq!(cluster.replica.stop().await, Some(0));
}

fn insert_pdb(server: &Server, namespace: &str, number: usize, requirements: &[Value], min_available: usize) {
    let pdb = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "namespace": namespace, "name": format!("budget-{number}") },
        "spec": { "selector": { "matchExpressions": requirements }, "minAvailable": min_available },
    });
    server.insert(pdb).unwrap();
}

fn pod_name(number: usize) -> String {
    format!("pod-{number:05}")
}
