//! The way of the README: every command below `## Install one`, as it stands there, one after the other.
//!
//! No kubelet is there. When the README waits for the pods, what one of them would run is started, with the token of
//! the chart; `localhost:8080`, where the README forwards to it, is where that listens.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use controller_core::clock::Clock;
use harness::chart::{Chart, NAMESPACE};
use harness::{Replica, soon};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tempfile::TempDir;
use testkit::real::{ControlPlane, Options};

use crate::process::{self, UID};
use crate::support::{root, said};

const NAME: &str = "ttl-controller";
const TTL: &str = "node.alpha.kubernetes.io/ttl";

/// What has come of the commands so far.
struct Tour {
    control_plane: ControlPlane,
    /// With the programs that the commands name, and Helm's own folders.
    home: TempDir,
    pod: Option<(Replica, TempDir)>,
    steps: Vec<(String, Duration)>,
}

impl Tour {
    async fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        if let Some(helm) = std::env::var_os("HELM").filter(|helm| Path::new(helm).is_absolute()) {
            symlink(helm, home.path().join("helm")).unwrap();
        }
        Self {
            control_plane: ControlPlane::start(Options::default()).await.unwrap(),
            home,
            pod: None,
            steps: Vec::new(),
        }
    }

    /// Does what a command asks for, and returns what it prints.
    async fn follow(&mut self, command: &str) -> String {
        println!("$ {command}");
        let began = Clock::system().instant();
        let said = self.act(command).await;
        self.steps.push((command.to_owned(), began.elapsed()));
        said
    }

    async fn act(&mut self, command: &str) -> String {
        if command.contains("rollout status") {
            self.roll_out().await;
            return String::new();
        }
        let address = match &self.pod {
            Some((replica, _)) => replica.address().await,
            None => "localhost:8080".to_owned(),
        };
        said(self.shell(&command.replace("localhost:8080", &address)))
    }

    /// As the kubelet does: a new pod, and when it is ready the old one goes.
    async fn roll_out(&mut self) {
        let token = Chart::of(NAME).installed(&self.control_plane).await;
        let new = process::start(&self.control_plane, NAME, &token).await;
        new.0.until_ready().await;
        if let Some((old, _config)) = self.pod.replace(new) {
            assert_eq!(old.stop().await, Some(0));
        }
    }

    fn shell(&self, command: &str) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        for home_of in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            shell.env(home_of, self.home.path());
        }
        shell
            .args(["-c", command])
            .current_dir(root())
            .env("PATH", format!("{}:{path}", self.home.path().display()))
            .env("KUBECONFIG", self.control_plane.kubeconfig())
            .output()
            .unwrap()
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.control_plane.client())
    }

    async fn ttl(&self) -> Option<String> {
        let node = self.nodes().get("n").await.unwrap();
        node.metadata.annotations.unwrap_or_default().remove(TTL)
    }
}

/// The commands of the README below `heading`, without those that need a kubelet or a container runtime.
fn commands(heading: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let section = readme.split_once(heading).expect("the README has the section").1;
    let section = section.split("\n## ").next().unwrap();
    let blocks = section
        .split("```sh\n")
        .skip(1)
        .filter_map(|rest| rest.split_once("```"));
    let commands = blocks.flat_map(|(block, _)| block.lines()).map(str::to_owned);
    let here = |command: &String| {
        !["cargo xtask image", "kind load", "port-forward"]
            .iter()
            .any(|not| command.contains(not))
    };
    commands.filter(here).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn the_way_of_the_readme_leads_there_and_back() {
    let mut tour = Tour::start().await;
    let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    tour.nodes().create(&PostParams::default(), &node).await.unwrap();

    let all = commands("\n## Install one\n");
    let [install, installed, metrics, upgrade, upgraded, lease, uninstall] = all.as_slice() else {
        panic!("other steps than these are not followed: {all:#?}");
    };
    tour.follow(install).await;
    tour.follow(installed).await;
    // The built-in loop is not there, so the node has no TTL, and ours says so and leaves it.
    let out_of_date = async || {
        let said = said(
            tour.shell(&metrics.replace("localhost:8080", &tour.pod.as_ref().unwrap().0.address().await)),
        );
        said.contains("ttl_controller_nodes_out_of_date 1").then_some(())
    };
    soon("the node is seen", out_of_date).await;
    let metrics = tour.follow(metrics).await;
    assert!(metrics.contains("ttl_controller_nodes 1"), "{metrics}");
    assert_eq!(tour.ttl().await, None);

    tour.follow(upgrade).await;
    tour.follow(upgraded).await;
    let written = async || (tour.ttl().await.as_deref() == Some("0")).then_some(());
    soon("ours writes", written).await;
    let lease = tour.follow(lease).await;
    assert!(lease.contains(UID), "{lease}");

    tour.follow(uninstall).await;
    let (pod, _config) = tour.pod.take().unwrap();
    assert_eq!(pod.stop().await, Some(0));
    let left = format!(
        "kubectl get all,configmaps,roles --namespace {NAMESPACE} --selector app.kubernetes.io/name={NAME}"
    );
    assert_eq!(said(tour.shell(&left)), "");

    for (command, took) in &tour.steps {
        println!("{:6.1} s  {command}", took.as_secs_f64());
    }
}
