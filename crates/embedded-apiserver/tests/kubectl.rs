//! `kubectl` against the embedded API server, as a new user would type it.
//!
//! In real time: every command has a deadline, nothing sleeps. Without a `kubectl` on the PATH the tests
//! say so and pass; with `CI=true` they fail.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]
#![allow(clippy::print_stdout, reason = "a test that was left out says so")]

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use embedded_apiserver::{Loopback, NAMESPACES, NODES, PODS, Resource, Server};
use local_control_plane::eventually;
use serde_json::{Value, json};
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
        let output = output
            .unwrap_or_else(|_| panic!("kubectl {line}: too slow"))
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
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

    /// Fails unless a command prints this and no more.
    async fn prints(&self, line: &str, expected: &str) {
        assert_eq!(self.ok(line).await, expected, "kubectl {line}");
    }

    /// Fails unless the first column that a command prints is this one.
    async fn lists(&self, line: &str, expected: &[&str]) {
        let table = self.ok(line).await;
        let rows = table.lines().skip(1);
        let names: Vec<&str> = rows.filter_map(|row| row.split_whitespace().next()).collect();
        assert_eq!(names, expected, "kubectl {line}");
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

/// A server with this number of nodes; the test is over where there is no `kubectl`.
macro_rules! cluster {
    ($nodes:literal) => {
        match Cluster::start($nodes).await {
            Some(cluster) => cluster,
            None => return,
        }
    };
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

#[tokio::test]
async fn get_prints_objects_in_every_form() {
    let cluster = cluster!(3);
    for line in ["get nodes", "get no -o wide"] {
        cluster.lists(line, &["node-1", "node-2", "node-3"]).await;
    }
    let columns = "get nodes -o custom-columns=N:.metadata.name --no-headers --chunk-size=1";
    for (line, expected) in [
        ("get nodes -o name", "node/node-1\nnode/node-2\nnode/node-3\n"),
        (
            "get nodes -o jsonpath={.items[*].metadata.name}",
            "node-1 node-2 node-3",
        ),
        (columns, "node-1\nnode-2\nnode-3\n"),
    ] {
        cluster.prints(line, expected).await;
    }
    let json: Value = serde_json::from_str(&cluster.ok("get node node-2 -o json").await).unwrap();
    assert_eq!(json["metadata"]["name"], "node-2");
    let yaml = cluster.ok("get node node-2 -o yaml").await;
    let start = "apiVersion: v1\nkind: Node\nmetadata:\n";
    assert!(yaml.starts_with(start), "{yaml}");
    let unknown = cluster.fails("get node node-9").await;
    assert_eq!(
        unknown,
        "Error from server (NotFound): nodes \"node-9\" not found\n"
    );
    let widgets = cluster.fails("get widgets").await;
    assert_eq!(
        widgets,
        "error: the server doesn't have a resource type \"widgets\"\n"
    );
}

#[tokio::test]
async fn get_selects_by_namespace_label_and_field() {
    let cluster = cluster!(0);
    cluster.insert_pod("a", "node-1");
    cluster.insert_pod("b", "node-2");
    let mut other = pod("c", "node-1");
    other["metadata"]["namespace"] = json!("kube-system");
    other["metadata"]["labels"] = json!({ "app": "dns" });
    cluster.insert(other);
    for (line, expected) in [
        ("get pods -o name", "pod/a\npod/b\n"),
        ("get pods -n kube-system -o name", "pod/c\n"),
        ("get pods -A -l app=dns -o name", "pod/c\n"),
        (
            "get pods -A --field-selector spec.nodeName=node-1 -o name",
            "pod/a\npod/c\n",
        ),
    ] {
        cluster.prints(line, expected).await;
    }
    let namespaces = ["default", "default", "kube-system"];
    cluster.lists("get pods -A", &namespaces).await;
}

#[tokio::test]
async fn get_follows_changes() {
    let cluster = cluster!(1);
    let mut watch = cluster.watching("get nodes -w --output-watch-events").await;
    assert_eq!(watch.words(2).await, "EVENT NAME");
    assert_eq!(watch.words(2).await, "ADDED node-1");
    let cordon = |node: &mut Value| node["spec"]["unschedulable"] = json!(true);
    cluster.server.edit(&NODES, "", "node-1", cordon).unwrap();
    assert_eq!(watch.words(2).await, "MODIFIED node-1");
    cluster.server.delete(&NODES, "", "node-1").unwrap();
    assert_eq!(watch.words(2).await, "DELETED node-1");
}

#[tokio::test]
async fn create_makes_objects_from_files_and_from_words() {
    let cluster = cluster!(0);
    cluster.file("pods.yaml", PODS_YAML);
    for (line, expected) in [
        ("create namespace team", "namespace/team created\n"),
        (
            "create -f pods.yaml",
            "pod/from-file created\nconfigmap/settings created\n",
        ),
    ] {
        cluster.prints(line, expected).await;
    }
    assert!(cluster.server.get(&NAMESPACES, "", "team").is_some());
    let again = cluster.fails("create -f pods.yaml").await;
    for part in ["(AlreadyExists)", "pods \"from-file\" already exists"] {
        assert!(again.contains(part), "{again}");
    }
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
    let cluster = cluster!(0);
    for (command, colour, pod, settings) in [
        ("apply", "blue", "created", "created"),
        ("apply", "blue", "unchanged", "unchanged"),
        ("apply", "red", "unchanged", "configured"),
        ("replace", "red", "replaced", "replaced"),
    ] {
        cluster.file("pods.yaml", &PODS_YAML.replace("blue", colour));
        let expected = format!("pod/from-file {pod}\nconfigmap/settings {settings}\n");
        cluster
            .prints(&format!("{command} -f pods.yaml"), &expected)
            .await;
        let data = "get configmap settings -o jsonpath={.data.colour}";
        cluster.prints(data, colour).await;
    }
}

#[tokio::test]
async fn a_node_is_cordoned_drained_and_uncordoned() {
    let cluster = cluster!(2);
    cluster.insert(replica_set("web"));
    cluster.insert_pod("a", "node-1");
    cluster.insert_pod("b", "node-2");
    cluster.prints("cordon node-1", "node/node-1 cordoned\n").await;
    assert_eq!(cluster.object(&NODES, "node-1")["spec"]["unschedulable"], true);
    let drain = "drain node-1 --disable-eviction --grace-period=0 --force";
    let (drained, stdout, stderr) = cluster.output(drain).await;
    assert!(drained, "{stdout}{stderr}");
    assert!(stdout.ends_with("node/node-1 drained\n"), "{stdout}");
    assert_eq!((cluster.has(&PODS, "a"), cluster.has(&PODS, "b")), (false, true));
    cluster
        .prints("uncordon node-1", "node/node-1 uncordoned\n")
        .await;
    let node = cluster.object(&NODES, "node-1");
    assert_eq!(node["spec"].get("unschedulable"), None);
}

#[tokio::test]
async fn a_drain_evicts() {
    let cluster = cluster!(1);
    cluster.insert(replica_set("web"));
    cluster.insert_pod("a", "node-1");
    let drained = cluster.output("drain node-1 --grace-period=0").await;
    assert!(drained.1.ends_with("node/node-1 drained\n"), "{drained:?}");
    assert!(!cluster.has(&PODS, "a"));
    let writes = cluster.server.requests().to("pods").writes().lines();
    let eviction = "create default/pods/a/eviction ";
    assert!(writes[0].starts_with(eviction), "{writes:?}");
}

#[tokio::test]
async fn delete_takes_names_labels_and_files() {
    let cluster = cluster!(0);
    for name in ["a", "b", "c"] {
        cluster.insert_pod(name, "");
    }
    let deleted = cluster.ok("delete pod a --now").await;
    assert!(deleted.starts_with("pod \"a\" "), "{deleted}");
    cluster.prints("get pods -o name", "pod/b\npod/c\n").await;
    cluster.ok("delete pods -l app=web --now").await;
    cluster.prints("get pods -o name", "").await;
    cluster.file("pods.yaml", PODS_YAML);
    cluster.ok("create -f pods.yaml").await;
    cluster.ok("delete -f pods.yaml --now").await;
    let gone = cluster.fails("delete pod a").await;
    assert_eq!(gone, "Error from server (NotFound): pods \"a\" not found\n");
    cluster.prints("delete pod a --ignore-not-found", "").await;
}

#[tokio::test]
async fn a_server_that_is_down_is_unreachable_until_it_is_up() {
    let cluster = cluster!(1);
    cluster.server.down();
    let refused = cluster.fails("get nodes").await;
    let address = cluster.loopback.url().replace("http://", "");
    assert!(
        refused.contains(&format!("The connection to the server {address} was refused")),
        "{refused}"
    );
    cluster.server.up();
    cluster.prints("get nodes -o name", "node/node-1\n").await;
}
