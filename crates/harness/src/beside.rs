//! The binary of a controller beside a large cluster on the embedded server, in real time.

use std::path::PathBuf;
use std::time::Duration;

use controller_core::clock::Clock;
use testkit::embedded::{Loopback, Server};
use testkit::real::Usage;

use crate::replica::Replica;

/// How long the binary is left alone before its memory is read.
pub const REST: Duration = Duration::from_secs(10);

/// A server and a binary beside it.
pub struct Beside {
    /// The server.
    pub server: Server,
    /// Its clock.
    pub clock: Clock,
    /// The binary.
    pub replica: Replica,
    _door: Loopback,
    _directory: tempfile::TempDir,
}

impl Beside {
    /// Starts the release build that `variable` of the environment names, beside what `seed` makes.
    pub async fn start(variable: &str, args: &[&str], seed: impl FnOnce(&Server)) -> Self {
        let clock = Clock::system();
        let wall = clock.clone();
        let server = Server::new(move || wall.now());
        seed(&server);
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("kubeconfig");
        let door = server.listen(0).await.unwrap();
        door.kubeconfig_file(&kubeconfig).unwrap();
        let binary = PathBuf::from(std::env::var_os(variable).unwrap());
        let replica = Replica::start(&binary, &kubeconfig, args);
        Self {
            server,
            clock,
            replica,
            _door: door,
            _directory: directory,
        }
    }

    /// What it uses, once it has had its rest.
    pub async fn usage_at_rest(&self) -> Usage {
        self.clock.sleep(REST).await;
        self.replica.process.usage().unwrap()
    }
}

/// What a process uses, for people.
pub fn shown(usage: Usage) -> String {
    format!(
        "RSS {} MiB, peak {} MiB, {:.1?} of CPU",
        usage.rss >> 20,
        usage.peak_rss >> 20,
        usage.cpu
    )
}
