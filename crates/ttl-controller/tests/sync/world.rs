//! A cluster of nodes on the embedded API server, and our loop beside it. Time is tokio's, paused.

use std::collections::BTreeMap;
use std::time::Duration;

use controller_core::clock::Clock;
use controller_core::rival::manager_of;
use harness::{Running, Start};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testkit::embedded::{Fault, LEASES, NODES, Request, Requests, Server, Verb};
use ttl_controller::TtlController;
use ttl_controller::config::Config;

pub(crate) const TTL: &str = "node.alpha.kubernetes.io/ttl";
const START: &str = "2026-01-01T00:00:00Z";
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) clock: Clock,
}

impl World {
    pub(crate) fn with_nodes(count: usize, ttl: Option<&str>) -> Self {
        let world = Self {
            server: Server::starting_at(START.parse().unwrap()),
            clock: Clock::starting_at(START.parse().unwrap()),
        };
        world.add(0..count, ttl);
        world
    }

    pub(crate) fn start(&self) -> Running {
        self.start_as(Start::of::<TtlController>())
    }

    /// With ten requests a second, so that a roll-out takes its time.
    pub(crate) fn start_slow(&self) -> Running {
        self.start_as(Start::of::<TtlController>().limits(10.0, 1))
    }

    pub(crate) fn start_with_election(&self, identity: &'static str) -> Running {
        self.start_as(Start::of::<TtlController>().elected_as(identity))
    }

    pub(crate) fn start_dry(&self) -> Running {
        self.start_configured(dry(Config::default()))
    }

    pub(crate) fn start_removal(&self) -> Running {
        let config = Config {
            remove: true,
            ..Config::default()
        };
        self.start_configured(config)
    }

    pub(crate) fn start_dry_removal(&self) -> Running {
        let config = dry(Config {
            remove: true,
            ..Config::default()
        });
        self.start_configured(config)
    }

    /// A removal, while `manager` puts the annotation of one node back whenever it is gone.
    pub(crate) fn start_removal_against(&self, manager: &'static str, number: usize) -> Running {
        // Time for the rival between two passes.
        self.server.fail_next(
            usize::MAX,
            |request| request.verb == Verb::List,
            Fault::Delay(Duration::from_secs(1)),
        );
        let mut removal = self.start_removal();
        let (server, clock) = (self.server.clone(), self.clock.clone());
        removal.tasks().spawn("rival", async move {
            let nodes: Api<Node> = Api::all(server.client_as(manager));
            let patch = json!({"metadata": {"annotations": {TTL: "0"}}});
            loop {
                if ttl_of(&server, number).is_none() {
                    nodes
                        .patch(&name(number), &PatchParams::default(), &Patch::Merge(&patch))
                        .await
                        .unwrap();
                }
                clock.sleep(Duration::from_millis(100)).await;
            }
        });
        removal
    }

    fn start_configured(&self, config: Config) -> Running {
        self.start_as(Start::of::<TtlController>().config(config))
    }

    fn start_as(&self, start: Start<Config>) -> Running {
        start.start(self.server.client_as("ttl-controller/test"), &self.clock)
    }

