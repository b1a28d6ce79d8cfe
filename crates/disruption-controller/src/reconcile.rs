//! The reconciler: the next action for one budget or pod, and what its result changes.
//!
//! `docs/architecture.md` follows one pod that turns unready through the controller.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-6 | `confirm_overdue` | `tests/sync/disrupted.rs::an_entry_whose_pod_has_gone_unseen_stays`, `tests/sync/disrupted.rs::an_entry_lasts_two_minutes_by_the_clock_of_the_api_server` |
//! | DIS-9 | `left` | `tests/sync/failures.rs::a_scale_that_cannot_be_read_allows_nothing_until_it_can`, `tests/sync/failures.rs::a_status_that_cannot_be_written_is_written_when_it_can` |
//! | DIS-12 | `reconcile_budget` | `tests/sync/scales/mod.rs::the_scale_of_a_custom_resource_is_read_again_every_30_seconds` |
//! | DIS-14 | `reconcile_write` | `tests/passes.rs::what_allows_more_waits_for_the_next_pass`, `tests/passes.rs::what_allows_less_is_written_in_the_same_pass`, `tests/sync/races.rs::a_write_that_waits_for_its_turn_does_not_allow_what_the_pods_do_not_allow_any_more` |
//! | DIS-15 | `reconcile_pod` | `tests/sync/stale.rs::a_stale_condition_is_reset_after_two_minutes`, `tests/sync/stale.rs::a_condition_is_stale_after_two_minutes_by_the_clock_of_the_api_server` |

use std::sync::Arc;
use std::time::Duration;

use controller_core::api::CallFailed;
use controller_core::controller::{
    Action, CacheWrite, Context, ContextMut, Controller, Failed, Inspector, LoopEvent, Outcome, Priority,
    Queue, Reply, RequestOf, Requeue, ResultOf, Retry, RetryLimit,
};
use controller_core::events::Recorder;
use controller_core::meta::{ObjectKey, OwnerRef};
use controller_core::time::saturating_add;
use prometheus::Registry;

use crate::decide::{
    self, DisruptedPod, LiveRead, Numbers, OwnerRules, SyncFailure, confirmed, decide, demand, overdue, stale,
};
use crate::events::{Event, LastSync};
use crate::requests::{Answer, Query, Reset, StatusWrite, Write, serves_for};
use crate::route::{self, COALESCE};
use crate::scales::{Sources, never, unreadable};
use crate::state::{self, Basis, Budget, ExpectedBy, Key, State};
use crate::view::PodView;
use crate::{DisruptionController, NAME, Stores, metrics, results};

/// The queues' names in the metrics, same as upstream.
const QUEUES: [&str; 3] = ["disruption", "disruption_recheck", "stale_pod_disruption"];
/// The longest wait before a failure is retried: the cause of a refusal may be fixed at any time.
const RETRY_LAST: Duration = Duration::from_mins(1);

/// Number of a budget's overdue entries that are read at a time; the others stay until these are dropped.
const CONFIRMED_AT_ONCE: usize = 64;

/// A change of the state that needs no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateChange {
    /// What the allowed number is computed from. Remembered before the write, so that changes during the write can tell
    /// whether they are urgent (DIS-14).
    Basis(ObjectKey, Basis),
    /// Nothing had to be written, and this was seen.
    Left(ObjectKey, LastSync),
    /// Another writer has undone our status.
    Undone(ObjectKey),
}

impl Controller for DisruptionController {
    type Stores = Stores;
    type State = State;
    type Key = Key;
    type Query = Query;
    type Write = Write;
    type StateChange = StateChange;
    type Event = Event;

    const NAME: &'static str = NAME;

    fn queues(&self) -> Vec<Queue> {
        let queues = QUEUES.map(|name| Queue {
            reads_hold_workers: false,
            retry: Retry::RateLimited(RetryLimit::up_to(RETRY_LAST)),
            ..Queue::fifo(name, self.concurrent_syncs)
        });
        queues.to_vec()
    }

    fn queue_of(&self, key: &Key) -> usize {
        match key {
            Key::Budget(_) => 0,
            Key::Recheck(_) => 1,
            Key::StalePod(_) => 2,
        }
    }

