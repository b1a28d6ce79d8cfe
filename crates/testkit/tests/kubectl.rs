//! `kubectl` against the embedded API server, as a new user would type it.
//!
//! In real time: every command has a deadline, nothing sleeps. Without a `kubectl` on the PATH the tests
//! say so and pass; with `CI=true` they fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::print_stdout, reason = "a test that was left out says so")]

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::embedded::{Loopback, NAMESPACES, NODES, PODS, Resource, Server};
use testkit::real::eventually;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

/// How long a command may take.
const DEADLINE: Duration = Duration::from_mins(1);

/// A server and a `kubectl` that talks to it.
struct Cluster {
    server: Server,
    loopback: Loopback,
    home: tempfile::TempDir,
}

/// A command that goes on while the test does.
struct Running {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Cluster {
    /// A server with `nodes` nodes; none where there is no `kubectl`.
    async fn start(nodes: usize) -> Option<Self> {
        if !is_installed() {
            assert!(
                !std::env::var("CI").is_ok_and(|ci| ci == "true"),
                "with CI=true kubectl must be on the PATH"
            );
            println!("left out: there is no kubectl on the PATH");
            return None;
        }
        let server = Server::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        server.seed_nodes(nodes);
        let loopback = server.listen(0).await.unwrap();
        let home = tempfile::tempdir().unwrap();
        loopback.kubeconfig_file(&home.path().join("kubeconfig")).unwrap();
        Some(Self {
            server,
            loopback,
            home,
        })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("kubectl");
        command
            .args(line.split_whitespace())
            .env("KUBECONFIG", self.home.path().join("kubeconfig"))
            .env("HOME", self.home.path())
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    async fn output(&self, line: &str) -> (bool, String, String) {
        let output = timeout(DEADLINE, self.command(line).output()).await;
        let Output {
            status,
            stdout,
            stderr,
        } = output
            .unwrap_or_else(|_| panic!("kubectl {line}: too slow"))
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.success(), text(stdout), text(stderr))
    }

    /// What a command prints; it must succeed and have nothing to complain about.
    async fn ok(&self, line: &str) -> String {
        let (succeeded, stdout, stderr) = self.output(line).await;
        assert!(succeeded, "kubectl {line}: {stdout}{stderr}");
        // Of no concern: the release of whatever kubectl is there.
        let complaints = stderr.lines().filter(|line| !line.contains("version difference"));
        assert_eq!(complaints.count(), 0, "kubectl {line}: {stderr}");
        stdout
    }

    /// What a command that must fail says.
    async fn fails(&self, line: &str) -> String {
        let (succeeded, stdout, stderr) = self.output(line).await;
        assert!(!succeeded, "kubectl {line}: {stdout}");
        stderr
    }

    /// Starts a command and waits until the server has a watch of it.
    async fn watching(&self, line: &str) -> Running {
        let mark = self.server.mark();
        let mut child = self.command(line).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        eventually(DEADLINE, "kubectl watches", async || {
            let lines = self.server.requests_since(mark).lines();
            lines.iter().any(|line| line.starts_with("watch")).then_some(())
        })
        .await
        .unwrap();
        Running { _child: child, lines }
    }

    fn file(&self, name: &str, content: &str) {
        std::fs::write(self.home.path().join(name), content).unwrap();
    }

    fn insert(&self, object: Value) -> Value {
        self.server.insert(object).unwrap()
    }

    fn insert_pod(&self, name: &str, node: &str) -> Value {
        self.insert(pod(name, node))
    }

    fn object(&self, resource: &'static Resource, name: &str) -> Value {
        self.server.get(resource, "default", name).unwrap()
    }

    fn has(&self, resource: &'static Resource, name: &str) -> bool {
        self.server.get(resource, "default", name).is_some()
    }
}

impl Running {
    /// The first words of the next line.
    async fn words(&mut self, count: usize) -> String {
        let line = timeout(DEADLINE, self.lines.next_line()).await;
        let line = line.expect("a line in time").unwrap().expect("a line");
        line.split_whitespace().take(count).collect::<Vec<_>>().join(" ")
    }
}

fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.iter().any(|folder| folder.join("kubectl").is_file())
}

/// A pod that a replica set owns, so that it can be drained.
fn pod(name: &str, node: &str) -> Value {
    json!({
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "labels": { "app": "web" },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true,
            }],
        },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "nginx" }] },
        "status": { "phase": "Running", "podIP": "10.1.0.1" },
    })
}

