//! A cluster on the embedded API server with replicas of a controller, scraped as by Prometheus. Tokio's time, paused.

use std::time::Duration;

use controller_core::app::App;
use controller_core::config::ControllerConfig;
use controller_core::time::saturating_add;
use controller_runtime::clock::Clock;
use controller_testing::{Running, Start};
use embedded_apiserver::{Acting, Actors, NODES, PODS, REPLICA_SETS, RecordedRequest, Server};
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::faults::Fault;
use crate::recording::{INTERVAL, Recording};
use crate::rules;

const START: &str = "2026-01-01T00:00:00Z";
/// Interval of changes in the cluster; every third is followed by a scrape.
pub(crate) const TICK: Duration = Duration::from_secs(10);
const TICKS_A_SCRAPE: u64 = INTERVAL.as_secs() / TICK.as_secs();
const TICKS_A_MINUTE: u64 = 60 / TICK.as_secs();

/// A controller, and what happens in the cluster around it.
pub(crate) struct Controller {
    pub(crate) name: &'static str,
    pub(crate) start: fn(&str, kube::Client, &Clock) -> Running,
    /// Starts a replica in a dry run.
    pub(crate) start_dry: fn(&str, kube::Client, &Clock) -> Running,
    /// Creates the objects that exist before the controller starts.
    pub(crate) prepare: fn(&Server),
    /// Components that work next to the controller.
    pub(crate) actors: fn() -> Actors,
    /// What happens in the cluster at this tick, counted from 0, also while the API server is away.
    pub(crate) load: Load,
    /// Faults of this controller only.
    pub(crate) faults: &'static [Fault],
}

/// Changes a cluster at a tick.
pub(crate) type Load = fn(Server, u64) -> BoxFuture<'static, ()>;

/// A controller at work in a cluster.
pub(crate) struct Cluster {
    pub(crate) controller: &'static Controller,
    pub(crate) server: Server,
    pub(crate) clock: Clock,
    pub(crate) recording: Recording,
    pub(crate) replicas: Vec<Replica>,
    /// Runs at each tick.
    pub(crate) fault: Option<Load>,
    /// How long the end of the recording goes on.
    pub(crate) stays: Duration,
    started: usize,
    ticks: u64,
    _acting: Acting,
}

pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) process: Running,
}

/// Starts the binary of `A` with leader election and default flags.
pub(crate) fn start<A>(identity: &str, client: kube::Client, clock: &Clock) -> Running
where
    A: App<Config: ControllerConfig + Default> + 'static,
{
    Start::of::<A>().elected_as(identity).start(client, clock)
}

/// Starts the binary of `A` in a dry run, which takes no Lease.
pub(crate) fn start_dry<A>(_: &str, client: kube::Client, clock: &Clock) -> Running
where
    A: App<Config: ControllerConfig + Default> + 'static,
{
    let dry = |config: &mut A::Config| *config = serde_json::from_value(json!({"dryRun": true})).unwrap();
    Start::of::<A>().configured(dry).start(client, clock)
}

/// Wall clock time of the cluster.
pub(crate) fn now(server: &Server) -> Timestamp {
    saturating_add(START.parse().unwrap(), server.elapsed())
}

/// Stores a replica set with this pod spec; [`fill`] creates its pods.
pub(crate) fn insert_replica_set(server: &Server, name: &str, replicas: u64, pod: &Value) {
    let labels = json!({"app": name});
    server
        .insert(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }))
        .unwrap();
}

