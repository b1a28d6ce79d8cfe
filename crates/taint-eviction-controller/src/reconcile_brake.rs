//! The brake: whether the pods that are due may go, and what the Lease says of it.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-18 | `reconcile_due` | `tests/sync/brake.rs::a_mistake_is_seen_whole_however_slowly_pods_would_go` |
//! | TE-18 | `read_lease` | `tests/sync/brake.rs::a_leader_whose_clock_is_slow_makes_the_next_one_wait_as_long` |
//! | TE-18 | `reconcile_brake` | `tests/sync/brake.rs::a_mistake_that_makes_all_due_at_once_evicts_nothing`, `tests/sync/brake.rs::a_new_leader_waits_until_nothing_that_another_evicted_counts` |

use std::sync::Arc;

use controller_core::controller::{Action, Context, ContextMut, Requeue};
use controller_core::meta::{ObjectKey, Uid};
use controller_core::time::saturating_add;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::brake::{Admission, Asked, LOOKS_AGAIN, Note};
use crate::decide::{
    Because, BrakeDecision, BrakeRules, BrakeSituation, LeaseNotes, PodsAndNodes, off_until,
};
use crate::events::{Event, HeldBack};
use crate::reconcile::StateChange;
use crate::requests::{Answer, LeaseRead, Query, Write};
use crate::state::Key;
use crate::view::{PodView, Taint};
use crate::{Stores, TaintEvictionController};

/// A change of the brake that needs no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrakeChange {
    /// Pods that went longer than the window ago count no more.
    Expire,
    /// The pods that are due may go. The uid of the Lease.
    Admit(Because, Uid),
    /// They are held back. With the demand, the limits, and the uid of the Lease.
    Hold(HeldBack),
    /// This annotation of a person does not count; why not. The uid of the Lease.
    Refuse(Option<String>, String, Uid),
    /// Until this time nobody knows what another leader has evicted.
    Wait(Timestamp),
}

/// What the Lease says, and what time it was there.
struct Read {
    lease: LeaseRead,
    asked: Asked,
}

impl TaintEvictionController {
    /// Whether the brake lets this pod go.
    pub(crate) fn admission(&self, cx: &Context<'_, Self>, pod: &PodView, taint: &Taint) -> Admission {
        match &self.brake {
            Some(brake) if !brake.exempts(taint) => {
                let has_lease = brake.lease.is_some();
                cx.state.brake.admission(pod, has_lease, cx.now.uptime)
            }
            _ => Admission::Admitted,
        }
    }

    /// Shows a pod to the brake once it is due; if that lets it go, its eviction is next.
    pub(crate) fn reconcile_due(&self, cx: &Context<'_, Self>, pod: &ObjectKey) -> Action<Self> {
        let key = || Key::Due(pod.clone());
        let pending = self.brake.as_ref().and_then(|_| self.pending(cx, pod));
        let Some((view, entry, pending)) = pending else {
            return Action::Done(vec![(key(), Requeue::Cancel)]);
        };
        match entry.at(&pending) {
            Some(at) if at <= cx.now.wall => {}
            Some(at) => return Action::Done(vec![(key(), Requeue::At(at))]),
            None => return Action::Done(vec![(key(), Requeue::Cancel)]),
        }
        match self.admission(cx, &view, &pending.taint) {
            Admission::Unknown => Action::Remember(StateChange::Due(view)),
            Admission::Waits => Action::Done(vec![(key(), Requeue::Cancel)]),
            // Its eviction may have been cancelled while we saw nothing.
            Admission::Expired | Admission::Admitted => {
                let eviction = (Key::Evict(pod.clone()), Requeue::At(pending.deadline));
                Action::Done(vec![(key(), Requeue::Cancel), eviction])
            }
        }
    }

    /// Decides on the pods that are due.
    pub(crate) fn reconcile_brake(&self, cx: &Context<'_, Self>) -> Action<Self> {
        let Some(rules) = &self.brake else {
            return Action::Done(vec![]);
        };
        let (brake, uptime) = (&cx.state.brake, cx.now.uptime);
        let expires_in = brake.expires_in(rules.window, uptime);
        if expires_in.is_some_and(|left| left.is_zero()) {
            return Action::Remember(StateChange::Brake(BrakeChange::Expire));
        }
        let decides_in = brake.decides_in(uptime);
        let decides = decides_in.is_some_and(|left| left.is_zero());
        if !decides && brake.engaged.is_none() && brake.noted.engaged_since.is_none() {
            let again = [expires_in, decides_in].into_iter().flatten().min();
            let again = again.map(|left| (Key::Brake, Requeue::After(left)));
            return Action::Done(again.into_iter().collect());
        }
        let later = Action::Done(vec![(Key::Brake, Requeue::After(LOOKS_AGAIN))]);
        let Read { lease, asked } = match read_lease(cx, rules) {
            Ok(read) => read,
            Err(Some(query)) => return Action::Read(vec![query]),
            Err(None) => return later,
        };
        let LeaseRead { uid, notes, object } = lease;
        let now = saturating_add(asked.time, uptime.saturating_sub(asked.at));
        if let Err(problem) = off_until(&notes, now)
            && brake.refused != notes.off_until
        {
            return Action::Remember(StateChange::Brake(BrakeChange::Refuse(
                notes.off_until,
                problem,
                uid,
            )));
        }
        let all = all(cx.stores);
        let evicting_until = notes.evicting_until;
        let situation = BrakeSituation {
            now,
            demand: brake.demand(),
            all,
            ours: evicting_until.filter(|until| brake.is_ours(*until)),
            lease: &notes,
            held_for: brake
                .engaged
                .as_ref()
                .map(|engaged| uptime.saturating_sub(engaged.since.uptime)),
            released: brake.released,
        };
        match rules.decide(&situation) {
            BrakeDecision::Admit(because) => {
                let note = if decides {
                    brake.noted.renewed(asked, uptime)
                } else {
                    Note {
                        engaged_since: None,
                        ..brake.noted.clone()
                    }
                };
                if let Some(write) = note_on(rules, brake.noted != note, note, &object) {
                    return write;
                }
                Action::Remember(StateChange::Brake(BrakeChange::Admit(because, uid)))
            }
            BrakeDecision::Hold => {
                if brake.is_news() {
                    let limits = rules.limits(all);
                    let held = HeldBack {
                        demand: situation.demand,
                        limits,
                        window: rules.window,
                        nodes: Vec::new(),
                        begins: brake.engaged.is_none(),
                        lease: rules
                            .lease
                            .clone()
                            .filter(|_| brake.engaged.is_none())
                            .map(|lease| (lease, uid)),
                    };
                    return Action::Remember(StateChange::Brake(BrakeChange::Hold(held)));
                }
                let note = Note {
                    engaged_since: brake.noted.engaged_since.or(Some(now)),
                    ..brake.noted.clone()
                };
                note_on(rules, brake.noted != note, note, &object).unwrap_or(later)
            }
            BrakeDecision::Wait(until) if brake.waits_until != Some(until) => {
                Action::Remember(StateChange::Brake(BrakeChange::Wait(until)))
            }
            BrakeDecision::Wait(_) => later,
        }
    }

