//! Two electors, a bad network, skewed wall clocks, starved processes: never two valid terms at once.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use controller_core::time::saturating_add;
use parking_lot::Mutex;
use prometheus::Registry;
use proptest::prelude::*;

use super::server::{End, Fate, Server};
use super::settings::defaults;
use crate::clock::Clock;
use crate::leader::{ElectionMetrics, Leadership, elector};
use crate::shutdown;
use crate::tasks::TaskSet;

/// The faults that hit one replica.
#[derive(Clone, Debug)]
struct Luck {
    /// Seconds by which its wall clock is ahead.
    skew: u64,
    /// Fates of its requests in order; later requests succeed.
    fates: Vec<Fate>,
    /// Periods in which its elector does not run, in ms since the start.
    starved: Vec<(u64, u64)>,
}

/// Changes to the Lease by others, at times in ms.
#[derive(Clone, Debug)]
struct Outside {
    labels: Vec<u64>,
    /// Takes effect once both replicas have seen the Lease: a replica that has not seen it cannot know that it was
    /// held. For the same reason there is only one deletion: a replica that is cut off may miss the new Lease.
    deletion: Option<u64>,
}

/// Faults last two minutes; four more minutes show who leads then.
const END_MS: u64 = 360_000;
const STEP_MS: u64 = 20;

fn fate() -> impl Strategy<Value = Fate> {
    let delay = prop_oneof![
        6 => Just(0),
        2 => 0..200_u64,
        1 => 0..20_000_u64,
    ];
    let end = prop_oneof![
        6 => Just(End::Answered),
        1 => Just(End::RequestLost),
        1 => Just(End::AnswerLost),
        1 => Just(End::Refused(500)),
        1 => Just(End::Page),
    ];
    (delay.clone(), delay, end).prop_map(|(before, after, end)| Fate {
        before: Duration::from_millis(before),
        after: Duration::from_millis(after),
        end,
    })
}

fn luck() -> impl Strategy<Value = Luck> {
    (
        0..200_000_u64,
        proptest::collection::vec(fate(), 0..60),
        proptest::collection::vec((0..120_000_u64, 0..30_000_u64), 0..3),
    )
        .prop_map(|(skew, fates, starved)| Luck {
            skew,
            fates,
            starved: starved
                .into_iter()
                .map(|(from, long)| (from, from + long))
                .collect(),
        })
}

fn outside() -> impl Strategy<Value = Outside> {
    (
        proptest::collection::vec(0..120_000_u64, 0..4),
        proptest::option::of(0..120_000_u64),
    )
        .prop_map(|(labels, deletion)| Outside { labels, deletion })
}

/// Runs `future`, but does not poll it in these periods.
async fn starving(clock: Clock, windows: Vec<(u64, u64)>, future: impl Future<Output = ()>) {
    let start = clock.instant();
    let mut future = Box::pin(future);
    let mut awake: Option<Pin<Box<tokio::time::Sleep>>> = None;
    poll_fn(move |cx| {
        loop {
            if let Some(sleep) = &mut awake {
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                awake = None;
            }
            let now = clock.instant() - start;
            let asleep = windows
                .iter()
                .map(|(from, to)| (Duration::from_millis(*from), Duration::from_millis(*to)))
                .find(|(from, to)| (*from..*to).contains(&now));
            let Some((_, until)) = asleep else {
                return future.as_mut().poll(cx);
            };
            awake = Some(Box::pin(tokio::time::sleep_until(start + until)));
        }
    })
    .await;
}

fn replica(server: &Server, name: &'static str, luck: &Luck, tasks: &mut TaskSet) -> Leadership {
    let wall = saturating_add(
        "2026-01-01T00:00:00Z".parse().unwrap(),
        Duration::from_secs(luck.skew),
    );
    let clock = Clock::starting_at(wall);
    let fates = Mutex::new(VecDeque::from(luck.fates.clone()));
    let client = server.client_with(name, move |_| fates.lock().pop_front().unwrap_or_default());
    let metrics = ElectionMetrics::register(&Registry::new(), "ttl-controller").unwrap();
    let (elector, leadership) = elector(client, clock.clone(), defaults(name), metrics);
    let (trigger, shutdown) = shutdown::channel();
    let run = async move {
        elector.run(shutdown).await;
        drop(trigger);
    };
    tasks.spawn(name, starving(clock, luck.starved.clone(), run));
    leadership
}

/// Runs the world; returns the first time (ms) with two leaders, and whether there is a leader at the end.
fn world(a: &Luck, b: &Luck, outside: &Outside) -> (Option<u64>, bool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = Server::default();
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let mut tasks = TaskSet::new();
        let a = replica(&server, "a", a, &mut tasks);
        let b = replica(&server, "b", b, &mut tasks);
        let mut deletion = outside.deletion;
        for now in (0..END_MS / STEP_MS).map(|step| step * STEP_MS) {
            let this_step = now..now + STEP_MS;
            if outside.labels.iter().any(|at| this_step.contains(at)) && !server.lease().is_null() {
                server.label("at", &now.to_string());
            }
            let both_know = a.holder().is_some() && b.holder().is_some();
            if both_know && deletion.take_if(|at| *at <= now).is_some() {
                server.delete();
            }
            clock.sleep(Duration::from_millis(STEP_MS)).await;
            if a.current().is_some() && b.current().is_some() {
                return (Some(now), true);
            }
        }
        (None, a.current().is_some() || b.current().is_some())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn never_two_valid_terms_at_once_and_a_leader_when_the_trouble_is_over(
        a in luck(),
        b in luck(),
        outside in outside(),
    ) {
        let (two_leaders, somebody_leads) = world(&a, &b, &outside);
        prop_assert_eq!(two_leaders, None);
        prop_assert!(somebody_leads);
    }
}
