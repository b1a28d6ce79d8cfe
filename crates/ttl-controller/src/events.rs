//! What people are told: lines of the log, events, counts.

use controller_core::events::{Event as Published, EventType, Recorder, reference};
use controller_core::meta::{ObjectKey, Uid};
use prometheus::IntCounter;

use crate::decide::Step;
use crate::view::Annotation;

/// What there is to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This number of nodes asks for this step.
    StepChosen(usize, Step),
    /// Another writer has undone a write of ours.
    Undone,
    /// Another writer keeps undoing our writes (CORE-17).
    Rival {
        /// On this node, of this uid.
        node: (ObjectKey, Uid),
        /// The field manager.
        manager: String,
        /// What it writes.
        found: Annotation,
        /// What we write, in seconds.
        desired: i64,
    },
    /// The annotation was taken off so many nodes, or would be in a dry run, and is off all (TTL-8).
    Removed(usize),
}

impl Event {
    /// Tells it.
    pub fn record(self, rival_writes: &IntCounter, recorder: &Recorder) {
        match self {
            Self::StepChosen(nodes, step) => {
                let (number, ttl_seconds) = (step.number(), step.desired_ttl_seconds());
                tracing::info!(nodes, step = number, ttl_seconds, "step chosen");
            }
            Self::Undone => rival_writes.inc(),
            Self::Rival {
                node: (name, uid),
                manager,
                found,
                desired,
            } => {
                let note = format!(
                    "{manager} keeps writing {found} over the TTL annotation {desired} of this and perhaps other \
                     nodes; writes to them back off. Does the built-in ttl controller still run?"
                );
                tracing::warn!(node = %name, manager, "rival: {note}");
                recorder.publish(Published {
                    regarding: reference("v1", "Node", &name, &uid),
                    related: None,
                    type_: EventType::Warning,
                    reason: "RivalWriter",
                    action: "Annotate",
                    note,
                });
            }
            Self::Removed(nodes) => tracing::info!(nodes, "TTL annotation removed"),
        }
    }
}
