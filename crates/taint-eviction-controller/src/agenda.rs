//! Which pods are to be evicted, when, and how far that has come.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-6 | `Agenda::forget`, `Agenda::settle` | `tests/sync/replaced.rs::a_pod_of_the_same_name_is_judged_on_its_own` |
//! | TE-15 | `Agenda` | `tests/sync/order.rs::many_waiting_pods_cost_one_timer` |
//!
//! An entry lives from the judgement that condemns a pod until the pod is spared or gone. It is *waiting* in the
//! timed workers, *running* while an eviction is tried, and *done* once the delete was accepted: from then on it
//! only keeps the pod from being evicted twice until the watch shows that it goes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::clock::{Clock, saturating_add};
use controller_core::meta::{ObjectKey, Uid};
use controller_core::timed_workers::{Running, TimedWorkers};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::decide::{self, Because, Condemned, Judgement, Tolerated, Verdict};
use crate::metrics::Counts;
use crate::view::PodView;

/// The condemned pods. Cheap to clone: clones are the same agenda.
#[derive(Clone)]
pub struct Agenda(Arc<Inner>);

struct Inner {
    clock: Clock,
    waiting: TimedWorkers<ObjectKey>,
    entries: Mutex<HashMap<ObjectKey, Entry>>,
}

struct Entry {
    uid: Uid,
    remembered: Box<[Tolerated]>,
    condemned: Condemned,
    state: State,
    /// Of a pod whose eviction has been tried: most wait for theirs, and cost no memory for it.
    tries: Option<Box<Tries>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Done,
}

#[derive(Clone, Debug, Default)]
struct Tries {
    progress: Progress,
    failures: u32,
    first_failure: Option<Instant>,
    /// After a failure, not before then.
    not_before: Option<Timestamp>,
    /// Not before then either, for this taint and deadline.
    put_off: Option<Timestamp>,
}

/// What need not be done again when an eviction is tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The event has been published.
    pub announced: bool,
    /// The condition has been written, or refused for good.
    pub marked: bool,
}

/// What a judgement changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is nothing to do for now.
    Nothing,
    /// Its eviction is called off; it was to go for this.
    Spared(Condemned),
    /// It is to be evicted now.
    Due,
}

