//! The whole elector against a scripted server, in paused time.

mod release;
mod term;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use controller_core::api::LeaseLost;
use parking_lot::Mutex;
use prometheus::{Encoder, Registry, TextEncoder};
use serde_json::{Value, json};

use super::server::{Call, End, Fate, Server};
use super::settings::defaults;
use crate::clock::Clock;
use crate::leader::{ElectionMetrics, Leadership, Term, elector};
use crate::shutdown::{self, Trigger};
use crate::tasks::TaskSet;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) struct Replica {
    pub(super) leadership: Leadership,
    clock: Clock,
    registry: Registry,
    trigger: Trigger,
    tasks: TaskSet,
}

impl Replica {
    pub(super) fn start(client: kube::Client, clock: &Clock, identity: &str) -> Self {
        let registry = Registry::new();
        let metrics = ElectionMetrics::register(&registry, "ttl-controller").unwrap();
        let (elector, leadership) = elector(client, clock.clone(), defaults(identity), metrics);
        let (trigger, shutdown) = shutdown::channel();
        let mut tasks = TaskSet::new();
        tasks.spawn("elector", elector.run(shutdown));
        Self {
            leadership,
            clock: clock.clone(),
            registry,
            trigger,
            tasks,
        }
    }

    /// How often a set-back was noticed, and how often it was possible.
    fn set_backs(&self) -> [u64; 2] {
        let set_backs = *self.leadership.set_backs().borrow();
        [set_backs.noticed, set_backs.possible]
    }

    /// Starts the shutdown and returns how long it took.
    pub(super) async fn stop(mut self) -> Duration {
        let start = self.clock.instant();
        self.trigger.advance();
        self.tasks.drain(&self.clock, secs(3600)).await.unwrap();
        self.clock.instant() - start
    }

    fn metrics(&self) -> String {
        let mut text = Vec::new();
        TextEncoder::new()
            .encode(&self.registry.gather(), &mut text)
            .unwrap();
        let text = String::from_utf8(text).unwrap();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.collect::<Vec<_>>().join("\n")
    }
}

fn clock() -> Clock {
    Clock::starting_at("2026-01-01T12:00:00Z".parse().unwrap())
}

/// A replica that leads, with its server, clock and term.
async fn leading() -> (Server, Clock, Replica, Term) {
    let (server, clock) = (Server::default(), clock());
    let replica = Replica::start(server.client("a"), &clock, "a");
    let term = replica.leadership.lead().await;
    (server, clock, replica, term)
}

/// A `spec` of the Lease; the times are on 2026-01-01.
fn spec(holder: &str, seconds: i32, acquired: &str, renewed: &str, transitions: i32) -> Value {
    json!({
        "holderIdentity": holder,
        "leaseDurationSeconds": seconds,
        "acquireTime": format!("2026-01-01T{acquired}.000000Z"),
        "renewTime": format!("2026-01-01T{renewed}.000000Z"),
        "leaseTransitions": transitions,
    })
}

/// A Lease held by another replica.
fn held_by(holder: &str) -> Value {
    spec(holder, 15, "11:00:00", "11:59:59", 3)
}

/// The metrics of a replica with master status `status` after `slow_paths` slow paths.
fn metrics(status: u8, slow_paths: u8) -> String {
    let name = "{name=\"ttl-controller\"}";
    format!("leader_election_master_status{name} {status}\nleader_election_slowpath_total{name} {slow_paths}")
}

/// Ends requests of `verb` (`*`: all) with `end` while `switch` is on.
fn ending(
    verb: &'static str,
    end: End,
    switch: &Arc<AtomicBool>,
) -> impl Fn(&Call) -> Fate + Send + Sync + 'static {
    let switch = Arc::clone(switch);
    move |call| Fate {
        end: if switch.load(Ordering::Relaxed) && (verb == "*" || call.verb == verb) {
            end
        } else {
            End::Answered
        },
        ..Fate::default()
    }
}

/// A replica whose requests of `verb` (`*`: all) end with `end` while the switch is on, which starts as `on`.
fn troubled(verb: &'static str, end: End, on: bool) -> (Server, Clock, Replica, Arc<AtomicBool>) {
    let (server, clock, switch) = (Server::default(), clock(), switch(on));
    let client = server.client_with("a", ending(verb, end, &switch));
    let replica = Replica::start(client, &clock, "a");
    (server, clock, replica, switch)
}

/// Records for each request whether the replica led when it was sent.
#[derive(Clone, Default)]
struct Witness(Arc<Mutex<(Option<Leadership>, Vec<String>)>>);

