//! The loop: Job → view → judge → wait, or read again → decide → delete.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use controller_core::api::{Denial, Outcome};
use controller_core::clock::{Clock, saturating_add};
use controller_core::events::{Event, EventType, Recorder, reference};
use controller_core::informer::{Change, Handler, Store};
use controller_core::leader::Term;
use controller_core::meta::{ObjectKey, Uid};
use controller_core::runtime::Env;
use controller_core::timed_workers::TimedWorkers;
use controller_core::workers::{Next, Reconciler};
use controller_core::workqueue::WorkQueue;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::apply::{Applied, Apply};
use crate::config::Config;
use crate::decide::{self, Deletion, Judgement, Plan};
use crate::error::Error;
use crate::live::LiveJobs;
use crate::metrics::{self, Deletions};
use crate::route::{self, Wake};
use crate::view::JobView;

/// How often a clock that is ahead of the API server's is named in the log.
const SKEW_NAMED_EVERY: Duration = Duration::from_mins(10);

/// Deletes finished Jobs once their ttl has passed.
pub struct Controller {
    clock: Clock,
    jobs: Store<JobView>,
    queue: WorkQueue<ObjectKey>,
    /// Finished Jobs whose ttl has not passed yet.
    waiting: TimedWorkers<ObjectKey>,
    leading: AtomicBool,
    /// What has been said of which Job, so that it is said once.
    said: Mutex<HashMap<ObjectKey, Said>>,
    skew_named: Mutex<Option<Instant>>,
    apply: Apply,
    live: LiveJobs,
    deletions: Deletions,
    events: Recorder,
}

/// Remarks that a Job gets once.
#[derive(Clone, Debug, Default)]
struct Said {
    uid: Uid,
    undated: bool,
    ahead: bool,
}

impl Handler<JobView> for Controller {
    fn on_change(&self, change: Change<'_, JobView>, _: &Store<JobView>) {
        let wake = route::wake(&change);
        let (Change::Added(job) | Change::Updated { new: job, .. } | Change::Deleted(job)) = change;
        match wake {
            Wake::Judge if self.leading.load(Ordering::SeqCst) => self.queue.add(job.key.clone()),
            Wake::Judge => {}
            Wake::Forget => self.forget(&job.key),
        }
    }
}

impl Reconciler for Controller {
    type Key = ObjectKey;
    type Error = Error;

    fn begin(&self) {
        self.leading.store(true, Ordering::SeqCst);
        for job in self.jobs.snapshot() {
            self.queue.add(job.key.clone());
        }
    }

    fn end(&self) {
        self.leading.store(false, Ordering::SeqCst);
    }

    async fn sync(&self, key: &ObjectKey, term: &Term) -> Result<Next, Error> {
        let Some(job) = self.jobs.get(key) else {
            self.forget(key);
            return Ok(Next::Settled);
        };
        let now = self.clock.now();
        match decide::judge(&job, now) {
            Judgement::LeftAlone(_) => {
                self.waiting.cancel(key);
            }
            Judgement::Undated => {
                self.waiting.cancel(key);
                self.say_undated(&job);
            }
            Judgement::Waits { finish, expiry } => {
                if finish > now {
                    self.say_ahead(&job, finish, now);
                }
                self.waiting.schedule(key.clone(), expiry);
            }
            Judgement::Expired { .. } => {
                self.waiting.cancel(key);
                self.delete_if_still_expired(key, term).await?;
            }
        }
        Ok(Next::Settled)
    }
}

impl Controller {
    /// A controller that reads `jobs` and takes its keys from `queue`.
    ///
    /// Fails when the registry has its metrics already.
    pub fn new(
        config: &Config,
        env: &Env,
        jobs: Store<JobView>,
        queue: WorkQueue<ObjectKey>,
    ) -> prometheus::Result<Self> {
        let waiting = TimedWorkers::new(env.clock.clone());
        metrics::register_pending(&env.registry, waiting.clone())?;
        Ok(Self {
            clock: env.clock.clone(),
            jobs,
            queue,
            waiting,
            leading: AtomicBool::new(false),
            said: Mutex::default(),
            skew_named: Mutex::default(),
            apply: Apply::new(env, config.common.dry_run),
            live: LiveJobs::new(env.client.clone(), env.caller.clone()),
            deletions: Deletions::register(&env.registry)?,
            events: env.events.clone(),
        })
    }