    /// Keeps the limits for the metrics.
    pub(crate) fn measure(&self, cx: &mut ContextMut<'_, Self>) {
        let limits = |rules: &BrakeRules| rules.limits(all(cx.stores));
        cx.state.brake.limits = self.brake.as_ref().map(limits);
    }

    pub(crate) fn on_brake(&self, cx: &mut ContextMut<'_, Self>, change: BrakeChange) {
        let Some(rules) = &self.brake else { return };
        self.measure(cx);
        let brake = &mut cx.state.brake;
        match change {
            BrakeChange::Expire => brake.expire(rules.window, cx.now.uptime),
            BrakeChange::Admit(because, uid) => {
                if brake.engaged.is_some() {
                    let lease = rules.lease.clone().map(|lease| (lease, uid));
                    cx.out.record(Event::Released(because, lease));
                }
                for pod in brake.admit(because, cx.now.uptime) {
                    cx.state.wake(&pod, cx.now, &mut cx.out);
                }
            }
            BrakeChange::Hold(mut held) => {
                held.nodes = brake.engage(cx.now);
                cx.out.record(Event::Held(held));
            }
            BrakeChange::Refuse(text, problem, uid) => {
                brake.refused = text;
                let lease = rules.lease.clone().map(|lease| (lease, uid));
                cx.out.record(Event::OffRefused(problem, lease));
            }
            BrakeChange::Wait(until) => {
                brake.waits_until = Some(until);
                cx.out.record(Event::WindowUnknown(until));
            }
        }
    }
}

/// What the Lease says; an error is the query to send first, or nothing if it cannot be read.
fn read_lease(cx: &Context<'_, TaintEvictionController>, rules: &BrakeRules) -> Result<Read, Option<Query>> {
    let Context { state, now, .. } = cx;
    let Some(lease) = &rules.lease else {
        // Nobody can say what went before this process led.
        let leading_for = now.uptime.saturating_sub(state.brake.leading_since);
        let asked = Asked {
            time: now.wall,
            at: now.uptime,
        };
        let notes = LeaseNotes {
            evicting_until: SignedDuration::try_from(leading_for)
                .ok()
                .and_then(|leading_for| now.wall.checked_sub(leading_for).ok()),
            ..LeaseNotes::default()
        };
        let lease = LeaseRead {
            notes,
            ..LeaseRead::default()
        };
        return Ok(Read { lease, asked });
    };
    let query = Query::Lease(lease.clone());
    let Some(reply) = cx.pass.answer(&query) else {
        return Err(Some(query));
    };
    let lease = match &reply.value {
        Ok(Answer::Lease(lease)) => lease.clone(),
        // Nobody has led yet, as before a dry run.
        Err(failed) if failed.is_gone() => LeaseRead::default(),
        _ => return Err(None),
    };
    // Without a date our clock counts, set back if it was found fast.
    let ours = || {
        reply
            .asked
            .wall
            .checked_sub(state.clock.ahead(reply.asked).unwrap_or_default())
    };
    let time = reply.date.unwrap_or_else(|| ours().unwrap_or(reply.asked.wall));
    let at = reply.asked.uptime;
    Ok(Read {
        lease,
        asked: Asked { time, at },
    })
}

/// The write of a note, if it is needed and there is a Lease.
fn note_on(
    rules: &BrakeRules,
    is_needed: bool,
    note: Note,
    object: &Arc<Value>,
) -> Option<Action<TaintEvictionController>> {
    let lease = rules.lease.clone().filter(|_| is_needed)?;
    Some(Action::Write(vec![Write::Note(lease, note, Arc::clone(object))]))
}

/// The pods that are bound, and the nodes that they are on.
fn all(stores: &Stores) -> PodsAndNodes {
    PodsAndNodes {
        pods: stores.pods.len(),
        nodes: stores.pods.index_len(),
    }
}
