//! What `reconcile` sees of a pass, and what it returns.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use derive_where::derive_where;
use jiff::{SignedDuration, Timestamp};

use super::held_write::HeldWrite;
use super::permit_queue::Spot;
use super::requests::PassSlots;
use super::{Accepted, AnswerOf, Controller, Write};
use crate::api::{AnswerClass as Classified, CallFailed};
use crate::meta::ObjectKey;

/// Answers to one query in one pass, at most: the watch may show something newer meanwhile.
const MOST_ANSWERS: usize = 3;

/// A point in time. `uptime` counts from the start of the process and never jumps; `wall` may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Now {
    /// The wall clock.
    pub wall: Timestamp,
    /// Time since the start of the process, for durations.
    pub uptime: Duration,
}

impl Now {
    /// What the wall clock would have shown at the start of the process; another time after a jump.
    pub fn wall_at_start(self) -> Timestamp {
        self.wall.checked_sub(self.uptime).unwrap_or(self.wall)
    }
}

/// When to reconcile a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Requeue {
    /// As soon as it is its turn.
    Now,
    /// After this wait; of several the shortest counts.
    After(Duration),
    /// At this wall time, in place of the one that was set before.
    At(Timestamp),
    /// As soon as it is its turn; its failures are forgotten.
    Reset,
    /// Not by itself: what was scheduled is cancelled, and its failures are forgotten.
    Cancel,
}

/// The one thing to do for a key now, as [`Controller::reconcile`] returns it.
#[derive_where(Clone, Debug, PartialEq)]
pub enum Action<C: Controller> {
    /// Nothing more until one of these times, or until something changes. A requeue of the key itself replaces what was
    /// scheduled for it.
    Done(Vec<(C::Key, Requeue)>),
    /// Changes the state alone.
    Remember(C::StateChange),
    /// Queries that do not depend on each other.
    Read(Vec<C::Query>),
    /// Writes that do not depend on each other. A write that was refused in this pass is not sent again in it.
    Write(Vec<C::Write>),
    /// Ends the pass as failed, although none of its requests failed.
    Fail(Failed<C>),
}

/// Why a pass has failed.
#[derive_where(Clone, Debug, PartialEq)]
pub struct Failed<C: Controller> {
    /// One of a closed set, for the metric label.
    pub reason: &'static str,
    /// For the log.
    pub text: String,
    /// Minimum wait before the key is retried.
    pub not_before: Duration,
    /// As in [`Action::Done`].
    pub requeues: Vec<(C::Key, Requeue)>,
}

/// What [`Controller::on_result`] receives, once each.
#[derive_where(Clone, Debug)]
pub enum ResultOf<'a, C: Controller> {
    /// The change of an [`Action::Remember`].
    Remembered(C::StateChange),
    /// The query or write is being sent.
    Sent(&'a RequestOf<C>),
    /// The write has ended.
    Outcome(&'a C::Write, &'a Outcome),
    /// The query has its answer. Received once, however many keys have sent the query, and even if the term is over.
    Answer(&'a C::Query, &'a Reply<AnswerOf<C>>),
}

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The API server accepted it.
    Accepted(Accepted),
    /// This is a dry run: it was counted and not sent.
    Planned,
    /// It failed, or its fate is unknown.
    Failed(CallFailed),
}

/// The answer to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<A> {
    /// The decoded answer, or why the request failed.
    pub value: Result<A, CallFailed>,
    /// When the request was sent.
    pub asked: Now,
    /// When the answer came.
    pub answered: Now,
    /// The API server's clock, in whole seconds; `None` if the answer has no readable `Date`.
    pub date: Option<Timestamp>,
}

/// A query or a write.
#[derive_where(Clone, Debug, PartialEq)]
pub enum RequestOf<C: Controller> {
    /// A query.
    Query(C::Query),
    /// A write.
    Write(C::Write),
}

/// What a write does, for logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Its kind, one of a closed set, for logs and metric labels: `annotate`, `evict`.
    pub action: &'static str,
    /// What is written, and why.
    pub text: String,
}

/// The object that a write changes: no two writes to one object are in flight at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Object {
    /// The resource, for example `pods`.
    pub resource: &'static str,
    /// Namespace and name.
    pub key: ObjectKey,
}

