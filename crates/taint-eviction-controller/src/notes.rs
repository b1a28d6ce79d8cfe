//! What is said of evictions, in events and in the log.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-11 | `Notes::announce`, `Notes::spared` | `tests/sync/saved.rs::events_tell_who_was_to_go_and_who_stays` |

use std::time::Duration;

use controller_core::clock::Clock;
use controller_core::error::Chain;
use controller_core::events::{Event, EventType, Recorder, reference};
use controller_core::meta::{ObjectKey, Uid};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::decide::{Condemned, Eviction};
use crate::error::Error;
use crate::view::{PodView, Taint};

/// How often a clock that is ahead of the API server's is named in the log.
const SKEW_NAMED_EVERY: Duration = Duration::from_mins(10);
/// Source: `taint_eviction.go`, `emitPodDeletionEvent`.
const REASON: &str = "TaintManagerEviction";

/// Publishes the events.
pub struct Notes {
    events: Recorder,
    clock: Clock,
    skew_named: Mutex<Option<Instant>>,
}

impl Notes {
    /// Publishes through `events`.
    pub fn new(events: Recorder, clock: Clock) -> Self {
        Self {
            events,
            clock,
            skew_named: Mutex::default(),
        }
    }

    /// A pod goes (TE-11).
    pub fn announce(&self, eviction: &Eviction) {
        let Eviction { pod, uid, .. } = eviction;
        let note = format!("Marking for deletion Pod {pod}: {}", why_evicted(eviction));
        self.publish(pod, uid, EventType::Normal, REASON, note);
    }

    /// A pod stays that was to go (TE-11).
    pub fn spared(&self, pod: &PodView, was: &Condemned) {
        let because = why(&was.taint, &pod.node, was.deadline);
        // The sync may be of the node, and the line is about the pod.
        tracing::info!(key = %pod.key, action = "spare", "eviction called off: {because}");
        let note = format!("Cancelling deletion of Pod {}: {because}", pod.key);
        self.publish(&pod.key, &pod.uid, EventType::Normal, REASON, note);
    }

    /// The eviction of a pod keeps failing (TE-10); to be said once.
    pub fn overdue(&self, pod: &PodView, error: &Error) {
        let note = format!("cannot be evicted, will be retried: {}", Chain(error));
        self.publish(&pod.key, &pod.uid, EventType::Warning, "FailedEviction", note);
    }

    /// Our clock is `ahead` of the API server's.
    pub fn skew(&self, ahead: SignedDuration) {
        let now = self.clock.instant();
        let mut named = self.skew_named.lock();
        if !ahead.is_zero() && named.is_none_or(|named| now - named >= SKEW_NAMED_EVERY) {
            *named = Some(now);
            tracing::warn!("our clock is {ahead:#} ahead of the API server's: evictions wait for the latter");
        }
    }

    fn publish(&self, pod: &ObjectKey, uid: &Uid, type_: EventType, reason: &'static str, note: String) {
        self.events.publish(Event {
            regarding: reference("v1", "Pod", pod, uid),
            related: None,
            type_,
            reason,
            action: "Evict",
            note,
        });
    }
}

/// The taint, the node and the deadline, for the log too.
pub(crate) fn why_evicted(eviction: &Eviction) -> String {
    why(&eviction.taint, &eviction.node, eviction.deadline)
}

fn why(taint: &Taint, node: &str, deadline: Timestamp) -> String {
    format!("taint {taint} of node {node}, deadline {deadline:.0}")
}
