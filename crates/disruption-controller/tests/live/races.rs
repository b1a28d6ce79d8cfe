//! A thousand evictions among status writes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use controller_runtime::clock::Clock;
use controller_testing::soon;
use futures::future::join_all;
use parking_lot::Mutex;
use serde_json::json;

use crate::budget::{Numbers, numbers};
use crate::record::{Moment, Record};
use crate::support::{Budgets, Cluster, writes_a_status};

const TRIES: usize = 1000;
/// Most rounds of [`TRIES`] until an eviction and a status write meet.
const ROUNDS: usize = 5;
/// Pods that are evicted, one after the other; who goes has a successor.
const EVICTED: usize = 40;
/// Pods whose readiness comes and goes.
const FLIPPING: usize = 8;
const DESIRED: usize = 41;
/// Who evicts at the same time.
const DRAINS: usize = 12;
/// How often a pod's readiness changes.
const FLIP: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a control plane: cargo xtask test"]
async fn live_an_eviction_that_races_a_status_write_is_never_overwritten() {
    let cluster = Cluster::new().await;
    cluster.some_pods("web", EVICTED + FLIPPING, None).await;
    cluster.pdb("web", "minAvailable", json!(DESIRED)).await;
    let replica = cluster.start_leading(&["--kube-api-qps=0"]).await;
    cluster.until("web", numbers(7, 48, 41, 48)).await;
    let record = Record::start(&cluster).await;

    let (tried, approved) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let ready: Vec<String> = (0..EVICTED).map(|number| format!("web-{number}")).collect();
    let (ready, named) = (Mutex::new(ready), AtomicUsize::new(0));
    let over = AtomicBool::new(false);
    let drain = async || {
        while tried.fetch_add(1, Ordering::Relaxed) < TRIES {
            let pod = ready.lock().remove(0);
            let pod = match cluster.evict_at_once(&pod).await {
                201 => {
                    approved.fetch_add(1, Ordering::Relaxed);
                    let next = format!("next-{}", named.fetch_add(1, Ordering::Relaxed));
                    cluster.pod("web", &next, None).await;
                    next
                }
                // Not allowed, or too many wrote the budget at the same time.
                429 | 409 | 500 => pod,
                code => panic!("{pod}: {code}"),
            };
            ready.lock().push(pod);
        }
    };
    let conflicts = || {
        let requests = cluster.all_requests().into_iter();
        let refused = requests.filter(|asked| writes_a_status(asked) && asked.code == 409);
        refused.count()
    };
    let drains = async {
        for _ in 0..ROUNDS {
            tried.store(0, Ordering::Relaxed);
            join_all((0..DRAINS).map(|_| drain())).await;
            if conflicts() > 0 {
                break;
            }
        }
        over.store(true, Ordering::Relaxed);
    };
    let flips = async {
        let (clock, mut number) = (Clock::system(), 0);
        while !over.load(Ordering::Relaxed) {
            let pod = format!("web-{}", EVICTED + number % FLIPPING);
            cluster.ready(&pod, number / FLIPPING % 2 == 1).await;
            number += 1;
            clock.sleep(FLIP).await;
        }
        for number in EVICTED..EVICTED + FLIPPING {
            cluster.ready(&format!("web-{number}"), true).await;
        }
    };
    tokio::join!(drains, flips);
    cluster.until("web", numbers(7, 48, 41, 48)).await;
    soon("no entry is left", async || {
        cluster.status("web").await["disruptedPods"]
            .is_null()
            .then_some(())
    })
    .await;

    let moments = record.end(&cluster, "web").await;
    assert_eq!(moments[0].pdb.numbers, numbers(7, 48, 41, 48));
    let found = judge(&moments);
    let approved = approved.into_inner();
    assert_eq!(found.approved, approved);
    assert!(approved >= 100, "only {approved} evictions were approved");
    let conflicts = conflicts();
    println!(
        "{approved} approved, {} statuses written, {conflicts} conflicts",
        found.written
    );
    assert!(conflicts > 0, "no eviction raced a status write");
    assert_eq!(replica.stop().await, Some(0));
}

/// What changed the budget.
#[derive(Default)]
struct Found {
    approved: usize,
    written: usize,
}

/// Each change of the budget is an approved eviction, which adds its entry and takes one from what is allowed, where
/// something is, or a status of ours: that of the pods as they were at some moment, not before the moment of the status before, and of
/// the entries that are there. So nothing that was approved is forgotten.
fn judge(moments: &[Moment]) -> Found {
    let mut found = Found::default();
    let mut judged = 0;
    for (index, pair) in moments.windows(2).enumerate() {
        let [before, after] = pair else {
            unreachable!("windows of two")
        };
        let (old, new) = (&before.pdb, &after.pdb);
        if old == new {
            continue;
        }
        if new.entries.len() > old.entries.len() {
            assert!(new.entries.is_superset(&old.entries), "{before:#?} {after:#?}");
            assert_eq!(new.entries.len(), old.entries.len() + 1);
            let allowed = old.numbers.allowed - 1;
            assert!(allowed >= 0, "{before:#?}");
            assert_eq!(
                new.numbers,
                Numbers {
                    allowed,
                    ..old.numbers
                }
            );
            found.approved += 1;
        } else {
            let is_of = |moment: &Moment| {
                let current = moment.staying(&old.entries);
                let allowed = current.saturating_sub(DESIRED);
                let pods = [allowed, current, DESIRED, moment.pods.len()];
                let [allowed, current, desired, expected] = pods.map(|pods| i64::try_from(pods).unwrap());
                new.numbers == numbers(allowed, current, desired, expected)
                    && new.entries == moment.remaining(&old.entries)
            };
            let of = (judged..=index + 1).find(|moment| is_of(&moments[*moment]));
            judged = of.unwrap_or_else(|| panic!("of no moment: {before:#?} {after:#?}"));
            found.written += 1;
        }
    }
    found
}
