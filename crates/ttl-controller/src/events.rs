//! What users see: log lines, events and counters.

use controller_core::events::{Event as Published, Recorder, reference};
use controller_core::meta::Uid;
use prometheus::IntCounter;

use crate::decide::{AnnotationWrite, Step};
use crate::view::Annotation;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This number of nodes leads to this step.
    StepChosen(usize, Step),
    /// Another writer has undone a write of ours.
    Undone,
    /// This field manager keeps undoing this write to the node with this uid (CORE-17).
    Rival(AnnotationWrite, Uid, String),
    /// No node carries the annotation any more; the run took it off N nodes, or would have in a dry run (TTL-8).
    Removed(usize),
}

impl Event {
    pub fn record(self, rival_writes: &IntCounter, recorder: &dyn Recorder) {
        match self {
            Self::StepChosen(nodes, step) => {
                let (number, ttl_seconds) = (step.number(), step.ttl_seconds());
                tracing::info!(nodes, step = number, ttl_seconds, "step chosen");
            }
            Self::Undone => rival_writes.inc(),
            Self::Rival(undone, uid, manager) => {
                let (found, ours) = (undone.replaces, Annotation::of(undone.ttl_seconds));
                let note = format!(
                    "{manager} keeps writing {found} over the TTL annotation {ours} of this and perhaps other \
                     nodes; writes to them back off. Does the built-in ttl controller still run?"
                );
                tracing::warn!(node = %undone.node, manager, "rival: {note}");
                let regarding = reference("v1", "Node", &undone.node, &uid);
                recorder.publish(Published::warning(regarding, "RivalWriter", "Annotate", note));
            }
            Self::Removed(nodes) => tracing::info!(nodes, "TTL annotation removed"),
        }
    }
}
