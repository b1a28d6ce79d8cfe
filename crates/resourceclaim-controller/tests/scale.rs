//! What one pod of abusive size costs the loop, in which other tenants' keys wait for their turn.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[allow(dead_code, reason = "it uses some of it")]
#[path = "support/server/mod.rs"]
mod server;
mod support;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use controller_core::controller::{Completed, Effect, Limit, Loop, LoopEvent, Now};
use controller_testing::sim::{NOW, Watch};
use prometheus::Registry;
use resourceclaim_controller::ResourceClaimController;
use resourceclaim_controller::config::Config;
use resourceclaim_controller::decide::Gates;
use resourceclaim_controller::requests::Answer;
use resourceclaim_controller::view::Entry;

use self::server::Server;
use self::support::{key, pod_with, templated};

/// A permit in so long: at the default limits a write of a pod mostly waits for one.
const PERMIT_EVERY: Duration = Duration::from_millis(1);

/// A limit that has nothing left over.
#[derive(Default)]
struct OneByOne {
    now: Cell<Duration>,
    next: Cell<Duration>,
}

impl Limit for OneByOne {
    fn wait(&self) -> Duration {
        self.next.get().saturating_sub(self.now.get())
    }

    fn take(&self) {
        self.next.set(self.next.get().max(self.now.get()) + PERMIT_EVERY);
    }
}

/// A process, its watches and the API server.
struct Rig {
    server: Server,
    event_loop: Loop<ResourceClaimController>,
    limit: OneByOne,
    now: Now,
    out: VecDeque<Effect<ResourceClaimController>>,
    /// What the loop has taken of the processor.
    taken: Duration,
}

/// How long this thread has run.
fn on_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

impl Rig {
    fn new() -> Self {
        let mut server = Server::new(false);
        server.make_template("t");
        let controller =
            ResourceClaimController::new(&Config::default(), Gates::default(), &Registry::new()).unwrap();
        let mut event_loop = Loop::new(Arc::new(controller), [None], false);
        let templates: &mut dyn Watch<_> = &mut server.templates;
        for watch in [templates, &mut server.pods, &mut server.claims] {
            watch.restart();
            watch.deliver(&mut event_loop, NOW);
        }
        event_loop.on_event(LoopEvent::Synced, NOW);
        event_loop.on_event(LoopEvent::Leading(true), NOW);
        Self {
            server,
            event_loop,
            limit: OneByOne::default(),
            now: NOW,
            out: VecDeque::new(),
            taken: Duration::ZERO,
        }
    }

    fn measure<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let before = on_cpu();
        let result = act(self);
        self.taken += on_cpu().saturating_sub(before);
        result
    }

    /// Takes turns until nothing is left to do; how many requests that has taken.
    fn settle(&mut self) -> usize {
        let mut requests = 0;
        loop {
            let again = self.measure(|rig| {
                while rig.server.pods.deliver(&mut rig.event_loop, rig.now) {}
                while rig.server.claims.deliver(&mut rig.event_loop, rig.now) {}
                rig.limit.now.set(rig.now.uptime);
                let polled = rig.event_loop.poll(rig.now, &rig.limit);
                rig.out.extend(polled.effects);
                polled.again
            });
            let wait = again.filter(|wait| *wait <= 2 * PERMIT_EVERY);
            if let Some(Effect { id, ask, .. }) = self.out.pop_front() {
                requests += 1;
                let answer: Completed<Answer> = self.server.answer(&ask);
                let now = self.now;
                self.measure(|rig| rig.event_loop.completed(id, answer, now));
            } else if let Some(wait) = wait {
                self.now.uptime += wait;
            } else {
                return requests;
            }
        }
    }

    fn make_pod(&mut self, entries: Vec<Entry>) {
        self.server.put_pod(pod_with(entries));
    }
}

fn entries(count: usize) -> Vec<Entry> {
    (0..count)
        .map(|number| templated(&format!("entry-{number}"), "t"))
        .collect()
}

/// Asserts that the cost of an object grows little with their number. A busy machine makes both dear, so the cheapest of a
/// few rounds counts.
fn assert_linear(cost: impl Fn(usize) -> Duration, (small, large): (usize, usize)) {
    const ROUNDS: usize = 3;
    /// Four times the objects cost four times as much each if every one looks at all.
    const GROWS: f64 = 2.5;
    let rounds: Vec<_> = (0..ROUNDS).map(|_| (cost(small), cost(large))).collect();
    let of = |cost: Option<Duration>, size: usize| cost.unwrap() / u32::try_from(size).unwrap();
    let one_of_few = of(rounds.iter().map(|(few, _)| *few).min(), small);
    let one_of_many = of(rounds.iter().map(|(_, many)| *many).min(), large);
    assert!(one_of_many < one_of_few.mul_f64(GROWS), "{rounds:?}");
}

#[test]
fn an_entry_of_a_pod_of_4_000_costs_little_more_than_one_of_1_000() {
    let cost = |count: usize| {
        let mut rig = Rig::new();
        rig.make_pod(entries(count));
        let requests = rig.settle();
        let pod = rig.server.claimant(&key("pod")).unwrap().clone();
        assert_eq!(pod.statuses.len(), count);
        // One asks what is served, one records.
        assert_eq!(requests, count + 2);
        let made = std::mem::take(&mut rig.taken);
        rig.server.schedule(&pod.key);
        assert_eq!(rig.settle(), 0);
        // Each allocated claim is looked for among all entries, but none of these is evaluated.
        assert!(rig.taken < 2 * made, "{:?} after {made:?}", rig.taken);
        made
    };
    assert_linear(cost, (1_000, 4_000));
}

#[test]
fn a_claim_of_a_thousand_that_are_deleted_costs_little_more_than_one_of_250() {
    let cost = |count: usize| {
        let mut rig = Rig::new();
        rig.make_pod(entries(count));
        rig.settle();
        let pod = rig.server.claimant(&key("pod")).unwrap().clone();
        // In the order in which most is looked at until one is found that is gone.
        for status in pod.statuses.iter().rev() {
            rig.server.remove_claim(&key(status.claim.as_ref().unwrap()));
        }
        rig.taken = Duration::ZERO;
        let requests = rig.settle();
        let made = { rig.server.all_claims() }.filter(|claim| claim.entry.is_some());
        assert_eq!(made.count(), count);
        // A look and a create each; a few looks are taken twice, for a pass ends between the two.
        assert!(requests < count * 23 / 10, "{requests}");
        rig.taken
    };
    assert_linear(cost, (250, 1_000));
}
