//! The binary of a controller as a process next to a real API server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::clock::Clock;
use local_control_plane::{Process, eventually};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::scrape::sum_of;

/// Limit for conditions that only a busy machine delays.
pub const SOON: Duration = Duration::from_secs(30);
/// Lease times that keep a test short.
pub const QUICK_LEASE: [&str; 3] = [
    "--leader-elect-lease-duration=1.5s",
    "--leader-elect-renew-deadline=1s",
    "--leader-elect-retry-period=0.2s",
];

/// Interval of a [`Pulse`].
const BEAT: Duration = Duration::from_millis(50);

/// Measures how fast a replica answers its liveness probe.
pub struct Pulse {
    state: Arc<Mutex<Beats>>,
    _asking: JoinSet<()>,
}

#[derive(Default)]
struct Beats {
    /// Start of the probe that has no answer yet.
    asked: Option<Instant>,
    slowest: Duration,
}

impl Pulse {
    fn of(address: String) -> Self {
        let state = Arc::new(Mutex::new(Beats::default()));
        let (told, clock) = (Arc::clone(&state), Clock::system());
        let mut asking = JoinSet::new();
        asking.spawn(async move {
            loop {
                told.lock().asked = Some(clock.instant());
                let (code, body) = get(&address, "/livez").await;
                assert_eq!(code, 200, "{body}");
                told.lock().answered();
                clock.sleep(BEAT).await;
            }
        });
        Self {
            state,
            _asking: asking,
        }
    }

    /// The longest wait for an answer so far, including the current one.
    pub fn slowest(&self) -> Duration {
        self.state.lock().slowest()
    }
}

impl Beats {
    fn answered(&mut self) {
        self.slowest = self.slowest();
        self.asked = None;
    }

    fn slowest(&self) -> Duration {
        let waiting = self.asked.map_or(Duration::ZERO, |asked| asked.elapsed());
        self.slowest.max(waiting)
    }
}

/// The running binary of a controller.
pub struct Replica {
    pub process: Process,
}

/// Waits at most [`SOON`] until `condition` returns a value; then fails and names `what`.
pub async fn soon<T>(what: &str, condition: impl AsyncFnMut() -> Option<T>) -> T {
    eventually(SOON, what, condition).await.unwrap()
}

impl Replica {
    /// Starts `binary` with these flags in addition to `--kubeconfig` and an admin server on any port.
    pub fn start(binary: &Path, kubeconfig: &Path, args: &[&str]) -> Self {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let mut all = vec![kubeconfig.as_str(), "--http-bind-address=127.0.0.1:0"];
        all.extend(args);
        Self {
            process: Process::spawn(binary, &all, &[]).unwrap(),
        }
    }

    /// The log, one JSON object a line.
    pub fn lines(&self) -> Vec<Value> {
        self.process
            .log()
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Number of log lines that contain `text`.
    pub fn said(&self, text: &str) -> usize {
        self.process
            .log()
            .lines()
            .filter(|line| line.contains(text))
            .count()
    }

    /// The address of the admin server.
    pub async fn address(&self) -> String {
        soon("the admin server's address is in the log", async || {
            self.lines()
                .iter()
                .find_map(|line| line["address"].as_str().map(str::to_owned))
        })
        .await
    }

    /// Code and body of an answer of the admin server.
    pub async fn get(&self, path: &str) -> (u16, String) {
        get(&self.address().await, path).await
    }

    /// Probes `/livez` regularly from now on.
    pub async fn pulse(&self) -> Pulse {
        Pulse::of(self.address().await)
    }

    /// The sum of an integer metric over the series whose labels contain `labels`; 0 if there is none.
    pub async fn metric(&self, name: &str, labels: &str) -> u64 {
        sum_of(&self.get("/metrics").await.1, name, labels)
    }

    /// The sum of an integer metric over all its series.
    pub async fn total(&self, name: &str) -> u64 {
        self.metric(name, "").await
    }

    /// Waits until this [`metric`](Self::metric) is `wanted`.
    pub async fn until_metric(&self, name: &str, labels: &str, wanted: u64) {
        let what = format!("{name} is {wanted}");
        let is = async || (self.metric(name, labels).await == wanted).then_some(());
        soon(&what, is).await;
    }

    /// Waits until the informer of a resource has `count` objects.
    pub async fn until_knowing(&self, resource: &str, count: u64) {
        let of_resource = format!("resource=\"{resource}\"");
        self.until_metric("informer_objects", &of_resource, count).await;
    }

    /// The number of requests made with this method.
    pub async fn requests(&self, method: &str) -> u64 {
        let method = format!("method=\"{method}\"");
        self.metric("rest_client_requests_total", &method).await
    }

    /// Waits until the caches are full.
    pub async fn until_ready(&self) {
        let full = async || (self.get("/readyz").await.0 == 200).then_some(());
        soon("the replica is ready", full).await;
    }

    /// Returns whether the replica holds its Lease.
    pub async fn leads(&self) -> bool {
        self.total("leader_election_master_status").await == 1
    }

    /// Waits until the replica holds its Lease.
    pub async fn until_leading(&self) {
        soon("the replica leads", async || self.leads().await.then_some(())).await;
    }

    /// Ends the process with SIGTERM and returns its exit code; prints the log if the process failed.
    pub async fn stop(mut self) -> Option<i32> {
        self.process.terminate().unwrap();
        let exit = self.process.wait_exit(SOON).await.unwrap();
        if !exit.success() {
            println!("{exit}:\n{}", self.process.log());
        }
        exit.code()
    }
}

async fn get(address: &str, path: &str) -> (u16, String) {
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
