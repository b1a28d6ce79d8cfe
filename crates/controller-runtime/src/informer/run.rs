//! The informer itself: source → handler → store.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;

use controller_core::cache::{ErrorKind, Removed, Skipped, SourceError, SourceEvent, Taken, Versioned, View};
use controller_core::error::Chain;
use controller_core::log_throttle::LogThrottle;
use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::backoff::{Backoff, LONGEST_ASKED};
use super::metrics::ResourceMetrics;
use super::source::{Handler, Source};
use crate::clock::Clock;

/// How often the log warns about an undecodable object of one namespace: a tenant's thousand are not a thousand lines.
const SKIPPED_NAMED_EVERY: Duration = Duration::from_mins(10);

/// Keeps a [`Store`](controller_core::cache::Store) equal to what a [`Source`] delivers, through its [`Handler`].
pub struct Informer<S: Source> {
    source: S,
    clock: Clock,
    metrics: ResourceMetrics,
    handler: Box<dyn Handler<S::View>>,
    list_again: Arc<Notify>,
    /// True while a list is in progress.
    is_listing: bool,
    state: watch::Sender<InformerState>,
    backoff: Backoff,
    /// Namespaces for which an undecodable object was logged.
    skipped: LogThrottle<Option<Arc<str>>, Instant>,
}

/// How an informer is doing, for `/readyz`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InformerState {
    /// The first list is complete and the handler has received it.
    pub synced: bool,
    /// What failed last; `None` once the watch is healthy again.
    pub last_error: Option<SourceError>,
    /// When the failures began.
    pub failing_since: Option<Since>,
}

/// A moment, for messages and for durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    wall: Timestamp,
    instant: Instant,
}

impl InformerState {
    /// The check behind `/readyz`: synced, and allowed to continue. Another error after the first list does not count
    /// for a minute: the cache is as good as the API server lets it be.
    pub fn ready(&self, now: Instant) -> Result<(), String> {
        if self.synced && !self.forbidden() && !self.not_served() {
            let failing = self.failing_since;
            let is_long = failing.is_some_and(|since| now - since.instant > LONGEST_ASKED);
            return self.notes().pop().filter(|_| is_long).map_or(Ok(()), Err);
        }
        let error = self.last_error.as_ref();
        Err(error.map_or_else(|| "not listed yet".to_owned(), |error| error.message.clone()))
    }

    /// Returns whether changes are seen: the list is complete, and its watch is established as far as we know.
    pub const fn watching(&self) -> bool {
        self.synced && self.last_error.is_none()
    }

    /// The notes of `/readyz?verbose`: since when changes are not seen, and why.
    pub fn notes(&self) -> Vec<String> {
        let failing = self.last_error.iter().zip(self.failing_since);
        failing
            .filter(|_| self.synced)
            .map(|(error, since)| format!("changes are not seen since {:.0}: {error}", since.wall))
            .collect()
    }

    /// Returns whether the permission to list or watch is missing.
    pub fn forbidden(&self) -> bool {
        self.failed_by(ErrorKind::Forbidden)
    }

    /// Returns whether the API server does not serve the resource (CORE-18).
    pub fn not_served(&self) -> bool {
        self.failed_by(ErrorKind::NotServed)
    }

    fn failed_by(&self, kind: ErrorKind) -> bool {
        self.last_error.as_ref().is_some_and(|error| error.kind == kind)
    }
}

impl<S: Source> Informer<S> {
    /// An informer that feeds `handler`, whose store is empty. Nothing happens before [`Informer::run`].
    pub fn new(
        source: S,
        clock: Clock,
        metrics: ResourceMetrics,
        handler: impl Handler<S::View> + 'static,
    ) -> Self {
        // Processes start at different nanoseconds; a test's clock always starts at the same one.
        let seed = (clock.now().as_nanosecond(), &metrics.resource);
        let seed = BuildHasherDefault::<DefaultHasher>::default().hash_one(seed);
        Self {
            source,
            backoff: Backoff::seeded(seed),
            clock,
            metrics,
            list_again: handler.list_again(),
            handler: Box::new(handler),
            is_listing: false,
            state: watch::Sender::default(),
            skipped: LogThrottle::default(),
        }
    }

    /// A handle on the state.
    pub fn state(&self) -> watch::Receiver<InformerState> {
        self.state.subscribe()
    }

    /// Notify it to list everything again.
    pub fn lists_again(&self) -> Arc<Notify> {
        Arc::clone(&self.list_again)
    }

