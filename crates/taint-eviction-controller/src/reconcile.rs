//! The reconciler: the next action for one node or pod, and what its result changes.
//!
//! Judging writes nothing, so it needs no term: a standby judges too, and knows what a leader knows when it becomes
//! one. A judgement requeues the eviction at its time, or cancels it.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-8 | `reconcile_eviction`, `judge_fresh` | `tests/sync/saved.rs::a_taint_that_is_removed_saves_the_pods_that_are_queued`, `tests/sync/stories/limits.rs::no_delete_is_sent_once_the_watch_shows_that_the_taint_is_gone` |
//! | TE-18 | `reconcile_eviction` | `tests/sync/saved.rs::what_a_taint_evicts_that_no_watch_has_shown_is_held_back` |
//! | TE-12 | `queues` | `tests/judging.rs::nodes_are_judged_before_pods` |
//! | TE-14 | `queues` | `tests/sync/order.rs::the_earliest_deadline_goes_first` |

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{AnswerClass as Answered, CallFailed};
use controller_core::controller::{
    Action, CacheWrite, Context, ContextMut, Controller, Inspector, LoopEvent, Order, Outcome, Queue, Reply,
    RequestOf, Requeue, ResultOf, Retry,
};
use controller_core::events::Recorder;
use controller_core::meta::ObjectKey;
use controller_core::time::saturating_add;
use jiff::{SignedDuration, Timestamp};
use prometheus::Registry;

use crate::brake::{self, Admission};
use crate::decide::{self, Judgement, PendingEviction, TRIES_A_SECOND, Verdict};
use crate::entry::Entry;
use crate::events::Event;
use crate::reconcile_brake::BrakeChange;
use crate::requests::{Answer, Query, SERVES_FOR, Write};
use crate::results::{is_refusal, name_skew, on_node_read, taints_of};
use crate::state::{Key, State};
use crate::view::PodView;
use crate::{NAME, Stores, TaintEvictionController, metrics};

/// The queues' names in the metrics, same as upstream.
const NODE_QUEUE: &str = "noexec_taint_node";
const POD_QUEUE: &str = "noexec_taint_pod";
/// When to reconcile a pod again that the cache would evict and the API server would not: by then the watch has caught
/// up.
const CACHE_CATCHES_UP: Duration = Duration::from_secs(5);

/// A change of the state that needs no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateChange {
    /// The judgements of these pods differ from those before.
    Judged(Vec<(Arc<PodView>, Judgement)>),
    /// By the API server's state this pod stays, at least until this time.
    PutOff(Arc<PodView>, Timestamp),
    /// This pod is due: the brake decides on it.
    Due(Arc<PodView>),
    /// This pod waits for its first try by the Eviction API; the time is its deadline.
    Waits(Arc<PodView>, Timestamp),
    /// The brake lets the pods go, or holds them back.
    Brake(BrakeChange),
}

impl Controller for TaintEvictionController {
    type Stores = Stores;
    type State = State;
    type Key = Key;
    type Query = Query;
    type Write = Write;
    type StateChange = StateChange;
    type Event = Event;

    const NAME: &'static str = NAME;

    fn queues(&self) -> Vec<Queue> {
        let judging = |name| Queue {
            needs_term: false,
            // Judging sends nothing, so a second worker would gain nothing.
            ..Queue::fifo(name, 1)
        };
        let evicting = Queue {
            name: None,
            order: Order::EarliestFirst,
            workers: self.max_concurrent_evictions,
            interval: self.eviction_interval,
            retry: Retry::ByController,
            ..Queue::FIFO
        };
        let again = Queue {
            workers: TRIES_A_SECOND as usize,
            interval: Duration::from_secs(1) / TRIES_A_SECOND,
            ..evicting
        };
        // It sends nothing, and must see all that is due.
        let due = Queue {
            workers: 1,
            interval: Duration::ZERO,
            ..evicting
        };
        vec![
            judging(NODE_QUEUE),
            judging(POD_QUEUE),
            due,
            Queue::FIFO,
            evicting,
            again,
        ]
    }

    fn queue_of(&self, key: &Key) -> usize {
        match key {
            Key::Node(_) => 0,
            Key::Pod(_) => 1,
            Key::Due(_) => 2,
            Key::Brake => 3,
            Key::Evict(_) => 4,
            Key::Again(_) => 5,
        }
    }