impl Witness {
    fn watch(&self, replica: &Replica) {
        self.0.lock().0 = Some(replica.leadership.clone());
    }

    fn requests(&self) -> Vec<String> {
        self.0.lock().1.clone()
    }
}

fn witnessed(server: &Server) -> (kube::Client, Witness) {
    let witness = Witness::default();
    let notes = witness.clone();
    let client = server.client_with("a", move |call| {
        let (leadership, requests) = &mut *notes.0.lock();
        if let Some(leadership) = leadership {
            let leading = leadership.current().map_or("", |_| " leading");
            requests.push(format!("{}{leading}", call.verb));
        }
        Fate::default()
    });
    (client, witness)
}

fn switch(on: bool) -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(on))
}

async fn elapsed<T>(clock: &Clock, future: impl Future<Output = T>) -> Duration {
    let start = clock.instant();
    future.await;
    clock.instant() - start
}

#[tokio::test(start_paused = true)]
async fn an_absent_lease_is_created_and_renewed_every_retry_period() {
    let (server, clock, replica, term) = leading().await;
    assert_eq!(term.number(), 1);
    clock.sleep(Duration::from_millis(4001)).await;
    let calls = server.take_calls();
    let verbs: Vec<_> = calls.iter().map(|call| call.verb).collect();
    assert_eq!(verbs, ["get", "create", "update", "update"]);
    // As client-go v0.36 sends it.
    assert_eq!(
        calls[1].body,
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "ttl-controller", "namespace": "kube-system"},
            "spec": spec("a", 15, "12:00:00", "12:00:00", 0),
        })
    );
    let renewed = spec("a", 15, "12:00:00", "12:00:04", 0);
    assert_eq!(calls[3].body["spec"], renewed);
    assert!(term.is_valid());
    assert_eq!(replica.leadership.holder().as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_replaced_when_its_lease_expires() {
    let (server, clock) = (Server::default(), clock());
    server.edit(&held_by("dead"));
    let replica = Replica::start(server.client("a"), &clock, "a");
    assert_eq!(elapsed(&clock, replica.leadership.lead()).await, secs(15));
    assert_eq!(server.spec(), spec("a", 15, "12:00:15", "12:00:15", 4));
}

#[tokio::test(start_paused = true)]
async fn a_standby_looks_every_retry_period_and_never_writes() {
    let (server, clock, a, _) = leading().await;
    let b = Replica::start(server.client("b"), &clock, "b");
    clock.sleep(secs(600)).await;
    assert!(b.leadership.current().is_none());
    assert_eq!(b.leadership.holder().as_deref(), Some("a"));
    let calls = server.take_calls();
    let of_b: Vec<_> = calls.iter().filter(|call| call.client == "b").collect();
    assert!(
        of_b.iter()
            .all(|call| ["get", "list", "watch"].contains(&call.verb))
    );
    let looks = of_b.iter().filter(|call| call.verb == "get").count();
    // Every 2 to 4.4 s.
    assert!((136..=300).contains(&looks), "{looks} looks in 600 s");
    assert_eq!(b.metrics(), metrics(0, 0));
    assert_eq!(a.metrics(), metrics(1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once() {
    let (server, clock, a, _) = leading().await;
    let b = Replica::start(server.client("b"), &clock, "b");
    clock.sleep(secs(100)).await;
    assert!(b.leadership.current().is_none());
    let handed_over = elapsed(&clock, async {
        tokio::join!(a.stop(), b.leadership.lead());
    });
    assert!(handed_over.await < Duration::from_millis(10));
    assert_eq!(server.spec()["holderIdentity"], "b");
    assert_eq!(server.spec()["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_watch_a_released_lease_is_taken_at_the_next_look() {
    let (server, clock, a, _) = leading().await;
    for verb in ["list", "watch"] {
        let b = server.client_with("b", ending(verb, End::Forbidden, &switch(true)));
        let b = Replica::start(b, &clock, "b");
        clock.sleep(secs(100)).await;
        // The watch is a help, not a requirement.
        assert_eq!(b.leadership.missing_permission(), None);
        assert_eq!(b.stop().await, secs(0));
    }
    let b = server.client_with("b", ending("watch", End::Forbidden, &switch(true)));
    let b = Replica::start(b, &clock, "b");
    clock.sleep(secs(100)).await;
    let handed_over = elapsed(&clock, async {
        tokio::join!(a.stop(), b.leadership.lead());
    })
    .await;
    assert!(handed_over <= Duration::from_millis(4400), "{handed_over:?}");
}
