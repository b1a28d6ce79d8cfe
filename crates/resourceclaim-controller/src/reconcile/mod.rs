//! The reconciler: the next action for one pod, `PodGroup` or claim, and what its result changes.
//!
//! | file | answers |
//! |---|---|
//! | `claimants` | what is next for a pod or a `PodGroup`? |
//! | `claims` | what is next for a claim? |
//! | `settled` | what became of its entries? |
//! | `shown` | what does a write make of its object? |
//!
//! | rule | function | test |
//! |---|---|---|
//! | RC-4 | `apply_to_cache`, `refresh_cache`, `watch_timeout` | `tests/sync/claims/known.rs::a_claim_that_the_watch_has_not_shown_is_not_made_twice`, `tests/sync/claims/known.rs::an_answer_that_comes_after_the_watch_is_not_remembered`, `tests/sync/claims/known.rs::what_a_later_list_does_not_show_is_remembered_no_more` |
//!
//! When another writer keeps undoing what we write (CORE-17):
//!
//! | what we wrote | it is undone when | it is written again after |
//! |---|---|---|
//! | the name of a claim in a status | the status names another or none, and the claim is still the right one | 1 min to 1 h: a pod starts later |
//! | the reservation of a claim | the pod needs it still | 1 s to 1 min: without it the device may be given to another pod |
//! | the deletion of the claim of a pod that is done | another was made for the same entry | 1 min to 1 h: it holds no device |
//!
//! The built-in loop contests the first and the last. Writes that free a device (removing a reservation, clearing an
//! allocation) are never put off: each is right on its own, and answers one write of somebody else.

mod claimants;
mod claims;
mod settled;
mod shown;

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{AnswerClass as Answered, CallFailed};
use controller_core::controller::{
    CacheRead, CacheWrite, Context, ContextMut, Controller, Inspector, LoopEvent, Outcome, Queue, RequestOf,
    ResultOf, Retry, RetryLimit,
};
use controller_core::events::Recorder;
use controller_core::meta::{ObjectKey, Uid};
use controller_core::rival::Pace;
use prometheus::Registry;

use crate::contested::{Contested, WriteKey};
use crate::decide::{ClaimantId, Gates, PENDING_TTL};
use crate::events::Event;
use crate::gates::{self, Answers};
use crate::requests::{Answer, Query, Write};
use crate::state::{self, Failing, Key, State};
use crate::view::{ClaimantKind, in_namespace_of};
use crate::{NAME, ResourceClaimController, Stores, metrics};

/// The queue's name in the metrics, same as upstream.
const QUEUE: &str = "resource_claim";
/// The longest wait before a failure is retried: the cause of a refusal may be fixed at any time.
const RETRY_LAST: Duration = Duration::from_mins(1);
/// Most requests of one pass in flight at a time.
const SIDE_BY_SIDE: usize = 8;
/// How soon a reservation that another writer removed is written again.
const RESERVATIONS: Pace = Pace {
    first: Duration::from_secs(1),
    longest: Duration::from_mins(1),
};

/// A change of the state that needs no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateChange {
    /// Another writer has undone our write.
    Undone(Contested),
    /// Entries of a pod or a group have no claims, or all have theirs again.
    Failing {
        kind: ClaimantKind,
        claimant: (ObjectKey, Uid),
        failing: Failing,
    },
    /// The API server's answer about the gates.
    Gates(Gates),
    /// The claim has no room for the pod.
    Full {
        claim: (ObjectKey, Uid),
        pod: (ObjectKey, Uid),
    },
}

/// Everything that an action is decided on.
#[derive(Clone, Copy)]
struct Turn<'a> {
    gates: Gates,
    cx: &'a Context<'a, ResourceClaimController>,
}

type Action = controller_core::controller::Action<ResourceClaimController>;

impl Controller for ResourceClaimController {
    type Stores = Stores;
    type State = State;
    type Key = Key;
    type Query = Query;
    type Write = Write;
    type StateChange = StateChange;
    type Event = Event;

    const NAME: &'static str = NAME;

    fn queues(&self) -> Vec<Queue> {
        vec![Queue {
            retry: Retry::RateLimited(RetryLimit::up_to(RETRY_LAST)),
            ..Queue::fifo(QUEUE, self.concurrent_syncs)
        }]
    }

