//! Evictions: of all that are due the earliest first, so many at a time, while this process leads.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-8 | `Controller::evict` | `tests/sync/saved.rs::a_taint_that_is_removed_saves_the_pods_that_are_queued` |
//! | TE-10 | `Controller::failed` | `tests/sync/refused.rs::refused_deletes_are_retried_until_they_pass` |
//! | TE-14 | `Controller::work` | `tests/sync/order.rs::the_earliest_deadline_goes_first` |

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use controller_core::clock::{Clock, saturating_add};
use controller_core::error::Chain;
use controller_core::leader::{Leadership, Term};
use controller_core::meta::ObjectKey;
use controller_core::shutdown::Shutdown;
use controller_core::timed_workers::Running;
use controller_core::workers::{SYNC_TIMEOUT, SyncError};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tracing::Instrument;

use crate::NAME;
use crate::agenda::Step;
use crate::apply::Applied;
use crate::controller::Controller;
use crate::decide::{self, Eviction, Verdict};
use crate::error::Error;
use crate::live::Reading;
use crate::view::PodView;

/// When to look again at a pod that the cache condemns and the API server spares: the watch will have told by
/// then.
const CACHE_CATCHES_UP: Duration = Duration::from_secs(5);

/// The settings of the pool.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    /// `--max-concurrent-evictions`.
    pub max_concurrent: usize,
    /// `--eviction-qps`; 0 for no limit.
    pub qps: f64,
}

/// When the next eviction may begin.
struct Pace {
    clock: Clock,
    /// Between the beginnings of two.
    interval: Duration,
    next: Instant,
}

impl Pace {
    fn new(clock: Clock, qps: f64) -> Self {
        let interval = Duration::try_from_secs_f64(qps.recip()).unwrap_or(Duration::ZERO);
        let next = clock.instant();
        Self {
            clock,
            interval,
            next,
        }
    }

    /// The result of `next`, no sooner than the pace allows. Cancel safe where `next` is.
    async fn keep<T>(&mut self, next: impl Future<Output = T>) -> T {
        self.clock.sleep_until(self.next).await;
        let result = next.await;
        self.next = self.clock.instant() + self.interval;
        result
    }
}

impl Controller {
    /// Evicts in every term that this process gets, once `synced` completes; returns when `shutdown` drains
    /// and the evictions under way have ended.
    pub async fn run_evictions(
        &self,
        pool: Pool,
        leadership: &Leadership,
        synced: impl Future<Output = ()>,
        shutdown: &Shutdown,
    ) {
        tokio::select! {
            biased;
            () = shutdown.draining() => return,
            () = synced => {}
        }
        loop {
            let term = tokio::select! {
                biased;
                () = shutdown.draining() => return,
                term = leadership.lead() => term,
            };
            tracing::info!(controller = NAME, evictions = pool.max_concurrent, "evicting");
            self.leads(true);
            self.work(pool, &term, shutdown).await;
            self.leads(false);
        }
    }

    async fn work(&self, pool: Pool, term: &Term, shutdown: &Shutdown) {
        let mut pace = Pace::new(self.clock.clone(), pool.qps);
        let mut under_way = FuturesUnordered::new();
        let mut over = pin!(async {
            tokio::select! {
                () = shutdown.draining() => {}
                () = term.lost() => {}
            }
        });
        loop {
            tokio::select! {
                biased;
                () = &mut over => break,
                Some(()) = under_way.next() => {}
                due = pace.keep(self.agenda.next_due()), if under_way.len() < pool.max_concurrent => {
                    under_way.push(self.run_one(due, term));
                }
            }
        }
        while under_way.next().await.is_some() {}
    }

    async fn run_one(&self, due: Running<ObjectKey>, term: &Term) {
        let key = due.key();
        let Some(attempt) = self.agenda.begin(key) else {
            return;
        };
        let span = tracing::info_span!("evict", controller = NAME, key = %key, attempt);
        let try_it = async {
            let tried = self.clock.timeout(SYNC_TIMEOUT, self.evict(key, term)).await;
            if let Err(error) = tried.unwrap_or(Err(Error::TimedOut)) {
                self.failed(key, &error);
            }
        };
        try_it.instrument(span).await;
        self.agenda.end(key);
        // Schedules the next try, if there is to be one.
        if let Some(pod) = self.pods.get(key) {
            self.judge(&pod);
        }
    }

    /// Judges once more, on the cache and on the API server's state, then writes (TE-8, TE-9).
    async fn evict(&self, key: &ObjectKey, term: &Term) -> Result<(), Error> {
        let Some(pod) = self.pods.get(key) else {
            self.agenda.forget(key);
            return Ok(());
        };
        if self.judge(&pod) != Step::Due {
            return Ok(());
        }
        let reading = self.live.read(&pod.node).await;
        let Some(eviction) = self.still_due(&pod, &reading) else {
            return Ok(());
        };
        let mut progress = self.agenda.progress(&pod);
        if self.apply.only_plans(&eviction) {
            self.agenda.done(&pod);
            return Ok(());
        }
        if !progress.announced {
            self.notes.announce(&eviction);
            progress.announced = true;
            self.agenda.note(&pod, progress);
        }
        if !progress.marked {
            let now = servers_time(&self.clock, reading.ahead);
            let marked = self.apply.mark(&eviction, now, term).await;
            if marked.map_err(Error::Mark)? == Applied::Gone {
                self.agenda.done(&pod);
                return Ok(());
            }
            progress.marked = true;
            self.agenda.note(&pod, progress);
            // While the condition was written, the taint may have gone.
            let still = self.pods.get(key).filter(|now| now.uid == pod.uid);
            if still.is_none_or(|pod| self.judge(&pod) != Step::Due) {
                return Ok(());
            }
        }
        let deleted = self.apply.delete(&eviction, term).await;
        if deleted.map_err(Error::Delete)? == Applied::Accepted {
            self.deleted(&eviction);
        }
        self.agenda.done(&pod);
        Ok(())
    }

    /// The second judgement, with what the API server has; `None` where it spares the pod, at least for now.
    fn still_due(&self, pod: &PodView, reading: &Reading) -> Option<Eviction> {
        let pod = self.pods.get(&pod.key).filter(|now| now.uid == pod.uid)?;
        let now = self.now(reading.ahead);
        let later = saturating_add(now.ours, CACHE_CATCHES_UP);
        match self.judge_fresh(&pod, reading, &now) {
            Verdict::Condemned(condemned) if condemned.is_due(now.ours) => Some(condemned.eviction(&pod)),
            Verdict::Condemned(condemned) => {
                self.notes.skew(reading.ahead);
                self.agenda.put_off(&pod, condemned.at.unwrap_or(later));
                None
            }
            Verdict::Spared(_) => {
                self.agenda.put_off(&pod, later);
                None
            }
        }
    }

    fn failed(&self, key: &ObjectKey, error: &Error) {
        if error.ends_the_term() {
            tracing::debug!("eviction dropped: {}", Chain(error));
            return;
        }
        self.failures.count(error.reason());
        let failures = self.agenda.failed(key, error.asked_wait());
        let reason = error.reason();
        tracing::warn!(reason, "eviction failed, will be retried: {}", Chain(error));
        if failures == decide::RETRIES + 1
            && !error.namespace_terminates()
            && let Some(pod) = self.pods.get(key)
        {
            self.notes.overdue(&pod, error);
        }
    }
}

/// Our clock, set back to the API server's.
fn servers_time(clock: &Clock, ahead: SignedDuration) -> Timestamp {
    let now = clock.now();
    now.checked_sub(ahead).unwrap_or(now)
}
