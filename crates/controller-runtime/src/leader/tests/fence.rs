//! No write starts or continues outside a term.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use controller_core::api::LeaseLost;
use prometheus::IntGauge;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::leader::Leadership;
use crate::leader::term::Terms;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Terms, and the time of their creation.
fn terms() -> (Clock, Terms, Instant) {
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let start = clock.instant();
    let gauge = IntGauge::new("leading", "test").unwrap();
    (clock.clone(), Terms::new(clock, gauge), start)
}

#[tokio::test(start_paused = true)]
async fn a_term_ends_by_the_clock_when_nobody_extends_it() {
    let (clock, mut terms, start) = terms();
    assert!(terms.begin(start + secs(10)));
    let term = terms.fence().next().await;
    clock.sleep(Duration::from_millis(9999)).await;
    assert!(term.is_valid());
    term.lost().await;
    assert_eq!(clock.instant() - start, secs(10));
    assert!(!term.is_valid());
    assert!(terms.fence().current().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_extends_the_term() {
    let (clock, mut terms, start) = terms();
    terms.begin(start + secs(10));
    let term = terms.fence().next().await;
    clock.sleep(secs(9)).await;
    assert!(terms.extend(start + secs(19)));
    term.lost().await;
    assert_eq!(clock.instant() - start, secs(19));
}

#[tokio::test(start_paused = true)]
async fn a_term_that_somebody_may_have_seen_over_is_not_extended() {
    let (clock, mut terms, start) = terms();
    terms.begin(start + secs(10));
    let term = terms.fence().next().await;
    clock.sleep(secs(10)).await;
    assert!(!terms.extend(start + secs(20)));
    assert!(!term.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_term_that_would_be_over_already_does_not_begin() {
    let (_clock, mut terms, start) = terms();
    assert!(!terms.begin(start));
    assert!(terms.fence().current().is_none());
}

#[tokio::test(start_paused = true)]
async fn losing_and_regaining_at_once_ends_the_old_term() {
    let (_clock, mut terms, start) = terms();
    terms.begin(start + secs(10));
    let fence = terms.fence();
    let old = fence.next().await;
    terms.end();
    terms.begin(start + secs(10));
    old.lost().await;
    assert!(!old.is_valid());
    assert_eq!(old.run(async {}).await, Err(LeaseLost));
    let new = fence.next().await;
    assert_eq!((old.number(), new.number()), (1, 2));
    assert_eq!(new.run(async { 7 }).await, Ok(7));
}

/// Sets its flag when dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_is_dropped_when_its_term_ends() {
    let (clock, mut terms, start) = terms();
    terms.begin(start + secs(10));
    let term = terms.fence().next().await;
    let dropped = Arc::new(AtomicBool::new(false));
    let write = Dropped(Arc::clone(&dropped));
    let write = async move {
        let _alive = write;
        pending::<()>().await;
    };
    let (result, ()) = tokio::join!(term.run(write), async {
        clock.sleep(secs(3)).await;
        assert!(!dropped.load(Ordering::Relaxed));
        terms.end();
    });
    assert_eq!(result, Err(LeaseLost));
    assert!(dropped.load(Ordering::Relaxed));
    assert_eq!(clock.instant() - start, secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_writes_nothing_when_it_goes_on() {
    let (_clock, mut terms, start) = terms();
    terms.begin(start + secs(10));
    let term = terms.fence().next().await;
    let polls = Cell::new(0_u32);
    let write = || {
        poll_fn(|_| {
            polls.set(polls.get() + 1);
            Poll::<()>::Pending
        })
    };
    let mut begun = pin!(term.run(write()));
    assert!(futures::poll!(begun.as_mut()).is_pending());
    // Polled once, this moves the clock without running a timer or the elector.
    assert!(futures::poll!(pin!(tokio::time::advance(secs(10)))).is_pending());
    assert_eq!(futures::poll!(begun.as_mut()), Poll::Ready(Err(LeaseLost)));
    assert_eq!(term.run(write()).await, Err(LeaseLost));
    assert_eq!(polls.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_elector_that_is_gone_leaves_no_term() {
    let (_clock, mut terms, start) = terms();
    terms.begin(start + secs(10));
    let term = terms.fence().next().await;
    drop(terms);
    assert!(!term.is_valid());
    term.lost().await;
}

#[tokio::test(start_paused = true)]
async fn without_an_election_there_is_one_term_for_ever() {
    let leadership = Leadership::always();
    let term = leadership.lead().await;
    tokio::time::advance(secs(1_000_000)).await;
    assert!(term.is_valid());
    assert!(leadership.current().is_some());
    assert!(futures::poll!(pin!(term.lost())).is_pending());
    assert_eq!(term.run(async { 7 }).await, Ok(7));
    assert_eq!(leadership.holder(), None);
    assert_eq!(leadership.last_error(), None);
    assert_eq!(leadership.missing_permission(), None);
}
