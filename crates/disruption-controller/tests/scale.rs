//! The binary beside large clusters on the embedded server, which takes gigabytes: only
//! `cargo xtask ci --nightly` runs it, on a release build (DIS-14).
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test: it fails by panicking and prints what it measures"
)]

use std::time::Duration;

use harness::beside::{Beside, REST, shown};
use serde_json::{Value, json};
use testkit::embedded::{POD_DISRUPTION_BUDGETS, PODS, Server};
use testkit::real::eventually;

/// The build under test.
const BINARY: &str = "DISRUPTION_CONTROLLER_BINARY";
/// Each test has its own limits, and none on requests.
const ARGS: [&str; 1] = ["--kube-api-qps=0"];
/// How long the controller has for anything, however busy the machine is.
const WITHIN: Duration = Duration::from_mins(5);
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "nightly: takes 1.5 GiB of memory, and a release build in $DISRUPTION_CONTROLLER_BINARY"]
async fn a_thousand_budgets_over_fifty_thousand_pods_take_little_memory() {
    const BUDGETS: usize = 1_000;
    const NAMESPACES: usize = 50;
    const MEMORY: u64 = 60 << 20;
    const CPU: Duration = Duration::from_secs(8);
    /// What waiting may cost: the admin server is asked now and then.
    const CPU_AT_REST: Duration = Duration::from_millis(500);

    let beside = Beside::start(BINARY, &ARGS, |server| {
        server.seed_nodes(5_000);
        server.seed_pods(50_000);
        // Pods come in sets of twenty, the sets in turns to the namespaces: every pod has one budget.
        for number in 0..BUDGETS {
            let apps = (number..2_500).step_by(BUDGETS).map(|set| format!("app-{set}"));
            let selector = json!({ "matchExpressions": [{
                "key": "app.kubernetes.io/name", "operator": "In", "values": apps.collect::<Vec<_>>(),
            }] });
            let namespace = format!("seed-{}", number % NAMESPACES);
            insert_pdb(server, &namespace, &format!("budget-{number}"), &selector, 18);
        }
    })
    .await;
    until_all(&beside, "every budget allows disruptions", |status| {
        status["expectedPods"].as_i64() >= Some(40) && status["disruptionsAllowed"].as_i64() >= Some(22)
    })
    .await;
    let before = beside.usage_at_rest().await;
    println!("50,000 pods and {BUDGETS} budgets: {}", shown(before));
    assert!(before.rss < MEMORY, "{}", shown(before));
    assert!(before.cpu < CPU, "{}", shown(before));

    let at_rest = beside.usage_at_rest().await.cpu.saturating_sub(before.cpu);
    assert!(at_rest < CPU_AT_REST, "{at_rest:?} of CPU in {REST:?} of waiting");
    assert_eq!(beside.replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "nightly: a release build in $DISRUPTION_CONTROLLER_BINARY"]
async fn a_change_costs_little_beside_budgets_that_no_index_finds() {
    const PODS_OF_BUDGETS: usize = 20_000;
    const BUDGETS: usize = 500;
    const CHANGES: usize = 1_000;
    /// How many of them every pod belongs to.
    const OF_ALL: usize = 20;
    /// Each change is looked up among 500 selectors and changes the numbers of 20 to 22 budgets.
    const A_CHANGE: Duration = Duration::from_micros(400);

    let beside = Beside::start(BINARY, &ARGS, |server| {
        for number in 0..PODS_OF_BUDGETS {
            let app = format!("app-{}", number % 250);
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": { "namespace": "crowd", "name": pod_name(number),
                              "labels": { "app": app, format!("of-{app}"): "yes", "tier": "front" } },
                "spec": { "nodeName": "node", "containers": [] },
                "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
            });
            server.insert(pod).unwrap();
        }
        for number in 0..BUDGETS {
            let app = format!("app-{}", number % 250);
            let requirement = match (number < OF_ALL, number % 2) {
                (true, 0) => None,
                (true, _) => Some(json!({ "key": "tier", "operator": "NotIn", "values": ["back"] })),
                (false, 0) => Some(json!({ "key": format!("of-{app}"), "operator": "Exists" })),
                (false, _) => Some(json!({ "key": "tier", "operator": "NotIn", "values": ["front"] })),
            };
            let selector = json!({ "matchExpressions": requirement.as_slice() });
            let least = i64::try_from(PODS_OF_BUDGETS).unwrap();
            insert_pdb(server, "crowd", &format!("budget-{number}"), &selector, least);
        }
    })
    .await;
    let selects = |status: &Value| status["observedGeneration"] == 1;
    until_all(&beside, "every budget is computed", selects).await;
    let before = beside.usage_at_rest().await;
    println!("{PODS_OF_BUDGETS} pods of {BUDGETS} budgets: {}", shown(before));

    for number in 0..CHANGES {
        let edit = |pod: &mut Value| pod["status"]["conditions"][0]["status"] = json!("False");
        beside
            .server
            .edit(&PODS, "crowd", &pod_name(number), edit)
            .unwrap();
    }
    let left = i64::try_from(PODS_OF_BUDGETS - CHANGES).unwrap();
    until_all(&beside, "the budgets of all have the changes", |status| {
        status["expectedPods"] != PODS_OF_BUDGETS || status["currentHealthy"] == left
    })
    .await;
    let after = beside.usage_at_rest().await;
    let a_change = after.cpu.saturating_sub(before.cpu) / u32::try_from(CHANGES).unwrap();
    println!("{CHANGES} changes: {}, {a_change:.1?} a change", shown(after));
    assert!(a_change < A_CHANGE, "{a_change:?}");
    assert_eq!(beside.replica.stop().await, Some(0));
}

/// Waits until the status of every budget is as `is` says.
async fn until_all(beside: &Beside, what: &str, is: impl Fn(&Value) -> bool) {
    let began = beside.clock.instant();
    eventually(WITHIN, what, async || {
        let pdbs = beside.server.list(&POD_DISRUPTION_BUDGETS);
        let mut all = pdbs.iter();
        all.all(|pdb| is(&pdb["status"])).then_some(())
    })
    .await
    .unwrap();
    println!("{what} after {:.1?}", began.elapsed());
}

fn insert_pdb(server: &Server, namespace: &str, name: &str, selector: &Value, min_available: i64) {
    let pdb = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "selector": selector, "minAvailable": min_available },
    });
    server.insert(pdb).unwrap();
}

fn pod_name(number: usize) -> String {
    format!("pod-{number:05}")
}
