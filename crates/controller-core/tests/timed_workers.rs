//! Run key K at time T (CORE-2).
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

use std::collections::BTreeMap;
use std::time::Duration;

use controller_core::clock::{Clock, saturating_add};
use controller_core::timed_workers::TimedWorkers;
use futures::FutureExt;
use jiff::Timestamp;
use proptest::prelude::*;

const START: &str = "2026-01-01T00:00:00Z";

fn clock() -> Clock {
    Clock::starting_at(START.parse().unwrap())
}

fn at(seconds: u64) -> Timestamp {
    saturating_add(START.parse().unwrap(), Duration::from_secs(seconds))
}

#[tokio::test(start_paused = true)]
async fn keys_run_at_their_times_in_their_order() {
    let clock = clock();
    let workers = TimedWorkers::new(clock.clone());
    workers.schedule("second", at(20));
    workers.schedule("first", at(10));
    assert_eq!(workers.len(), 2);
    assert_eq!(workers.scheduled_at(&"first"), Some(at(10)));
    let first = workers.next_due().await;
    assert_eq!((*first.key(), first.at(), clock.now()), ("first", at(10), at(10)));
    assert_eq!(workers.scheduled_at(&"first"), None);
    assert_eq!(*workers.next_due().await.key(), "second");
    assert_eq!(clock.now(), at(20));
    assert!(workers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_time_that_has_passed_is_now() {
    let workers = TimedWorkers::new(clock());
    workers.schedule("a", Timestamp::MIN);
    assert_eq!(*workers.next_due().now_or_never().unwrap().key(), "a");
}

#[tokio::test(start_paused = true)]
async fn a_time_at_the_end_of_the_calendar_is_harmless() {
    let clock = clock();
    let workers = TimedWorkers::new(clock.clone());
    workers.schedule("never", Timestamp::MAX);
    let waited = clock.timeout(Duration::from_hours(24), workers.next_due()).await;
    assert!(waited.is_err());
    assert_eq!(workers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_key_does_not_run() {
    let clock = clock();
    let workers = TimedWorkers::new(clock.clone());
    workers.schedule("a", at(10));
    assert!(workers.cancel(&"a"));
    assert!(!workers.cancel(&"a"));
    assert!(!workers.cancel(&"b"));
    assert_eq!(workers.scheduled_at(&"a"), None);
    assert!(
        clock
            .timeout(Duration::from_mins(1), workers.next_due())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn a_rescheduled_key_runs_once_at_its_new_time() {
    let clock = clock();
    let workers = TimedWorkers::new(clock.clone());
    workers.schedule("earlier", at(30));
    workers.schedule("earlier", at(10));
    workers.schedule("later", at(10));
    workers.schedule("later", at(30));
    drop(workers.next_due().await);
    assert_eq!(clock.now(), at(10));
    let later = workers.next_due().await;
    assert_eq!((*later.key(), clock.now()), ("later", at(30)));
    drop(later);
    assert!(
        clock
            .timeout(Duration::from_mins(1), workers.next_due())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn an_earlier_key_wakes_a_runner_that_waits_for_a_later_one() {
    let clock = clock();
    let workers = TimedWorkers::new(clock.clone());
    workers.schedule("late", at(300));
    let sooner = async {
        clock.sleep(Duration::from_secs(2)).await;
        workers.schedule("soon", at(3));
    };
    let (first, ()) = futures::join!(workers.next_due(), sooner);
    assert_eq!((*first.key(), clock.now()), ("soon", at(3)));
}

#[tokio::test(start_paused = true)]
async fn a_key_scheduled_while_it_runs_runs_again_afterwards() {
    let clock = clock();
    let workers = TimedWorkers::new(clock.clone());
    workers.schedule("a", at(1));
    let running = workers.next_due().await;
    workers.schedule("a", at(2));
    assert_eq!(workers.scheduled_at(&"a"), Some(at(2)));
    assert!(
        clock
            .timeout(Duration::from_mins(1), workers.next_due())
            .await
            .is_err(),
        "a runs twice at once"
    );
    drop(running);
    assert_eq!(*workers.next_due().await.key(), "a");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_run_does_not_remove_a_newer_entry() {
    let workers = TimedWorkers::new(clock());
    workers.schedule("a", at(1));
    let old = workers.next_due().await;
    workers.schedule("a", at(5));
    drop(old);
    assert_eq!(workers.scheduled_at(&"a"), Some(at(5)));
    assert!(workers.cancel(&"a"));
}

#[tokio::test(start_paused = true)]
async fn cancelling_while_running_cancels_only_what_waits() {
    let clock = clock();
    let workers = TimedWorkers::new(clock.clone());
    workers.schedule("a", at(1));
    let running = workers.next_due().await;
    assert!(!workers.cancel(&"a"));
    workers.schedule("a", at(2));
    assert!(workers.cancel(&"a"));
    drop(running);
    assert!(
        clock
            .timeout(Duration::from_mins(1), workers.next_due())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn rescheduling_for_ever_does_not_grow_without_bound() {
    let workers = TimedWorkers::new(clock());
    for round in 0..100_000 {
        workers.schedule("a", at(1000 + round % 7));
    }
    assert_eq!(workers.len(), 1);
    drop(workers.next_due().await);
    assert_eq!(workers.len(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Schedule(u8, u64),
    Cancel(u8),
    Pass(u64),
}

proptest! {
    /// What runs, and when, is what a plain map from key to time says.
    #[test]
    fn any_sequence_of_calls_runs_each_key_at_its_last_time(steps in prop::collection::vec(prop_oneof![
        (0..5_u8, 0..40_u64).prop_map(|(key, after)| Step::Schedule(key, after)),
        (0..5_u8).prop_map(Step::Cancel),
        (1..10_u64).prop_map(Step::Pass),
    ], 0..100)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let workers = TimedWorkers::new(clock());
            let mut model: BTreeMap<u8, u64> = BTreeMap::new();
            let mut now = 0;
            for step in steps {
                match step {
                    Step::Schedule(key, after) => {
                        workers.schedule(key, at(now + after));
                        model.insert(key, now + after);
                    }
                    Step::Cancel(key) => prop_assert_eq!(workers.cancel(&key), model.remove(&key).is_some()),
                    Step::Pass(seconds) => {
                        tokio::time::advance(Duration::from_secs(seconds)).await;
                        now += seconds;
                        let mut ran = BTreeMap::new();
                        while let Some(running) = workers.next_due().now_or_never() {
                            ran.insert(*running.key(), running.at());
                        }
                        let due = model.extract_if(.., |_, at| *at <= now).map(|(key, time)| (key, at(time)));
                        prop_assert_eq!(ran, due.collect());
                    }
                }
                prop_assert_eq!(workers.len(), model.len());
                for (key, time) in &model {
                    prop_assert_eq!(workers.scheduled_at(key), Some(at(*time)));
                }
            }
            Ok(())
        })?;
    }
}
