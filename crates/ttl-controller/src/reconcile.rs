//! The reconciler: the next action for one node, and what its result changes.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TTL-3 | `on_outcome` | `tests/sync/boundary.rs::a_node_deleted_before_its_write_is_done` |
//! | TTL-8 | `reconcile_removal` | `tests/sync/removal.rs::removal_takes_the_annotation_off_every_node_and_ends` |

use std::time::Duration;

use controller_core::app::Prepared;
use controller_core::cache::{Freshness, Store};
use controller_core::controller::{
    Action, CacheRead, CacheWrite, Context, ContextMut, Controller, Inspector, LoopEvent, Outcome, Queue,
    Requeue, ResultOf,
};
use controller_core::events::Recorder;
use controller_core::meta::ObjectKey;
use controller_core::rival::Pace;
use prometheus::Registry;

use crate::decide::{AnnotationWrite, plan};
use crate::events::Event;
use crate::requests::{Answer, Query, listing};
use crate::state::{self, Key, State};
use crate::view::{Annotation, NodeView};
use crate::{NAME, TtlController, metrics};

/// When `--remove` lists again after the list showed an annotation that the cache does not.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A change of the state that needs no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateChange {
    /// Another writer has undone our write to this node.
    Undone(ObjectKey),
    /// No node carries the annotation any more (TTL-8).
    Removed,
}

impl Controller for TtlController {
    type Stores = Store<NodeView>;
    type State = State;
    type Key = Key;
    type Query = Query;
    type Write = AnnotationWrite;
    type StateChange = StateChange;
    type Event = Event;

    const NAME: &'static str = NAME;

    /// Upstream uses the same name in its metrics.
    fn queues(&self) -> Vec<Queue> {
        vec![Queue::fifo("ttlcontroller", self.concurrent_syncs)]
    }

    fn on_event(&self, cx: &mut ContextMut<'_, Self>, event: LoopEvent<'_, Self>) {
        state::observe(cx, event);
    }

    fn reconcile(&self, cx: &Context<'_, Self>, key: &Key) -> Action<Self> {
        let Key::Node(node) = key else {
            return self.reconcile_removal(cx);
        };
        let (state, now) = (cx.state, cx.now.uptime);
        let (Some(view), Some(step)) = (cx.stores.get(node), state.step) else {
            return Action::Done(vec![]);
        };
        if cx.stores.freshness(node) == Freshness::Unknown || state.unnamed.contains(node) {
            return cx.read_again(key, Query::Node(node.clone()));
        }
        let desired = (!self.remove).then(|| step.ttl_seconds());
        let Some(plan) = plan(&view, desired) else {
            return Action::Done(vec![]);
        };
        if state.written.get(node) == Some(&desired) {
            if state.rivals.stands(node, now) {
                return Action::Remember(StateChange::Undone(node.clone()));
            }
            if let Some(wait) = state.rivals.wait(node, now) {
                return Action::Done(vec![(key.clone(), Requeue::After(wait))]);
            }
        }
        Action::Write(vec![plan])
    }

    fn on_result(&self, cx: &mut ContextMut<'_, Self>, _: &Key, result: ResultOf<'_, Self>) {
        match result {
            ResultOf::Remembered(StateChange::Removed) => {
                cx.state.ended = Some(Ok(()));
                cx.out.record(Event::Removed(cx.state.written.len()));
            }
            ResultOf::Remembered(StateChange::Undone(node)) => {
                cx.out.record(Event::Undone);
                if cx.state.rivals.undone(Pace::default(), &node, cx.now.uptime) {
                    cx.state.unnamed.insert(node);
                }
            }
            ResultOf::Outcome(plan, outcome) => self.on_outcome(cx, plan, outcome),
            ResultOf::Answer(Query::Node(node), reply) if cx.state.unnamed.remove(node) => {
                self.name_rival(cx, node, reply.value.as_ref().ok());
            }
            ResultOf::Sent(_) | ResultOf::Answer(..) => {}
        }
    }

