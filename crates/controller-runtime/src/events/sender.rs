//! Sends the writes of the ledger at its own rate.

use std::time::Duration;

use controller_core::api::{AnswerClass as Classified, Denial, Verb};
use controller_core::error::Chain;
use controller_core::meta::is_dns_subdomain;
use controller_core::workqueue::TokenBucket;
use futures::future::OptionFuture;
use k8s_openapi::api::events::v1::{Event as EventObject, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::series::{Ledger, Write};
use super::{Dropped, Event, EventMetrics, Occurrence, REPORTING_INSTANCE_LENGTH_LIMIT, Reporter};
use crate::api::classify;
use crate::api::limits::Limits;
use crate::clock::Clock;
use crate::shutdown::Shutdown;

/// Sends the events of the [`Recorder`](super::Recorder) that [`channel`](super::channel) returned with it.
#[derive(Debug)]
pub struct EventSender {
    reporter: Reporter,
    clock: Clock,
    occurrences: mpsc::Receiver<Occurrence>,
    ledger: Ledger,
    /// `None`: no limit.
    permits: Option<TokenBucket>,
    origin: Instant,
}

/// The outcome of a request.
#[derive(Debug)]
enum Outcome {
    /// The Event object is as it should be.
    Written,
    /// The Event object or its namespace does not exist, or the namespace is being deleted.
    Gone,
    /// May succeed later.
    Later(kube::Error),
    /// Will never succeed.
    Refused(kube::Error),
}

impl EventSender {
    pub(super) fn new(
        reporter: Reporter,
        limits: Limits,
        clock: Clock,
        metrics: EventMetrics,
        occurrences: mpsc::Receiver<Occurrence>,
    ) -> Self {
        let Reporter {
            controller,
            mut instance,
        } = reporter;
        instance.truncate(instance.floor_char_boundary(REPORTING_INSTANCE_LENGTH_LIMIT));
        // The API server requires both names.
        if instance.is_empty() {
            instance.clone_from(&controller);
        }
        Self {
            reporter: Reporter { controller, instance },
            permits: limits.bucket(),
            ledger: Ledger::new(metrics, clock.instant()),
            origin: clock.instant(),
            clock,
            occurrences,
        }
    }

    /// Sends events until `shutdown` drains, then those waiting events for which permits are left, and returns.
    ///
    /// A request that fails for a transient reason is repeated every minute while its series lasts.
    pub async fn run(mut self, client: Client, shutdown: Shutdown) {
        while let Some(write) = self.next_write(&shutdown).await {
            self.paced(&client, write, &shutdown).await;
        }
        self.finish(&client).await;
    }

    /// Sends each waiting request once while permits are left, and gives up the rest.
    async fn finish(&mut self, client: &Client) {
        self.occurrences.close();
        let mut reachable = true;
        while let Some(write) = self.next_waiting() {
            if reachable && self.take_permit().is_zero() {
                reachable = self.send(client, write).await;
            } else {
                self.ledger.refuse(&write, Dropped::Stopping, "the process stops");
            }
        }
    }

    /// The next request; `None` once the process stops or no recorder is left.
    async fn next_write(&mut self, shutdown: &Shutdown) -> Option<Write> {
        loop {
            let due = self.ledger.next_due().map(|due| self.clock.sleep_until(due));
            let write = tokio::select! {
                biased;
                () = shutdown.draining() => return None,
                Some(()) = OptionFuture::from(due) => self.ledger.due(self.clock.instant()),
                occurrence = self.occurrences.recv() => {
                    self.ledger.observe(occurrence?, self.clock.instant())
                }
            };
            if write.is_some() {
                return write;
            }
        }
    }

    /// The next request that needs no waiting.
    fn next_waiting(&mut self) -> Option<Write> {
        let now = self.clock.instant();
        while let Ok(occurrence) = self.occurrences.try_recv() {
            let write = self.ledger.observe(occurrence, now);
            if write.is_some() {
                return write;
            }
        }
        self.ledger.unwritten(now)
    }

    async fn paced(&mut self, client: &Client, write: Write, shutdown: &Shutdown) {
        let wait = self.take_permit();
        tokio::select! {
            biased;
            () = shutdown.draining() => {}
            () = self.clock.sleep(wait) => {}
        }
        self.send(client, write).await;
    }

    /// Takes a permit for a request; returns how long to wait for it.
    fn take_permit(&mut self) -> Duration {
        let now = self.clock.instant() - self.origin;
        self.permits
            .as_mut()
            .map_or(Duration::ZERO, |permits| permits.take(now))
    }

    /// Sends one request; returns whether the API server answered.
    async fn send(&mut self, client: &Client, mut write: Write) -> bool {
        let mut outcome = self.request(client, &write).await;
        if let (Outcome::Gone, false) = (&outcome, write.create)
            && let Some(instead) = self.ledger.lost(&write, self.clock.instant())
        {
            outcome = self.request(client, &instead).await;
            write = instead;
        }
        let answered = !matches!(outcome, Outcome::Later(_));
        match outcome {
            Outcome::Written => self.ledger.written(&write),
            Outcome::Gone => self.ledger.forget(&write),
            Outcome::Later(error) => {
                let why = Chain(&error).to_string();
                tracing::debug!(reason = write.event.reason, "could not write an event: {why}");
                self.ledger.postpone(&write, self.clock.instant(), &why);
            }
            Outcome::Refused(error) => {
                let why = Chain(&error).to_string();
                self.ledger.refuse(&write, Dropped::Refused, &why);
            }
        }
        answered
    }

    async fn request(&self, client: &Client, write: &Write) -> Outcome {
        let events: Api<EventObject> = Api::namespaced(client.clone(), write.event.namespace());
        let result = if write.create {
            let object = self.event_object(write);
            events.create(&PostParams::default(), &object).await
        } else {
            let name = object_name(&write.event, &self.reporter, write.stamp);
            let patch = json!({ "series": series(write) });
            events
                .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                .await
        };
        match result {
            Ok(_) => Outcome::Written,
            Err(error) => outcome(error, write.create),
        }
    }

    fn event_object(&self, write: &Write) -> EventObject {
        let event = &*write.event;
        EventObject {
            metadata: ObjectMeta {
                name: Some(object_name(event, &self.reporter, write.stamp)),
                namespace: Some(event.namespace().to_owned()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(write.first)),
            series: series(write),
            reporting_controller: Some(self.reporter.controller.clone()),
            reporting_instance: Some(self.reporter.instance.clone()),
            action: Some(event.action.to_owned()),
            reason: Some(event.reason.to_owned()),
            regarding: Some((&event.regarding).into()),
            related: event.related.as_deref().map(Into::into),
            note: Some(event.note.clone()),
            type_: Some(event.type_.as_str().to_owned()),
            ..EventObject::default()
        }
    }
}

fn outcome(error: kube::Error, create: bool) -> Outcome {
    let verb = if create { Verb::Create } else { Verb::Patch };
    match classify(verb, &error) {
        Classified::Gone | Classified::Done | Classified::Forbidden(Denial::NamespaceTerminating) => {
            Outcome::Gone
        }
        // Nobody else uses this name: an earlier try succeeded although its answer was lost.
        Classified::AlreadyExists => Outcome::Written,
        Classified::Forbidden(_) | Classified::Invalid => Outcome::Refused(error),
        Classified::Retry { .. } if is_refusal(&error) => Outcome::Refused(error),
        Classified::Conflict | Classified::Throttled(_) | Classified::Retry { .. } => Outcome::Later(error),
    }
}

/// True if the answer will be the same next time.
fn is_refusal(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => {
            (400..500).contains(&status.code) && ![401, 404, 408].contains(&status.code)
        }
        _ => false,
    }
}

fn series(write: &Write) -> Option<EventSeries> {
    write.series.map(|(count, last)| EventSeries {
        count,
        last_observed_time: MicroTime(last),
    })
}

/// Name of the Event object: object name and timestamp, as client-go makes it. If that is no valid name, the
/// controller's name takes the object's place. Source: client-go `tools/record/util`, `GenerateEventName`.
fn object_name(event: &Event, reporter: &Reporter, stamp: i128) -> String {
    let name = format!("{}.{stamp:x}", event.regarding.key.name);
    if is_dns_subdomain(&name) {
        name
    } else {
        format!("{}.{stamp:x}", reporter.controller)
    }
}