    /// Queues each Job when its ttl has passed, for ever.
    pub async fn keep_time(&self) {
        loop {
            let due = self.waiting.next_due().await;
            if self.leading.load(Ordering::SeqCst) {
                self.queue.add(due.key().clone());
            }
        }
    }

    /// The second look, at the API server's state and by the slower clock (TAF-4, TAF-7).
    async fn delete_if_still_expired(&self, key: &ObjectKey, term: &Term) -> Result<(), Error> {
        // Before the question: an answer that is long in coming says nothing about our clock.
        let ours = self.clock.now();
        let Some(fresh) = self.live.one(key).await.map_err(Error::Read)? else {
            return Ok(());
        };
        let now = decide::slower_clock(ours, fresh.date);
        match decide::plan(&fresh.object, now) {
            Plan::Leave => {}
            Plan::LookAgain { after } => {
                if now < ours {
                    self.name_skew(key, now, ours);
                }
                self.waiting.schedule(key.clone(), saturating_add(ours, after));
            }
            Plan::Delete(deletion) => self.delete(&deletion, term).await?,
        }
        Ok(())
    }

    async fn delete(&self, deletion: &Deletion, term: &Term) -> Result<(), Error> {
        match self.apply.execute(deletion, term).await {
            Ok(Applied::Deleted) => {
                let lag = self.clock.now().duration_since(deletion.expiry);
                let lag = Duration::try_from(lag).unwrap_or(Duration::ZERO);
                self.deletions.observe(lag);
                let note = format!(
                    "finished at {}, expired at {}, deleted {:.3} s later",
                    deletion.finish,
                    deletion.expiry,
                    lag.as_secs_f64()
                );
                self.publish(
                    &deletion.job,
                    &deletion.uid,
                    EventType::Normal,
                    "TTLExpired",
                    note,
                );
                Ok(())
            }
            Ok(Applied::Gone | Applied::Planned) => Ok(()),
            Err(failed) => {
                if failed.outcome() == Outcome::Forbidden(Denial::ThisObject) {
                    let note = format!("its ttl has passed, but it cannot be deleted: {failed}");
                    self.publish(
                        &deletion.job,
                        &deletion.uid,
                        EventType::Warning,
                        "FailedDelete",
                        note,
                    );
                }
                Err(Error::Delete(failed))
            }
        }
    }

    /// Leaves nothing of a Job behind (TAF-9).
    fn forget(&self, key: &ObjectKey) {
        self.waiting.cancel(key);
        self.said.lock().remove(key);
    }

    /// Whether this is the first time that `remark` is made of the Job.
    fn first_time(&self, job: &JobView, remark: impl FnOnce(&mut Said) -> &mut bool) -> bool {
        let mut said = self.said.lock();
        let said = said.entry(job.key.clone()).or_default();
        if said.uid != job.uid {
            *said = Said {
                uid: job.uid.clone(),
                ..Said::default()
            };
        }
        !std::mem::replace(remark(said), true)
    }

    fn say_undated(&self, job: &JobView) {
        if self.first_time(job, |said| &mut said.undated) {
            let note = "it has finished, but its condition has no lastTransitionTime: its ttl cannot pass"
                .to_owned();
            tracing::warn!(job = %job.key, "{note}");
            self.publish(&job.key, &job.uid, EventType::Warning, "FinishTimeUnknown", note);
        }
    }

    fn say_ahead(&self, job: &JobView, finish: Timestamp, now: Timestamp) {
        if self.first_time(job, |said| &mut said.ahead) {
            let ahead = finish.duration_since(now);
            tracing::warn!(job = %job.key, "the Job finished {ahead:#} in the future: clocks differ, its deletion waits");
        }
    }

    fn name_skew(&self, key: &ObjectKey, servers: Timestamp, ours: Timestamp) {
        let now = self.clock.instant();
        let mut named = self.skew_named.lock();
        if named.is_none_or(|named| now - named >= SKEW_NAMED_EVERY) {
            *named = Some(now);
            let ahead = ours.duration_since(servers);
            tracing::warn!(job = %key, "our clock is {ahead:#} ahead of the API server's: deletions wait for the latter");
        }
    }

    fn publish(&self, job: &ObjectKey, uid: &Uid, type_: EventType, reason: &'static str, note: String) {
        self.events.publish(Event {
            regarding: reference("batch/v1", "Job", job, uid),
            related: None,
            type_,
            reason,
            action: "Delete",
            note,
        });
    }
}