    /// Runs for ever: give it to a [`TaskSet`](crate::tasks::TaskSet).
    pub async fn run(mut self) {
        loop {
            let event = tokio::select! {
                biased;
                () = self.list_again.notified() => {
                    self.begin_again();
                    continue;
                }
                event = self.source.next() => event,
            };
            match event {
                SourceEvent::InitDone { version } => self.finish_list(version.as_ref()),
                SourceEvent::Failed(error) => self.back_off(error).await,
                event => {
                    self.note(&event);
                    self.apply(event);
                }
            }
        }
    }

    fn begin_again(&mut self) {
        tracing::warn!(
            resource = self.metrics.resource,
            "listing again: the API server may have been set back to an earlier state"
        );
        self.source.list_again();
    }

    /// Applies the event to the store.
    fn apply(&mut self, event: SourceEvent<S::View>) -> Taken {
        match event {
            SourceEvent::Init => self.is_listing = true,
            SourceEvent::InitDone { .. } => self.is_listing = false,
            _ => {}
        }
        let taken = self.handler.handle(event);
        // Objects that we deleted have already left the store: the watch makes no change there.
        let objects = i64::try_from(taken.objects).unwrap_or(i64::MAX);
        self.metrics.objects.set(objects);
        taken
    }

    /// Counts and logs an event before the store takes it.
    fn note(&mut self, event: &SourceEvent<S::View>) {
        // An item of a list proves nothing before the list is complete: its next page may fail for ever.
        let is_change = !self.is_listing
            && matches!(
                event,
                SourceEvent::Applied(_) | SourceEvent::Deleted(_) | SourceEvent::Skipped(_)
            );
        if is_change {
            self.metrics.events.inc();
        }
        if is_change || matches!(event, SourceEvent::Healthy) {
            self.recovered();
        }
        let resource = &self.metrics.resource;
        match event {
            SourceEvent::InitItem(Versioned { view, version, .. })
            | SourceEvent::Applied(Versioned { view, version, .. }) => {
                tracing::trace!(resource, key = %view.key(), version = version.as_deref(), "object observed");
            }
            SourceEvent::Deleted(Removed { key, version, .. }) => {
                tracing::trace!(resource, %key, version = version.as_deref(), "object deleted");
            }
            SourceEvent::Skipped(skipped) => {
                self.metrics.decode_errors.inc();
                self.log_skipped(skipped);
            }
            _ => {}
        }
    }

    fn log_skipped(&mut self, skipped: &Skipped) {
        let Skipped {
            key, version, error, ..
        } = skipped;
        let resource = &self.metrics.resource;
        let (version, error) = (version.as_deref(), Chain(error));
        let namespace = key.as_ref().and_then(|key| key.namespace.clone());
        let key = key.as_ref().map(tracing::field::display);
        let now = self.clock.instant();
        if self.skipped.is_due(&namespace, SKIPPED_NAMED_EVERY, now) {
            tracing::warn!(resource, key, version, %error, "object skipped: it cannot be decoded");
        } else {
            tracing::debug!(resource, key, version, %error, "another object skipped: it cannot be decoded");
        }
    }

    fn finish_list(&mut self, version: Option<&Arc<str>>) {
        if !self.is_listing {
            return;
        }
        let Taken { changes, objects } = self.apply(SourceEvent::InitDone {
            version: version.cloned(),
        });
        tracing::debug!(
            resource = self.metrics.resource,
            version = version.map(|version| &**version),
            objects,
            changes,
            "list complete"
        );
        if self.state.borrow().synced {
            self.metrics.relists.inc();
            return;
        }
        self.state.send_modify(|state| state.synced = true);
        self.count_watching();
    }

    fn count_watching(&self) {
        self.metrics.watching.set(self.state.borrow().watching().into());
    }

    fn recovered(&mut self) {
        self.backoff.reset();
        let had_failed = self.state.send_if_modified(|state| {
            state.failing_since.take().is_some() | state.last_error.take().is_some()
        });
        if had_failed {
            self.count_watching();
            tracing::info!(resource = self.metrics.resource, "watch is healthy again");
        }
    }

    async fn back_off(&mut self, error: SourceError) {
        let wait = self.backoff.after(&error);
        let resource = &self.metrics.resource;
        // A server that is away for a night makes one warning, not a thousand.
        if self.state.borrow().last_error.as_ref() == Some(&error) {
            tracing::debug!(resource, %error, ?wait, "list or watch failed again");
        } else {
            tracing::warn!(resource, %error, ?wait, "list or watch failed");
            let since = Since {
                wall: self.clock.now(),
                instant: self.clock.instant(),
            };
            self.state.send_modify(|state| {
                state.last_error = Some(error);
                state.failing_since.get_or_insert(since);
            });
            self.count_watching();
        }
        tokio::select! {
            biased;
            // The leader election has just reached the API server.
            () = self.list_again.notified() => self.begin_again(),
            () = self.clock.sleep(wait) => {}
        }
    }
}