    fn namespace_of<'a>(&self, key: &'a Key) -> Option<&'a str> {
        match key {
            // Evictions begin by their deadlines (TE-14); namespaces take turns for permits.
            Key::Pod(pod) | Key::Due(pod) | Key::Evict(pod) | Key::Again(pod) => pod.namespace.as_deref(),
            Key::Node(_) | Key::Brake => None,
        }
    }

    fn on_event(&self, cx: &mut ContextMut<'_, Self>, event: LoopEvent<'_, Self>) {
        cx.state.brake.is_on = self.brake.is_some();
        cx.state.observe(event, &self.rules, cx.now, &mut cx.out);
        if let LoopEvent::Leading(true) = event {
            self.measure(cx);
        }
    }

    fn reconcile(&self, cx: &Context<'_, Self>, key: &Key) -> Action<Self> {
        match key {
            Key::Node(node) => self.reconcile_judging(cx, cx.stores.pods.by_index(node)),
            Key::Pod(pod) => self.reconcile_judging(cx, cx.stores.pods.get(pod).into_iter().collect()),
            Key::Due(pod) => self.reconcile_due(cx, pod),
            Key::Brake => self.reconcile_brake(cx),
            Key::Evict(pod) | Key::Again(pod) => self.reconcile_eviction(cx, key, pod),
        }
    }

    fn on_result(&self, cx: &mut ContextMut<'_, Self>, _: &Key, result: ResultOf<'_, Self>) {
        match result {
            ResultOf::Remembered(StateChange::Judged(pods)) => {
                for (pod, judgement) in pods {
                    cx.state.judged(&pod, judgement, cx.now, &mut cx.out);
                }
            }
            ResultOf::Remembered(StateChange::PutOff(pod, at)) => {
                cx.state
                    .change_eviction(&pod.key, &pod.uid, |entry| entry.tries().put_off = Some(at));
                cx.state.stop_waiting(&pod.key, false, cx.now, &mut cx.out);
                let first = cx.state.brake.first_key(&pod.key);
                cx.out.requeue(first, Requeue::At(at));
                name_skew(cx);
            }
            ResultOf::Remembered(StateChange::Due(pod)) => {
                // What has gone, and the limits, as they are now.
                self.on_brake(cx, BrakeChange::Expire);
                cx.state.brake.due(&pod, cx.now.uptime);
                cx.out.requeue(Key::Brake, Requeue::After(brake::DECIDES_AFTER));
            }
            ResultOf::Remembered(StateChange::Waits(pod, deadline)) => {
                let requeue = cx.state.through.wait(&pod.key, &pod.uid, deadline, None, cx.now);
                cx.out.requeue(Key::Again(pod.key.clone()), requeue);
            }
            ResultOf::Remembered(StateChange::Brake(change)) => self.on_brake(cx, change),
            ResultOf::Outcome(Write::Note(_, note, _), Outcome::Accepted(_) | Outcome::Planned) => {
                cx.state.brake.noted(note);
            }
            ResultOf::Sent(RequestOf::Write(write)) => Self::on_sent(cx, write),
            ResultOf::Outcome(
                write @ (Write::Mark(eviction, _) | Write::Delete(eviction) | Write::Evict(eviction)),
                outcome,
            ) => self.on_outcome(cx, write, eviction, outcome),
            ResultOf::Answer(Query::Node { name, .. }, reply) => on_node_read(cx, name, reply),
            ResultOf::Answer(Query::Lease(_), reply) => {
                cx.state.clock.learn_ahead(reply);
            }
            ResultOf::Outcome(Write::Note(..), Outcome::Failed(_))
            | ResultOf::Sent(RequestOf::Query(_))
            | ResultOf::Answer(Query::Pod(_), _) => {}
        }
    }

    fn apply_to_cache(&self, write: &Write, cache: &mut CacheWrite<'_, Self>) {
        if let Write::Delete(eviction) | Write::Evict(eviction) = write {
            cache.delete(|stores| &mut stores.pods, &eviction.pod, &eviction.uid);
        }
    }

    fn is_failure(&self, ask: &RequestOf<Self>, failed: &CallFailed) -> bool {
        match ask {
            // Without an answer the cache decides; the brake has no cache.
            RequestOf::Query(query) => matches!(query, Query::Lease(_)) && !failed.is_gone(),
            // A condition that the API server refuses does not stop the delete (TE-9).
            RequestOf::Write(Write::Mark(..)) if failed.outcome() == Answered::Invalid => false,
            RequestOf::Write(Write::Evict(_)) if is_refusal(failed) => false,
            RequestOf::Write(_) => !failed.is_gone(),
        }
    }

    fn record(&self, event: Event, recorder: &dyn Recorder) {
        event.record(&self.evictions, recorder);
    }

    fn register(inspector: &Inspector<Self>, registry: &Registry) -> prometheus::Result<()> {
        metrics::register_counts(inspector, registry)
    }
}

