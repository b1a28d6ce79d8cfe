//! The whole elector against a scripted server, in paused time.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::{Encoder, Registry, TextEncoder};
use serde_json::{Value, json};

use super::server::{Call, End, Fate, Server};
use super::settings::defaults;
use crate::clock::Clock;
use crate::leader::{ElectionMetrics, Leadership, LeaseLost, Term, elector};
use crate::shutdown::{self, Trigger};
use crate::tasks::TaskSet;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A running elector.
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

    /// Asks for the shutdown and returns how long it took.
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

/// A replica that leads, with its server, the time, and its term.
async fn leading() -> (Server, Clock, Replica, Term) {
    let (server, clock) = (Server::default(), clock());
    let replica = Replica::start(server.client("a"), &clock, "a");
    let term = replica.leadership.lead().await;
    (server, clock, replica, term)
}

/// The `spec` of a Lease; the times are those of 2026-01-01.
fn spec(holder: &str, seconds: i32, acquired: &str, renewed: &str, transitions: i32) -> Value {
    json!({
        "holderIdentity": holder,
        "leaseDurationSeconds": seconds,
        "acquireTime": format!("2026-01-01T{acquired}.000000Z"),
        "renewTime": format!("2026-01-01T{renewed}.000000Z"),
        "leaseTransitions": transitions,
    })
}

/// A Lease as another replica holds it.
fn held_by(holder: &str) -> Value {
    spec(holder, 15, "11:00:00", "11:59:59", 3)
}

/// The metrics of a replica whose master status is `status`, after so many slow paths.
fn metrics(status: u8, slow_paths: u8) -> String {
    let name = "{name=\"ttl-controller\"}";
    format!("leader_election_master_status{name} {status}\nleader_election_slowpath_total{name} {slow_paths}")
}

/// Ends `verb` (`*`: all) so while `switch` is on.
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

/// Notes of every request whether the replica led when it was sent.
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
    // What client-go v0.36 sends.
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
        // A watch is a help, not a need.
        assert_eq!(b.leadership.missing_right(), None);
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