    fn namespace_of<'a>(&self, key: &'a Key) -> Option<&'a str> {
        match key {
            Key::Pod(key) | Key::Claim(key) | Key::PodGroup(key) => key.namespace.as_deref(),
            Key::Gates => None,
        }
    }

    fn on_event(&self, cx: &mut ContextMut<'_, Self>, event: LoopEvent<'_, Self>) {
        state::observe(cx, event, self.gates);
    }

    fn reconcile(&self, cx: &Context<'_, Self>, key: &Key) -> Action {
        let gates = self.gates;
        let turn = Turn { gates, cx };
        let decided = match key {
            Key::Gates => Ok(self.check_gates(cx)),
            // The gates decide what is right; once they are known, all keys are enqueued.
            _ if !cx.state.has_gates() => Ok(Action::Done(vec![])),
            Key::Pod(pod) => turn.of_pod(pod),
            Key::PodGroup(group) => turn.of_group(group),
            Key::Claim(claim) => turn.of_claim(claim),
        };
        decided.unwrap_or_else(|step| step)
    }

    fn on_result(&self, cx: &mut ContextMut<'_, Self>, _: &Key, result: ResultOf<'_, Self>) {
        match result {
            ResultOf::Remembered(StateChange::Gates(gates)) => state::observe_gates(cx, gates, self.gates),
            ResultOf::Remembered(note) => on_state_change(cx, note),
            ResultOf::Outcome(write, outcome) => on_outcome(cx, write, outcome),
            ResultOf::Answer(Query::Rival(contested), reply) => {
                let manager = match &reply.value {
                    Ok(Answer::Manager(Some(manager))) => manager.as_str(),
                    _ => "an unknown field manager",
                };
                if cx.state.unnamed.remove(contested) && cx.state.rivals.may_warn(manager, cx.now.uptime) {
                    cx.out.record(Event::Rival {
                        contested: contested.clone(),
                        manager: manager.to_owned(),
                    });
                }
            }
            ResultOf::Answer(Query::Claim(claim), reply) => {
                let is_known = reply.value.as_ref().map_or_else(CallFailed::is_gone, |_| true);
                if is_known {
                    cx.state.pending.remove(claim);
                }
            }
            ResultOf::Answer(Query::Being(being), reply) => {
                let has_departed = match &reply.value {
                    Ok(answer) => {
                        matches!(answer, Answer::Being(found) if found.uid != being.uid || found.done)
                    }
                    Err(failed) => failed.is_gone(),
                };
                if has_departed {
                    state::observe_departed(cx, being.clone());
                }
            }
            ResultOf::Answer(..) | ResultOf::Sent(_) => {}
        }
    }

    fn apply_to_cache(&self, write: &Write, cache: &mut CacheWrite<'_, Self>) {
        shown::apply_to_cache(write, cache);
    }

    fn watch_timeout(&self, _: &Write) -> Duration {
        PENDING_TTL
    }

    fn refresh_cache(&self, query: &Query, cache: &mut CacheRead<'_, Self>) {
        match query {
            Query::Claim(key) => cache.object(|stores| &mut stores.claims, key, Answer::claim),
            Query::Claimant(kind, key) => {
                cache.object(Stores::store_of(*kind), key, Answer::claimant);
            }
            _ => {}
        }
    }

    fn is_failure(&self, ask: &RequestOf<Self>, failed: &CallFailed) -> bool {
        match ask {
            RequestOf::Query(Query::Rival(_)) => false,
            RequestOf::Query(Query::Version) => true,
            RequestOf::Query(Query::Served) => !gates::hides_nothing_wanted(self.asked, failed),
            // The existing claim may be ours. If the namespace is gone, so is the pod soon.
            RequestOf::Write(Write::Create(_)) => failed.outcome() != Answered::AlreadyExists,
            RequestOf::Query(_) | RequestOf::Write(_) => !failed.is_gone(),
        }
    }

    fn finished(&self, state: &State) -> Option<Result<(), String>> {
        let gates = state.outdated_by()?;
        let text = format!(
            "the API server has become another: the gates would be {gates:?} now, and are {:?}",
            self.gates
        );
        Some(Err(text))
    }

    fn record(&self, event: Event, recorder: &dyn Recorder) {
        event.record(&self.creates, &self.rival_writes, recorder);
    }

    fn register(inspector: &Inspector<Self>, registry: &Registry) -> prometheus::Result<()> {
        metrics::register_claims(inspector, registry)
    }
}

impl ResourceClaimController {
    /// Checks that the gates are still as at startup. The queue retries a query that fails.
    fn check_gates(&self, cx: &Context<'_, Self>) -> Action {
        let mut answers = Answers::of(cx.pass);
        let is_known = cx.state.has_gates();
        match answers.gates(self.asked) {
            Ok(_) if !answers.open.is_empty() => Action::Read(answers.open),
            Ok(_) if cx.state.outdated_by().is_some() => Action::Done(vec![]),
            Ok(gates) if gates != self.gates || !is_known => Action::Remember(StateChange::Gates(gates)),
            Ok(_) | Err(_) => Action::Done(vec![]),
        }
    }
}

