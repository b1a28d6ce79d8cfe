//! What people can read.

use std::process::{Command, Stdio};

use crate::support::{Cluster, Nodes, SOON};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_the_admin_server_tells_what_dashboards_and_people_ask() {
    let cluster = Cluster::with_nodes(0..3, None).await;
    let replica = cluster.start(&[]);
    cluster.until_all_carry(3, "0").await;

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
