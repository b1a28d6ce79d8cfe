//! Nodes and pods on the embedded API server, and our loop beside them. Time is tokio's, paused.

use std::time::Duration;

use controller_core::clock::{Clock, saturating_add};
use harness::{Running, Start};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use taint_eviction_controller::TaintEvictionController;
use taint_eviction_controller::config::Config;
use testkit::embedded::{EVENTS, Mark, NODES, PODS, Requests, Server, Verb};

const START: &str = "2026-01-01T00:00:00Z";
const AGENT: &str = "taint-eviction-controller/test";

pub(crate) struct World {
    pub(crate) server: Server,
    /// The server's time, and that of the test.
    pub(crate) clock: Clock,
}

/// How long a pod tolerates the taint `k`.
#[derive(Clone, Copy)]
pub(crate) enum For {
    No,
    Seconds(i64),
    Ever,
}

impl World {
    pub(crate) fn new() -> Self {
        let start = START.parse().unwrap();
        Self {
            server: Server::starting_at(start),
            clock: Clock::starting_at(start),
        }
    }

    /// With these nodes.
    pub(crate) fn with_nodes<const N: usize>(names: [&str; N]) -> Self {
        let world = Self::new();
        for name in names {
            world.node(name);
        }
        world
    }

    pub(crate) fn start(&self) -> Running {
        self.start_with(process())
    }

    pub(crate) fn start_with(&self, start: Start<Config>) -> Running {
        start.start(self.server.client_as(AGENT), &self.clock)
    }

    /// With a wall clock that is this many seconds ahead of the server's, or behind it.
    pub(crate) fn start_with_clock_ahead(&self, seconds: i64) -> Running {
        let clock = Clock::starting_at(self.seconds(seconds));
        process().start(self.server.client_as(AGENT), &clock)
    }

    /// So many seconds from now.
    pub(crate) fn seconds(&self, seconds: i64) -> Timestamp {
        let now = self.clock.now();
        match u64::try_from(seconds) {
            Ok(seconds) => saturating_add(now, Duration::from_secs(seconds)),
            Err(_) => now.checked_add(SignedDuration::from_secs(seconds)).unwrap(),
        }
    }

    pub(crate) fn node(&self, name: &str) {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
        self.server.insert(node).unwrap();
    }

    /// Gives the node the taint `k:NoExecute` as `kubectl taint` does: without a time.
    pub(crate) fn taint(&self, node: &str) {
        self.set_taints(node, json!([{ "key": "k", "effect": "NoExecute" }]));
    }

    /// The same with a `timeAdded`, so many seconds from now.
    pub(crate) fn taint_added(&self, node: &str, seconds: i64) {
        let added = rfc3339(self.seconds(seconds));
        self.set_taints(
            node,
            json!([{ "key": "k", "effect": "NoExecute", "timeAdded": added }]),
        );
    }

    pub(crate) fn untaint(&self, node: &str) {
        self.set_taints(node, Value::Null);
    }

    pub(crate) fn set_taints(&self, node: &str, taints: Value) {
        let edit = |node: &mut Value| node["spec"]["taints"] = taints;
        self.server.edit(&NODES, "", node, edit).unwrap();
    }

    pub(crate) fn heartbeat(&self, node: &str) {
        let now = rfc3339(self.clock.now());
        let edit = |node: &mut Value| {
            node["status"]["conditions"] = json!([{ "type": "Ready", "lastHeartbeatTime": now }]);
        };
        self.server.edit(&NODES, "", node, edit).unwrap();
    }

