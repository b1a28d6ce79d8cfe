//! The reconciler: the next action for one Job, and what its result changes.
//!
//! A delete names the state that was judged. If the Job has changed since, the API server refuses the delete, and the
//! Job is judged again.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-7 | `reconcile`, `reconcile_expired` | `tests/sync/clocks.rs::a_finish_in_the_future_defers_the_deletion`, `tests/sync/clocks.rs::a_clock_of_ours_that_is_an_hour_fast_deletes_nothing_early` |
//! | TAF-8 | `reconcile` | `tests/sync/expiry.rs::a_finish_without_a_time_gets_one_warning_and_no_retries` |

use std::time::Duration;

use controller_core::api::{AnswerClass as Answered, CLOCK_TOLERANCE, Denial};
use controller_core::controller::{
    Action, CacheRead, CacheWrite, Context, ContextMut, Controller, Inspector, LoopEvent, Now, Outcome,
    Queue, Reply, RequestOf, Requeue, ResultOf, Retry, RetryLimit,
};
use controller_core::events::Recorder;
use controller_core::meta::ObjectKey;
use controller_core::time::saturating_add;
use jiff::{SignedDuration, Timestamp};
use prometheus::Registry;

use crate::decide::{By, Deletion, ExpiryPlan, JobJudgement, judge, plan, slower_clock};
use crate::events::{Event, Remark};
use crate::policy::FinishedKind;
use crate::policy::decide::ServerDate;
use crate::requests::{Answer, Query};
use crate::state::{self, Key, State, StateChange};
use crate::view::JobView;
use crate::{NAME, Stores, TtlAfterFinishedController, metrics};

/// The queue's name in the metrics, same as upstream.
const QUEUE: &str = "ttl_jobs_to_delete";
/// The longest wait before a failed delete is retried: the cause of the refusal may be fixed at any time.
const RETRY_LAST: Duration = Duration::from_secs(8);

impl Controller for TtlAfterFinishedController {
    type Stores = Stores;
    type State = State;
    type Key = Key;
    type Query = Query;
    type Write = Deletion;
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
        key.object.namespace.as_deref()
    }

    fn on_event(&self, cx: &mut ContextMut<'_, Self>, event: LoopEvent<'_, Self>) {
        state::observe(self, cx, event);
    }

    fn on_reload(&self, cx: &mut ContextMut<'_, Self>, change: StateChange) {
        if let StateChange::Policies(policies) = change {
            state::take(cx, &policies);
        }
    }

    fn reconcile(&self, cx: &Context<'_, Self>, key: &Key) -> Action<Self> {
        if let Some(job) = cx
            .stores
            .jobs
            .get(&key.object)
            .filter(|_| key.kind == FinishedKind::Job)
        {
            return reconcile_ttl(cx, key, &job);
        }
        let Some(object) = cx.stores.candidates_of(key.kind).get(&key.object) else {
            return done(cx, key, None, Requeue::Cancel);
        };
        if object.object.ttl_seconds.is_some() && !self.only_policies {
            return reconcile_ttl(cx, key, &object.object);
        }
        self.reconcile_policy(cx, key, &object)
    }

    fn on_result(&self, cx: &mut ContextMut<'_, Self>, _: &Key, result: ResultOf<'_, Self>) {
        match result {
            ResultOf::Remembered(StateChange::Remark(remark)) => {
                cx.state.make(&remark, cx.now.uptime);
                cx.out.record(Event::Remark(remark));
            }
            ResultOf::Sent(RequestOf::Write(deletion)) => {
                if let By::Policy { name, .. } = &deletion.by {
                    let key = deletion.key();
                    cx.state.policies.brakes.sending(name, key, cx.now.uptime);
                }
            }
            ResultOf::Outcome(deletion, Outcome::Accepted(_)) => {
                cx.state.policies.brakes.accepted(&deletion.key());
                cx.out
                    .record(Event::Deleted(deletion.clone(), lag(deletion, cx.now)));
            }
            ResultOf::Outcome(deletion, Outcome::Failed(failed)) => {
                let is_refused = match &deletion.by {
                    By::Ttl => failed.outcome() == Answered::Forbidden(Denial::ThisObject),
                    By::Policy { .. } => {
                        if failed.fate_unknown() {
                            cx.state.policies.brakes.unanswered(&deletion.key());
                        } else {
                            cx.state.policies.brakes.refused(&deletion.key());
                        }
                        matches!(failed.outcome(), Answered::Forbidden(_) | Answered::Invalid)
                    }
                };
                if is_refused {
                    cx.out.record(Event::NotDeleted(deletion.clone(), failed.clone()));
                }
            }
            ResultOf::Outcome(deletion, Outcome::Planned) => {
                if let By::Policy { name, .. } = &deletion.by {
                    cx.state
                        .policies
                        .brakes
                        .plan(name, &deletion.key(), cx.now.uptime);
                }
            }
            ResultOf::Remembered(StateChange::Policies(_)) | ResultOf::Sent(_) | ResultOf::Answer(..) => {}
        }
    }

    fn apply_to_cache(&self, deletion: &Deletion, cache: &mut CacheWrite<'_, Self>) {
        let Deletion { object, uid, .. } = deletion;
        match deletion.kind {
            FinishedKind::Job if !self.watches.policies => {
                cache.guarded().delete(|stores| &mut stores.jobs, object, uid);
            }
            FinishedKind::Job => cache
                .guarded()
                .delete(|stores| &mut stores.candidates, object, uid),
            FinishedKind::Pod => cache.guarded().delete(|stores| &mut stores.pods, object, uid),
        }
    }

    fn refresh_cache(&self, query: &Query, cache: &mut CacheRead<'_, Self>) {
        if let Query::Namespace(name) = query {
            let key = ObjectKey::cluster(name.clone());
            cache.object(|stores| &mut stores.namespaces, &key, Answer::namespace);
        }
    }

    fn record(&self, event: Event, recorder: &dyn Recorder) {
        event.record(&self.numbers, recorder);
    }

    fn register(inspector: &Inspector<Self>, registry: &Registry) -> prometheus::Result<()> {
        metrics::register_gauges(inspector, registry)
    }
}