    fn namespace_of<'a>(&self, key: &'a Key) -> Option<&'a str> {
        let (Key::Budget(object) | Key::Recheck(object) | Key::StalePod(object)) = key;
        object.namespace.as_deref()
    }

    fn priority(&self, state: &State, _: &Stores, key: &Key) -> Priority {
        match key {
            Key::Budget(pdb) => state.budget(pdb).map_or(Priority::Normal, Budget::priority),
            Key::Recheck(_) | Key::StalePod(_) => Priority::Normal,
        }
    }

    fn on_event(&self, cx: &mut ContextMut<'_, Self>, event: LoopEvent<'_, Self>) {
        state::observe(cx, &event);
    }

    fn reconcile(&self, cx: &Context<'_, Self>, key: &Key) -> Action<Self> {
        match key {
            Key::Budget(pdb) => reconcile_budget(cx, pdb, &self.owners),
            // Not computed here, because a budget must be in one pass at a time.
            Key::Recheck(pdb) => Action::Done(vec![(Key::Budget(pdb.clone()), Requeue::Now)]),
            Key::StalePod(pod) => reconcile_pod(cx, pod),
        }
    }

    fn on_result(&self, cx: &mut ContextMut<'_, Self>, _: &Key, result: ResultOf<'_, Self>) {
        match result {
            ResultOf::Remembered(StateChange::Basis(pdb, basis)) => {
                cx.state.change(&pdb, None, |budget| budget.basis = Some(basis));
            }
            ResultOf::Remembered(StateChange::Left(pdb, seen)) => results::seen(cx, &pdb, seen, false),
            ResultOf::Remembered(StateChange::Undone(pdb)) => results::undone(cx, &pdb),
            ResultOf::Sent(RequestOf::Write(Write::Status(write))) => {
                let status = &write.status;
                let sent = |budget: &mut Budget| budget.sent(status);
                cx.state.change(&status.pdb.key, Some(&status.pdb.uid), sent);
            }
            ResultOf::Outcome(Write::Status(write), outcome) => results::outcome(cx, write, outcome),
            ResultOf::Answer(Query::Scale(_), reply) => {
                let code = reply.value.as_ref().map_or_else(CallFailed::code, |_| Some(200));
                cx.out.record(Event::ScaleRead(code));
            }
            ResultOf::Answer(Query::Kinds(api_version), reply) => {
                let kinds = match &reply.value {
                    Ok(Answer::Kinds(kinds)) => Some(kinds),
                    _ => None,
                };
                cx.state.discovered(api_version, kinds);
            }
            ResultOf::Sent(_) | ResultOf::Outcome(Write::Reset(_), _) | ResultOf::Answer(..) => {}
        }
    }

    fn apply_to_cache(&self, write: &Write, cache: &mut CacheWrite<'_, Self>) {
        let cache = cache.guarded();
        match write {
            Write::Status(write) => {
                let version = cache.accepted().and_then(|accepted| accepted.version);
                let (key, write) = (&write.status.pdb.key, Arc::clone(write));
                cache.patch(
                    |stores| &mut stores.pdbs,
                    key,
                    move |pdb| write.status.applied_to(pdb, version),
                );
            }
            Write::Reset(reset) => {
                let target = Arc::clone(&reset.target);
                cache.patch(
                    |stores| &mut stores.pods,
                    &reset.pod,
                    move |pod: &PodView| PodView {
                        target: pod.target.clone().filter(|held| *held != target),
                        ..pod.clone()
                    },
                );
            }
        }
    }

    /// Any answer about a scale is good: if the read failed, the budget allows nothing and says why.
    fn is_failure(&self, ask: &RequestOf<Self>, failed: &CallFailed) -> bool {
        matches!(ask, RequestOf::Write(_)) && !failed.is_gone()
    }

    fn record(&self, event: Event, recorder: &dyn Recorder) {
        event.record(&self.numbers, recorder);
    }

    fn register(inspector: &Inspector<Self>, registry: &Registry) -> prometheus::Result<()> {
        metrics::register_states(inspector, registry)
    }
}

