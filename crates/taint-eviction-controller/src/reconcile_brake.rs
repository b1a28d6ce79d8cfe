//! The brake: whether the pods that are due may go, and what the Lease says of it.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-18 | `reconcile_brake` | `tests/sync/brake.rs::a_mistake_that_makes_all_due_at_once_evicts_nothing`, `tests/sync/brake.rs::a_new_leader_waits_until_nothing_that_another_evicted_counts` |

use std::sync::Arc;

use controller_core::controller::{Action, Context, ContextMut, Requeue};
use controller_core::meta::Uid;
use jiff::Timestamp;
use serde_json::Value;

use crate::brake::{Admission, LOOKS_AGAIN, Note};
use crate::decide::{Because, BrakeRules, Counts, Decision, LeaseNotes, Situation, off_until};
use crate::events::{Event, Held};
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
    Hold(Held),
    /// This annotation of a person does not count; why not. The uid of the Lease.
    Refuse(Option<String>, String, Uid),
    /// Until this time nobody knows what another leader has evicted.
    Wait(Timestamp),
}

/// What the Lease says, and the time by the API server's clock.
struct Read {
    lease: LeaseRead,
    now: Timestamp,
}

impl TaintEvictionController {
    /// Whether the brake lets this pod go at `now`, by the API server's clock.
    pub(crate) fn admission(
        &self,
        cx: &Context<'_, Self>,
        pod: &PodView,
        taint: &Taint,
        now: Timestamp,
    ) -> Admission {
        match &self.brake {
            Some(brake) if !brake.exempts(taint) => cx.state.brake.admission(pod, brake.lease.is_some(), now),
            _ => Admission::Admitted,
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
        if !brake.has_waiting() && brake.engaged.is_none() && brake.noted.engaged_since.is_none() {
            let again = expires_in.map(|left| (Key::Brake, Requeue::After(left)));
            return Action::Done(again.into_iter().collect());
        }
        let later = Action::Done(vec![(Key::Brake, Requeue::After(LOOKS_AGAIN))]);
        let Read { lease, now } = match read_lease(cx, rules) {
            Ok(read) => read,
            Err(Some(query)) => return Action::Read(vec![query]),
            Err(None) => return later,
        };
        let LeaseRead { uid, notes, object } = lease;
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
        let situation = Situation {
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
            Decision::Admit(because) => {
                let evicting_until = if brake.has_waiting() {
                    brake.noted.renewed(now)
                } else {
                    brake.noted.evicting_until
                };
                let note = Note {
                    evicting_until,
                    engaged_since: None,
                };
                if let Some(write) = note_on(rules, brake.noted != note, note, &object) {
                    return write;
                }
                Action::Remember(StateChange::Brake(BrakeChange::Admit(because, uid)))
            }
            Decision::Hold => {
                if brake.is_news() {
                    let limits = rules.limits(all);
                    let held = Held {
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
                    evicting_until: brake.noted.evicting_until,
                    engaged_since: brake.noted.engaged_since.or(Some(now)),
                };
                note_on(rules, brake.noted != note, note, &object).unwrap_or(later)
            }
            Decision::Wait(until) if brake.waits_until != Some(until) => {
                Action::Remember(StateChange::Brake(BrakeChange::Wait(until)))
            }
            Decision::Wait(_) => later,
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
                for pod in brake.admit(because) {
                    cx.state.wake(&pod, &mut cx.out);
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
    let (state, ours) = (cx.state, cx.now.wall);
    let Some(lease) = &rules.lease else {
        // Nobody can say what went before this process led.
        let notes = LeaseNotes {
            evicting_until: state.brake.leading_since,
            ..LeaseNotes::default()
        };
        let lease = LeaseRead {
            notes,
            ..LeaseRead::default()
        };
        return Ok(Read { lease, now: ours });
    };
    let servers_time = ours.checked_sub(state.ahead.unwrap_or_default()).unwrap_or(ours);
    let query = Query::Lease(lease.clone());
    match cx.pass.answer(&query).map(|reply| &reply.value) {
        None => Err(Some(query)),
        Some(Ok(Answer::Lease(lease))) => Ok(Read {
            lease: lease.clone(),
            now: servers_time,
        }),
        // Nobody has led yet, as before a dry run.
        Some(Err(failed)) if failed.is_gone() => Ok(Read {
            lease: LeaseRead::default(),
            now: servers_time,
        }),
        Some(_) => Err(None),
    }
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
fn all(stores: &Stores) -> Counts {
    Counts {
        pods: stores.pods.len(),
        nodes: stores.pods.index_len(),
    }
}
