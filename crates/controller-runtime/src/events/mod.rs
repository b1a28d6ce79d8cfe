//! Events on objects, as `kubectl describe` shows them: best effort and never on the hot path (CORE-7).
//!
//! A [`EventRecorder`] puts events into a bounded queue and returns; an [`EventSender`] sends them to `events.k8s.io/v1` at
//! its own rate. Repeats become a series of one Event object, as with client-go's `tools/events`. kube's own recorder
//! is not used: it sends from the caller's task, writes every repeat, mixes notes up and reads the wall clock.
//!
//! Permissions: `events.k8s.io` events create, patch.

mod sender;
mod series;

use std::sync::Arc;

use controller_core::events::{Event, Recorder, Reference};
use controller_core::metrics::register;
use jiff::Timestamp;
use prometheus::{IntCounterVec, Opts, Registry};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

pub use self::sender::EventSender;
use crate::api::limits::Limits;
use crate::clock::Clock;

/// Most events that may wait to be sent: as many as a large cluster has pods, so that a mass eviction is reported in
/// full. An empty queue takes no memory.
pub const QUEUE_LENGTH: usize = 150_000;
/// The longest note, in bytes. Source: Kubernetes `validation/events.go`, `NoteLengthLimit`.
pub const NOTE_LENGTH_LIMIT: usize = 1024;
/// The longest reporting instance, in bytes. Source: Kubernetes `validation/events.go`,
/// `ReportingInstanceLengthLimit`.
pub const REPORTING_INSTANCE_LENGTH_LIMIT: usize = 128;

/// The reporter of the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// `reportingController`: the name of the controller, a DNS label.
    pub controller: String,
    /// `reportingInstance`: the name of the pod or the host; cut at [`REPORTING_INSTANCE_LENGTH_LIMIT`].
    pub instance: String,
}

/// Accepts events from any task. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventRecorder(Option<Arc<Publisher>>);

#[derive(Debug)]
struct Publisher {
    queue: mpsc::Sender<Occurrence>,
    clock: Clock,
    metrics: EventMetrics,
}

/// An event with the time at which it happened.
#[derive(Debug)]
struct Occurrence {
    event: Event,
    at: Timestamp,
}

/// `events_dropped_total`, one label: `reason`.
#[derive(Clone, Debug)]
pub struct EventMetrics {
    dropped: IntCounterVec,
}

/// Why an event was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dropped {
    QueueFull,
    TooManyOfObject,
    TooManySeries,
    Refused,
    Stopping,
}

/// A recorder and its sender, which sends within `limits` while [`EventSender::run`] runs.
pub fn channel(
    reporter: Reporter,
    limits: Limits,
    clock: Clock,
    metrics: EventMetrics,
) -> (EventRecorder, EventSender) {
    let (queue, occurrences) = mpsc::channel(QUEUE_LENGTH);
    let sender = EventSender::new(reporter, limits, clock.clone(), metrics.clone(), occurrences);
    let publisher = Publisher {
        queue,
        clock,
        metrics,
    };
    (EventRecorder(Some(Arc::new(publisher))), sender)
}

impl EventRecorder {
    /// A recorder that records nothing, for a dry run (CORE-14).
    pub fn disabled() -> Self {
        Self(None)
    }
}

impl Recorder for EventRecorder {
    /// If the queue is full, the event is dropped and counted.
    fn publish(&self, mut event: Event) {
        let Some(publisher) = &self.0 else { return };
        event
            .note
            .truncate(event.note.floor_char_boundary(NOTE_LENGTH_LIMIT));
        // Thousands may wait.
        event.note.shrink_to_fit();
        let at = publisher.clock.now();
        match publisher.queue.try_send(Occurrence { event, at }) {
            Ok(()) => {}
            Err(TrySendError::Full(lost) | TrySendError::Closed(lost)) => {
                publisher
                    .metrics
                    .drop(&lost.event, Dropped::QueueFull, "the queue takes no more");
            }
        }
    }
}

impl EventMetrics {
    /// Registers `events_dropped_total`, at 0 for each reason. Fails if `registry` already has it.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let opts = Opts::new("events_dropped_total", "Events that were given up, by reason.");
        let dropped = register(registry, IntCounterVec::new(opts, &["reason"]))?;
        for reason in Dropped::ALL {
            dropped.with_label_values(&[reason.as_str()]);
        }
        Ok(Self { dropped })
    }

    fn drop(&self, event: &Event, reason: Dropped, why: &str) {
        self.dropped.with_label_values(&[reason.as_str()]).inc();
        tracing::debug!(
            reason = event.reason,
            regarding = &*event.regarding.key.name,
            "dropped an event: {why}"
        );
    }
}

impl Dropped {
    const ALL: [Self; 5] = [
        Self::QueueFull,
        Self::Refused,
        Self::Stopping,
        Self::TooManyOfObject,
        Self::TooManySeries,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Refused => "refused",
            Self::Stopping => "stopping",
            Self::TooManyOfObject => "too_many_of_object",
            Self::TooManySeries => "too_many_series",
        }
    }
}

#[cfg(test)]
mod tests;
