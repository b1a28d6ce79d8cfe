//! A cluster on the embedded API server with replicas of a controller, which something like Prometheus scrapes.
//! Time is tokio's, paused.

use std::time::Duration;

use controller_core::clock::{Clock, saturating_add};
use controller_core::config::ControllerConfig;
use controller_core::runtime::App;
use controller_testing::{Running, Start};
use embedded_apiserver::{Acting, Actors, NODES, PODS, REPLICA_SETS, RecordedRequest, Server};
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::faults::Fault;
use crate::recording::{INTERVAL, Recording};
use crate::rules;

const START: &str = "2026-01-01T00:00:00Z";
/// The cluster changes this often, and is scraped every third time.
pub(crate) const TICK: Duration = Duration::from_secs(10);
const TICKS_A_SCRAPE: u64 = INTERVAL.as_secs() / TICK.as_secs();
const TICKS_A_MINUTE: u64 = 60 / TICK.as_secs();

/// A controller, and the cluster that it has to do with.
pub(crate) struct Controller {
    pub(crate) name: &'static str,
    /// Starts a replica with this identity.
    pub(crate) start: fn(&str, kube::Client, &Clock) -> Running,
    /// The same in a dry run.
    pub(crate) start_dry: fn(&str, kube::Client, &Clock) -> Running,
    /// What there is before it starts.
    pub(crate) prepare: fn(&Server),
    /// The components that are at work beside it.
    pub(crate) actors: fn() -> Actors,
    /// What happens in the cluster at this tick, counted from 0, be the API server there or not.
    pub(crate) load: Load,
    /// What goes wrong with no other controller.
    pub(crate) faults: &'static [Fault],
}

/// What is done to a cluster at a tick.
pub(crate) type Load = fn(Server, u64) -> BoxFuture<'static, ()>;

/// A controller at work.
pub(crate) struct Cluster {
    pub(crate) controller: &'static Controller,
    pub(crate) server: Server,
    pub(crate) clock: Clock,
    pub(crate) recording: Recording,
    pub(crate) replicas: Vec<Replica>,
    /// What goes wrong at each tick.
    pub(crate) fault: Option<Load>,
    started: usize,
    ticks: u64,
    _acting: Acting,
}

/// A pod of the controller.
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) process: Running,
}

/// Starts the binary of `A` with leader election and otherwise without flags.
pub(crate) fn start<A>(identity: &str, client: kube::Client, clock: &Clock) -> Running
where
    A: App<Config: ControllerConfig + Default> + 'static,
{
    Start::of::<A>().elected_as(identity).start(client, clock)
}

/// The same in a dry run, which takes no Lease.
pub(crate) fn start_dry<A>(_: &str, client: kube::Client, clock: &Clock) -> Running
where
    A: App<Config: ControllerConfig + Default> + 'static,
{
    let dry = |config: &mut A::Config| *config = serde_json::from_value(json!({"dryRun": true})).unwrap();
    Start::of::<A>().configured(dry).start(client, clock)
}

/// What the clock on the wall of a cluster says.
pub(crate) fn now(server: &Server) -> Timestamp {
    saturating_add(START.parse().unwrap(), server.elapsed())
}

/// Stores a replica set of pods with this spec; [`fill`] gives it them.
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

/// Stores the pods that replica sets lack at this tick, each on the node without taints that has the fewest.
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

/// Whether a request writes what the controller is there for: no Lease and no event.
pub(crate) fn writes_an_object(request: &RecordedRequest) -> bool {
    request.verb.is_write() && !matches!(&*request.resource, "leases" | "events")
}

impl Cluster {
    /// Two replicas of it at work for some minutes.
    pub(crate) async fn of(controller: &'static Controller) -> Self {
        let start = START.parse().unwrap();
        let server = Server::starting_at(start);
        (controller.prepare)(&server);
        let mut cluster = Self {
            controller,
            _acting: server.run((controller.actors)()),
            server,
            clock: Clock::starting_at(start),
            recording: Recording::for_rules(rules::text(controller.name)),
            replicas: Vec::new(),
            fault: None,
            started: 0,
            ticks: 0,
        };
        cluster.start();
        cluster.start();
        cluster.pass(3).await;
        cluster
    }

    /// Starts one more replica.
    pub(crate) fn start(&mut self) {
        self.start_as(self.controller.start);
    }

    /// The same with another process in its pod.
    pub(crate) fn start_as(&mut self, start: impl FnOnce(&str, kube::Client, &Clock) -> Running) {
        self.started += 1;
        let name = format!("replica-{}", self.started);
        let client = self.server.client_as(&format!("{}/{name}", self.controller.name));
        let process = start(&name, client, &self.clock);
        self.replicas.push(Replica { name, process });
    }

    /// The replica that leads, which is replicas no more.
    pub(crate) fn take_leader(&mut self) -> Replica {
        let leads = |replica: &Replica| replica.process.metric("leader_election_master_status") == 1;
        let place = self.replicas.iter().position(leads).expect("somebody leads");
        self.replicas.remove(place)
    }

    /// So many minutes of what is usual in the cluster.
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

    /// How often the controller has written, its Lease and its events aside.
    pub(crate) fn writes(&self) -> usize {
        let ours = self.server.requests().only(self.asks());
        ours.only(writes_an_object).len()
    }

    /// Whether a request is the controller's.
    pub(crate) fn asks(&self) -> impl Fn(&RecordedRequest) -> bool + Send + Sync + 'static {
        let agent = format!("{}/", self.controller.name);
        move |request| request.user_agent.starts_with(&agent)
    }
}
