//! The binary of a controller as a process beside a real API server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use controller_core::clock::Clock;
use parking_lot::Mutex;
use serde_json::Value;
use testkit::real::{Process, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::scrape::sum_of;

/// Within which a condition must hold that nothing but a busy machine delays.
pub const SOON: Duration = Duration::from_secs(30);
/// Lease times that make a test short.
pub const QUICK_LEASE: [&str; 3] = [
    "--leader-elect-lease-duration=1.5s",
    "--leader-elect-renew-deadline=1s",
    "--leader-elect-retry-period=0.2s",
];

/// How often a [`Pulse`] is felt.
const BEAT: Duration = Duration::from_millis(50);

/// How long a replica takes to say that it lives.
pub struct Pulse {
    state: Arc<Mutex<Beats>>,
    _asking: JoinSet<()>,
}

#[derive(Default)]
struct Beats {
    /// Since when there is no answer.
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

    /// The longest wait for an answer so far, one that goes on included.
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

/// A controller's binary, running.
pub struct Replica {
    pub process: Process,
}

/// Waits until `condition` has an answer, for [`SOON`] at most; then fails, and names it as `what`.
pub async fn soon<T>(what: &str, condition: impl AsyncFnMut() -> Option<T>) -> T {
    eventually(SOON, what, condition).await.unwrap()
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

    /// Where its admin server listens.
    pub async fn address(&self) -> String {
        soon("the admin server's address is in the log", async || {
            self.lines()
                .iter()
                .find_map(|line| line["address"].as_str().map(str::to_owned))
        })
        .await
    }

    /// The answer of its admin server.
    pub async fn get(&self, path: &str) -> (u16, String) {
        get(&self.address().await, path).await
    }

    /// Asks for `/livez` every so often from now on.
    pub async fn pulse(&self) -> Pulse {
        Pulse::of(self.address().await)
    }

    /// The sum of a metric of whole numbers over the series whose labels hold `labels`; 0 where there is none.
    pub async fn metric(&self, name: &str, labels: &str) -> u64 {
        sum_of(&self.get("/metrics").await.1, name, labels)
    }

    /// That of all its series.
    pub async fn total(&self, name: &str) -> u64 {
        self.metric(name, "").await
    }

    /// Waits until that sum is `wanted`.
    pub async fn until_metric(&self, name: &str, labels: &str, wanted: u64) {
        let what = format!("{name} is {wanted}");
        let is = async || (self.metric(name, labels).await == wanted).then_some(());
        soon(&what, is).await;
    }

    /// Waits until its informer has so many objects of a resource.
    pub async fn until_knowing(&self, resource: &str, count: u64) {
        let of_resource = format!("resource=\"{resource}\"");
        self.until_metric("informer_objects", &of_resource, count).await;
    }

    /// How many requests with this method it has made.
    pub async fn requests(&self, method: &str) -> u64 {
        let method = format!("method=\"{method}\"");
        self.metric("rest_client_requests_total", &method).await
    }

    /// Waits until its caches are full.
    pub async fn until_ready(&self) {
        let full = async || (self.get("/readyz").await.0 == 200).then_some(());
        soon("the replica is ready", full).await;
    }

    /// Whether it holds its Lease.
    pub async fn leads(&self) -> bool {
        self.total("leader_election_master_status").await == 1
    }

    /// Waits until it does.
    pub async fn until_leading(&self) {
        soon("the replica leads", async || self.leads().await.then_some(())).await;
    }

    /// Ends it with SIGTERM and returns its exit code. The log of one that fails is printed.
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