    fn apply_to_cache(&self, plan: &AnnotationWrite, cache: &mut CacheWrite<'_, Self>) {
        let shown = NodeView {
            key: plan.node.clone(),
            annotation: Annotation::of(plan.ttl_seconds),
        };
        cache.patch(|nodes| nodes, &plan.node, move |_| shown.clone());
    }

    fn refresh_cache(&self, query: &Query, cache: &mut CacheRead<'_, Self>) {
        match query {
            Query::Node(node) => cache.object(|nodes| nodes, node, |answer| answer.page.items.first()),
            Query::Page(_) => cache.page(|nodes| nodes, |answer| &answer.page),
        }
    }

    fn record(&self, event: Event, recorder: &dyn Recorder) {
        event.record(&self.rival_writes, recorder);
    }

    fn register(inspector: &Inspector<Self>, registry: &Registry) -> prometheus::Result<()> {
        metrics::register(inspector, registry)
    }

    fn finished(&self, state: &State) -> Option<Result<(), String>> {
        state.ended.clone()
    }
}

impl TtlController {
    /// `--remove` is done when a fresh list shows no annotation (TTL-8). The last node that loses its annotation
    /// enqueues this key. The list is needed because the cache may lack a node or show an old state of one.
    fn reconcile_removal(&self, cx: &Context<'_, Self>) -> Action<Self> {
        let is_done = self.remove && cx.state.left.is_empty() && cx.state.ended.is_none();
        match is_done.then(|| listing(cx.pass)) {
            Some(Ok(Prepared::Queries(queries))) => Action::Read(queries),
            Some(Ok(Prepared::Ready(nodes))) => {
                let mut nodes = nodes.iter();
                if cx.state.planned || nodes.all(|node| node.annotation == Annotation::Missing) {
                    Action::Remember(StateChange::Removed)
                } else {
                    Action::Done(vec![(Key::Removal, Requeue::After(LOOK_AGAIN))])
                }
            }
            Some(Err(_)) | None => Action::Done(vec![]),
        }
    }

    fn on_outcome(&self, cx: &mut ContextMut<'_, Self>, plan: &AnnotationWrite, outcome: &Outcome) {
        let node = &plan.node;
        match outcome {
            Outcome::Failed(failed) if failed.is_gone() => cx.state.forget(node),
            Outcome::Planned if self.remove => {
                cx.state.planned = true;
                cx.state.written.insert(node.clone(), plan.ttl_seconds);
                cx.state.removing(node, false, &mut cx.out);
            }
            Outcome::Planned | Outcome::Failed(_) => {}
            // The watch may have shown before the answer that the node is gone.
            Outcome::Accepted(_) if cx.stores.get(node).is_none() => {}
            Outcome::Accepted(_) => {
                cx.state.written.insert(node.clone(), plan.ttl_seconds);
                cx.state.rivals.wrote(node, cx.now.uptime);
            }
        }
    }

    /// Warns once of the writer that keeps undoing our writes; `--remove` gives up instead.
    fn name_rival(&self, cx: &mut ContextMut<'_, Self>, node: &ObjectKey, answer: Option<&Answer>) {
        let manager = answer.and_then(|answer| answer.manager.as_deref());
        if self.remove {
            let manager = manager.unwrap_or("another writer");
            cx.state.ended = Some(Err(format!(
                "{manager} puts the TTL annotation back on node {node}: switch it off first \
                 (append -ttl-controller to kube-controller-manager's --controllers)"
            )));
            return;
        }
        let manager = manager.unwrap_or("an unknown field manager");
        let found = answer.and_then(|answer| answer.page.items.first());
        let uid = found.map(|node| node.uid.clone()).unwrap_or_default();
        let undone = cx.stores.get(node).zip(cx.state.written.get(node));
        if let Some(undone) = undone.and_then(|(view, ours)| plan(&view, *ours))
            && cx.state.rivals.may_warn(manager, cx.now.uptime)
        {
            cx.out.record(Event::Rival(undone, uid, manager.to_owned()));
        }
    }
}