/// Stores the pods that replica sets lack at this tick, each on the untainted node with the fewest pods.
pub(crate) fn fill(server: &Server, tick: u64) {
    for set in server.list(&REPLICA_SETS) {
        let name = set["metadata"]["name"].as_str().unwrap();
        let template = &set["spec"]["template"];
        let is_of_set = |pod: &&Value| {
            pod["metadata"]["labels"] == template["metadata"]["labels"]
                && pod["metadata"]["deletionTimestamp"].is_null()
        };
        let there = server.list(&PODS).iter().filter(is_of_set).count() as u64;
        for number in there..set["spec"]["replicas"].as_u64().unwrap() {
            let pods = server.list(&PODS);
            let nodes = server.list(&NODES).into_iter();
            let untainted = nodes.filter(|node| node["spec"]["taints"].is_null());
            let names = untainted.map(|node| node["metadata"]["name"].clone());
            let count = |node: &Value| pods.iter().filter(|pod| pod["spec"]["nodeName"] == *node).count();
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": format!("{name}-{tick}-{number}"),
                    "labels": template["metadata"]["labels"],
                    "ownerReferences": [{
                        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name,
                        "uid": set["metadata"]["uid"], "controller": true,
                    }],
                },
                "spec": template["spec"],
            });
            pod["spec"]["nodeName"] = names.min_by_key(count).unwrap();
            server.insert(pod).unwrap();
        }
    }
}

/// True for writes other than Leases and events.
pub(crate) fn writes_an_object(request: &RecordedRequest) -> bool {
    request.verb.is_write() && !matches!(&*request.resource, "leases" | "events")
}

impl Cluster {
    /// Starts two replicas and lets them work for some minutes.
    pub(crate) async fn of(controller: &'static Controller) -> Self {
        let start = START.parse().unwrap();
        let server = Server::starting_at(start);
        (controller.prepare)(&server);
        let mut cluster = Self {
            controller,
            _acting: server.run((controller.actors)()),
            server,
            clock: Clock::starting_at(start),
            recording: Recording::for_rules(&rules::text(controller.name)),
            replicas: Vec::new(),
            fault: None,
            stays: Duration::ZERO,
            started: 0,
            ticks: 0,
        };
        cluster.start();
        cluster.start();
        cluster.pass(3).await;
        cluster
    }

    pub(crate) fn start(&mut self) {
        self.start_as(self.controller.start);
    }

    /// Starts one more pod with another process in it.
    pub(crate) fn start_as(&mut self, start: impl FnOnce(&str, kube::Client, &Clock) -> Running) {
        self.started += 1;
        let name = format!("replica-{}", self.started);
        let client = self.server.client_as(&format!("{}/{name}", self.controller.name));
        let process = start(&name, client, &self.clock);
        self.replicas.push(Replica { name, process });
    }

    /// Removes the leader from the replicas and returns it.
    pub(crate) fn take_leader(&mut self) -> Replica {
        let leads = |replica: &Replica| replica.process.metric("leader_election_master_status") == 1;
        let place = self.replicas.iter().position(leads).expect("somebody leads");
        self.replicas.remove(place)
    }

    /// Runs the usual load for `minutes`.
    pub(crate) async fn pass(&mut self, minutes: u64) {
        for _ in 0..minutes * TICKS_A_MINUTE {
            (self.controller.load)(self.server.clone(), self.ticks).await;
            if let Some(fault) = self.fault {
                fault(self.server.clone(), self.ticks).await;
            }
            if self.ticks.is_multiple_of(TICKS_A_SCRAPE) {
                let targets = self
                    .replicas
                    .iter()
                    .map(|replica| (replica.name.clone(), replica.process.scrape()));
                self.recording.scrape(self.controller.name, targets);
            }
            self.ticks += 1;
            self.clock.sleep(TICK).await;
        }
    }

    /// Number of writes by the controller, without its Lease and its events.
    pub(crate) fn writes(&self) -> usize {
        let ours = self.server.requests().only(self.asks());
        ours.only(writes_an_object).len()
    }

    /// Returns whether a request comes from the controller.
    pub(crate) fn asks(&self) -> impl Fn(&RecordedRequest) -> bool + Send + Sync + 'static {
        let agent = format!("{}/", self.controller.name);
        move |request| request.user_agent.starts_with(&agent)
    }
}
