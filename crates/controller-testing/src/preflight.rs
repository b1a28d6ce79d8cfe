//! The report of `preflight` next to kube-controller-manager.

use std::path::Path;

use local_control_plane::Process;
use serde_json::{Value, json};

use crate::cluster::{Cluster, until};
use crate::replica::{SOON, soon};

/// Name of kube-controller-manager and of its Lease.
const MANAGER: &str = "kube-controller-manager";
const SYSTEM: &str = "kube-system";

impl Cluster {
    /// The exit code and report for an administrator; `args` are further flags.
    pub async fn preflight(&self, args: &[&str]) -> (i32, Value) {
        self.preflight_by(self.control_plane.kubeconfig(), args).await
    }

    /// The exit code and report for the holder of a kubeconfig.
    pub async fn preflight_by(&self, kubeconfig: &Path, args: &[&str]) -> (i32, Value) {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let all = [&["preflight", "--output=json", &kubeconfig], args].concat();
        let mut process = Process::spawn(&self.binary, &all, &[]).unwrap();
        let ended = process.wait_exit(SOON * 3).await.unwrap();
        let report = process.log();
        let report = serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {report}"));
        (ended.code().unwrap(), report)
    }

    /// The report on the built-in loop: its state, and the finding.
    pub async fn built_in_by_preflight(&self) -> (Value, Value) {
        let (_, report) = self.preflight(&[]).await;
        (report["builtInLoop"].clone(), finding(&report, "builtInLoop"))
    }

    /// Starts kube-controller-manager with these loops and waits until it leads.
    pub async fn start_manager(&self, controllers: &[&str]) -> Process {
        let flags = ["--leader-elect=true"];
        let manager = self.control_plane.start_controller_manager(controllers, &flags);
        soon("kube-controller-manager leads", async || {
            self.manager_host().await
        })
        .await;
        manager.unwrap()
    }

    /// Creates the leader's node and the pod that a kubelet would show there, with these loops in its flags.
    pub async fn show_manager(&self, controllers: &[&str]) {
        let host = self.manager_host().await.unwrap();
        let role = json!({"node-role.kubernetes.io/control-plane": ""});
        let node = json!({"kind": "Node", "metadata": {"name": host, "labels": role}});
        self.create(node).await;
        let list = format!("--controllers={}", controllers.join(","));
        let pod = json!({
            "kind": "Pod",
            "metadata": {
                "name": format!("{MANAGER}-{host}"), "namespace": SYSTEM,
                "labels": {"component": MANAGER, "tier": "control-plane"},
            },
            "spec": {
                "nodeName": host,
                "containers": [{"name": MANAGER, "image": "i", "command": [MANAGER, list]}],
            },
        });
        self.create(pod).await;
    }

    /// The host of kube-controller-manager's leader, if any.
    async fn manager_host(&self) -> Option<String> {
        let lease = self.api_in(SYSTEM, "Lease").get_opt(MANAGER).await.unwrap()?;
        let (host, _) = lease.data["spec"]["holderIdentity"].as_str()?.rsplit_once('_')?;
        Some(host.to_owned())
    }

    /// Waits until `preflight` concludes from kube-controller-manager's writes that the built-in loop is on. `stir`
    /// provokes such writes.
    pub async fn until_preflight_sees_work(&self, what: &str, stir: impl AsyncFn()) {
        let read = async || {
            stir().await;
            self.built_in_by_preflight().await
        };
        let text = format!("on: it wrote {what}");
        let is = |(state, finding): &(Value, Value)| {
            state == "on"
                && finding["text"]
                    .as_str()
                    .is_some_and(|found| found.starts_with(&text))
        };
        until(SOON, "preflight sees the work of the built-in loop", read, is).await;
    }
}

/// The finding of a check, which must exist.
pub fn finding(report: &Value, check: &str) -> Value {
    let mut findings = report["findings"].as_array().unwrap().iter();
    findings
        .find(|finding| finding["check"] == check)
        .unwrap()
        .clone()
}