/// How long after it could be made a deletion was made.
fn lag(deletion: &Deletion, now: Now) -> Duration {
    let expired = now.wall.duration_since(deletion.expiry);
    let expired = Duration::try_from(expired).unwrap_or_default();
    match deletion.by {
        By::Ttl => expired,
        By::Policy { allowed, .. } => expired.min(now.uptime.saturating_sub(allowed)),
    }
}

/// A Job with a ttl.
fn reconcile_ttl(
    cx: &Context<'_, TtlAfterFinishedController>,
    key: &Key,
    job: &JobView,
) -> Action<TtlAfterFinishedController> {
    let now = cx.now.wall;
    match judge(job, now) {
        JobJudgement::LeftAlone(_) => done(cx, key, None, Requeue::Cancel),
        JobJudgement::Undated => {
            let undated = Remark::Undated(key.clone(), job.uid.clone());
            done(cx, key, Some(undated), Requeue::Cancel)
        }
        JobJudgement::Waits { finish, expiry } => done(cx, key, ahead(key, finish, now), Requeue::At(expiry)),
        JobJudgement::Expired { .. } => reconcile_expired(cx, key, job),
    }
}

pub(crate) fn ahead(key: &Key, finish: Timestamp, now: Timestamp) -> Option<Remark> {
    (finish > now).then(|| Remark::Ahead(key.clone(), finish.duration_since(now)))
}

/// The second judgement, by the slower clock (TAF-7).
fn reconcile_expired(
    cx: &Context<'_, TtlAfterFinishedController>,
    key: &Key,
    job: &JobView,
) -> Action<TtlAfterFinishedController> {
    match server_time(cx) {
        ServerTime::Unasked => Action::Read(vec![Query::Time]),
        // The queue retries the key.
        ServerTime::Unknown => done(cx, key, None, Requeue::Cancel),
        ServerTime::Known(now) => match plan(job, now) {
            ExpiryPlan::Leave => done(cx, key, None, Requeue::Cancel),
            ExpiryPlan::LookAgain { after } => look_again(cx, key, after),
            ExpiryPlan::Delete(deletion) => delete(cx, key, deletion),
        },
    }
}

/// The time for the last judgement.
pub(crate) enum ServerTime {
    Unasked,
    /// The read failed.
    Unknown,
    /// By the slower of the two clocks.
    Known(Timestamp),
}

pub(crate) fn server_time(cx: &Context<'_, TtlAfterFinishedController>) -> ServerTime {
    let Some(reply) = time_reply(cx) else {
        return ServerTime::Unasked;
    };
    if reply.value.is_err() {
        return ServerTime::Unknown;
    }
    // The server may have answered at the last moment: no more than the time since then has passed for certain.
    let since = cx.now.uptime.saturating_sub(reply.answered.uptime);
    let servers = reply.date.map(|date| saturating_add(date, since));
    ServerTime::Known(slower_clock(cx.now.wall, servers))
}

/// The `Date` of the answer, unless a proxy took it away.
pub(crate) fn server_date(cx: &Context<'_, TtlAfterFinishedController>) -> Option<ServerDate> {
    let reply = time_reply(cx)?;
    Some(ServerDate {
        date: reply.date?,
        asked: reply.asked.uptime,
        answered: reply.answered.uptime,
    })
}

fn time_reply<'a>(cx: &'a Context<'_, TtlAfterFinishedController>) -> Option<&'a Reply<Answer>> {
    cx.shared(&Query::Time).or_else(|| cx.pass.answer(&Query::Time))
}

/// By the API server's clock it is not time yet.
pub(crate) fn look_again(
    cx: &Context<'_, TtlAfterFinishedController>,
    key: &Key,
    after: Duration,
) -> Action<TtlAfterFinishedController> {
    // A slow answer says nothing about our clock.
    let reply = time_reply(cx);
    let ahead = reply.and_then(|reply| Some(reply.asked.wall.duration_since(reply.date?)));
    let ahead = ahead.unwrap_or(SignedDuration::ZERO);
    let skewed = (ahead > CLOCK_TOLERANCE).then(|| Remark::Skewed(key.clone(), ahead));
    done(cx, key, skewed, Requeue::At(saturating_add(cx.now.wall, after)))
}

pub(crate) fn delete(
    cx: &Context<'_, TtlAfterFinishedController>,
    key: &Key,
    deletion: Deletion,
) -> Action<TtlAfterFinishedController> {
    if cx.pass.outcome(&deletion).is_some() {
        return done(cx, key, None, Requeue::Cancel);
    }
    Action::Write(vec![deletion])
}

/// Makes `remark` if it is due, else ends the pass with this requeue.
pub(crate) fn done(
    cx: &Context<'_, TtlAfterFinishedController>,
    key: &Key,
    remark: Option<Remark>,
    requeue: Requeue,
) -> Action<TtlAfterFinishedController> {
    let remark = remark.filter(|remark| !cx.state.has_made(remark, cx.now.uptime));
    remark.map_or_else(
        || Action::Done(vec![(key.clone(), requeue)]),
        |remark| Action::Remember(StateChange::Remark(remark)),
    )
}