fn reconcile_budget(
    cx: &Context<'_, DisruptionController>,
    key: &ObjectKey,
    rules: &OwnerRules,
) -> Action<DisruptionController> {
    let state = cx.state;
    let (Some(budget), Some(mut situation)) = (state.budget(key), state.snapshot(key)) else {
        return Action::Done(vec![]);
    };
    if let Err(queries) = confirm_overdue(cx, key, &mut situation.entries) {
        return Action::Read(queries);
    }
    let sources = Sources {
        rules,
        held: &|kind, key| cx.stores.workloads.get(&kind)?.get(key),
        kinds: &state.kinds,
        answer: &|query| answer(cx, query),
    };
    let scales = match sources.scales(&situation) {
        Ok(scales) => scales,
        Err(queries) => return Action::Read(queries),
    };
    let smallest_pod = |owners: &[&OwnerRef]| state.smallest_pod(key, owners);
    let decision = decide(&situation, &scales, smallest_pod, cx.now.wall);
    let by = ExpectedBy::of(demand(&situation.pdb).ok(), &scales);
    let basis = Basis::of(&decision, by);
    if budget.basis != Some(basis) {
        return Action::Remember(StateChange::Basis(key.clone(), basis));
    }
    let failure = decision.result.as_ref().err();
    let blocks = decision
        .result
        .as_ref()
        .map_or(true, |numbers| numbers.allowed == 0);
    let planned = matches!(cx.pass.outcomes().last(), Some((_, Outcome::Planned)));
    let seen = LastSync {
        no_pods: situation.counts.matched == 0,
        unmanaged: if by == ExpectedBy::Selected {
            0
        } else {
            situation.counts.unmanaged
        },
        failure: failure.map(|failure| failure.cause.clone()),
        never: blocks
            .then(|| never(&situation, scales, &sources, |uid| state.live_of(key, uid)))
            .flatten(),
        planned: planned && decision.plan.is_some(),
    };
    let look_again = decision.look_again.map_or(Requeue::Cancel, Requeue::At);
    let requeues = vec![(Key::Recheck(key.clone()), look_again)];
    match decision.plan {
        Some(_) if planned => left(budget, decision.result, seen, requeues),
        None => left(budget, decision.result, seen, requeues),
        Some(status) => reconcile_write(cx, budget, StatusWrite { status, seen }, requeues),
    }
}

/// Keeps the overdue entries that the API server does not confirm; an error holds the queries to send first (DIS-6).
fn confirm_overdue(
    cx: &Context<'_, DisruptionController>,
    pdb: &ObjectKey,
    entries: &mut [DisruptedPod],
) -> Result<(), Vec<Query>> {
    let mut unread = Vec::new();
    for (index, entry) in overdue(entries, cx.now.wall).enumerate() {
        let namespace = pdb.namespace.clone();
        let query = Query::Pod(ObjectKey {
            namespace,
            name: Arc::clone(&entry.name),
        });
        let reply = answer(cx, &query);
        if reply.is_none() && index < CONFIRMED_AT_ONCE {
            unread.push(query);
        }
        entry.fate = confirmed(entry, &sight_of(reply), cx.now.wall);
    }
    if unread.is_empty() { Ok(()) } else { Err(unread) }
}

/// What an answer says about a pod. Without a date in the answer our clock counts.
fn sight_of(reply: Option<&Reply<Answer>>) -> LiveRead {
    let Some(Reply {
        value: Ok(Answer::Pods(pods)),
        date,
        asked,
        ..
    }) = reply
    else {
        return LiveRead::Unread;
    };
    let pods = pods.items.iter().map(|pod| &pod.view);
    match { pods }.find(|pod| !pod.deleting) {
        Some(pod) => LiveRead::Here(pod.uid.clone(), date.unwrap_or(asked.wall)),
        None => LiveRead::Going,
    }
}

/// The newest answer that is still valid: the pass's own until its end, another key's for a while.
fn answer<'a>(cx: &'a Context<'_, DisruptionController>, query: &Query) -> Option<&'a Reply<Answer>> {
    let age = |reply: &Reply<Answer>| cx.now.uptime.saturating_sub(reply.answered.uptime);
    let shared = cx.shared(query);
    let shared = shared.filter(|reply| age(reply) < serves_for(query, &reply.value));
    let own = cx.pass.answer(query);
    own.into_iter().chain(shared).min_by_key(|reply| age(reply))
}

