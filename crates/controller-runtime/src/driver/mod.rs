//! The asynchronous part: performs the effects of the loop.

mod env;
mod first_queries;
mod informer_set;
mod reload;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{AnswerClass, CallFailed};
use controller_core::app::{App, Failure};
use controller_core::controller::{
    AnswerOf, Completed, Controller, Description, Effect, Inspector, Loop, LoopEvent, Notification, Now,
    Object, Polled, RequestOf, Write,
};
use controller_core::log_throttle::LogThrottle;
use controller_core::metrics::at_scrape;
use controller_core::workqueue::QueueMetrics;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use prometheus::Registry;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::Instrument;

pub use self::env::Env;
use self::first_queries::ask_first;
pub use self::first_queries::explain;
pub use self::informer_set::{InformerSet, Sources, Watched};
use crate::api::limits::Permits;
use crate::clock::Clock;
use crate::events::EventRecorder;
use crate::leader::{Leadership, Term};
use crate::metrics::{PlannedWrites, SyncFailures};
use crate::sender::Sender;
use crate::shutdown::Shutdown;
use crate::tasks::TaskSet;

/// A controller and its loop, shared by the task that performs its effects and the informers that feed it.
pub struct Driver<C: Controller> {
    controller: Arc<C>,
    event_loop: Arc<Mutex<Loop<C>>>,
    wake: Notify,
    /// Places of the informers whose caches may hold what no longer exists. Nobody leads by such a cache.
    distrusted: Mutex<BTreeSet<usize>>,
    clock: Clock,
    origin: Instant,
    recorder: EventRecorder,
    planned: PlannedWrites,
    failures: SyncFailures,
    /// Causes of failures that were logged recently: the reason, and verb and resource of the request.
    named: Mutex<LogThrottle<(&'static str, String), Duration>>,
}

/// How often a leader looks at everything again: a key wrongly taken for done is then late, not lost.
const RESYNC_EVERY: Duration = Duration::from_hours(1);
/// How often one cause of failures is logged as a warning, whichever objects it concerns.
const NAMED_EVERY: Duration = Duration::from_mins(1);

/// Runs the controller until `env.shutdown` drains or its work is over.
pub async fn run<A: App>(config: A::Config, env: Env) -> Result<(), Failure> {
    run_over::<A>(config, env, Watched).await
}

/// Like [`run`], with informers that take their events from `sources`.
pub async fn run_over<A: App>(config: A::Config, env: Env, sources: impl Sources) -> Result<(), Failure> {
    let registry = env.registry.clone();
    env.readiness.set_starting(true);
    let Some(controller) = ask_first(&env, |pass| A::start(&config, pass, &registry)).await else {
        return Ok(());
    };
    let mut tasks = TaskSet::new();
    let (driver, synced) = {
        let driver = Arc::new(Driver::new(controller?, &env)?);
        let mut informers = InformerSet::new(&env, sources)?;
        driver.controller.watch(&mut informers);
        driver.register(&env.registry)?;
        let synced = informers.start(&driver, &mut tasks);
        env.readiness.set_starting(false);
        reload::start(&driver, &config, &env, &mut tasks)?;
        (driver, synced)
    };
    let sender = Sender::new(env.http.clone(), env.caller.clone(), env.encoding);
    let driving = async {
        tokio::select! {
            biased;
            () = env.shutdown.draining() => return Ok(()),
            () = synced => {}
        }
        driver
            .drive(&sender, &env.permits, &env.leadership, &env.shutdown)
            .await
    };
    tokio::select! {
        ended = driving => ended,
        failed = tasks.first_failure() => Err(failed.into()),
    }
}

/// Completes when the term is over; never without a term.
async fn over(term: Option<Term>) {
    match term {
        Some(term) => term.lost().await,
        None => pending().await,
    }
}

impl<C: Controller> Driver<C> {
    fn new(controller: C, env: &Env) -> prometheus::Result<Self> {
        let controller = Arc::new(controller);
        let origin = env.clock.instant();
        let names = controller.queues().into_iter().map(|queue| queue.name);
        let metrics = names.map(|name| name.map(|name| queue_metrics(env, origin, name)).transpose());
        let metrics = metrics.collect::<prometheus::Result<Vec<_>>>()?;
        let event_loop = Loop::new(Arc::clone(&controller), metrics, env.dry_run);
        if env.dry_run {
            env.planned.begin(C::Write::PLANNED);
        }
        Ok(Self {
            event_loop: Arc::new(Mutex::new(event_loop.retrying_within(env.permits.retry_share()))),
            controller,
            wake: Notify::new(),
            distrusted: Mutex::default(),
            origin,
            clock: env.clock.clone(),
            recorder: env.events.clone(),
            planned: env.planned.clone(),
            failures: SyncFailures::register(&env.registry)?,
            named: Mutex::default(),
        })
    }

    fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        let (clock, origin) = (self.clock.clone(), self.origin);
        let inspector = Inspector::new(Arc::clone(&self.event_loop), move || now(&clock, origin));
        C::register(&inspector, registry)?;
        let undone = (
            "controller_planned_writes_undone",
            "Number of objects with writes that a dry run has planned for more than 5 minutes, and nobody makes.",
        );
        at_scrape(registry, [undone], move || {
            Some([i64::try_from(inspector.undone()).unwrap_or(i64::MAX)])
        })
    }

    /// Passes something to the loop, emits its notifications, and wakes the driver if a turn is worthwhile.
    fn act(&self, act: impl FnOnce(&mut Loop<C>, Now)) {
        if self.hear(act) {
            self.wake.notify_one();
        }
    }

    /// Like [`act`](Self::act) without waking the driver; returns whether a turn is worthwhile.
    fn hear(&self, act: impl FnOnce(&mut Loop<C>, Now)) -> bool {
        let now = self.now();
        let (told, is_enqueued) = {
            let mut event_loop = self.event_loop.lock();
            act(&mut event_loop, now);
            (event_loop.take_notifications(), event_loop.take_enqueued())
        };
        self.tell(told);
        is_enqueued
    }

    /// Ends the work of the term until these informers have listed again.
    fn distrust(&self, informers: impl IntoIterator<Item = usize>) {
        self.distrusted.lock().extend(informers);
        self.wake.notify_one();
    }

    /// This informer has listed everything.
    fn trust(&self, informer: usize) {
        if self.distrusted.lock().remove(&informer) {
            self.wake.notify_one();
        }
    }

    fn now(&self) -> Now {
        now(&self.clock, self.origin)
    }

    async fn drive(
        &self,
        sender: &Sender,
        permits: &Permits,
        leadership: &Leadership,
        shutdown: &Shutdown,
    ) -> Result<(), Failure> {
        self.hear(|event_loop, now| event_loop.on_event(LoopEvent::Synced, now));
        let mut term: Option<Term> = None;
        let mut draining = false;
        let mut resynced = self.clock.instant();
        let mut in_flight = FuturesUnordered::new();
        // Made once, not anew in each turn.
        let mut asked_to_end = pin!(shutdown.draining());
        let mut term_over = pin!(over(None));
        let mut timer = pin!(self.clock.timer());
        loop {
            let trusts = self.distrusted.lock().is_empty();
            if term.as_ref().is_some_and(|term| !trusts || !term.is_valid()) {
                term = None;
                term_over.set(over(None));
                self.hear(|event_loop, now| event_loop.on_event(LoopEvent::Leading(false), now));
            }
            let (polled, is_drained, finished) = {
                let mut event_loop = self.event_loop.lock();
                let polled = event_loop.poll(self.now(), permits);
                (polled, event_loop.is_drained(), event_loop.finished())
            };
            let Polled { effects, told, again } = polled;
            self.tell(told);
            if let Some(finished) = finished {
                return finished.map_err(Into::into);
            }
            if is_drained {
                return Ok(());
            }
            in_flight.extend(
                effects
                    .into_iter()
                    .map(|effect| self.perform(sender, effect, term.clone())),
            );
            let resync = term
                .as_ref()
                .map(|_| RESYNC_EVERY.saturating_sub(resynced.elapsed()));
            let wait = again.into_iter().chain(resync).min();
            if let Some(wait) = wait {
                timer.as_mut().reset(self.clock.instant() + wait);
            }
            tokio::select! {
                biased;
                () = &mut asked_to_end, if !draining => {
                    draining = true;
                    self.event_loop.lock().drain();
                }
                () = &mut term_over => term_over.set(over(term.clone())),
                next = leadership.lead(), if term.is_none() && trusts && !draining => {
                    tracing::info!(controller = C::NAME, "working");
                    term_over.set(over(Some(next.clone())));
                    term = Some(next);
                    resynced = self.clock.instant();
                    self.hear(|event_loop, now| event_loop.on_event(LoopEvent::Leading(true), now));
                }
                Some((id, completed)) = in_flight.next() => {
                    self.hear(|event_loop, now| event_loop.completed(id, completed, now));
                }
                () = self.wake.notified() => {}
                () = &mut timer, if wait.is_some() => {
                    if term.is_some() && resynced.elapsed() >= RESYNC_EVERY {
                        resynced = self.clock.instant();
                        self.hear(|event_loop, now| event_loop.on_event(LoopEvent::Resync, now));
                    }
                }
            }
            // A long queue of keys that need nothing must not keep other tasks from the thread.
            tokio::task::consume_budget().await;
        }
    }

