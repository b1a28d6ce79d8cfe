//! What the result of a request changes.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-10 | `on_outcome` | `tests/sync/refused.rs::refused_deletes_are_retried_until_they_pass` |
//! | TE-19 | `on_refusal` | `tests/sync/budgets.rs::a_pod_with_two_budgets_waits_as_well` |

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{AnswerClass as Answered, CallFailed, Denial};
use controller_core::controller::{ContextMut, Outcome, Reply, Requeue};

use crate::TaintEvictionController;
use crate::decide::{self, Eviction, RETRIES};
use crate::entry::Entry;
use crate::events::Event;
use crate::requests::{Answer, Write};
use crate::state::Key;
use crate::view::Taint;

/// How often the log says that our clock is ahead of the API server's.
const SKEW_NAMED_EVERY: Duration = Duration::from_mins(10);

impl TaintEvictionController {
    pub(crate) fn on_sent(cx: &mut ContextMut<'_, Self>, write: &Write) {
        match write {
            Write::Note(_, note, _) => cx.state.brake.noting(note),
            Write::Evict(eviction) => {
                cx.state
                    .brake
                    .sending(&eviction.pod, &eviction.uid, cx.now.uptime);
                cx.state.through.trying(cx.now.uptime);
            }
            Write::Mark(eviction, _) => announce(cx, eviction),
            Write::Delete(eviction) => {
                cx.state
                    .brake
                    .sending(&eviction.pod, &eviction.uid, cx.now.uptime);
                announce(cx, eviction);
            }
        }
    }

    pub(crate) fn on_outcome(
        &self,
        cx: &mut ContextMut<'_, Self>,
        write: &Write,
        eviction: &Eviction,
        outcome: &Outcome,
    ) {
        let now = cx.now;
        let Eviction { pod, uid, .. } = eviction;
        if let Outcome::Failed(failed) = outcome
            && !write.is_mark()
            && !failed.fate_unknown()
        {
            cx.state.brake.refused(pod, uid);
        }
        if let (Write::Evict(_), Outcome::Accepted(_)) = (write, outcome) {
            if let Some(next) = cx.state.through.accepted() {
                cx.out.enqueue(Key::Evict(next));
            }
            // Until now a budget might have refused it.
            cx.out.record(Event::Announced(eviction.clone()));
        }
        if let (Write::Evict(_), Outcome::Failed(failed)) = (write, outcome)
            && is_refusal(failed)
        {
            return self.on_refusal(cx, eviction, failed);
        }
        let mut change = |change: &mut dyn FnMut(&mut Entry)| cx.state.change_eviction(pod, uid, change);
        let out = &mut cx.out;
        match outcome {
            Outcome::Accepted(_) | Outcome::Planned if write.is_mark() => {
                change(&mut |entry| entry.tries().marked = true);
            }
            Outcome::Accepted(_) => {
                let lag = now.wall.duration_since(eviction.deadline);
                out.record(Event::Deleted(Duration::try_from(lag).unwrap_or_default()));
            }
            Outcome::Planned => {}
            Outcome::Failed(failed) => match failed.outcome() {
                _ if failed.is_gone() => change(&mut |entry| entry.done = true),
                Answered::Invalid if write.is_mark() => {
                    change(&mut |entry| entry.tries().marked = true);
                    out.record(Event::ConditionRefused(pod.clone(), failed.clone()));
                }
                _ if matches!(failed, CallFailed::LeaseLost { .. }) => {}
                answered => change(&mut |entry| {
                    let wait = match answered {
                        Answered::Throttled(wait) => wait,
                        _ => Duration::ZERO,
                    };
                    let namespace_terminates = answered == Answered::Forbidden(Denial::NamespaceTerminating);
                    if entry.failed(wait, now) == RETRIES + 1 && !namespace_terminates {
                        out.record(Event::Overdue(eviction.clone(), write.is_mark(), failed.clone()));
                    }
                }),
            },
        }
    }

    /// A budget refuses the eviction: it is tried again later, and is a delete once the wait is over.
    fn on_refusal(&self, cx: &mut ContextMut<'_, Self>, eviction: &Eviction, failed: &CallFailed) {
        let Eviction {
            pod,
            uid,
            taint,
            deadline,
            ..
        } = eviction;
        if !cx.state.is_to_evict(pod, uid) {
            return;
        }
        let until = decide::waits_until(&self.through_budgets, taint, *deadline).unwrap_or(*deadline);
        let known = cx.state.through.of(pod, uid);
        if !known.is_some_and(|waiting| waiting.is_refused) {
            cx.out
                .record(Event::Refused(eviction.clone(), until, failed.clone()));
        }
        let wait = match failed.outcome() {
            Answered::Throttled(wait) => wait,
            _ => Duration::ZERO,
        };
        let requeue = cx.state.through.wait(pod, uid, *deadline, Some(wait), cx.now);
        cx.out.requeue(Key::Again(pod.clone()), requeue);
        cx.out.requeue(Key::Evict(pod.clone()), Requeue::At(until));
    }
}

/// Tells once that this pod is evicted.
fn announce(cx: &mut ContextMut<'_, TaintEvictionController>, eviction: &Eviction) {
    cx.state.change_eviction(&eviction.pod, &eviction.uid, |entry| {
        if !std::mem::replace(&mut entry.tries().announced, true) {
            cx.out.record(Event::Announced(eviction.clone()));
        }
    });
}

/// True if a budget refuses an eviction, or two budgets select its pod (500), or the API server throttles us.
pub(crate) fn is_refusal(failed: &CallFailed) -> bool {
    matches!(failed.outcome(), Answered::Throttled(_)) || failed.code() == Some(500)
}

/// The taints on the API server: empty if the node is gone, `None` if it could not be read.
pub(crate) fn taints_of(reply: &Reply<Answer>) -> Option<&[Taint]> {
    match &reply.value {
        Ok(Answer::Node(taints)) => Some(taints),
        Err(failed) if failed.is_gone() => Some(&[]),
        Ok(Answer::Pod(_) | Answer::Lease(..)) | Err(_) => None,
    }
}

pub(crate) fn on_node_read(
    cx: &mut ContextMut<'_, TaintEvictionController>,
    name: &Arc<str>,
    reply: &Reply<Answer>,
) {
    let state = &mut *cx.state;
    state.clock.learn_ahead(reply);
    match (taints_of(reply), &reply.value) {
        (Some(taints), _) => {
            let before = state.taints.of(name);
            let now = state.clock.steady(cx.now);
            state.taints.read(name, taints, now);
            if state.taints.of(name) != before {
                cx.out.enqueue(Key::Node(Arc::clone(name)));
            }
        }
        (None, Err(failed)) => cx.out.record(Event::NotRead(Arc::clone(name), failed.clone())),
        (None, Ok(_)) => {}
    }
}

pub(crate) fn name_skew(cx: &mut ContextMut<'_, TaintEvictionController>) {
    let (state, now) = (&mut *cx.state, cx.now.uptime);
    let ahead = state.clock.ahead(cx.now).unwrap_or_default();
    if !ahead.is_zero() && state.skew_named.is_due(&(), SKEW_NAMED_EVERY, now) {
        cx.out.record(Event::Skew(ahead));
    }
}