#[tokio::test(start_paused = true)]
async fn a_stolen_lease_ends_the_term_before_anything_else() {
    let (server, clock) = (Server::default(), clock());
    let (client, witness) = witnessed(&server);
    let replica = Replica::start(client, &clock, "a");
    let term = replica.leadership.lead().await;
    clock.sleep(Duration::from_millis(2001)).await;
    witness.watch(&replica);
    server.edit(&held_by("thief"));
    term.lost().await;
    clock.sleep(Duration::from_millis(1)).await;
    assert_eq!(
        witness.requests(),
        ["update leading", "get leading", "get", "list", "watch"]
    );
    assert!(!term.is_valid());
    assert_eq!(replica.leadership.holder().as_deref(), Some("thief"));
    // The thief never renews: 15 s after we saw it the Lease is ours again, in another term.
    let again = replica.leadership.lead().await;
    assert_eq!(again.number(), 2);
    assert!(!term.is_valid());
    assert_eq!(server.spec()["leaseTransitions"], 4);
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_emptied_leads_again_in_another_term() {
    let (server, _clock, replica, term) = leading().await;
    server.edit(&json!({"holderIdentity": ""}));
    term.lost().await;
    assert_eq!(replica.leadership.lead().await.number(), 2);
    assert_eq!(server.spec()["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_ends_the_term_at_the_renew_deadline() {
    for end in [End::Refused(500), End::RequestLost, End::AnswerLost] {
        let (server, clock, down) = (Server::default(), clock(), switch(false));
        let client = server.client_with("a", ending("*", end, &down));
        let replica = Replica::start(client, &clock, "a");
        let start = clock.instant();
        let term = replica.leadership.lead().await;
        clock.sleep_until(start + Duration::from_millis(4001)).await;
        down.store(true, Ordering::Relaxed);
        term.lost().await;
        // The last renewal that was answered started at 4 s.
        assert_eq!(clock.instant() - start, secs(14), "{end:?}");
        clock.sleep(Duration::from_millis(1)).await;
        assert!(
            replica.metrics().contains("status{name=\"ttl-controller\"} 0"),
            "{end:?}"
        );
        assert!(replica.leadership.last_error().is_some() || end != End::Refused(500));
        assert_eq!(replica.leadership.missing_right(), None);
        clock.sleep(secs(60)).await;
        assert!(replica.leadership.current().is_none(), "{end:?}");
        down.store(false, Ordering::Relaxed);
        let again = replica.leadership.lead().await;
        assert_eq!(again.number(), 2);
        // Nobody else had it meanwhile.
        assert_eq!(server.spec()["leaseTransitions"], 0);
        assert_eq!(server.spec()["acquireTime"], "2026-01-01T12:00:00.000000Z");
        assert_eq!(replica.leadership.last_error(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_does_not_wait_for_its_next_renewal_to_stand_by() {
    let (server, clock) = (Server::default(), clock());
    let updates = AtomicU32::new(0);
    let client = server.client_with("a", move |call| Fate {
        end: match call.verb {
            // Renewals start at 2 s, at 7 s (after half a renew deadline without an answer), 9 s and 11 s.
            "update" if updates.fetch_add(1, Ordering::Relaxed) == 0 => End::RequestLost,
            "update" => End::Refused(500),
            _ => End::Answered,
        },
        ..Fate::default()
    });
    let replica = Replica::start(client, &clock, "a");
    replica.leadership.lead().await.lost().await;
    clock.sleep(Duration::from_millis(1)).await;
    assert!(replica.metrics().contains("status{name=\"ttl-controller\"} 0"));
}

#[tokio::test(start_paused = true)]
async fn one_lost_answer_does_not_cost_the_term() {
    let (server, clock) = (Server::default(), clock());
    let lost = switch(false);
    let client = server.client_with("a", ending("update", End::AnswerLost, &lost));
    let replica = Replica::start(client, &clock, "a");
    let term = replica.leadership.lead().await;
    lost.store(true, Ordering::Relaxed);
    clock.sleep(secs(3)).await;
    lost.store(false, Ordering::Relaxed);
    clock.sleep(secs(60)).await;
    assert!(term.is_valid());
    assert_eq!(term.number(), 1);
}

#[tokio::test(start_paused = true)]
async fn slow_renewals_count_from_their_start() {
    let (server, clock) = (Server::default(), clock());
    let down = switch(false);
    let client = {
        let down = Arc::clone(&down);
        server.client_with("a", move |call| Fate {
            before: if call.verb == "update" { secs(3) } else { secs(0) },
            end: if down.load(Ordering::Relaxed) {
                End::Refused(503)
            } else {
                End::Answered
            },
            ..Fate::default()
        })
    };
    let replica = Replica::start(client, &clock, "a");
    let start = clock.instant();
    let term = replica.leadership.lead().await;
    // Renewals start at 2 s, 5 s, 8 s, …: the next one as soon as the last is answered.
    clock.sleep_until(start + secs(6)).await;
    down.store(true, Ordering::Relaxed);
    term.lost().await;
    assert_eq!(clock.instant() - start, secs(15));
}

#[tokio::test(start_paused = true)]
async fn a_slow_take_counts_from_its_start() {
    let (server, clock) = (Server::default(), clock());
    let client = server.client_with("a", |call| match call.verb {
        "create" => Fate {
            before: secs(3),
            ..Fate::default()
        },
        "update" => Fate {
            end: End::Refused(503),
            ..Fate::default()
        },
        _ => Fate::default(),
    });
    let replica = Replica::start(client, &clock, "a");
    let start = clock.instant();
    let term = replica.leadership.lead().await;
    assert_eq!(clock.instant() - start, secs(3));
    term.lost().await;
    assert_eq!(clock.instant() - start, secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_slow_look_counts_from_its_answer() {
    let (server, clock) = (Server::default(), clock());
    server.edit(&held_by("dead"));
    let client = server.client_with("a", |call| Fate {
        before: if call.verb == "get" { secs(4) } else { secs(0) },
        ..Fate::default()
    });
    let replica = Replica::start(client, &clock, "a");
    // The holder may have renewed until just before the first answer, at 4 s.
    let waited = elapsed(&clock, replica.leadership.lead()).await;
    assert!((secs(19)..secs(24)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_aborted_when_the_lease_is_lost() {
    let (server, _clock, _replica, term) = leading().await;
    server.edit(&held_by("thief"));
    assert_eq!(term.run(pending::<()>()).await, Err(LeaseLost));
    assert_eq!(
        term.run(async { panic!("never started") }).await,
        Err::<(), _>(LeaseLost)
    );
}

#[tokio::test(start_paused = true)]
async fn an_edit_by_somebody_else_costs_one_look_and_not_the_term() {
    let (server, clock, replica, term) = leading().await;
    server.label("team", "x");
    clock.sleep(Duration::from_millis(4001)).await;
    assert_eq!(
        server.take_verbs(),
        ["get", "create", "update", "get", "update", "update"]
    );
    assert!(term.is_valid());
    assert_eq!(replica.metrics(), metrics(1, 1));
}

#[tokio::test(start_paused = true)]
async fn metadata_of_others_survives_a_renewal() {
    let (server, clock, _replica, _) = leading().await;
    server.label("team", "x");
    clock.sleep(secs(60)).await;
    assert_eq!(server.lease()["metadata"]["labels"], json!({"team": "x"}));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_made_again_by_its_leader() {
    let (server, clock, _a, term) = leading().await;
    let b = Replica::start(server.client("b"), &clock, "b");
    clock.sleep(secs(100)).await;
    server.delete();
    clock.sleep(Duration::from_millis(2001)).await;
    assert_eq!(server.spec()["holderIdentity"], "a");
    clock.sleep(secs(100)).await;
    assert!(term.is_valid());
    assert!(b.leadership.current().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_dead_leader_that_is_deleted_is_made_again_by_a_standby() {
    let (server, clock) = (Server::default(), clock());
    server.edit(&held_by("dead"));
    let b = Replica::start(server.client("b"), &clock, "b");
    clock.sleep(secs(10)).await;
    server.delete();
    // The watch told of it, so the lease duration counts from the deletion.
    assert_eq!(elapsed(&clock, b.leadership.lead()).await, secs(15));
}

#[tokio::test(start_paused = true)]
async fn a_restart_under_the_same_identity_leads_at_once() {
    let (server, clock) = (Server::default(), clock());
    server.edit(&held_by("a"));
    let replica = Replica::start(server.client("a"), &clock, "a");
    assert_eq!(elapsed(&clock, replica.leadership.lead()).await, secs(0));
    assert_eq!(server.spec()["leaseTransitions"], 3);
    assert_eq!(server.spec()["acquireTime"], "2026-01-01T11:00:00.000000Z");
}

#[tokio::test(start_paused = true)]
async fn of_two_that_race_for_a_lease_one_leads() {
    let (server, clock) = (Server::default(), clock());
    // Both look before either writes.
    let slow = |call: &Call| Fate {
        before: if call.verb == "get" { secs(0) } else { secs(1) },
        ..Fate::default()
    };
    let a = Replica::start(server.client_with("a", slow), &clock, "a");
    let b = Replica::start(server.client_with("b", slow), &clock, "b");
    clock.sleep(Duration::from_millis(1001)).await;
    let leaders = [&a, &b].map(|replica| replica.leadership.current().is_some());
    assert!(leaders[0] != leaders[1], "{leaders:?}");
    // The loser looked again at once.
    assert_eq!(a.leadership.holder(), b.leadership.holder());
    assert_eq!(a.leadership.last_error(), None);
    assert_eq!(b.leadership.last_error(), None);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_releases_the_lease() {
    let (server, clock, replica, term) = leading().await;
    clock.sleep(secs(1)).await;
    server.take_calls();
    assert_eq!(replica.stop().await, secs(0));
    assert!(!term.is_valid());
    let calls = server.take_calls();
    assert_eq!(
        calls.iter().map(|call| call.verb).collect::<Vec<_>>(),
        ["get", "update"]
    );
    assert_eq!(calls[1].body["spec"], spec("", 1, "12:00:01", "12:00:01", 0));
}

#[tokio::test(start_paused = true)]
async fn the_term_is_over_before_the_release_is_sent() {
    let (server, clock) = (Server::default(), clock());
    let (client, witness) = witnessed(&server);
    let replica = Replica::start(client, &clock, "a");
    replica.leadership.lead().await;
    clock.sleep(secs(1)).await;
    witness.watch(&replica);
    replica.stop().await;
    assert_eq!(witness.requests(), ["get", "update"]);
    assert_eq!(server.spec()["holderIdentity"], "");
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_shuts_down_leaves_the_lease_alone() {
    let (server, clock) = (Server::default(), clock());
    server.edit(&held_by("them"));
    let replica = Replica::start(server.client("a"), &clock, "a");
    clock.sleep(secs(1)).await;
    server.take_calls();
    assert_eq!(replica.stop().await, secs(0));
    assert_eq!(server.take_calls(), []);
    assert_eq!(server.spec(), held_by("them"));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_during_a_renewal_releases_the_lease() {
    for end in [End::RequestLost, End::AnswerLost] {
        let (server, clock, lost) = (Server::default(), clock(), switch(false));
        let client = server.client_with("a", ending("update", end, &lost));
        let replica = Replica::start(client, &clock, "a");
        replica.leadership.lead().await;
        lost.store(true, Ordering::Relaxed);
        clock.sleep(Duration::from_millis(2001)).await;
        lost.store(false, Ordering::Relaxed);
        assert_eq!(replica.stop().await, secs(0));
        assert_eq!(server.spec()["holderIdentity"], "", "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_during_a_look_releases_the_lease() {
    let (server, clock, lost) = (Server::default(), clock(), switch(false));
    let client = server.client_with("a", ending("get", End::RequestLost, &lost));
    let replica = Replica::start(client, &clock, "a");
    replica.leadership.lead().await;
    lost.store(true, Ordering::Relaxed);
    server.label("team", "x");
    clock.sleep(Duration::from_millis(2001)).await;
    assert_eq!(server.take_verbs(), ["get", "create", "update", "get"]);
    lost.store(false, Ordering::Relaxed);
    assert_eq!(replica.stop().await, secs(0));
    assert_eq!(server.spec()["holderIdentity"], "");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_while_the_lease_is_being_created_or_taken_releases_it() {
    for (verb, there) in [("create", None), ("update", Some(json!({"holderIdentity": ""})))] {
        let (server, clock, lost) = (Server::default(), clock(), switch(true));
        if let Some(there) = there {
            server.edit(&there);
        }
        let client = server.client_with("a", ending(verb, End::AnswerLost, &lost));
        let replica = Replica::start(client, &clock, "a");
        clock.sleep(secs(1)).await;
        assert_eq!(server.spec()["holderIdentity"], "a", "{verb}");
        lost.store(false, Ordering::Relaxed);
        replica.stop().await;
        assert_eq!(server.spec()["holderIdentity"], "", "{verb}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_meets_an_edit_is_tried_again() {
    let (server, clock) = (Server::default(), clock());
    let interfere = switch(false);
    let client = {
        let (server, interfere) = (server.clone(), Arc::clone(&interfere));
        server.clone().client_with("a", move |call| {
            if call.verb == "update" && interfere.swap(false, Ordering::Relaxed) {
                server.label("team", "x");
            }
            Fate::default()
        })
    };
    let replica = Replica::start(client, &clock, "a");
    replica.leadership.lead().await;
    interfere.store(true, Ordering::Relaxed);
    server.take_calls();
    assert_eq!(replica.stop().await, secs(0));
    assert_eq!(server.take_verbs(), ["get", "update", "get", "update"]);
    assert_eq!(server.spec()["holderIdentity"], "");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_took_is_not_released() {
    let (server, _clock, replica, _) = leading().await;
    server.edit(&held_by("thief"));
    replica.stop().await;
    assert_eq!(server.spec(), held_by("thief"));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_five_seconds_for_a_server_that_is_down() {
    for end in [End::RequestLost, End::Refused(500)] {
        let (server, clock, down) = (Server::default(), clock(), switch(false));
        let client = server.client_with("a", ending("*", end, &down));
        let replica = Replica::start(client, &clock, "a");
        replica.leadership.lead().await;
        down.store(true, Ordering::Relaxed);
        assert_eq!(replica.stop().await, secs(5), "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_does_not_wait_for_the_release() {
    let (server, clock, down) = (Server::default(), clock(), switch(false));
    let client = server.client_with("a", ending("*", End::RequestLost, &down));
    let replica = Replica::start(client, &clock, "a");
    replica.leadership.lead().await;
    down.store(true, Ordering::Relaxed);
    replica.trigger.advance();
    assert_eq!(replica.stop().await, secs(0));
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_named_until_it_is_granted() {
    for (verb, on_server) in [("get", None), ("create", None), ("update", Some("dead"))] {
        let (server, clock, forbidden) = (Server::default(), clock(), switch(true));
        if let Some(holder) = on_server {
            server.edit(&held_by(holder));
        }
        let client = server.client_with("a", ending(verb, End::Forbidden, &forbidden));
        let replica = Replica::start(client, &clock, "a");
        clock.sleep(secs(60)).await;
        let expected = format!(
            "{verb} lease kube-system/ttl-controller: no right to {verb} leases.coordination.k8s.io \
             in namespace kube-system: leases is forbidden: User \"a\" cannot {verb} resource \"leases\": \
             Forbidden"
        );
        assert_eq!(replica.leadership.missing_right(), Some(expected.clone()));
        assert_eq!(replica.leadership.last_error(), Some(expected));
        assert!(replica.leadership.current().is_none());
        forbidden.store(false, Ordering::Relaxed);
        replica.leadership.lead().await;
        assert_eq!(replica.leadership.missing_right(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_goes_away_is_not_a_missing_right() {
    let (server, clock) = (Server::default(), clock());
    let client = server.client_with("a", ending("create", End::Terminating, &switch(true)));
    let replica = Replica::start(client, &clock, "a");
    clock.sleep(secs(60)).await;
    assert_eq!(replica.leadership.missing_right(), None);
    assert_eq!(
        replica.leadership.last_error().as_deref(),
        Some(
            "create lease kube-system/ttl-controller: unable to create new content in namespace \
             kube-system because it is being terminated: Forbidden"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_right_that_is_missing_costs_two_requests_a_look_at_most() {
    let (server, clock) = (Server::default(), clock());
    server.edit(&json!({"holderIdentity": ""}));
    let client = server.client_with("a", ending("update", End::Forbidden, &switch(true)));
    let _replica = Replica::start(client, &clock, "a");
    clock.sleep(secs(60)).await;
    let verbs = server.take_verbs();
    let requests = verbs
        .iter()
        .filter(|verb| ["get", "update"].contains(verb))
        .count();
    assert!(requests <= 62, "{requests} in 60 s: {verbs:?}");
}
