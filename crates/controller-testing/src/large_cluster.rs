//! The binary of a controller next to a large cluster on the embedded server, in real time.

use std::path::PathBuf;
use std::time::Duration;

use controller_runtime::clock::Clock;
use embedded_apiserver::{Loopback, Resource, Server};
use local_control_plane::{Process, ProcessUsage, eventually};
use serde_json::Value;

use crate::replica::Replica;

const KUBECONFIG: &str = "kubeconfig";
/// Rest of the binary before its memory is read.
const REST: Duration = Duration::from_secs(10);
/// Limit for anything that the binary does, however busy the machine is.
const WITHIN: Duration = Duration::from_mins(5);
/// CPU time allowed at rest, during which the admin server answers now and then.
const CPU_AT_REST: Duration = Duration::from_millis(500);

/// A server with many objects, and a binary next to it.
pub struct LargeCluster {
    pub server: Server,
    pub clock: Clock,
    pub replica: Replica,
    binary: PathBuf,
    _door: Loopback,
    directory: tempfile::TempDir,
}

impl LargeCluster {
    /// Starts the release build named by the environment variable `variable`, next to what `seed` creates.
    pub async fn start(variable: &str, args: &[&str], seed: impl FnOnce(&Server)) -> Self {
        let clock = Clock::system();
        let wall = clock.clone();
        let server = Server::new(move || wall.now());
        seed(&server);
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join(KUBECONFIG);
        let transport = server.listen(0).await.unwrap();
        transport.kubeconfig_file(&kubeconfig).unwrap();
        let binary = PathBuf::from(std::env::var_os(variable).unwrap());
        let replica = Replica::start(&binary, &kubeconfig, args);
        Self {
            server,
            clock,
            replica,
            binary,
            _door: transport,
            directory,
        }
    }

    /// Waits until `is` returns true, and prints how long that took.
    pub async fn until(&self, what: &str, is: impl AsyncFn() -> bool) {
        let began = self.clock.instant();
        let is_so = async || is().await.then_some(());
        eventually(WITHIN, what, is_so).await.unwrap();
        println!("{what} after {:.1?}", began.elapsed());
    }

    /// Waits until `is` holds for every object of `resource`.
    pub async fn until_all(&self, resource: &'static Resource, what: &str, is: impl Fn(&Value) -> bool) {
        self.until(what, async || self.server.list(resource).iter().all(&is))
            .await;
    }

    /// Runs a subcommand of the binary to its end; returns what it printed, how long it took, and its usage shortly
    /// before the end.
    pub async fn subcommand(&self, args: &[&str]) -> (String, Duration, ProcessUsage) {
        let kubeconfig = self.directory.path().join(KUBECONFIG);
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let began = self.clock.instant();
        let mut process = Process::spawn(&self.binary, &[args, &[&kubeconfig]].concat(), &[]).unwrap();
        let mut usage = process.usage().unwrap();
        let ended = async || {
            // A process that has ended has no usage.
            usage = process.usage().unwrap_or(usage);
            process.exited().unwrap()
        };
        eventually(WITHIN, "the subcommand ends", ended).await.unwrap();
        (process.log(), began.elapsed(), usage)
    }

    /// Starts the binary once more, with these flags.
    pub fn another(&self, args: &[&str]) -> Replica {
        Replica::start(&self.binary, &self.directory.path().join(KUBECONFIG), args)
    }

    /// Changes an existing object.
    pub fn edit(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) {
        self.server.edit(resource, namespace, name, edit).unwrap();
    }

    /// Waits until the sum of this metric is `wanted`.
    pub async fn until_metric(&self, name: &str, labels: &str, wanted: u64) {
        let what = format!("{name} is {wanted}");
        self.until(&what, async || self.replica.metric(name, labels).await == wanted)
            .await;
    }

    /// Returns and prints the process's usage after a rest.
    pub async fn usage_at_rest(&self, what: &str) -> ProcessUsage {
        self.usage_of(&self.replica, what).await
    }

    /// [`usage_at_rest`](Self::usage_at_rest) of another process.
    pub async fn usage_of(&self, replica: &Replica, what: &str) -> ProcessUsage {
        self.clock.sleep(REST).await;
        let usage = replica.process.usage().unwrap();
        println!("{what}: {}", shown(usage));
        usage
    }

    /// Fails if the process uses `state` bytes of memory or more, or more than a little CPU at rest. Returns its usage
    /// before that.
    pub async fn assert_small(&self, what: &str, state: u64) -> ProcessUsage {
        let before = self.usage_at_rest(what).await;
        let after = self.usage_at_rest("at rest").await;
        assert!(after.rss < state, "{}", shown(after));
        let at_rest = after.cpu.saturating_sub(before.cpu);
        assert!(at_rest < CPU_AT_REST, "{at_rest:?} of CPU in {REST:?} of waiting");
        before
    }
}

/// The usage of a process, for printing.
fn shown(usage: ProcessUsage) -> String {
    format!(
        "RSS {} MiB, peak {} MiB, {:.1?} of CPU",
        usage.rss >> 20,
        usage.peak_rss >> 20,
        usage.cpu
    )
}
