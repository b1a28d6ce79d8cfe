//! A real control plane, and the binary of a controller as a process next to it.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use controller_runtime::clock::Clock;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::Api;
use local_control_plane::{AuditLevel, Leased, Options, Process, client};
use serde_json::{Value, json};

use crate::account::{NAMESPACE, account};
use crate::audit::{self, Asked};
use crate::chart::Chart;
use crate::kinds::Objects;
pub use crate::kinds::until;
use crate::permissions;
use crate::replica::{Replica, SOON};

/// The `Cluster` of a controller's live tests, which derefs to [`Cluster`] and adds methods; and the controller's
/// `NAME` and `CHART`.
#[macro_export]
macro_rules! cluster {
    ($controller:literal) => {
        pub(crate) const NAME: &str = $controller;
        pub(crate) const BUILT: &str = env!(concat!("CARGO_BIN_EXE_", $controller));
        pub(crate) const CHART: $crate::chart::Chart = $crate::chart::Chart::of(NAME);

        pub(crate) struct Cluster(pub(crate) $crate::cluster::Cluster);

        impl std::ops::Deref for Cluster {
            type Target = $crate::cluster::Cluster;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }

        impl std::ops::DerefMut for Cluster {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.0
            }
        }

        impl Cluster {
            pub(crate) async fn new() -> Self {
                Self($crate::cluster::Cluster::new(CHART, BUILT).await)
            }
        }
    };
}

/// A control plane with an account that has the permissions of the chart. The next test of the process may have it
/// next: processes and tasks that use it end before.
pub struct Cluster {
    objects: Objects,
    pub control_plane: Leased,
    pub kubeconfig: PathBuf,
    pub(crate) chart: Chart,
    pub(crate) binary: PathBuf,
}

impl Cluster {
    /// With an audit log, for the binary `built`, which runs with the permissions of `chart`.
    pub async fn new(chart: Chart, built: &str) -> Self {
        Self::with(audited(), chart, built).await
    }

    /// [`Self::new`] with other options.
    pub async fn with(options: Options, chart: Chart, built: &str) -> Self {
        let (control_plane, kubeconfig) = chart.lease(options).await;
        Self {
            objects: Objects::of(control_plane.client()),
            control_plane,
            kubeconfig,
            chart,
            binary: binary(built),
        }
    }

    /// Starts the binary with these flags.
    pub fn start(&self, args: &[&str]) -> Replica {
        Replica::start(&self.binary, &self.kubeconfig, args)
    }

    /// Starts the binary and waits until its caches are full and it leads.
    pub async fn start_leading(&self, args: &[&str]) -> Replica {
        let replica = self.start(args);
        replica.until_ready().await;
        replica.until_leading().await;
        replica
    }

    /// What `explain` prints for an object in the namespace `default`.
    pub async fn explain(&self, name: &str) -> String {
        let (text, code) = self.subcommand(&["explain", &format!("default/{name}")]).await;
        assert_eq!(code, Some(0), "{text}");
        text
    }

