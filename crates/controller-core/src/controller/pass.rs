//! What a controller is asked with, and what it answers.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use derive_where::derive_where;
use jiff::{SignedDuration, Timestamp};

use super::permit_queue::Spot;
use super::requests::PassSlots;
use super::{AnswerOf, Controller, Write};
use crate::api::{CallFailed, Outcome as Classified};
use crate::meta::{ObjectKey, Uid};

/// A question may be answered so often in one pass: the watch may tell something newer meanwhile.
const MOST_ANSWERS: usize = 3;

/// The time of a step. `uptime` counts from the start of the process and never jumps; `wall` may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Now {
    /// The wall clock.
    pub wall: Timestamp,
    /// For durations.
    pub uptime: Duration,
}

/// When a key is to be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Requeue {
    /// As soon as it is its turn.
    Now,
    /// After so long; the earliest of several counts.
    After(Duration),
    /// At this wall time, instead of when it was scheduled before.
    At(Timestamp),
    /// As soon as it is its turn; how often it has failed is forgotten.
    Reset,
    /// Not by itself: what was scheduled is cancelled, and how often it has failed is forgotten.
    Cancel,
}

/// The one thing to do for a key now.
#[derive_where(Clone, Debug, PartialEq)]
pub enum Action<C: Controller> {
    /// Nothing more until one of these times, or until something changes. What it names for the key itself takes the
    /// place of what was scheduled for it.
    Done(Vec<(C::Key, Requeue)>),
    /// A change of the memory alone.
    Remember(C::StateChange),
    /// Questions that do not depend on each other.
    Read(Vec<C::Query>),
    /// Writes that do not depend on each other. One that was refused in this pass is not sent again in it.
    Write(Vec<C::Write>),
    /// Nothing more in this pass, which has failed although no request of it has.
    Fail(Failed<C>),
}

/// Why a pass has failed.
#[derive_where(Clone, Debug, PartialEq)]
pub struct Failed<C: Controller> {
    /// One of a closed set, for the metric label.
    pub reason: &'static str,
    /// For the log.
    pub text: String,
    /// The key is not retried sooner than after so long.
    pub not_before: Duration,
    /// As of [`Action::Done`].
    pub requeues: Vec<(C::Key, Requeue)>,
}

/// What [`Controller::on_result`] is told, once each.
#[derive_where(Clone, Debug)]
pub enum ResultOf<'a, C: Controller> {
    /// What [`Action::Remember`] asked for.
    Remembered(C::StateChange),
    /// The question or the write is being sent.
    Sent(&'a RequestOf<C>),
    /// The write has ended.
    Outcome(&'a C::Write, &'a Outcome),
    /// The question has its answer. Told once, however many keys have asked it, and also where the term is over.
    Answer(&'a C::Query, &'a Reply<AnswerOf<C>>),
}

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The API server accepted it.
    Accepted(Accepted),
    /// This is a dry run: it was counted and not sent.
    Planned,
    /// It failed, or nobody knows.
    Failed(CallFailed),
}

/// What the answer to an accepted write says of the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// Its uid.
    pub uid: Option<Uid>,
    /// Its resourceVersion, if that is a number.
    pub version: Option<u64>,
    /// Whether it has a `deletionTimestamp`.
    pub deleting: bool,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<A> {
    /// The answer itself.
    pub value: Result<A, CallFailed>,
    /// When the request was sent.
    pub asked: Now,
    /// When the answer came.
    pub answered: Now,
    /// The API server's clock, in whole seconds; `None` when it said none that can be read.
    pub date: Option<Timestamp>,
}

/// A question or a write.
#[derive_where(Clone, Debug, PartialEq)]
pub enum RequestOf<C: Controller> {
    /// A question.
    Query(C::Query),
    /// A write.
    Write(C::Write),
}

/// What a write is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its kind, one of a closed set, for logs and metric labels: `annotate`, `evict`.
    pub action: &'static str,
    /// What is written, and why.
    pub text: String,
}