    pub(crate) fn pod(&self, name: &str, node: &str, tolerates: For) {
        let tolerations = match tolerates {
            For::No => json!([]),
            For::Seconds(seconds) => {
                json!([{ "key": "k", "operator": "Exists", "tolerationSeconds": seconds }])
            }
            For::Ever => json!([{ "key": "k", "operator": "Exists" }]),
        };
        self.server
            .insert(json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
                "spec": { "nodeName": node, "tolerations": tolerations, "containers": [] },
            }))
            .unwrap();
    }

    pub(crate) fn pods(&self, count: usize, node: &str, tolerates: For) {
        for number in 0..count {
            self.pod(&format!("{node}-{number:04}"), node, tolerates);
        }
    }

    pub(crate) fn edit(&self, name: &str, edit: impl FnOnce(&mut Value)) {
        self.server.edit(&PODS, "default", name, edit).unwrap();
    }

    pub(crate) fn delete(&self, name: &str) {
        self.server.delete(&PODS, "default", name).unwrap();
    }

    pub(crate) fn lives(&self, name: &str) -> bool {
        let pod = self.server.get(&PODS, "default", name);
        pod.is_some_and(|pod| stays(&pod))
    }

    pub(crate) fn uid(&self, name: &str) -> String {
        let pod = self.server.get(&PODS, "default", name).unwrap();
        pod["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// How many pods there are that nobody has deleted.
    pub(crate) fn alive(&self) -> usize {
        let pods = self.server.list(&PODS);
        pods.iter().filter(|pod| stays(pod)).count()
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) async fn pass_millis(&self, millis: u64) {
        self.clock.sleep(Duration::from_millis(millis)).await;
    }

    /// Lets everything happen that needs no time.
    pub(crate) async fn settle(&self) {
        self.pass_millis(100).await;
    }

    fn ours(&self, since: Mark) -> Requests {
        let requests = self.server.requests_since(since);
        requests.only(|request| request.user_agent == AGENT && request.resource != "events")
    }

    /// Our requests since `mark` that are no lists, watches or events, as `verb path body`.
    pub(crate) fn requests_since(&self, mark: Mark) -> Vec<String> {
        self.ours(mark)
            .only(|request| !matches!(request.verb, Verb::List | Verb::Watch))
            .lines()
    }

    /// Every write of ours, events included.
    pub(crate) fn all_writes(&self) -> Vec<String> {
        let ours = self.server.requests();
        ours.only(|request| request.user_agent == AGENT).writes().lines()
    }

    /// The names of the pods that we asked to delete, in order.
    pub(crate) fn deletes(&self) -> Vec<String> {
        let deletes = self
            .server
            .requests()
            .only(|request| request.verb == Verb::Delete);
        deletes.iter().map(|request| request.name.clone()).collect()
    }

    /// Our reads of single nodes since `mark`.
    pub(crate) fn node_reads(&self, mark: Mark) -> usize {
        self.ours(mark)
            .only(|request| request.verb == Verb::Get && request.resource == "nodes")
            .len()
    }

    /// How many events were published more than once.
    pub(crate) fn repeated_events(&self) -> usize {
        let events = self.server.list(&EVENTS);
        events.iter().filter(|event| !event["series"].is_null()).count()
    }

    /// Type, reason and note of every event of this pod.
    pub(crate) fn events(&self, pod: &str) -> Vec<String> {
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let events = self.server.list(&EVENTS);
        let mut events: Vec<_> = events
            .iter()
            .filter(|event| event["regarding"]["name"] == pod)
            .map(|event| {
                let line = ["type", "reason", "note"]
                    .map(|field| text(event, field))
                    .join(" ");
                (text(event, "eventTime"), line)
            })
            .collect();
        events.sort();
        events.into_iter().map(|(_, line)| line).collect()
    }
}

/// Our process, without client-side limits: they are not what these tests are about.
pub(crate) fn process() -> Start<Config> {
    Start::of::<TaintEvictionController>().limits(0.0, 0)
}

pub(crate) fn configured(configure: impl FnOnce(&mut Config)) -> Start<Config> {
    let mut config = Config::default();
    configure(&mut config);
    process().config(config)
}

/// Whether nobody has deleted it: no kubelet runs, so a bound pod that was stays with a deletionTimestamp.
fn stays(pod: &Value) -> bool {
    pod["metadata"].get("deletionTimestamp").is_none()
}

fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