    /// What a subcommand of the binary prints, and its exit code.
    pub async fn subcommand(&self, args: &[&str]) -> (String, Option<i32>) {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig.display());
        let mut process = Process::spawn(&self.binary, &[args, &[&kubeconfig]].concat(), &[]).unwrap();
        let ended = process.wait_exit(SOON * 3).await.unwrap();
        (process.log(), ended.code())
    }

    /// What the binary prints as a plugin of `kubectl` with this name, such as `kubectl-x_y`, and its exit code.
    pub async fn plugin(&self, kubectl: &Path, name: &str, args: &[&str]) -> (String, Option<i32>) {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&self.binary, folder.path().join(name)).unwrap();
        let path = folder.path().to_str().unwrap();
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig.display());
        let variables = [("PATH", path), ("HOME", "/nonexistent")];
        let mut process = Process::spawn(kubectl, &[args, &[&kubeconfig]].concat(), &variables).unwrap();
        let ended = process.wait_exit(SOON * 3).await.unwrap();
        (process.log(), ended.code())
    }

    /// A client with the permissions of the account.
    pub async fn client(&self) -> kube::Client {
        client(&self.kubeconfig).await.unwrap()
    }

    /// The account's requests in the audit log, in the order of their answers.
    pub fn requests(&self) -> Vec<Asked> {
        audit::requests_of(&self.control_plane, self.chart.controller())
    }

    /// Everybody's requests in the audit log, in the order of their answers.
    pub fn all_requests(&self) -> Vec<Asked> {
        audit::requests(&self.control_plane)
    }

    /// Replaces the cluster-wide permissions of the chart, and waits until that is in force.
    pub async fn grant(&self, rules: Value) {
        permissions::grant(&self.control_plane, self.chart.controller(), rules).await;
    }

    /// Gives the account these permissions in a namespace.
    pub async fn grant_in(&self, namespace: &str, rules: Value) {
        let (name, api_group) = (self.chart.controller(), "rbac.authorization.k8s.io");
        let in_it = json!({"namespace": namespace, "name": name});
        let role = json!({"kind": "Role", "metadata": in_it, "rules": rules});
        let binding = json!({
            "kind": "RoleBinding", "metadata": in_it,
            "roleRef": {"apiGroup": api_group, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": account(name)}],
        });
        for object in [role, binding] {
            self.create(object).await;
        }
    }

    /// Waits until the account has used each of the chart's permissions.
    pub async fn until_all_used(&self) {
        let permissions = self.chart.permissions();
        permissions::until_used(&self.control_plane, self.chart.controller(), &permissions).await;
    }

    /// The account's requests so far that were answered with 403.
    pub fn refused(&self) -> Vec<Asked> {
        let mut requests = self.requests();
        requests.retain(|asked| asked.code == 403);
        requests
    }

    /// The account's requests so far, without discovery, that another role than the chart's allows.
    pub fn beyond(&self) -> Vec<Asked> {
        let permissions = self.chart.permissions();
        permissions::beyond(&self.control_plane, self.chart.controller(), &permissions)
    }

    /// The `spec` of the Lease, if there is one.
    pub async fn lease(&self) -> Option<LeaseSpec> {
        let leases: Api<Lease> = Api::namespaced(self.control_plane.client(), NAMESPACE);
        leases.get_opt(self.chart.controller()).await.unwrap()?.spec
    }

    /// The holder of the Lease, if any.
    pub async fn lease_holder(&self) -> Option<String> {
        self.lease()
            .await?
            .holder_identity
            .filter(|holder| !holder.is_empty())
    }

    /// Starts `kubectl` with these arguments.
    pub fn spawn_kubectl(&self, kubectl: &Path, args: &[&str]) -> Process {
        let kubeconfig = format!("--kubeconfig={}", self.control_plane.kubeconfig().display());
        let all = [&[&*kubeconfig], args].concat();
        Process::spawn(kubectl, &all, &[("HOME", "/nonexistent")]).unwrap()
    }

    /// Runs `kubectl` to its end; returns what it printed.
    pub async fn kubectl(&self, kubectl: &Path, args: &[&str]) -> String {
        ended_well(&mut self.spawn_kubectl(kubectl, args)).await
    }
}

impl Deref for Cluster {
    type Target = Objects;

    fn deref(&self) -> &Objects {
        &self.objects
    }
}

/// A control plane with an audit log.
pub fn audited() -> Options {
    Options {
        audit: Some(AuditLevel::Metadata),
        ..Options::default()
    }
}

/// The binary under test: `built`, unless a variable of its name, such as `TTL_CONTROLLER_BINARY`, names another build.
pub fn binary(built: &str) -> PathBuf {
    let (_, name) = built.rsplit_once('/').unwrap();
    let variable = format!("{}_BINARY", name.to_uppercase().replace('-', "_"));
    std::env::var_os(variable).unwrap_or_else(|| built.into()).into()
}

/// A limit on time or memory for the binary `built`: `shipped` if the variable of [`binary`] names another build, else
/// `debug`.
pub fn shipped_or_debug<T>(built: &str, shipped: T, debug: T) -> T {
    if binary(built) == Path::new(built) {
        debug
    } else {
        shipped
    }
}

/// The path of `kubectl`; `None` if there is none.
pub fn kubectl() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders)
        .map(|folder| folder.join("kubectl"))
        .find(|program| program.is_file());
    let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(found.is_some() || !ci, "with CI=true kubectl must be on the PATH");
    if found.is_none() {
        println!("left out: there is no kubectl on the PATH");
    }
    found
}

/// The time of the machine.
pub fn now() -> Timestamp {
    Clock::system().now()
}

/// The time without its fraction, as the API server stores it.
pub fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap()
}

/// Waits until the machine's clock shows `time`.
pub async fn until_time(time: Timestamp) {
    let ahead = time.duration_since(now());
    Clock::system()
        .sleep(Duration::try_from(ahead).unwrap_or_default())
        .await;
}

/// Waits until a process has exited with code 0; returns what it printed.
pub async fn ended_well(process: &mut Process) -> String {
    let ended = process.wait_exit(SOON * 3).await.unwrap();
    assert_eq!(ended.code(), Some(0), "{}", process.log());
    process.log()
}