    pub(crate) fn add(&self, numbers: impl IntoIterator<Item = usize>, ttl: Option<&str>) {
        for number in numbers {
            let annotations: BTreeMap<_, _> = ttl.map(|ttl| (TTL, ttl)).into_iter().collect();
            let node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name(number), "annotations": annotations},
                "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": START}]}
            });
            self.server.insert(node).unwrap();
        }
    }

    pub(crate) fn delete(&self, numbers: impl IntoIterator<Item = usize>) {
        numbers
            .into_iter()
            .for_each(|number| self.server.delete(&NODES, "", &name(number)).unwrap());
    }

    pub(crate) fn annotate(&self, number: usize, ttl: &str) {
        self.server
            .edit(&NODES, "", &name(number), |node| {
                node["metadata"]["annotations"][TTL] = ttl.into();
            })
            .unwrap();
    }

    pub(crate) fn heartbeat(&self, number: usize) {
        let now = self.clock.now().to_string();
        let beat = |node: &mut Value| node["status"]["conditions"][0]["lastHeartbeatTime"] = now.into();
        self.server.edit(&NODES, "", &name(number), beat).unwrap();
    }

    pub(crate) fn ttl_of(&self, number: usize) -> Option<String> {
        ttl_of(&self.server, number)
    }

    pub(crate) fn manager_of_ttl(&self, number: usize) -> String {
        let node = self.server.get(&NODES, "", &name(number)).unwrap();
        let fields: Vec<_> = serde_json::from_value(node["metadata"]["managedFields"].clone()).unwrap();
        manager_of(&fields, &["f:metadata", "f:annotations", &format!("f:{TTL}")]).unwrap()
    }

    /// How many nodes carry which value; `none` for those without.
    pub(crate) fn carried(&self) -> BTreeMap<String, usize> {
        let mut carried = BTreeMap::new();
        for node in self.server.list(&NODES) {
            let value = node["metadata"]["annotations"][TTL]
                .as_str()
                .unwrap_or("none")
                .to_owned();
            *carried.entry(value).or_default() += 1;
        }
        carried
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    /// Lets time pass until `count` writes to nodes have been sent.
    pub(crate) async fn until_writes(&self, count: usize) {
        for _ in 0..600_000 {
            if self.writes().len() >= count {
                return;
            }
            self.clock.sleep(Duration::from_millis(1)).await;
        }
        panic!("{} of {count} writes after ten minutes", self.writes().len());
    }

    fn ours(&self) -> Requests {
        self.server
            .requests()
            .only(|request| request.user_agent.starts_with("ttl-controller/"))
    }

    /// Every write of ours to a node, in order, as `verb path body`.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.ours().writes().to("nodes").lines()
    }

    /// Every write of ours to anything.
    pub(crate) fn all_writes(&self) -> Vec<String> {
        self.ours().writes().lines()
    }

    pub(crate) fn accepted_writes(&self) -> usize {
        self.ours()
            .writes()
            .to("nodes")
            .only(|request| request.code == Some(200))
            .len()
    }

    pub(crate) fn reads_of_nodes(&self) -> Requests {
        self.ours().to("nodes").only(|request| !request.verb.is_write())
    }

    pub(crate) fn events(&self) -> usize {
        self.ours()
            .to("events")
            .only(|request| request.verb == Verb::Create)
            .len()
    }

    pub(crate) fn delay_next_write(&self, by: Duration) {
        self.server.fail_next(1, writes_a_node, Fault::Delay(by));
    }

    /// 429 with a `Status`, and as API Priority and Fairness answers it.
    pub(crate) fn throttle_next_writes(&self, each: usize, seconds: u64) {
        let retry_after = Duration::from_secs(seconds);
        let status = Fault::Status {
            code: 429,
            reason: "TooManyRequests".into(),
            retry_after: Some(retry_after),
        };
        self.server.fail_next(each, writes_a_node, status);
        self.server
            .fail_next(each, writes_a_node, Fault::Throttled { retry_after });
    }

    pub(crate) fn refuse_next_writes(&self, count: usize, code: u16) {
        self.server
            .fail_next(count, writes_a_node, Fault::status(code, "InternalError"));
    }

    pub(crate) fn lose_the_answer_of_the_next_write(&self) {
        self.server.fail_next(1, writes_a_node, Fault::DropAfterEffect);
    }

    pub(crate) fn lose_the_next_write(&self) {
        self.server.fail_next(1, writes_a_node, Fault::DropBefore);
    }

    pub(crate) fn lease_held_by(&self, holder: &str) {
        let now = self.clock.now();
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": "kube-system", "name": "ttl-controller"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 0,
                     "acquireTime": format!("{now:.6}"), "renewTime": format!("{now:.6}")}
        });
        self.server.insert(lease).unwrap();
    }

    pub(crate) fn steal_lease(&self, thief: &str) {
        self.server
            .edit(&LEASES, "kube-system", "ttl-controller", |lease| {
                lease["spec"]["holderIdentity"] = thief.into();
            })
            .unwrap();
    }

    pub(crate) fn lease_holder(&self) -> Option<String> {
        let lease = self.server.get(&LEASES, "kube-system", "ttl-controller")?;
        lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
    }
}

fn dry(mut config: Config) -> Config {
    config.common.dry_run = true;
    config
}

fn ttl_of(server: &Server, number: usize) -> Option<String> {
    let node = server.get(&NODES, "", &name(number)).unwrap();
    node["metadata"]["annotations"][TTL].as_str().map(str::to_owned)
}

fn writes_a_node(request: &Request) -> bool {
    request.verb.is_write() && request.resource == "nodes"
}

pub(crate) fn name(number: usize) -> String {
    format!("node-{number:04}")
}

/// The one write that gives a node this value.
pub(crate) fn writes_of(number: usize, ttl: &str) -> Vec<String> {
    vec![format!(
        r#"patch nodes/{} {{"metadata":{{"annotations":{{"node.alpha.kubernetes.io/ttl":"{ttl}"}}}}}}"#,
        name(number)
    )]
}
