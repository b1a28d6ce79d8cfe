//! The stream of events that every display shows.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use controller_runtime::clock::Clock;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::counts::Counts;
use crate::metrics::Reading;

/// An event for the viewer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Cluster {
        url: String,
        /// Kubeconfig file for `kubectl`.
        kubeconfig: PathBuf,
        /// Context in that file, unless it is the current one.
        context: Option<String>,
    },
    Scene {
        /// From 1.
        number: usize,
        /// Number of scenes.
        of: usize,
        controller: &'static str,
        /// The lesson of the scene, in one sentence.
        shows: &'static str,
        /// Arguments to type after `kubectl --kubeconfig PATH`.
        kubectl: &'static str,
        /// The counted objects: "nodes by TTL".
        counted: &'static str,
        steps: usize,
    },
    Step {
        /// From 1.
        number: usize,
        title: &'static str,
        says: &'static str,
    },
    /// The result that a step expects.
    AsExpected {
        counts: Counts,
        /// Writes by the controller for this step.
        writes: Writes,
        /// Duration, including the step's own work.
        took: Duration,
    },
    /// The counts have changed.
    Counts(Counts),
    Started {
        controller: &'static str,
        pid: u32,
        /// Address of its metrics.
        admin: String,
    },
    /// A controller wrote to an object, or failed to do so.
    Did {
        controller: &'static str,
        action: Action,
        object: String,
        /// The reason, in the controller's words.
        reason: String,
    },
    /// A controller logged something else.
    Said { controller: &'static str, text: String },
    /// A line of a controller's answer to a question.
    Answered(String),
    Metrics {
        controller: &'static str,
        reading: Reading,
    },
    /// A remark of the demo.
    Note(String),
}

/// Action of a controller on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    /// It wrote, and the API server accepted.
    Wrote,
    /// It failed and will retry.
    FailedOn,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wrote => "wrote",
            Self::FailedOn => "failed on",
        })
    }
}

/// A number of writes, displayed in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Writes(pub(crate) u64);

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self.0 {
            0 => "no writes".to_owned(),
            1 => "1 write".to_owned(),
            writes => format!("{writes} writes"),
        };
        f.pad(&words)
    }
}

/// An event and its time since the start.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moment {
    pub(crate) at: Duration,
    pub(crate) event: Event,
}

/// The sending side of the stream; the stream ends when all clones are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    clock: Clock,
    start: Instant,
    sender: UnboundedSender<Moment>,
}

/// A new stream.
pub(crate) fn channel(clock: Clock) -> (Reporter, UnboundedReceiver<Moment>) {
    let (sender, receiver) = unbounded_channel();
    let start = clock.instant();
    (Reporter { clock, start, sender }, receiver)
}

impl Reporter {
    pub(crate) fn report(&self, event: Event) {
        // Without a display there is no receiver.
        let _ = self.sender.send(Moment {
            at: self.elapsed(),
            event,
        });
    }

    pub(crate) fn note(&self, text: impl Into<String>) {
        self.report(Event::Note(text.into()));
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.instant() - self.start
    }
}
