//! The state, and which keys a change enqueues.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TTL-4 | `observe`, `start` | `tests/sync/boundary.rs::nothing_is_written_before_the_whole_list_is_counted` |
//! | TTL-5 | `on_change`, `go_to` | `tests/sync/boundary.rs::crossing_a_boundary_rewrites_every_node_at_once` |
//! | TTL-8 | `State::removing` | `tests/sync/removal.rs::removal_takes_the_annotation_off_every_node_and_ends` |

use std::collections::{BTreeMap, BTreeSet};

use std::fmt;

use controller_core::cache::Change;
use controller_core::controller::{ContextMut, LoopEvent, Output, Watches};
use controller_core::meta::ObjectKey;
use controller_core::rival::Contests;

use crate::TtlController;
use crate::decide::{self, Step};
use crate::events::Event;
use crate::view::{Annotation, NodeView};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    Node(ObjectKey),
    /// Decides whether `--remove` is done.
    Removal,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => node.fmt(f),
            Self::Removal => f.write_str("removal"),
        }
    }
}

/// What the controller remembers between actions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// For the hysteresis of TTL-1; `None` before the first full list.
    pub step: Option<Step>,
    /// The value that we wrote last to each node; `None` where we took it off.
    pub(crate) written: BTreeMap<ObjectKey, Option<i64>>,
    /// Nodes whose value another writer keeps undoing (CORE-17).
    pub(crate) rivals: Contests<ObjectKey>,
    /// Nodes whose other writer still has to be named.
    pub(crate) unnamed: BTreeSet<ObjectKey>,
    /// For `--remove`: nodes that still carry the annotation (TTL-8).
    pub(crate) left: BTreeSet<ObjectKey>,
    /// For `--remove`: this is a dry run, so nodes keep their annotation.
    pub(crate) planned: bool,
    /// How `--remove` ended.
    pub(crate) ended: Option<Result<(), String>>,
}

impl Watches<NodeView> for TtlController {
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, NodeView>) {
        let (Change::Added(node) | Change::Updated { new: node, .. } | Change::Deleted(node)) = change;
        let is_gone = matches!(change, Change::Deleted(_));
        if is_gone {
            cx.state.forget(&node.key);
        } else if cx.leading {
            cx.out.enqueue(Key::Node(node.key.clone()));
        }
        if self.remove {
            let carries = !is_gone && node.annotation != Annotation::Missing;
            cx.state.removing(&node.key, carries, &mut cx.out);
        } else if let Some(from) = cx.state.step {
            let step = decide::step(from, cx.stores.len());
            if step != from {
                go_to(cx, step);
            }
        }
    }
}

/// Handles every [`LoopEvent`]: all that happens besides changes of nodes.
pub(crate) fn observe(cx: &mut ContextMut<'_, TtlController>, event: LoopEvent<'_, TtlController>) {
    match event {
        LoopEvent::Synced => start(cx),
        LoopEvent::Leading(true) => {
            // The nodes carry what the previous leader decided, with a state that we do not have.
            start(cx);
            cx.out.enqueue(Key::Removal);
        }
        LoopEvent::Overdue(plan) if cx.leading => cx.out.enqueue(Key::Node(plan.node.clone())),
        LoopEvent::Resync => enqueue_all(cx),
        LoopEvent::Leading(false) | LoopEvent::Watching(..) | LoopEvent::SetBack | LoopEvent::Overdue(_) => {}
    }
}

fn start(cx: &mut ContextMut<'_, TtlController>) {
    let nodes = cx.stores.snapshot();
    let annotations = nodes.iter().map(|node| &node.annotation);
    let step = decide::first_step(annotations, cx.state.step.unwrap_or_default());
    go_to(cx, step);
}

/// Records the step and, as the leader, enqueues every node (TTL-5).
fn go_to(cx: &mut ContextMut<'_, TtlController>, step: Step) {
    cx.state.step = Some(step);
    cx.out.record(Event::StepChosen(cx.stores.len(), step));
    if cx.leading {
        enqueue_all(cx);
    }
}

fn enqueue_all(cx: &mut ContextMut<'_, TtlController>) {
    for node in cx.stores.snapshot() {
        cx.out.enqueue(Key::Node(node.key.clone()));
    }
}

impl State {
    /// The number of entries about objects; 0 once no object is left. For tests.
    pub fn held(&self) -> usize {
        self.written.len() + self.rivals.held() + self.unnamed.len() + self.left.len()
    }

    /// Drops all entries about `node`.
    pub(crate) fn forget(&mut self, node: &ObjectKey) {
        self.written.remove(node);
        self.rivals.forget(node);
        self.unnamed.remove(node);
    }

    /// Notes whether `node` still carries the annotation that `--remove` takes off. After the last node, enqueues
    /// [`Key::Removal`].
    pub(crate) fn removing(&mut self, node: &ObjectKey, carries: bool, out: &mut Output<TtlController>) {
        if carries {
            self.left.insert(node.clone());
        } else if self.left.remove(node) && self.left.is_empty() {
            out.enqueue(Key::Removal);
        }
    }
}
