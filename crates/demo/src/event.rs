//! The one stream of events that every display shows.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use controller_core::clock::Clock;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::counts::Counts;
use crate::metrics::Reading;

/// Something that a viewer should know.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Cluster {
        url: String,
        /// The file that leads `kubectl` there.
        kubeconfig: PathBuf,
        /// The context in that file, where it is not the current one.
        context: Option<String>,
    },
    Scene {
        /// From 1.
        number: usize,
        /// How many scenes are played.
        of: usize,
        controller: &'static str,
        /// What of it, in one sentence.
        shows: &'static str,
        /// What to type after `kubectl --kubeconfig PATH`.
        kubectl: &'static str,
        /// What is counted: "nodes by TTL".
        counted: &'static str,
        steps: usize,
    },
    Step {
        /// From 1.
        number: usize,
        title: &'static str,
        says: &'static str,
    },
    /// What a step expects has come.
    AsExpected {
        counts: Counts,
        /// How many writes the controller made for it.
        writes: Writes,
        /// How long it took, the step's own work included.
        took: Duration,
    },
    /// What the cluster holds has changed.
    Counts(Counts),
    Started {
        controller: &'static str,
        pid: u32,
        /// Where its metrics are.
        admin: String,
    },
    /// A controller wrote to an object, or failed to.
    Did {
        controller: &'static str,
        action: Action,
        object: String,
        /// Why, in the controller's own words.
        reason: String,
    },
    /// A controller said something else.
    Said { controller: &'static str, text: String },
    /// A line of what a controller answers when it is asked to explain an object.
    Explained(String),
    Metrics {
        controller: &'static str,
        reading: Reading,
    },
    /// A remark of the demo's own.
    Note(String),
}

/// What a controller did with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    /// It wrote to it, and the API server accepted.
    Wrote,
    /// It could not do what it should, and will try again.
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

/// A number of writes, in words.
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

/// The end of the stream at which events are put in; the stream ends when all clones are gone.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    clock: Clock,
    start: Instant,
    sender: UnboundedSender<Moment>,
}

/// An empty stream.
pub(crate) fn channel(clock: Clock) -> (Reporter, UnboundedReceiver<Moment>) {
    let (sender, receiver) = unbounded_channel();
    let start = clock.instant();
    (Reporter { clock, start, sender }, receiver)
}

impl Reporter {
    pub(crate) fn report(&self, event: Event) {
        // Without a display there is nobody to tell.
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