fn replica_set(name: &str) -> Value {
    json!({
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "metadata": { "name": name },
        "spec": {
            "replicas": 1,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [{ "name": "c", "image": "nginx" }] },
            },
        },
    })
}

/// The first column of a table, without its head.
fn names(table: &str) -> Vec<&str> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

#[tokio::test]
async fn get_prints_objects_in_every_form() {
    let Some(cluster) = Cluster::start(3).await else {
        return;
    };
    assert_eq!(
        names(&cluster.ok("get nodes").await),
        ["node-1", "node-2", "node-3"]
    );
    assert_eq!(
        names(&cluster.ok("get no -o wide").await),
        ["node-1", "node-2", "node-3"]
    );
    assert_eq!(
        cluster.ok("get nodes -o name").await,
        "node/node-1\nnode/node-2\nnode/node-3\n"
    );
    let json: Value = serde_json::from_str(&cluster.ok("get node node-2 -o json").await).unwrap();
    assert_eq!(json["metadata"]["name"], "node-2");
    let yaml = cluster.ok("get node node-2 -o yaml").await;
    assert!(
        yaml.starts_with("apiVersion: v1\nkind: Node\nmetadata:\n"),
        "{yaml}"
    );
    assert_eq!(
        cluster
            .ok("get nodes -o jsonpath={.items[*].metadata.name}")
            .await,
        "node-1 node-2 node-3"
    );
    assert_eq!(
        cluster
            .ok("get nodes -o custom-columns=N:.metadata.name --no-headers --chunk-size=1")
            .await,
        "node-1\nnode-2\nnode-3\n"
    );
    assert_eq!(
        cluster.fails("get node node-9").await,
        "Error from server (NotFound): nodes \"node-9\" not found\n"
    );
    assert_eq!(
        cluster.fails("get widgets").await,
        "error: the server doesn't have a resource type \"widgets\"\n"
    );
}

#[tokio::test]
async fn get_selects_by_namespace_label_and_field() {
    let Some(cluster) = Cluster::start(0).await else {
        return;
    };
    cluster.insert_pod("a", "node-1");
    cluster.insert_pod("b", "node-2");
    let mut other = pod("c", "node-1");
    other["metadata"]["namespace"] = json!("kube-system");
    other["metadata"]["labels"] = json!({ "app": "dns" });
    cluster.insert(other);
    assert_eq!(names(&cluster.ok("get pods").await), ["a", "b"]);
    assert_eq!(names(&cluster.ok("get pods -n kube-system").await), ["c"]);
    assert_eq!(
        names(&cluster.ok("get pods -A").await),
        ["default", "default", "kube-system"]
    );
    assert_eq!(cluster.ok("get pods -A -l app=dns -o name").await, "pod/c\n");
    assert_eq!(
        cluster
            .ok("get pods -A --field-selector spec.nodeName=node-1 -o name")
            .await,
        "pod/a\npod/c\n"
    );
}

#[tokio::test]
async fn get_follows_changes() {
    let Some(cluster) = Cluster::start(1).await else {
        return;
    };
    let mut watch = cluster.watching("get nodes -w --output-watch-events").await;
    assert_eq!(watch.words(2).await, "EVENT NAME");
    assert_eq!(watch.words(2).await, "ADDED node-1");
    cluster
        .server
        .edit(&NODES, "", "node-1", |node| {
            node["spec"]["unschedulable"] = json!(true);
        })
        .unwrap();
    assert_eq!(watch.words(2).await, "MODIFIED node-1");
    cluster.server.delete(&NODES, "", "node-1").unwrap();
    assert_eq!(watch.words(2).await, "DELETED node-1");
}

#[tokio::test]
async fn create_makes_objects_from_files_and_from_words() {
    let Some(cluster) = Cluster::start(0).await else {
        return;
    };
    assert_eq!(
        cluster.ok("create namespace team").await,
        "namespace/team created\n"
    );
    assert!(cluster.server.get(&NAMESPACES, "", "team").is_some());
    cluster.file("pods.yaml", PODS_YAML);
    assert_eq!(
        cluster.ok("create -f pods.yaml").await,
        "pod/from-file created\nconfigmap/settings created\n"
    );
    let again = cluster.fails("create -f pods.yaml").await;
    assert!(
        again.contains("(AlreadyExists)") && again.contains("pods \"from-file\" already exists"),
        "{again}"
    );
}

