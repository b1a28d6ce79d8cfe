//! The binary of a controller as a process beside a real API server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use testkit::real::{ControlPlane, Process, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rights::allowed;

/// Where the Lease and the service account live.
const NAMESPACE: &str = "kube-system";

/// Within which a condition must hold that nothing but a busy machine delays.
pub const SOON: Duration = Duration::from_secs(30);
/// Lease times that make a test short.
pub const QUICK_LEASE: [&str; 3] = [
    "--leader-elect-lease-duration=1.5s",
    "--leader-elect-renew-deadline=1s",
    "--leader-elect-retry-period=0.2s",
];

/// A controller's binary, running.
pub struct Replica {
    /// Its process.
    pub process: Process,
}

impl Replica {
    /// Starts `binary` with these flags beside `--kubeconfig` and an admin server on any port.
    pub fn start(binary: &Path, kubeconfig: &Path, args: &[&str]) -> Self {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let mut all = vec![kubeconfig.as_str(), "--http-bind-address=127.0.0.1:0"];
        all.extend(args);
        Self {
            process: Process::spawn(binary, &all, &[]).unwrap(),
        }
    }

    /// Its log, a JSON object a line.
    pub fn lines(&self) -> Vec<Value> {
        self.process
            .log()
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// How many log lines hold `text`.
    pub fn said(&self, text: &str) -> usize {
        self.process
            .log()
            .lines()
            .filter(|line| line.contains(text))
            .count()
    }

    /// The answer of its admin server.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let address = eventually(SOON, "the admin server's address is in the log", async || {
            self.lines()
                .iter()
                .find_map(|line| line["address"].as_str().map(str::to_owned))
        })
        .await
        .unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (
            head.split_whitespace().nth(1).unwrap().parse().unwrap(),
            body.to_owned(),
        )
    }

    /// The sum of a metric of whole numbers over the series whose labels hold `labels`; 0 where there is none.
    pub async fn metric(&self, name: &str, labels: &str) -> u64 {
        let (_, text) = self.get("/metrics").await;
        text.lines()
            .filter(|line| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(['{', ' ']))
            })
            .filter(|line| line.contains(labels))
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }

    /// Whether it holds its Lease.
    pub async fn leads(&self) -> bool {
        self.metric("leader_election_master_status", "").await == 1
    }

    /// Waits until it does.
    pub async fn until_leading(&self) {
        eventually(SOON, "the replica leads", async || {
            self.leads().await.then_some(())
        })
        .await
        .unwrap();
    }

    /// Ends it with SIGTERM and returns its exit code.
    pub async fn stop(mut self) -> Option<i32> {
        self.process.terminate().unwrap();
        self.process.wait_exit(SOON).await.unwrap().code()
    }
}

/// The kubeconfig of a service account with `rules` in the whole cluster, and the rights on the Lease that has
/// the name of the controller; all are in force.
pub async fn service_account(control_plane: &ControlPlane, controller: &str, rules: Value) -> PathBuf {
    async fn make<K>(api: Api<K>, object: Value)
    where
        K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
    {
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap())
            .await
            .unwrap();
    }
    let client = control_plane.client();
    let account = account(controller);
    let subject = json!([{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]);
    let metadata = json!({"name": controller});
    let object = json!({"metadata": {"name": account}});
    make::<ServiceAccount>(Api::namespaced(client.clone(), NAMESPACE), object).await;
    let role = json!({"metadata": metadata, "rules": &rules});
    make::<ClusterRole>(Api::all(client.clone()), role).await;
    let binding = json!({"metadata": metadata, "subjects": subject,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": controller}});
    make::<ClusterRoleBinding>(Api::all(client.clone()), binding).await;
    let lease = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [controller],
         "verbs": ["get", "update", "list", "watch"]}
    ]);
    let role = json!({"metadata": metadata, "rules": lease});
    make::<Role>(Api::namespaced(client.clone(), NAMESPACE), role).await;
    let binding = json!({"metadata": metadata, "subjects": subject,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": controller}});
    make::<RoleBinding>(Api::namespaced(client, NAMESPACE), binding).await;
    // The API server's authorizer has them from watches, one for each kind.
    let of_lease = json!({"verb": "get", "group": "coordination.k8s.io", "resource": "leases",
        "namespace": NAMESPACE, "name": controller});
    let first = &rules[0];
    let in_cluster = json!({"verb": first["verbs"][0], "group": first["apiGroups"][0],
        "resource": first["resources"][0], "name": first["resourceNames"][0]});
    let in_force = async || {
        let given = first.is_null() || allowed(control_plane, controller, &in_cluster).await;
        (given && allowed(control_plane, controller, &of_lease).await).then_some(())
    };
    eventually(SOON, "the rights of the service account are in force", in_force)
        .await
        .unwrap();
    control_plane
        .service_account_kubeconfig(NAMESPACE, &account)
        .await
        .unwrap()
}

/// The name of a controller's service account. Not that of the controller: to it the API server gives the rights
/// of the built-in loop.
fn account(controller: &str) -> String {
    format!("{controller}-replica")
}

/// The user name of a controller's service account.
pub(crate) fn user(controller: &str) -> String {
    format!("system:serviceaccount:{NAMESPACE}:{}", account(controller))
}