/// Writes a status. One write per pass, or a burst would be written as fast as the API server answers. A write that
/// allows less than the API server believes goes out at once.
fn reconcile_write(
    cx: &Context<'_, DisruptionController>,
    budget: &Budget,
    write: StatusWrite,
    requeues: Vec<(Key, Requeue)>,
) -> Action<DisruptionController> {
    let (pass, rivals, now) = (cx.pass, &cx.state.rivals, cx.now.uptime);
    let (key, held) = (&budget.pdb.key, &budget.pdb.status);
    if cx.state.is_blind() && write.status.allows_more() {
        return Action::Done(requeues);
    }
    let is_urgent = route::urgency(write.status.allowed(), held.disruptions_allowed);
    let is_contested = is_contested(budget, &write.status);
    let write = Write::Status(Arc::new(write));
    let again = |wait| {
        let again = (Key::Budget(key.clone()), Requeue::After(wait));
        Action::Done(requeues.iter().cloned().chain([again]).collect())
    };
    match pass.outcomes().last() {
        // The queue retries, or the watch will show that the budget is gone.
        Some((_, Outcome::Failed(_))) => return Action::Done(requeues),
        Some(_) if pass.outcome(&write).is_some() => return Action::Done(requeues),
        Some(_) if !is_urgent => return again(COALESCE),
        Some(_) | None => {}
    }
    if is_contested {
        if rivals.stands(key, now) {
            return Action::Remember(StateChange::Undone(key.clone()));
        }
        // A write that allows less is never put off.
        if let Some(wait) = rivals.wait(key, now).filter(|_| !is_urgent) {
            return again(wait);
        }
    }
    Action::Write(vec![write])
}

/// True if another writer has undone what this write would write again (CORE-17). The Eviction API's decrement is no
/// rival write.
fn is_contested(budget: &Budget, write: &decide::StatusPatch) -> bool {
    let ours = budget.ours.as_ref();
    ours.is_some_and(|ours| route::undoes(ours, &budget.pdb.status) && route::repeats(ours, write))
}

/// Ends a pass that writes nothing. If the failure may pass with time, the queue retries the key.
fn left(
    budget: &Budget,
    result: Result<Numbers, SyncFailure>,
    seen: LastSync,
    requeues: Vec<(Key, Requeue)>,
) -> Action<DisruptionController> {
    if !budget.is_left(&seen) {
        return Action::Remember(StateChange::Left(budget.pdb.key.clone(), seen));
    }
    match result {
        Err(failure) if failure.transient => Action::Fail(Failed {
            reason: "SyncFailed",
            text: format!("cannot compute the budget, it allows nothing: {failure}"),
            not_before: failure.wait,
            requeues,
        }),
        _ => Action::Done(requeues),
    }
}

fn reconcile_pod(cx: &Context<'_, DisruptionController>, key: &ObjectKey) -> Action<DisruptionController> {
    let again = |requeue| Action::Done(vec![(Key::StalePod(key.clone()), requeue)]);
    let Some(pod) = cx.stores.pods.get(key) else {
        return again(Requeue::Cancel);
    };
    let (Some(at), Some(target)) = (stale(&pod), &pod.target) else {
        return again(Requeue::Cancel);
    };
    let now = cx.now.wall;
    if now < at {
        return again(Requeue::At(at));
    }
    let query = Query::Pod(key.clone());
    let Some(reply) = cx.pass.answer(&query) else {
        return Action::Read(vec![query]);
    };
    if let Err(failed) = &reply.value {
        let SyncFailure { cause, wait, .. } = unreadable(failed);
        return Action::Fail(Failed {
            reason: "SyncFailed",
            text: format!("cannot tell whether the pod's condition is stale: {cause}"),
            not_before: wait,
            requeues: vec![],
        });
    }
    if let Some(wait) = sight_of(Some(reply)).read_again(&pod.uid, at) {
        // Time has passed since the answer.
        return again(Requeue::At(saturating_add(reply.asked.wall, wait)));
    }
    let reset = Write::Reset(Reset {
        pod: key.clone(),
        uid: pod.uid.clone(),
        target: Arc::clone(target),
        now,
    });
    match cx.pass.outcomes().next() {
        None => Action::Write(vec![reset]),
        // The queue decides about a retry.
        Some(_) => Action::Done(vec![]),
    }
}
