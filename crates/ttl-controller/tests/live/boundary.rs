//! Growing and shrinking across the boundaries, restarts, removal.

use std::process::{Command, Stdio};
use std::time::Duration;

use controller_testing::{long_or_short, soon};

use crate::support::{Cluster, SOON};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_boundary_scenario() {
    let cluster = Cluster::with_nodes(0..120, None).await;
    let replica = cluster.start(&[]);
    cluster.until_all_carry(120, "15", SOON).await;

    // 90 nodes are the fewest that step 1 holds.
    cluster.remove(90..120).await;
    replica.until_metric("ttl_controller_nodes", "", 90).await;
    cluster.until_all_carry(90, "15", SOON).await;

    cluster.remove([89]).await;
    let within = long_or_short(Duration::from_secs(2), SOON);
    cluster.until_all_carry(89, "0", within).await;

    // 120 times 15, then 89 times 0: each node was written once a change. The last answer may still be on its way.
    let answered = async || (replica.requests("PATCH").await >= 209).then_some(());
    soon("209 writes are answered", answered).await;
    assert_eq!(replica.requests("PATCH").await, 209);
    assert_eq!(replica.metric("ttl_controller_desired_ttl_seconds", "").await, 0);
    assert_eq!(replica.metric("ttl_controller_nodes_out_of_date", "").await, 0);
    assert_eq!(replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_restart_at_95_nodes_on_15_writes_nothing() {
    let cluster = Cluster::with_nodes(0..120, None).await;
    let first = cluster.start(&[]);
    cluster.until_all_carry(120, "15", SOON).await;
    cluster.remove(95..120).await;
    first.until_metric("ttl_controller_nodes", "", 95).await;
    assert_eq!(first.stop().await, Some(0));
    let before = cluster.versions("Node").await;

    let second = cluster.start(&[]);
    second.until_leading().await;
    soon("all 95 nodes have been looked at", async || {
        let done = second
            .metric("workqueue_work_duration_seconds_count", "name=\"ttlcontroller\"")
            .await;
        (done >= 95).then_some(())
    })
    .await;
    assert_eq!(second.requests("PATCH").await, 0);
    assert_eq!(cluster.versions("Node").await, before);
    assert_eq!(second.metric("ttl_controller_desired_ttl_seconds", "").await, 15);
    assert_eq!(second.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_admin_server_tells_what_dashboards_and_people_ask() {
    let cluster = Cluster::with_nodes(0..3, None).await;
    let replica = cluster.start(&[]);
    cluster.until_all_carry(3, "0", SOON).await;

    let (code, ready) = replica.get("/readyz?verbose").await;
    assert_eq!(code, 200, "{ready}");
    for check in ["[+]informer-nodes ok", "[+]lease ok", "readyz check passed"] {
        assert!(ready.contains(check), "{check} missing in\n{ready}");
    }
    assert_eq!(replica.get("/livez").await, (200, "ok".to_owned()));
    assert_eq!(replica.get("/healthz").await.0, 200);
    assert!(replica.get("/configz").await.1.contains("\"concurrentSyncs\":5"));
    assert!(replica.get("/version").await.1.contains("\"version\""));

    let (_, metrics) = replica.get("/metrics").await;
    for series in [
        "workqueue_depth{name=\"ttlcontroller\"}",
        "workqueue_adds_total{name=\"ttlcontroller\"}",
        "workqueue_queue_duration_seconds_bucket{name=\"ttlcontroller\"",
        "workqueue_work_duration_seconds_bucket{name=\"ttlcontroller\"",
        "workqueue_unfinished_work_seconds{name=\"ttlcontroller\"}",
        "workqueue_longest_running_processor_seconds{name=\"ttlcontroller\"}",
        "workqueue_retries_total{name=\"ttlcontroller\"}",
        "rest_client_requests_total{code=\"200\"",
        "leader_election_master_status{name=\"ttl-controller\"} 1",
        "informer_objects{resource=\"nodes\"} 3",
        "process_resident_memory_bytes",
        "controller_build_info{",
    ] {
        assert!(metrics.contains(series), "{series} missing in\n{metrics}");
    }
    promtool_accepts(&metrics);
    assert_eq!(replica.stop().await, Some(0));
}

fn promtool_accepts(metrics: &str) {
    use std::io::Write;
    let started = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = match started {
        Ok(promtool) => promtool,
        Err(error) if std::env::var_os("CI").is_none() => {
            println!("left out: promtool, which comes with Debian's prometheus package ({error})");
            return;
        }
        Err(error) => panic!("promtool comes with Debian's prometheus package: {error}"),
    };
    promtool
        .stdin
        .take()
        .unwrap()
        .write_all(metrics.as_bytes())
        .unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success() && said.trim().is_empty(),
        "promtool says:\n{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_foreign_value_is_put_right_at_once() {
    let cluster = Cluster::with_nodes(0..3, None).await;
    let replica = cluster.start(&[]);
    cluster.until_all_carry(3, "0", SOON).await;
    for value in ["17", "soon", "-9223372036854775808", "99999999999999999999"] {
        cluster.annotate(1, value).await;
        cluster.until_all_carry(3, "0", Duration::from_secs(5)).await;
        // Three in five minutes is what a rival gets: start afresh.
        cluster.remove([1]).await;
        cluster.add([1], None).await;
        cluster.until_all_carry(3, "0", Duration::from_secs(5)).await;
    }
    assert_eq!(replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_removal_takes_the_lease_first_and_leaves_no_annotation() {
    let cluster = Cluster::with_nodes(0..120, None).await;
    let running = cluster.start(&[]);
    cluster.until_all_carry(120, "15", SOON).await;

    let mut removal = cluster.start(&["--remove"]);
    soon("it waits beside the leader", async || {
        removal.process.log().contains("lease holder").then_some(())
    })
    .await;
    assert_eq!(cluster.carried().await.get("15"), Some(&120));
    assert_eq!(running.stop().await, Some(0));
    assert_eq!(removal.process.wait_exit(SOON).await.unwrap().code(), Some(0));
    cluster
        .until_all_carry(120, "none", Duration::ZERO.max(SOON))
        .await;
    assert_eq!(cluster.lease_holder().await, None);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_a_dry_run_says_what_it_would_do_and_changes_nothing() {
    let cluster = Cluster::with_nodes(0..120, Some("30")).await;
    let before = cluster.versions("Node").await;
    let replica = cluster.start(&["--dry-run"]);
    soon("120 writes are planned", async || {
        let planned = replica
            .metric("controller_planned_writes_total", "action=\"annotate\"")
            .await;
        (planned >= 120).then_some(())
    })
    .await;
    assert_eq!(cluster.versions("Node").await, before);
    assert_eq!(cluster.lease_holder().await, None);
    assert_eq!(replica.stop().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_explain_tells_count_step_and_each_node() {
    let cluster = Cluster::with_nodes(0..119, Some("15")).await;
    cluster.add([119], Some("soon")).await;
    let mut all = cluster.start(&["explain"]);
    assert_eq!(all.process.wait_exit(SOON).await.unwrap().code(), Some(0));
    let said = all.process.log();
    assert!(
        said.starts_with("120 nodes: step 1 (90 to 500 nodes), so every node should carry 15 s\n"),
        "{said}"
    );
    assert!(said.contains("node-0118        15      15  leave it\n"), "{said}");
    assert!(
        said.contains("node-0119    \"soon\"      15  write it\n"),
        "{said}"
    );

    let mut one = cluster.start(&["explain", "node-0119"]);
    assert_eq!(one.process.wait_exit(SOON).await.unwrap().code(), Some(0));
    assert_eq!(one.process.log().lines().count(), 3);

    let mut none = cluster.start(&["explain", "nobody"]);
    assert_eq!(none.process.wait_exit(SOON).await.unwrap().code(), Some(1));
    assert_eq!(
        none.process.log(),
        "ttl-controller: no node \"nobody\" among the 120 nodes of the cluster\n"
    );
}