impl Agenda {
    /// Nobody is condemned.
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner {
            waiting: TimedWorkers::new(clock.clone()),
            clock,
            entries: Mutex::default(),
        }))
    }

    /// Judges `pod` by what is remembered of it, and schedules or cancels its eviction.
    pub fn settle(&self, pod: &PodView, judge: impl FnOnce(&[Tolerated]) -> Judgement) -> Step {
        let mut entries = self.0.entries.lock();
        // Another pod of this name left nothing that counts for this one (TE-6).
        let known = entries.get_mut(&pod.key).filter(|entry| entry.uid == pod.uid);
        let judgement = judge(known.as_ref().map_or(&[], |entry| &entry.remembered));
        let condemned = match judgement.verdict {
            Verdict::Condemned(condemned) => condemned,
            Verdict::Spared(because) => {
                let known = known.is_some();
                let was = entries.remove(&pod.key);
                self.0.waiting.cancel(&pod.key);
                return match was {
                    Some(was) if known && was.is_news(because) => Step::Spared(was.condemned),
                    _ => Step::Nothing,
                };
            }
        };
        let remembered = judgement.remembered.into();
        if let Some(entry) = known {
            entry.remembered = remembered;
            if let Some(tries) = &mut entry.tries
                && !entry.condemned.is_for_the_same(&condemned)
            {
                tries.put_off = None;
            }
            entry.condemned = condemned;
            return self.schedule(&pod.key, entry);
        }
        let entry = Entry {
            uid: pod.uid.clone(),
            remembered,
            condemned,
            state: State::Waiting,
            tries: None,
        };
        let step = self.schedule(&pod.key, &entry);
        entries.insert(pod.key.clone(), entry);
        step
    }

    /// What the judgements of this pod have left to remember.
    pub fn remembered(&self, pod: &PodView) -> Vec<Tolerated> {
        let entries = self.0.entries.lock();
        let entry = entries.get(&pod.key).filter(|entry| entry.uid == pod.uid);
        entry.map_or_else(Vec::new, |entry| entry.remembered.to_vec())
    }

    /// Waits for the pod whose eviction is due first. Its next one begins when the result has been dropped.
    /// Cancel safe.
    pub async fn next_due(&self) -> Running<ObjectKey> {
        self.0.waiting.next_due().await
    }

    /// An eviction of `key` begins; how often one has failed before. Nothing when there is none to begin.
    pub fn begin(&self, key: &ObjectKey) -> Option<u32> {
        let mut entries = self.0.entries.lock();
        let entry = entries.get_mut(key).filter(|entry| entry.state != State::Done)?;
        entry.state = State::Running;
        Some(entry.failures())
    }

    /// The eviction that had begun has ended, one way or the other; the next judgement schedules the next.
    pub fn end(&self, key: &ObjectKey) {
        if let Some(entry) = self.0.entries.lock().get_mut(key)
            && entry.state == State::Running
        {
            entry.state = State::Waiting;
        }
    }

    /// How far the eviction of this pod has come.
    pub fn progress(&self, pod: &PodView) -> Progress {
        self.of(pod, |entry| entry.tries.as_ref().map(|tries| tries.progress))
            .flatten()
            .unwrap_or_default()
    }

    /// Notes how far it has come.
    pub fn note(&self, pod: &PodView, progress: Progress) {
        self.of(pod, |entry| entry.tries().progress = progress);
    }

    /// Looks at this pod again at `at`, and not before unless it is condemned for something else.
    pub fn put_off(&self, pod: &PodView, at: Timestamp) {
        self.of(pod, |entry| entry.tries().put_off = Some(at));
    }

    /// Its eviction failed, and the API server asks to wait at least `wait`. Returns how often it has failed.
    pub fn failed(&self, key: &ObjectKey, wait: Duration) -> u32 {
        let clock = &self.0.clock;
        let (now, instant) = (clock.now(), clock.instant());
        let mut entries = self.0.entries.lock();
        let Some(entry) = entries.get_mut(key).filter(|entry| entry.state == State::Running) else {
            return 0;
        };
        let tries = entry.tries();
        tries.failures = tries.failures.saturating_add(1);
        let first = *tries.first_failure.get_or_insert(instant);
        let backoff = decide::retry_wait(tries.failures, instant - first);
        tries.not_before = Some(saturating_add(now, backoff.max(wait)));
        tries.failures
    }

    /// The API server has accepted the delete of this pod, or it was gone.
    pub fn done(&self, pod: &PodView) {
        self.of(pod, |entry| {
            entry.state = State::Done;
            entry.tries = None;
        });
        self.0.waiting.cancel(&pod.key);
    }

    /// The pod is gone or on its way: nothing of it is left behind.
    pub fn forget(&self, key: &ObjectKey) {
        let mut entries = self.0.entries.lock();
        if entries.remove(key).is_some() {
            self.0.waiting.cancel(key);
        }
    }

    /// Whether there is an entry of `key`.
    pub fn holds(&self, key: &ObjectKey) -> bool {
        self.0.entries.lock().contains_key(key)
    }

    /// Whether nobody is condemned.
    pub fn is_empty(&self) -> bool {
        self.0.entries.lock().is_empty()
    }

    /// How many wait, and how many fail.
    pub fn counts(&self) -> Counts {
        let entries = self.0.entries.lock();
        let live = entries.values().filter(|entry| entry.state != State::Done);
        live.fold(Counts::default(), |mut counts, entry| {
            if decide::is_overdue(entry.failures()) {
                counts.overdue += 1;
            } else {
                counts.pending += 1;
            }
            counts
        })
    }

    fn of<T>(&self, pod: &PodView, act: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut entries = self.0.entries.lock();
        let entry = entries.get_mut(&pod.key).filter(|entry| entry.uid == pod.uid)?;
        Some(act(entry))
    }

    /// Under the lock of the entries, so that the last judgement decides.
    fn schedule(&self, key: &ObjectKey, entry: &Entry) -> Step {
        let at = entry.at();
        let due = at.is_some_and(|at| at <= self.0.clock.now());
        match entry.state {
            State::Running if due => Step::Due,
            // The run that goes on looks for itself, and schedules the next.
            State::Running | State::Done => Step::Nothing,
            State::Waiting => {
                match at {
                    Some(at) if self.0.waiting.scheduled_at(key) == Some(at) => {}
                    Some(at) => self.0.waiting.schedule(key.clone(), at),
                    None => {
                        self.0.waiting.cancel(key);
                    }
                }
                Step::Nothing
            }
        }
    }
}

impl Entry {
    /// When to evict, all told; none while we are blind.
    fn at(&self) -> Option<Timestamp> {
        let tries = self.tries.iter();
        let later = tries
            .flat_map(|tries| [tries.not_before, tries.put_off])
            .flatten();
        self.condemned.at.map(|at| later.fold(at, Timestamp::max))
    }

    fn failures(&self) -> u32 {
        self.tries.as_ref().map_or(0, |tries| tries.failures)
    }

    fn tries(&mut self) -> &mut Tries {
        self.tries.get_or_insert_default()
    }

    /// Whether somebody should hear that the pod stays: it does, and it was to go.
    fn is_news(&self, because: Because) -> bool {
        self.state != State::Done && because != Because::BeingDeleted
    }
}

impl Condemned {
    fn is_for_the_same(&self, other: &Self) -> bool {
        self.taint == other.taint && self.deadline == other.deadline
    }
}
