//! Workers between the queue and a controller's `sync`: they run while this process leads, and stop
//! taking keys the moment it does not (CORE-4, CORE-6, CORE-8, CORE-10, CORE-11).

use std::fmt::Display;
use std::future::Future;
use std::hash::Hash;
use std::time::Duration;

use futures::future::{join_all, select_all};
use prometheus::{IntCounterVec, Opts, Registry};
use tracing::Instrument;

use crate::api::{CallFailed, Outcome};
use crate::clock::Clock;
use crate::error::Chain;
use crate::leader::{Leadership, Term};
use crate::shutdown::Shutdown;
use crate::workqueue::{Processing, WorkQueue};

/// A sync that takes longer is cut off and counts as failed, so that one slow call never makes the
/// liveness check end a process that works.
pub const SYNC_TIMEOUT: Duration = Duration::from_mins(1);

/// What a controller does with one key.
pub trait Reconciler: Send + Sync {
    /// What the queue holds.
    type Key: Clone + Eq + Hash + Display + Send + Sync + 'static;
    /// Why a sync failed.
    type Error: SyncError;

    /// A term begins: enqueue every key there is. The caches are full.
    fn begin(&self);

    /// The term is over: no key needs to be enqueued until the next one begins.
    fn end(&self);

    /// Brings what `key` names to where the rules want it. Writes happen under `term`.
    fn sync(&self, key: &Self::Key, term: &Term) -> impl Future<Output = Result<Next, Self::Error>> + Send;
}

/// What a finished sync asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing more until something changes.
    Settled,
    /// Look again after this long.
    After(Duration),
}

/// What the workers need to know of a failure.
pub trait SyncError: std::error::Error + Send + Sync + Sized + 'static {
    /// One of a closed set: it becomes a metric label.
    fn reason(&self) -> &'static str;

    /// When to try again.
    fn advice(&self) -> Advice;
}

/// When to try a failed sync again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// With the queue's backoff.
    Backoff,
    /// With the queue's backoff, but no sooner than the server asks.
    NotBefore(Duration),
    /// In the next term, which begins with every key: this one is over.
    NextTerm,
}

/// The settings of a pool of workers.
#[derive(Clone, Debug)]
pub struct Workers {
    /// The controller's name, for the log.
    pub controller: &'static str,
    /// `--concurrent-syncs`.
    pub concurrent_syncs: usize,
    /// Timers.
    pub clock: Clock,
    /// Counts failures by reason.
    pub failures: SyncFailures,
}

/// `controller_sync_failures_total{reason}`.
#[derive(Clone, Debug)]
pub struct SyncFailures(IntCounterVec);

/// The queues of one worker, the most urgent first: it takes a key of a later one only when the ones before
/// it are empty.
#[derive(Clone, Debug)]
pub struct Lane<K>(pub Vec<WorkQueue<K>>);

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Lane<K> {
    /// The next key and the queue that it is of; `None` once one of the queues is shut down and empty.
    /// Cancel safe.
    async fn next(&self) -> Option<(&WorkQueue<K>, Processing<K>)> {
        // Polled in order, so of several keys that are ready the most urgent is taken; the other queues
        // hand out nothing that is not taken.
        let gets = self.0.iter().map(|queue| Box::pin(queue.get()));
        let (item, urgency, _) = select_all(gets).await;
        Some((self.0.get(urgency)?, item?))
    }
}

impl From<&CallFailed> for Advice {
    fn from(failed: &CallFailed) -> Self {
        match (failed, failed.outcome()) {
            (CallFailed::LeaseLost { .. }, _) => Self::NextTerm,
            (_, Outcome::Throttled(wait)) => Self::NotBefore(wait),
            _ => Self::Backoff,
        }
    }
}

impl SyncFailures {
    /// Makes the family and registers it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let failures = IntCounterVec::new(
            Opts::new(
                "controller_sync_failures_total",
                "Number of syncs that failed, by reason.",
            ),
            &["reason"],
        )?;
        registry.register(Box::new(failures.clone()))?;
        Ok(Self(failures))
    }

    /// Counts a failure; `reason` is one of a closed set.
    pub fn count(&self, reason: &'static str) {
        self.0.with_label_values(&[reason]).inc();
    }
}

impl Workers {
    /// Works off `queue` in every term that this process gets, once `synced` completes; returns when
    /// `shutdown` drains and the syncs under way have ended.
    pub async fn run<R: Reconciler>(
        &self,
        reconciler: &R,
        queue: &WorkQueue<R::Key>,
        leadership: &Leadership,
        synced: impl Future<Output = ()>,
        shutdown: &Shutdown,
    ) {
        let lanes = vec![Lane(vec![queue.clone()]); self.concurrent_syncs];
        self.run_lanes(reconciler, &lanes, leadership, synced, shutdown)
            .await;
    }

    /// As [`Workers::run`], with one worker for each of `lanes` instead of `concurrent_syncs` for one queue:
    /// keys that must not be worked on side by side go to the same lane.
    pub async fn run_lanes<R: Reconciler>(
        &self,
        reconciler: &R,
        lanes: &[Lane<R::Key>],
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
            tracing::info!(controller = self.controller, workers = lanes.len(), "working");
            reconciler.begin();
            join_all(
                lanes
                    .iter()
                    .map(|lane| self.work(reconciler, lane, &term, shutdown)),
            )
            .await;
            reconciler.end();
        }
    }

    async fn work<R: Reconciler>(
        &self,
        reconciler: &R,
        lane: &Lane<R::Key>,
        term: &Term,
        shutdown: &Shutdown,
    ) {
        loop {
            let next = tokio::select! {
                biased;
                () = shutdown.draining() => return,
                () = term.lost() => return,
                next = lane.next() => next,
            };
            let Some((queue, item)) = next else { return };
            let key = item.key();
            let attempt = queue.num_requeues(key);
            let span = tracing::info_span!("sync", controller = self.controller, key = %key, attempt);
            self.sync_one(reconciler, queue, key, term).instrument(span).await;
            // A long queue of keys that need nothing must not keep the thread from everybody else.
            tokio::task::consume_budget().await;
        }
    }

    async fn sync_one<R: Reconciler>(
        &self,
        reconciler: &R,
        queue: &WorkQueue<R::Key>,
        key: &R::Key,
        term: &Term,
    ) {
        match self.clock.timeout(SYNC_TIMEOUT, reconciler.sync(key, term)).await {
            Ok(Ok(Next::Settled)) => queue.forget(key),
            Ok(Ok(Next::After(wait))) => {
                queue.forget(key);
                queue.add_after(key.clone(), wait);
            }
            Ok(Err(error)) => self.failed(queue, key, &error),
            Err(_) => {
                self.failures.count("TimedOut");
                tracing::warn!("sync cut off after {} s, will be retried", SYNC_TIMEOUT.as_secs());
                queue.add_rate_limited(key.clone());
            }
        }
    }

    fn failed<K: Clone + Eq + Hash + Send + Sync + 'static>(
        &self,
        queue: &WorkQueue<K>,
        key: &K,
        error: &impl SyncError,
    ) {
        self.failures.count(error.reason());
        match error.advice() {
            Advice::Backoff => {
                tracing::warn!(
                    reason = error.reason(),
                    "sync failed, will be retried: {}",
                    Chain(error)
                );
                queue.add_rate_limited(key.clone());
            }
            Advice::NotBefore(wait) => {
                tracing::debug!(?wait, "the API server asks to wait: {}", Chain(error));
                queue.add_rate_limited_not_before(key.clone(), wait);
            }
            Advice::NextTerm => tracing::debug!("sync dropped: {}", Chain(error)),
        }
    }
}
