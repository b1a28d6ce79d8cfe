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
use controller_core::cache::Store;
use controller_core::controller::{
    Action, CacheWrite, Context, ContextMut, Controller, Inspector, LoopEvent, Outcome, Queue, Requeue,
    ResultOf, Retry, RetryLimit,
};
use controller_core::events::Recorder;
use controller_core::meta::ObjectKey;
use controller_core::time::saturating_add;
use prometheus::Registry;

use crate::decide::{Deletion, ExpiryPlan, JobJudgement, judge, plan, slower_clock};
use crate::events::{Event, Remark};
use crate::requests::Query;
use crate::state::{self, State};
use crate::view::JobView;
use crate::{NAME, TtlAfterFinishedController, metrics};

/// The queue's name in the metrics, same as upstream.
const QUEUE: &str = "ttl_jobs_to_delete";
/// The longest wait before a failed delete is retried: the cause of the refusal may be fixed at any time.
const RETRY_LAST: Duration = Duration::from_secs(8);

impl Controller for TtlAfterFinishedController {
    type Stores = Store<JobView>;
    type State = State;
    type Key = ObjectKey;
    type Query = Query;
    type Write = Deletion;
    type StateChange = Remark;
    type Event = Event;

    const NAME: &'static str = NAME;

    fn queues(&self) -> Vec<Queue> {
        vec![Queue {
            retry: Retry::RateLimited(RetryLimit::up_to(RETRY_LAST)),
            ..Queue::fifo(QUEUE, self.concurrent_syncs)
        }]
    }

    fn namespace_of<'a>(&self, job: &'a ObjectKey) -> Option<&'a str> {
        job.namespace.as_deref()
    }

    fn on_event(&self, cx: &mut ContextMut<'_, Self>, event: LoopEvent<'_, Self>) {
        state::observe(cx, event);
    }

    fn reconcile(&self, cx: &Context<'_, Self>, key: &ObjectKey) -> Action<Self> {
        let now = cx.now.wall;
        let Some(job) = cx.stores.get(key) else {
            return done(cx, key, None, Requeue::Cancel);
        };
        match judge(&job, now) {
            JobJudgement::LeftAlone(_) => done(cx, key, None, Requeue::Cancel),
            JobJudgement::Undated => {
                let undated = Remark::Undated(key.clone(), job.uid.clone());
                done(cx, key, Some(undated), Requeue::Cancel)
            }
            JobJudgement::Waits { finish, expiry } => {
                let ahead = finish.duration_since(now);
                let ahead = (finish > now).then(|| Remark::Ahead(key.clone(), ahead));
                done(cx, key, ahead, Requeue::At(expiry))
            }
            JobJudgement::Expired { .. } => reconcile_expired(cx, &job),
        }
    }

    fn on_result(&self, cx: &mut ContextMut<'_, Self>, _: &ObjectKey, result: ResultOf<'_, Self>) {
        match result {
            ResultOf::Remembered(remark) => {
                cx.state.make(&remark, cx.now.uptime);
                cx.out.record(Event::Remark(remark));
            }
            ResultOf::Outcome(deletion, Outcome::Accepted(_)) => {
                let lag = cx.now.wall.duration_since(deletion.expiry);
                let lag = Duration::try_from(lag).unwrap_or_default();
                cx.out.record(Event::Deleted(deletion.clone(), lag));
            }
            ResultOf::Outcome(deletion, Outcome::Failed(failed))
                if failed.outcome() == Answered::Forbidden(Denial::ThisObject) =>
            {
                cx.out.record(Event::NotDeleted(deletion.clone(), failed.clone()));
            }
            ResultOf::Outcome(..) | ResultOf::Sent(_) | ResultOf::Answer(..) => {}
        }
    }

    fn apply_to_cache(&self, deletion: &Deletion, cache: &mut CacheWrite<'_, Self>) {
        cache.guarded().delete(|jobs| jobs, &deletion.job, &deletion.uid);
    }

    fn record(&self, event: Event, recorder: &dyn Recorder) {
        event.record(&self.deletions, recorder);
    }

    fn register(inspector: &Inspector<Self>, registry: &Registry) -> prometheus::Result<()> {
        metrics::register_pending(inspector, registry)
    }
}

/// The second judgement, by the slower clock (TAF-7).
fn reconcile_expired(
    cx: &Context<'_, TtlAfterFinishedController>,
    job: &JobView,
) -> Action<TtlAfterFinishedController> {
    let (key, ours) = (&job.key, cx.now.wall);
    let known = cx.shared(&Query::Time);
    let Some(reply) = known.or_else(|| cx.pass.answer(&Query::Time)) else {
        return Action::Read(vec![Query::Time]);
    };
    // The read failed; the queue retries the key.
    if reply.value.is_err() {
        return done(cx, key, None, Requeue::Cancel);
    }
    // A slow answer says nothing about our clock.
    let then = slower_clock(reply.asked.wall, reply.date);
    let since = cx.now.uptime.saturating_sub(reply.asked.uptime);
    let now = saturating_add(then, since).min(ours);
    match plan(job, now) {
        ExpiryPlan::Leave => done(cx, key, None, Requeue::Cancel),
        ExpiryPlan::LookAgain { after } => {
            let ahead = ours.duration_since(now);
            let skewed = (ahead > CLOCK_TOLERANCE).then(|| Remark::Skewed(key.clone(), ahead));
            done(cx, key, skewed, Requeue::At(saturating_add(ours, after)))
        }
        ExpiryPlan::Delete(deletion) if cx.pass.outcome(&deletion).is_some() => {
            done(cx, key, None, Requeue::Cancel)
        }
        ExpiryPlan::Delete(deletion) => Action::Write(vec![deletion]),
    }
}

/// Makes `remark` if it is due, else ends the pass with this requeue.
fn done(
    cx: &Context<'_, TtlAfterFinishedController>,
    key: &ObjectKey,
    remark: Option<Remark>,
    requeue: Requeue,
) -> Action<TtlAfterFinishedController> {
    let remark = remark.filter(|remark| !cx.state.has_made(remark, cx.now.uptime));
    remark.map_or_else(|| Action::Done(vec![(key.clone(), requeue)]), Action::Remember)
}