/// How queries of one kind are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryPolicy {
    /// The kind that `at_most` limits.
    pub kind: Cow<'static, str>,
    /// How many queries of the kind may be in flight at the same time.
    pub at_most: usize,
    /// How long an answer serves other keys that send the same query.
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
    /// Tells this pass from other passes of the key.
    pub(super) number: u64,
    answers: BTreeMap<C::Query, Answers<AnswerOf<C>>>,
    outcomes: Vec<(C::Write, Outcome)>,
    /// Indices into `outcomes` of the writes to each object.
    #[derive_where(skip(Debug))]
    by_object: HashMap<Object, Vec<usize>>,
    /// Queries whose answers it waits for.
    pub(super) querying: Vec<C::Query>,
    /// Writes in flight.
    pub(super) sending: Vec<C::Write>,
    /// How many effects it has had since its last accepted write.
    pub(super) effects: u32,
    /// How many of its requests have ended.
    pub(super) requests: usize,
    /// How it has failed, if it has.
    pub(super) failed: Option<PassFailed>,
    /// True if one of its requests has failed, even only because the object is gone.
    pub(super) has_failure: bool,
    /// Since when it waits for nothing but a permit.
    pub(super) lacks_since: Option<Duration>,
    pub(super) held_write: HeldWrite,
    /// Its place in the queue for permits.
    pub(super) spot: Option<Spot>,
    pub(super) slots: PassSlots,
    /// Since when none of its requests has ended.
    pub(super) quiet_since: Option<Duration>,
    /// True if `quiet_since` is too long ago.
    pub(super) is_slow: bool,
    /// True if it must be reconciled at once.
    pub(super) is_runnable: bool,
}

/// The answers to a query in one pass.
#[derive(Clone, Debug)]
struct Answers<A> {
    latest: Reply<A>,
    times: usize,
    has_failed: bool,
}

/// How a pass has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PassFailed {
    /// Minimum wait, as the API server or the controller wants it.
    pub(super) wait: Duration,
    /// True if the API server has refused a request: it will most likely do so again.
    pub(super) refused: bool,
}

impl Description {
    /// A write of kind `action`; `text` says what is written, and why.
    pub fn new(action: &'static str, text: impl Into<String>) -> Self {
        Self {
            action,
            text: text.into(),
        }
    }

    /// The description of `write`. A dry run shows every action that it counts from the start, so the action must be in
    /// `Write::PLANNED`.
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
    /// Minimum lead of our clock over the API server's, which counts whole seconds: up to one second too large.
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

    /// The last answer to `query` in this pass; none once a write has waited for too long to be based on it.
    pub fn answer(&self, query: &C::Query) -> Option<&Reply<AnswerOf<C>>> {
        self.answers.get(query).map(|answers| &answers.latest)
    }

    /// The writes that have ended in this pass, in order.
    pub fn outcomes(&self) -> impl DoubleEndedIterator<Item = &(C::Write, Outcome)> {
        self.outcomes.iter()
    }

    /// The writes in flight.
    pub fn sending(&self) -> impl Iterator<Item = &C::Write> {
        self.sending.iter()
    }

    /// How `write` ended in this pass; `None` if it has not.
    pub fn outcome(&self, write: &C::Write) -> Option<&Outcome> {
        let places = self.by_object.get(&write.object())?;
        let mut latest = places.iter().rev().filter_map(|place| self.outcomes.get(*place));
        latest.find(|(sent, _)| sent == write).map(|(_, outcome)| outcome)
    }

    /// Records the answer to a query.
    pub fn answered(&mut self, query: C::Query, reply: Reply<AnswerOf<C>>) {
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

    /// A request is next. It may have waited for a permit or a slot until now, which makes it not slow.
    pub(super) fn goes_out(&mut self) {
        self.effects += 1;
        if !self.is_out() {
            self.quiet_since = None;
        }
    }

    /// Records how a write ended.
    pub(super) fn ended(&mut self, write: C::Write, outcome: Outcome) {
        match outcome {
            Outcome::Accepted(_) => self.effects = 0,
            Outcome::Planned => {}
            Outcome::Failed(_) => self.has_failure = true,
        }
        if outcome != Outcome::Planned {
            self.has_a_sign_of_life();
        }
        self.sending.retain(|sent| *sent != write);
        let places = self.by_object.entry(write.object()).or_default();
        places.push(self.outcomes.len());
        self.outcomes.push((write, outcome));
    }

    /// One of its requests has ended.
    pub(super) const fn has_a_sign_of_life(&mut self) {
        self.requests += 1;
        (self.quiet_since, self.is_slow) = (None, false);
    }

    /// Returns whether a dry run has planned a write in this pass.
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

    /// A write that has waited for too long needs newer answers.
    pub(super) fn forget_old_answers(&mut self, now: Duration) {
        if self.held_write.becomes_too_long(now) {
            self.answers.clear();
        }
    }

    pub(super) fn is_out(&self) -> bool {
        !self.querying.is_empty() || !self.sending.is_empty()
    }

    /// Returns whether it waits for answers to queries alone.
    pub(super) fn only_reads(&self) -> bool {
        !self.querying.is_empty() && self.sending.is_empty()
    }

    /// Returns whether `query` is not sent again in this pass: it failed, or was answered often enough.
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

    /// How many of its requests have ended.
    pub const fn requests(&self) -> usize {
        self.requests
    }
}