const PODS_YAML: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: from-file
spec:
  containers:
  - name: c
    image: nginx
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  colour: blue
";

#[tokio::test]
async fn apply_creates_changes_and_leaves_alone() {
    let Some(cluster) = Cluster::start(0).await else {
        return;
    };
    cluster.file("pods.yaml", PODS_YAML);
    assert_eq!(
        cluster.ok("apply -f pods.yaml").await,
        "pod/from-file created\nconfigmap/settings created\n"
    );
    assert_eq!(
        cluster.ok("apply -f pods.yaml").await,
        "pod/from-file unchanged\nconfigmap/settings unchanged\n"
    );
    cluster.file("pods.yaml", &PODS_YAML.replace("blue", "red"));
    assert_eq!(
        cluster.ok("apply -f pods.yaml").await,
        "pod/from-file unchanged\nconfigmap/settings configured\n"
    );
    assert_eq!(
        cluster
            .ok("get configmap settings -o jsonpath={.data.colour}")
            .await,
        "red"
    );
    assert_eq!(
        cluster.ok("replace -f pods.yaml").await,
        "pod/from-file replaced\nconfigmap/settings replaced\n"
    );
}

#[tokio::test]
async fn a_node_is_cordoned_drained_and_uncordoned() {
    let Some(cluster) = Cluster::start(2).await else {
        return;
    };
    cluster.insert(replica_set("web"));
    cluster.insert_pod("a", "node-1");
    cluster.insert_pod("b", "node-2");
    assert_eq!(cluster.ok("cordon node-1").await, "node/node-1 cordoned\n");
    assert_eq!(cluster.object(&NODES, "node-1")["spec"]["unschedulable"], true);
    let (drained, stdout, stderr) = cluster
        .output("drain node-1 --disable-eviction --grace-period=0 --force")
        .await;
    assert!(drained, "{stdout}{stderr}");
    assert!(stdout.ends_with("node/node-1 drained\n"), "{stdout}");
    assert!(!cluster.has(&PODS, "a"));
    assert!(cluster.has(&PODS, "b"));
    assert_eq!(cluster.ok("uncordon node-1").await, "node/node-1 uncordoned\n");
    assert_eq!(
        cluster.object(&NODES, "node-1")["spec"].get("unschedulable"),
        None
    );
}

#[tokio::test]
async fn a_drain_evicts() {
    let Some(cluster) = Cluster::start(1).await else {
        return;
    };
    cluster.insert(replica_set("web"));
    cluster.insert_pod("a", "node-1");
    let drained = cluster.output("drain node-1 --grace-period=0").await;
    assert!(drained.1.ends_with("node/node-1 drained\n"), "{drained:?}");
    assert!(!cluster.has(&PODS, "a"));
    let writes = cluster.server.requests().to("pods").writes().lines();
    assert!(
        writes[0].starts_with("create default/pods/a/eviction "),
        "{writes:?}"
    );
}

#[tokio::test]
async fn delete_takes_names_labels_and_files() {
    let Some(cluster) = Cluster::start(0).await else {
        return;
    };
    for name in ["a", "b", "c"] {
        cluster.insert_pod(name, "");
    }
    let deleted = cluster.ok("delete pod a --now").await;
    assert!(deleted.starts_with("pod \"a\" "), "{deleted}");
    assert_eq!(cluster.ok("get pods -o name").await, "pod/b\npod/c\n");
    cluster.ok("delete pods -l app=web --now").await;
    assert_eq!(cluster.ok("get pods -o name").await, "");
    cluster.file("pods.yaml", PODS_YAML);
    cluster.ok("create -f pods.yaml").await;
    cluster.ok("delete -f pods.yaml --now").await;
    assert_eq!(
        cluster.fails("delete pod a").await,
        "Error from server (NotFound): pods \"a\" not found\n"
    );
    assert_eq!(cluster.ok("delete pod a --ignore-not-found").await, "");
}

#[tokio::test]
async fn a_server_that_is_down_is_unreachable_until_it_is_up() {
    let Some(cluster) = Cluster::start(1).await else {
        return;
    };
    cluster.server.down();
    let refused = cluster.fails("get nodes").await;
    let address = cluster.loopback.url().replace("http://", "");
    assert!(
        refused.contains(&format!("The connection to the server {address} was refused")),
        "{refused}"
    );
    cluster.server.up();
    assert_eq!(cluster.ok("get nodes -o name").await, "node/node-1\n");
}