    async fn perform(
        &self,
        sender: &Sender,
        effect: Effect<C>,
        term: Option<Term>,
    ) -> (u64, Completed<AnswerOf<C>>) {
        let Effect {
            id,
            key,
            attempt,
            waited,
            ask,
        } = effect;
        let span = tracing::debug_span!("sync", controller = C::NAME, %key, attempt);
        let performed = async {
            let completed = match ask {
                RequestOf::Query(query) => {
                    let (value, date) = sender.ask(&query, Some(waited)).await;
                    Completed::Read(value, date)
                }
                RequestOf::Write(write) => {
                    Completed::Wrote(sender.write(&write, term.as_ref(), waited).await)
                }
            };
            (id, completed)
        };
        performed.instrument(span).await
    }

    fn tell(&self, told: Vec<Notification<C>>) {
        for told in told {
            match told {
                Notification::Event(event) => self.controller.record(event, &self.recorder),
                Notification::Wrote(key, Object { key: object, .. }, Description { action, text, .. }) => {
                    tracing::info!(%key, %object, action, "{text}");
                }
                Notification::Planned(key, Object { key: object, .. }, Description { action, text, .. }) => {
                    self.planned.count(action);
                    tracing::info!(%key, %object, action, "dry run, not written: {text}");
                }
                Notification::Failed(key, failed) => self.tell_failure(&key, &failed),
                Notification::PassFailed(key, reason, text) => {
                    self.failures.count(reason);
                    self.name_failure(&key, reason, String::new(), &text);
                }
                Notification::NoProgress(key) => {
                    self.failures.count("NoProgress");
                    tracing::error!(%key, "no progress: the controller repeats the same action; retrying");
                }
            }
        }
    }

    fn tell_failure(&self, key: &C::Key, failed: &CallFailed) {
        if let CallFailed::LeaseLost { .. } = failed {
            tracing::debug!(%key, "dropped: {failed}");
            return;
        }
        let reason = failed.reason();
        self.failures.count(reason);
        if let AnswerClass::Throttled(wait) = failed.outcome() {
            tracing::debug!(%key, ?wait, "the API server asks to wait: {failed}");
            return;
        }
        let cause = failed.call().kind();
        self.name_failure(key, reason, cause, failed);
    }

    /// A thousand objects that are refused for one reason make one warning a minute.
    fn name_failure(&self, key: &C::Key, reason: &'static str, cause: String, failed: &impl Display) {
        let now = self.now().uptime;
        if self.named.lock().is_due(&(reason, cause), NAMED_EVERY, now) {
            tracing::warn!(%key, reason, "sync failed, will be retried: {failed}");
        } else {
            tracing::debug!(%key, reason, "sync failed, will be retried: {failed}");
        }
    }
}

/// The metrics of the queue with this name; `/livez` watches for passes that are stuck in it.
fn queue_metrics(env: &Env, origin: Instant, name: &'static str) -> prometheus::Result<QueueMetrics> {
    let clock = env.clock.clone();
    let metrics = QueueMetrics::register(&env.registry, move || clock.instant() - origin, name)?;
    let watched = metrics.clone();
    env.liveness.queue(name, move || watched.longest_stuck());
    Ok(metrics)
}

fn now(clock: &Clock, origin: Instant) -> Now {
    Now {
        wall: clock.now(),
        uptime: clock.instant() - origin,
    }
}