fn on_state_change(cx: &mut ContextMut<'_, ResourceClaimController>, note: StateChange) {
    let (state, now) = (&mut *cx.state, cx.now.uptime);
    match note {
        StateChange::Undone(contested) => {
            let pace = match contested.write {
                WriteKey::Reserved { .. } => RESERVATIONS,
                WriteKey::Recorded { .. } | WriteKey::Deleted { .. } => Pace::default(),
            };
            cx.out.record(Event::Undone);
            if state.rivals.undone(pace, &contested.write, now) {
                state.unnamed.insert(contested);
            }
        }
        StateChange::Failing {
            kind,
            claimant,
            failing,
        } => {
            let told = state.failing.remove(&claimant.1).unwrap_or_default();
            for (entry, why) in failing
                .iter()
                .filter(|(entry, why)| told.get(*entry) != Some(why))
            {
                cx.out.record(Event::CannotCreate {
                    kind,
                    claimant: claimant.clone(),
                    entry: Arc::clone(entry),
                    why: why.clone(),
                });
            }
            if !failing.is_empty() {
                state.failing.insert(claimant.1, failing);
            }
        }
        // Handled in `on_result`.
        StateChange::Gates(_) => {}
        StateChange::Full { claim, pod } => {
            state.full.insert(claim.1.clone());
            cx.out.record(Event::Full { claim, pod });
        }
    }
}

fn on_outcome(cx: &mut ContextMut<'_, ResourceClaimController>, write: &Write, outcome: &Outcome) {
    let is_written = match outcome {
        Outcome::Accepted(_) => true,
        Outcome::Planned => return,
        // A claim that is gone already is what its deletion wanted.
        Outcome::Failed(failed) => matches!(write, Write::GiveBack(..)) && failed.is_gone(),
    };
    if let Write::Create(create) = write {
        // A create that meets the claim made before is neither success nor failure.
        let is_counted = match outcome {
            Outcome::Failed(failed) => failed.outcome() != Answered::AlreadyExists,
            Outcome::Accepted(_) | Outcome::Planned => true,
        };
        if is_counted {
            cx.out.record(Event::Created {
                owner: create.kind,
                success: is_written,
                admin_access: create.template.admin_access,
            });
        }
        if matches!(outcome, Outcome::Failed(failed) if failed.fate_unknown()) {
            state::observe_lost(cx, create.claim());
        }
    }
    if is_written && is_there(cx.stores, write) {
        for key in write.keys() {
            cx.state.rivals.wrote(&key, cx.now.uptime);
        }
    }
}

/// Returns whether another writer can still undo the write: its pod, group or claim exists.
fn is_there(stores: &Stores, write: &Write) -> bool {
    let claimant = |kind, key: &ObjectKey, uid: &Uid| {
        let held = stores.of(kind).get(key);
        held.is_some_and(|held| held.uid == *uid)
    };
    match write {
        Write::Create(_) => false,
        Write::Record(record) => claimant(record.kind, &record.key, &record.uid),
        Write::Reserve(reserve) => {
            let held = stores.claims.get(&reserve.claim);
            held.is_some_and(|held| held.uid == reserve.uid)
        }
        Write::GiveBack(claim, _) => claim.owning_pod().is_some_and(|owner| {
            claimant(
                ClaimantKind::Pod,
                &in_namespace_of(&claim.key, &owner.name),
                &owner.uid,
            )
        }),
    }
}

impl Turn<'_> {
    /// Returns whether the pod or the group is known to be gone or done, whatever the cache shows (RC-14).
    fn has_departed(&self, identity: &ClaimantId) -> bool {
        self.cx.state.departed.contains(identity)
    }

    /// How long to wait before this write to the object is repeated, because another writer keeps undoing it. An error
    /// is the action to take first: remember that the write was undone, or query the writer.
    fn contested(&self, write: WriteKey, object: &ObjectKey, uid: &Uid) -> Result<Option<Duration>, Action> {
        let (state, now) = (self.cx.state, self.cx.now.uptime);
        let (object, uid) = (object.clone(), uid.clone());
        let contested = Contested { write, object, uid };
        if state.rivals.stands(&contested.write, now) {
            return Err(Action::Remember(StateChange::Undone(contested)));
        }
        let wait = state.rivals.wait(&contested.write, now);
        if state.unnamed.contains(&contested) {
            let query = Query::Rival(contested);
            if self.cx.pass.answer(&query).is_none() {
                return Err(Action::Read(vec![query]));
            }
        }
        Ok(wait)
    }
}