/// Which object a write changes: no two writes of one object are on their way at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// The resource, for example `pods`.
    pub resource: &'static str,
    /// Which of them.
    pub key: ObjectKey,
}

/// How questions of one kind are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryPolicy {
    /// The kind, which `at_most` is about.
    pub kind: Cow<'static, str>,
    /// How many of the kind are out at the same time.
    pub at_most: usize,
    /// How long an answer is kept for other keys that ask the same.
    pub shared_for: Duration,
}

impl Default for QueryPolicy {
    fn default() -> Self {
        Self {
            kind: Cow::Borrowed(""),
            at_most: usize::MAX,
            shared_for: Duration::ZERO,
        }
    }
}

/// What has happened in the pass of a key, from the queue to [`Action::Done`]; nothing yet by default.
#[derive_where(Clone, Debug, Default)]
pub struct Pass<C: Controller> {
    /// Tells it from other passes of the key.
    pub(super) number: u64,
    answers: BTreeMap<C::Query, Answers<AnswerOf<C>>>,
    outcomes: Vec<(C::Write, Outcome)>,
    /// Where the outcomes of writes to an object are.
    by_object: HashMap<Object, Vec<usize>>,
    /// Questions whose answers it waits for.
    pub(super) querying: Vec<C::Query>,
    /// Writes that are on their way.
    pub(super) sending: Vec<C::Write>,
    /// How many effects it has had since its last accepted write.
    pub(super) effects: u32,
    /// How many of its requests have ended.
    pub(super) requests: usize,
    /// Whether its queue is to retry the key, and how.
    pub(super) failed: Option<PassFailed>,
    /// Whether a request of it has failed, be it because the object is gone.
    pub(super) has_failure: bool,
    /// Since when a permit is all that it waits for.
    pub(super) lacks_since: Option<Duration>,
    /// Where it waits for a permit.
    pub(super) spot: Option<Spot>,
    pub(super) slots: PassSlots,
    /// Since when no request of it has ended.
    pub(super) quiet_since: Option<Duration>,
    /// Whether that is too long.
    pub(super) is_slow: bool,
    /// Whether it is to be asked about at once.
    pub(super) is_runnable: bool,
}

/// The answers to a question in one pass.
#[derive(Clone, Debug)]
struct Answers<A> {
    latest: Reply<A>,
    times: usize,
    has_failed: bool,
}

/// How a pass has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PassFailed {
    /// How long the API server, or the controller, wants it to wait at least.
    pub(super) wait: Duration,
    /// Whether the API server has refused it: it will most likely do so again.
    pub(super) refused: bool,
}

impl Description {
    /// What was done, and to what effect.
    pub fn new(action: &'static str, text: impl Into<String>) -> Self {
        Self {
            action,
            text: text.into(),
        }
    }

    /// That of `write`. Every action that a dry run counts is shown from the start, so it must be one that is known.
    pub(super) fn of<W: Write>(write: &W) -> Self {
        let description = write.describe();
        debug_assert!(
            !write.is_planned() || W::PLANNED.contains(&description.action),
            "{} is not in Write::PLANNED",
            description.action
        );
        description
    }
}

impl Object {
    /// The object of `resource` with this name.
    pub fn new(resource: &'static str, key: &ObjectKey) -> Self {
        Self {
            resource,
            key: key.clone(),
        }
    }
}

impl<A> Reply<A> {
    /// How far our clock is ahead of the API server's, at least; the whole seconds of its clock may add up to one.
    pub fn ahead(&self) -> Option<SignedDuration> {
        let took = self.answered.uptime.saturating_sub(self.asked.uptime);
        let took = SignedDuration::try_from(took).unwrap_or(SignedDuration::MAX);
        let date = self.date?;
        Some(self.answered.wall.duration_since(date).saturating_sub(took))
    }
}

impl<C: Controller> Pass<C> {
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    /// The last answer to `query` in this pass.
    pub fn answer(&self, query: &C::Query) -> Option<&Reply<AnswerOf<C>>> {
        self.answers.get(query).map(|answers| &answers.latest)
    }

