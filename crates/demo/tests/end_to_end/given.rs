//! The demo on a given cluster: an embedded API server of the test, so that the test can inspect it.

use std::path::PathBuf;

use controller_runtime::clock::Clock;
use embedded_apiserver::{
    Fault, JOBS, Loopback, NODES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, RequestVerb, Resource,
    Server,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::demo::{Demo, turn};

struct Cluster {
    server: Server,
    kubeconfig: PathBuf,
    _door: Loopback,
    _dir: TempDir,
}

impl Cluster {
    async fn new() -> Self {
        // The demo sets the time when Jobs finish, so both need the same clock.
        let wall = Clock::system();
        let server = Server::new(move || wall.now());
        let transport = server.listen(0).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, transport.kubeconfig().to_string()).unwrap();
        Self {
            server,
            kubeconfig,
            _door: transport,
            _dir: dir,
        }
    }

    fn nodes(&self) -> Vec<String> {
        let nodes = self.server.list(&NODES);
        nodes
            .iter()
            .map(|node| node["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }
}

#[tokio::test]
async fn a_step_that_is_not_as_expected_fails_the_demo_and_leaves_nothing_behind() {
    let cluster = Cluster::new().await;
    // Remains of a killed run are neither foreign nor in the way.
    let leftover = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "demo-node-9999", "labels": {"app.kubernetes.io/managed-by": "controllers-demo"}},
    });
    cluster.server.insert(leftover).unwrap();
    let fault = Fault::Status {
        code: 500,
        reason: "InternalError".to_owned(),
        retry_after: None,
    };
    cluster
        .server
        .fail_next(usize::MAX, |request| request.verb == RequestVerb::Patch, fault);
    let ended = Demo::start_on(&cluster.kubeconfig, &["--fast", "--within=5"])
        .end()
        .await;
    assert_eq!(ended.status.code(), Some(1));
    let message = "error: ttl-controller: step 2 (the controller starts): not as expected after 5 s: the cluster holds \
                   90 × no TTL, expected 90 × 0 s";
    let told = "ttl-controller failed on demo-node-";
    assert!(ended.stdout.iter().any(|line| line.contains(told)));
    assert!(
        ended.stdout.len() < 20,
        "one line for all equal failures: {:?}",
        ended.stdout
    );
    assert!(ended.stderr.starts_with(message), "{}", ended.stderr);
    assert_eq!(cluster.nodes(), [""; 0]);
}

#[tokio::test]
async fn a_cluster_with_nodes_of_its_own_is_refused_untouched() {
    let cluster = Cluster::new().await;
    cluster.server.seed_nodes(4);
    let ended = Demo::start_on(&cluster.kubeconfig, &["--fast"]).end().await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        ended
            .stderr
            .contains("has 4 nodes that this demo did not make (node-1, node-2, node-3)")
    );
    assert!(ended.stderr.contains("--yes-this-cluster-is-disposable"));
    assert_eq!(cluster.server.requests().writes().lines(), [""; 0]);
}

#[tokio::test]
async fn on_a_disposable_cluster_the_nodes_that_were_there_count_and_stay() {
    let cluster = Cluster::new().await;
    cluster.server.seed_nodes(3);
    let args = [
        "--fast",
        "--within=60",
        "--yes-this-cluster-is-disposable",
        "--scene=ttl-controller",
    ];
    let ended = Demo::start_on(&cluster.kubeconfig, &args).end().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(
        ended
            .stdout
            .iter()
            .any(|line| line.ends_with(": 95 × 15 s; no writes"))
    );
    assert_eq!(cluster.nodes(), ["node-1", "node-2", "node-3"]);
}

#[tokio::test]
async fn ctrl_c_in_the_middle_of_a_step_removes_what_the_demo_made() {
    let cluster = Cluster::new().await;
    let mut demo = Demo::start_on(&cluster.kubeconfig, &["--fast", "--within=60"]);
    demo.until("Step 5 of 7, 520 nodes").await;
    demo.signal(Signal::INT);
    let ended = demo.end().await;
    assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
    assert_eq!(cluster.nodes(), [""; 0]);
}

#[tokio::test]
async fn pods_and_jobs_that_nobody_ends_count_as_deleted_and_are_removed() {
    let _turn = turn().await;
    let cluster = Cluster::new().await;
    let args = [
        "--fast",
        "--within=60",
        "--scene=ttl-after-finished-controller",
        "--scene=taint-eviction-controller",
    ];
    let mut demo = Demo::start_on(&cluster.kubeconfig, &args);
    demo.until("Scene 3 of 4, ").await;
    let deleted_and_there = |resource: &'static Resource| {
        let objects = cluster.server.list(resource);
        let leaving = |object: &&Value| object["metadata"].get("deletionTimestamp").is_some();
        (objects.iter().filter(leaving).count(), objects.len())
    };
    // There is no kubelet to end pods.
    assert_eq!(deleted_and_there(&PODS), (9, 31));
    demo.until("Step 4 of 4, 8 s after the finish").await;
    // There is no garbage collector to remove Jobs.
    assert_eq!(deleted_and_there(&JOBS), (8, 12));
    let ended = demo.end().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(cluster.nodes(), [""; 0]);
    assert_eq!(
        (cluster.server.list(&PODS).len(), cluster.server.list(&JOBS).len()),
        (0, 0)
    );
}

#[tokio::test]
async fn claims_that_pods_hold_are_removed_although_nobody_lets_them_go() {
    let cluster = Cluster::new().await;
    let args = ["--fast", "--within=60", "--scene=resourceclaim-controller"];
    let mut demo = Demo::start_on(&cluster.kubeconfig, &args);
    demo.until("Step 6 of 7, ").await;
    let held = cluster.server.list(&RESOURCE_CLAIMS);
    let held = held
        .iter()
        .filter(|claim| !claim["metadata"]["finalizers"].is_null());
    assert!(held.count() > 0);
    demo.signal(Signal::INT);
    let ended = demo.end().await;
    assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
    for kind in [&PODS, &RESOURCE_CLAIMS, &RESOURCE_CLAIM_TEMPLATES] {
        assert_eq!(cluster.server.list(kind).len(), 0);
    }
}