impl TaintEvictionController {
    /// The pod, its entry and its eviction by the cache, unless it stays or is done with.
    pub(crate) fn pending<'a>(
        &self,
        cx: &Context<'a, Self>,
        pod: &ObjectKey,
    ) -> Option<(Arc<PodView>, &'a Entry, PendingEviction)> {
        let pod = cx.stores.pods.get(pod)?;
        let entry = cx.state.eviction_of(&pod).filter(|entry| !entry.done)?;
        match self.judge(cx, &pod).verdict {
            Verdict::Evict(pending) => Some((pod, entry, pending)),
            Verdict::Keep(_) => None,
        }
    }

    /// Judges once more, by the cache and by the API server's state, then writes (TE-8, TE-9).
    fn reconcile_eviction(&self, cx: &Context<'_, Self>, key: &Key, pod: &ObjectKey) -> Action<Self> {
        let Context { state, now, .. } = cx;
        let again = |at: Option<Timestamp>| {
            let requeue = at.map_or(Requeue::Cancel, Requeue::At);
            Action::Done(vec![(key.clone(), requeue)])
        };
        let Some((pod, entry, pending)) = self.pending(cx, pod) else {
            return again(None);
        };
        let waiting = state.through.of(&pod.key, &pod.uid);
        if matches!(key, Key::Again(_)) && waiting.is_none() {
            return again(None);
        }
        let admission = self.admission(cx, &pod, &pending.taint);
        match entry.at(&pending) {
            Some(at) if at <= now.wall => {}
            later if !state.brake.is_on => return again(later),
            // The brake's key of the pod comes first.
            later => {
                let due = later.map(|at| (Key::Due(pod.key.clone()), Requeue::At(at)));
                return Action::Done([(key.clone(), Requeue::Cancel)].into_iter().chain(due).collect());
            }
        }
        let until = decide::waits_until(&self.through_budgets, &pending.taint, pending.deadline);
        let until = until.filter(|until| now.wall < *until);
        match (key, waiting, until) {
            (Key::Again(_), Some(waiting), Some(_)) if waiting.waits(*now) => {
                return Action::Done(vec![(key.clone(), waiting.requeue(*now))]);
            }
            // When the wait is over, it is deleted.
            (Key::Evict(_), Some(waiting), Some(until)) if waiting.is_refused => {
                return Action::Done(waiting.requeues(&pod.key, until, *now));
            }
            _ => {}
        }
        match admission {
            Admission::Expired => return Action::Remember(StateChange::Due(pod)),
            Admission::Unknown | Admission::Waits => return again(None),
            Admission::Admitted => {}
        }
        let query = Query::Node {
            name: Arc::clone(&pod.node),
            change: state.change_of(&pod.node),
        };
        // The pass's own read serves until its end, another pod's read for [`SERVES_FOR`].
        let lately = |reply: &&Reply<Answer>| now.uptime.saturating_sub(reply.answered.uptime) < SERVES_FOR;
        let shared = || cx.shared(&query).filter(lately);
        let Some(cache) = cx.pass.answer(&query).or_else(shared) else {
            return Action::Read(vec![query]);
        };
        let later = saturating_add(now.wall, CACHE_CATCHES_UP);
        // Before the first answer, our clock may be ahead by any time.
        let known = state.clock.ahead(*now);
        let is_unknown = taints_of(cache).is_none() && known.is_none();
        let ahead = if is_unknown {
            SignedDuration::MAX
        } else {
            known.unwrap_or_default()
        };
        let (verdict, is_confirmed) = self.judge_fresh(cx, &pod, cache, ahead);
        match verdict {
            Verdict::Evict(pending) if pending.is_due(now.wall) => {
                // Our clock, set back to the API server's.
                let servers_time = now.wall.checked_sub(ahead).unwrap_or(now.wall);
                // Of a taint that only the API server has.
                match self.admission(cx, &pod, &pending.taint) {
                    Admission::Unknown | Admission::Expired => {
                        return Action::Remember(StateChange::Due(pod));
                    }
                    Admission::Waits => return again(None),
                    Admission::Admitted => {}
                }
                let eviction = pending.eviction(&pod);
                let until = decide::waits_until(&self.through_budgets, &pending.taint, pending.deadline);
                if let Some(until) = until.filter(|until| now.wall < *until) {
                    let room_in = state.through.room_in(now.uptime);
                    return match (key, waiting) {
                        _ if room_in.is_zero() => Action::Write(vec![Write::Evict(eviction)]),
                        (_, None) => Action::Remember(StateChange::Waits(pod, pending.deadline)),
                        (Key::Again(_), Some(_)) => again(Some(saturating_add(now.wall, room_in))),
                        (_, Some(waiting)) => Action::Done(waiting.requeues(&pod.key, until, *now)),
                    };
                }
                Action::Write(vec![if entry.is_marked() {
                    Write::Delete(eviction)
                } else {
                    Write::Mark(eviction, servers_time)
                }])
            }
            Verdict::Evict(pending) => {
                let at = pending.at.filter(|_| !is_unknown && is_confirmed);
                Action::Remember(StateChange::PutOff(pod, at.unwrap_or(later)))
            }
            Verdict::Keep(_) => Action::Remember(StateChange::PutOff(pod, later)),
        }
    }
}
