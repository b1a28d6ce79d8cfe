//! Events on objects, as `kubectl describe` shows them: best effort and never on the hot path (CORE-7).
//!
//! A [`Recorder`] puts events into a bounded queue and returns; an [`EventSender`] sends them to `events.k8s.io/v1` at
//! its own rate. Repeats become a series of one Event object, as with client-go's `tools/events`. kube's own recorder
//! is not used: it sends from the caller's task, writes every repeat, mixes notes up and reads the wall clock.
//!
//! Permissions: `events.k8s.io` events create, patch.

mod sender;
mod series;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use prometheus::{IntCounterVec, Opts, Registry};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

pub use self::sender::EventSender;
use crate::api::limits::Limits;
use crate::clock::Clock;
use crate::meta::{ObjectKey, Uid};
use crate::metrics::register;

/// Most events that may wait to be sent: as many as a large cluster has pods, so that a mass eviction is reported in
/// full. An empty queue takes no memory.
pub const QUEUE_LENGTH: usize = 150_000;
/// The longest note, in bytes. Source: Kubernetes `validation/events.go`, `NoteLengthLimit`.
pub const NOTE_LENGTH_LIMIT: usize = 1024;
/// The longest reporting instance, in bytes. Source: Kubernetes `validation/events.go`,
/// `ReportingInstanceLengthLimit`.
pub const REPORTING_INSTANCE_LENGTH_LIMIT: usize = 128;

/// What happened to an object.
///
/// Equal events that come within six minutes of each other are one series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The object that the event is about.
    pub regarding: Reference,
    /// Another object that took part.
    pub related: Option<Reference>,
    /// `type`.
    pub type_: EventType,
    /// Why it happened, in `PascalCase`; at most 128 bytes.
    pub reason: &'static str,
    /// What the controller did or tried, in `PascalCase`; at most 128 bytes.
    pub action: &'static str,
    /// Text for people; cut at [`NOTE_LENGTH_LIMIT`].
    pub note: String,
}

/// An object that an event is about, by which `kubectl describe` finds the event. Shares its strings with the object's
/// view, because thousands may wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    /// `apiVersion`.
    pub api_version: &'static str,
    /// `kind`.
    pub kind: &'static str,
    /// Namespace and name.
    pub key: ObjectKey,
    /// `uid`.
    pub uid: Uid,
}

/// The type of an [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Nothing is wrong.
    Normal,
    /// Something may need attention.
    Warning,
}

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
pub struct Recorder(Option<Arc<Publisher>>);

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
) -> (Recorder, EventSender) {
    let (queue, occurrences) = mpsc::channel(QUEUE_LENGTH);
    let sender = EventSender::new(reporter, limits, clock.clone(), metrics.clone(), occurrences);
    let publisher = Publisher {
        queue,
        clock,
        metrics,
    };
    (Recorder(Some(Arc::new(publisher))), sender)
}

/// The reference to an object.
pub fn reference(api_version: &'static str, kind: &'static str, key: &ObjectKey, uid: &Uid) -> Reference {
    Reference {
        api_version,
        kind,
        key: key.clone(),
        uid: uid.clone(),
    }
}

impl From<&Reference> for ObjectReference {
    fn from(reference: &Reference) -> Self {
        let Reference {
            api_version,
            kind,
            key,
            uid,
        } = reference;
        Self {
            api_version: Some((*api_version).to_owned()),
            kind: Some((*kind).to_owned()),
            name: Some(key.name.to_string()),
            namespace: key.namespace.as_deref().map(str::to_owned),
            uid: Some(uid.to_string()),
            ..Self::default()
        }
    }
}

impl Recorder {
    /// A recorder that records nothing, for a dry run (CORE-14).
    pub fn disabled() -> Self {
        Self(None)
    }

    /// Queues `event` as happening now. Returns at once; if the queue is full, the event is dropped and counted.
    pub fn publish(&self, mut event: Event) {
        let Some(publisher) = &self.0 else { return };
        event
            .note
            .truncate(event.note.floor_char_boundary(NOTE_LENGTH_LIMIT));
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

impl EventType {
    /// The type as the Event object spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl Event {
    /// A [`Normal`](EventType::Normal) event on `regarding`.
    pub fn normal(
        regarding: Reference,
        reason: &'static str,
        action: &'static str,
        note: impl Into<String>,
    ) -> Self {
        Self {
            regarding,
            related: None,
            type_: EventType::Normal,
            reason,
            action,
            note: note.into(),
        }
    }

    /// A [`Warning`](EventType::Warning) event on `regarding`.
    pub fn warning(
        regarding: Reference,
        reason: &'static str,
        action: &'static str,
        note: impl Into<String>,
    ) -> Self {
        Self {
            type_: EventType::Warning,
            ..Self::normal(regarding, reason, action, note)
        }
    }

    /// Namespace of the Event object: that of its object, or `default` for a cluster-scoped object.
    fn namespace(&self) -> &str {
        match self.regarding.key.namespace.as_deref() {
            None | Some("") => "default",
            Some(namespace) => namespace,
        }
    }
}

#[cfg(test)]
mod tests;