    /// The writes that have ended in this pass, the first one first.
    pub fn outcomes(&self) -> impl DoubleEndedIterator<Item = &(C::Write, Outcome)> {
        self.outcomes.iter()
    }

    /// The writes that are on their way.
    pub fn sending(&self) -> impl Iterator<Item = &C::Write> {
        self.sending.iter()
    }

    /// How `write` ended in this pass.
    pub fn outcome(&self, write: &C::Write) -> Option<&Outcome> {
        let places = self.by_object.get(&write.object())?;
        let mut latest = places.iter().rev().filter_map(|place| self.outcomes.get(*place));
        latest.find(|(sent, _)| sent == write).map(|(_, outcome)| outcome)
    }

    /// The question is answered so.
    pub(super) fn answered(&mut self, query: C::Query, reply: Reply<AnswerOf<C>>) {
        self.has_a_sign_of_life();
        let has_failed = reply.value.is_err();
        self.has_failure |= has_failed;
        self.querying.retain(|asked| *asked != query);
        match self.answers.entry(query) {
            Entry::Vacant(entry) => {
                entry.insert(Answers {
                    latest: reply,
                    times: 1,
                    has_failed,
                });
            }
            Entry::Occupied(mut entry) => {
                let answers = entry.get_mut();
                answers.latest = reply;
                answers.times += 1;
                answers.has_failed |= has_failed;
            }
        }
    }

    /// The write has ended so.
    pub(super) fn ended(&mut self, write: C::Write, outcome: Outcome) {
        self.has_a_sign_of_life();
        match outcome {
            Outcome::Accepted(_) => self.effects = 0,
            Outcome::Planned => {}
            Outcome::Failed(_) => self.has_failure = true,
        }
        self.sending.retain(|sent| *sent != write);
        let places = self.by_object.entry(write.object()).or_default();
        places.push(self.outcomes.len());
        self.outcomes.push((write, outcome));
    }

    /// A request of it has ended.
    pub(super) const fn has_a_sign_of_life(&mut self) {
        self.requests += 1;
        (self.quiet_since, self.is_slow) = (None, false);
    }

    /// Whether a dry run has planned a write in it.
    pub(super) fn is_planned(&self) -> bool {
        let mut outcomes = self.outcomes.iter();
        outcomes.any(|(_, outcome)| *outcome == Outcome::Planned)
    }

    /// The writes of a dry run.
    pub(super) fn planned(&self) -> Vec<C::Write> {
        if !self.is_planned() {
            return Vec::new();
        }
        self.outcomes.iter().map(|(write, _)| write.clone()).collect()
    }

    /// How many writes have been sent in this pass.
    pub(super) fn writes(&self) -> usize {
        self.sending.len() + self.outcomes.len()
    }

    pub(super) fn is_out(&self) -> bool {
        !self.querying.is_empty() || !self.sending.is_empty()
    }

    /// Whether answers are all that it waits for.
    pub(super) fn only_reads(&self) -> bool {
        !self.querying.is_empty() && self.sending.is_empty()
    }

    /// Whether `query` is not asked again in this pass: it failed, or has been answered often enough.
    pub(super) fn is_answered(&self, query: &C::Query) -> bool {
        let answers = self.answers.get(query);
        answers.is_some_and(|answers| answers.has_failed || answers.times >= MOST_ANSWERS)
    }

    pub(super) fn fail(&mut self, failed: &CallFailed) {
        let outcome = failed.outcome();
        let known = self.failed.get_or_insert_default();
        if let Classified::Throttled(wait) | Classified::Retry { wait, .. } = outcome {
            known.wait = known.wait.max(wait);
        }
        known.refused |= matches!(outcome, Classified::Forbidden(_) | Classified::Invalid);
    }

    /// How many requests of it have ended.
    pub const fn requests(&self) -> usize {
        self.requests
    }
}
