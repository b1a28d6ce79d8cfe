//! A controller as a value, and the loop that runs it.
//!
//! A [`Controller`] declares what it watches, what it remembers, the next action for a key, and the request of each
//! action. It has no client, clock, lock or task. The [`Loop`] calls it and is a value too: it holds the queues, the
//! passes and the requests in flight. The runtime performs its effects.
//! `docs/architecture.md` draws it.
//!
//! | file | answers |
//! |---|---|
//! | `pass` | what does `reconcile` see, and what does it return? |
//! | `queue`, `key_queue`, `levels`, `seating`, `fair_queue`, `timers`, `workers` | which key is next? |
//! | `retry` | when does a key come back whose pass failed? |
//! | `event_loop`, `effect` | what has happened, what is in flight, what must be performed? |
//! | `passes`, `answers` | what follows from an action, and from an answer? |
//! | `permit_queue`, `held_write` | which passes wait for a permit, and for how long? |
//! | `requests` | what is in flight, and which keys wait for it? |
//! | `plans` | what would a dry run write? |
//! | `cache` | what do an accepted write and a read do to the cache? |
//! | `request` | how does a query or a write become a request? |
//!
//! `examples/dimmer.rs` is a whole controller in one file.
//!
//! Two properties hold for every controller; `controller_testing::sim` checks them:
//!
//! - *Requeue completeness*: a change that alters `reconcile(key)` enqueues the key.
//! - *Done contract*: until the time that `Done` names, `reconcile(key)` returns the same in an unchanged world.

mod accepted;
mod answers;
mod cache;
mod effect;
mod event_loop;
mod fair_queue;
mod held_write;
mod key_queue;
mod levels;
mod pass;
mod passes;
mod permit_queue;
mod plans;
mod queue;
mod request;
mod requests;
mod retry;
mod seating;
mod timers;
mod workers;

use std::convert::Infallible;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::time::Duration;

use derive_where::derive_where;
use prometheus::Registry;

pub use self::accepted::Accepted;
pub use self::cache::{CacheRead, CacheWrite};
pub use self::effect::{Completed, Effect, Notification, Polled};
pub use self::event_loop::{Inspector, Loop};
pub use self::pass::{
    Action, Description, Failed, Now, Object, Outcome, Pass, QueryPolicy, Reply, RequestOf, Requeue, ResultOf,
};
pub use self::permit_queue::Limit;
pub use self::queue::{Order, Priority, Queue};
pub use self::request::{Request, requests_to};
pub use self::retry::{Retry, RetryLimit, RetryShare};
use crate::api::CallFailed;
use crate::cache::{Change, Store, View};
use crate::events::Recorder;

/// Wait before another look at an object that a read has shown and the cache has not yet.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// A controller. Its own fields never change: its configuration, and handles of its metrics.
pub trait Controller: Sized + Debug + Send + Sync + 'static {
    /// The stores of the watched objects; empty at first.
    type Stores: Default + Send + Sync;
    /// What it remembers between calls; the default is the state of a process that has just started.
    type State: Clone + Debug + Default + Eq + Hash + Send;
    /// What it reconciles, for example an object's name.
    type Key: Clone + Debug + Display + Ord + Hash + Send + Sync;
    /// Its reads past the caches.
    type Query: Query;
    /// Its writes.
    type Write: Write;
    /// A change of the state that needs no request.
    type StateChange: Clone + Debug + PartialEq + Send;
    /// An event, log line or metric to emit. Dropped outside a term.
    type Event: Clone + Debug + PartialEq + Send;

    /// The name of the binary, for the log.
    const NAME: &'static str;

    /// Its queues, the most urgent first; by default one with the name [`NAME`](Self::NAME).
    fn queues(&self) -> Vec<Queue> {
        vec![Queue {
            name: Some(Self::NAME),
            ..Queue::FIFO
        }]
    }

    /// Index of the queue in [`queues`](Self::queues) that holds `key`.
    fn queue_of(&self, key: &Self::Key) -> usize {
        let _ = key;
        0
    }

    /// The namespace of `key`. Namespaces take turns, so that the keys of one delay those of another by at most one
    /// turn. By default all keys share one.
    fn namespace_of<'a>(&self, key: &'a Self::Key) -> Option<&'a str> {
        let _ = key;
        None
    }

    /// How urgent `key` is among the keys of its queue, judged by state and caches; [`Priority::Normal`] by default.
    /// Called whenever the key is enqueued.
    fn priority(&self, state: &Self::State, stores: &Self::Stores, key: &Self::Key) -> Priority {
        let _ = (state, stores, key);
        Priority::default()
    }

    /// Handles everything but changes of objects.
    fn on_event(&self, cx: &mut ContextMut<'_, Self>, event: LoopEvent<'_, Self>);

    /// The one thing to do for `key` now. Changes nothing, and is called again after every effect.
    fn reconcile(&self, cx: &Context<'_, Self>, key: &Self::Key) -> Action<Self>;

    /// Remembers the result of an action for `key`.
    fn on_result(&self, cx: &mut ContextMut<'_, Self>, key: &Self::Key, result: ResultOf<'_, Self>);

    /// The config file has changed, as `change` says; see [`Reload`](crate::app::Reload). Nothing by default.
    fn on_reload(&self, cx: &mut ContextMut<'_, Self>, change: Self::StateChange) {
        let _ = (cx, change);
    }

    /// Declares what `write` makes of its object once it is accepted; nothing by default.
    fn apply_to_cache(&self, write: &Self::Write, mutation: &mut CacheWrite<'_, Self>) {
        let _ = (write, mutation);
    }

    /// How long the watch may take to show `write`; 30 s by default. After that the fate of the write is unknown.
    fn watch_timeout(&self, write: &Self::Write) -> Duration {
        let _ = write;
        Duration::from_secs(30)
    }

    /// Declares which objects the answer to `query` shows as they are now; none by default.
    fn refresh_cache(&self, query: &Self::Query, reading: &mut CacheRead<'_, Self>) {
        let _ = (query, reading);
    }

    /// Returns whether this failed request fails the pass of its key; by default it does, unless the object is gone.
    fn is_failure(&self, ask: &RequestOf<Self>, failed: &CallFailed) -> bool {
        let _ = ask;
        !failed.is_gone()
    }

    /// Emits `event`, for example as a Kubernetes event or a log line.
    fn record(&self, event: Self::Event, recorder: &dyn Recorder);

    /// Registers the metrics that are computed at scrape time; none by default.
    fn register(inspector: &Inspector<Self>, registry: &Registry) -> prometheus::Result<()> {
        let _ = (inspector, registry);
        Ok(())
    }

    /// The result of a controller whose work ends; `None` while it works. An error ends the process as a failure.
    fn finished(&self, state: &Self::State) -> Option<Result<(), String>> {
        let _ = state;
        None
    }
}

/// A controller that watches objects with this view.
pub trait Watches<V: View>: Controller {
    /// The store holds another view of an object: the watch or a read has shown it, or a write of ours was accepted.
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, V>);
}

/// Selects one store of a controller; each watched kind has one.
pub type StoreOf<C, V> = fn(&mut <C as Controller>::Stores) -> &mut Store<V>;

/// A read past the caches, as data.
pub trait Query: Clone + Debug + Ord + Hash + Send + Sync {
    /// The decoded answer.
    type Answer: Clone + Debug + PartialEq + Send + Sync;

    /// The request to send.
    fn request(&self) -> Request;

    /// Decodes the body of the answer; an error fails the query.
    fn read(&self, body: &[u8]) -> serde_json::Result<Self::Answer>;

    /// The query for the next page, if `body` is a page and says so at a glance: it is sent while `body` is decoded. None
    /// by default.
    fn continued(&self, body: &[u8]) -> Option<Self> {
        let _ = body;
        None
    }

    /// How many are in flight at a time, and how long an answer serves other keys.
    fn policy(&self) -> QueryPolicy {
        QueryPolicy::default()
    }

    /// How long this answer serves other keys; [`QueryPolicy::shared_for`] by default.
    fn serves_for(&self, answer: &Result<Self::Answer, CallFailed>) -> Duration {
        let _ = answer;
        self.policy().shared_for
    }
}

/// For a controller that reads nothing past its caches.
impl Query for Infallible {
    type Answer = Self;

    fn request(&self) -> Request {
        match *self {}
    }

    fn read(&self, _: &[u8]) -> serde_json::Result<Self> {
        match *self {}
    }
}

/// A write, as data.
pub trait Write: Clone + Debug + PartialEq + Send + Sync {
    /// The actions of all writes that a dry run counts; `controller_planned_writes_total` shows each from the start.
    const PLANNED: &'static [&'static str];

    /// The request to send.
    fn request(&self) -> Request;

    /// The object that the write changes.
    fn object(&self) -> Object;

    /// Action and text of the write, for logs and metric labels.
    fn describe(&self) -> Description;

    /// Returns whether a dry run counts the write; `false` for a step towards another write.
    fn is_planned(&self) -> bool {
        true
    }
}

/// What the queries of this controller are answered with.
pub type AnswerOf<C> = <<C as Controller>::Query as Query>::Answer;

/// What a controller may change, see and request when something has happened.
pub struct ContextMut<'a, C: Controller> {
    /// The controller's state.
    pub state: &'a mut C::State,
    /// The caches, with our own accepted writes on top.
    pub stores: &'a C::Stores,
    /// True while this process leads.
    pub leading: bool,
    /// The time of the call.
    pub now: Now,
    /// The requeues and events that it wants.
    pub out: Output<C>,
}

/// What [`Controller::reconcile`] sees.
pub struct Context<'a, C: Controller> {
    /// The controller's state.
    pub state: &'a C::State,
    /// The caches, with our own accepted writes on top.
    pub stores: &'a C::Stores,
    /// What has happened in the pass of the key.
    pub pass: &'a Pass<C>,
    /// The time of the call.
    pub now: Now,
    answers: &'a answers::Answers<C>,
}

/// Everything that happens except changes of objects.
#[derive_where(Clone, Copy, Debug, PartialEq)]
pub enum LoopEvent<'a, C: Controller> {
    /// The caches are full; sent once, before any key is reconciled.
    Synced,
    /// A term has begun (`true`) or ended (`false`).
    Leading(bool),
    /// An hour of the term has passed, or the wall clock has jumped back: look at everything again, also at what seemed
    /// done.
    Resync,
    /// The watch of this resource is established (`true`) or broken (`false`).
    Watching(&'static str, bool),
    /// The API server was set back to an earlier state: what is known to be gone may be there again.
    SetBack,
    /// The watch has not shown this write within [`Controller::watch_timeout`]: its fate is unknown.
    Overdue(&'a C::Write),
}

/// Keys to requeue, and events to emit.
#[derive_where(Debug, Default)]
pub struct Output<C: Controller> {
    requeues: Vec<(C::Key, Requeue)>,
    events: Vec<C::Event>,
}

impl<C: Controller> Context<'_, C> {
    /// The answer to `query` that another key received recently; see [`QueryPolicy::shared_for`].
    pub fn shared(&self, query: &C::Query) -> Option<&Reply<AnswerOf<C>>> {
        self.answers.get(query)
    }

    /// The action for a key whose last write has an unknown fate: `query` reads the object again. If the answer leaves
    /// the fate unknown, it is about another object of this name, and the watch will show which one exists.
    pub fn read_again(&self, key: &C::Key, query: C::Query) -> Action<C> {
        match self.pass.answer(&query).map(|reply| reply.value.is_ok()) {
            None => Action::Read(vec![query]),
            Some(false) => Action::Done(vec![]),
            Some(true) => Action::Done(vec![(key.clone(), Requeue::After(READ_AGAIN))]),
        }
    }
}

impl<C: Controller> Output<C> {
    /// Requeues `key` for as soon as it is its turn.
    pub fn enqueue(&mut self, key: C::Key) {
        self.requeue(key, Requeue::Now);
    }

    /// Requeues `key`; `requeue` says when.
    pub fn requeue(&mut self, key: C::Key, requeue: Requeue) {
        self.requeues.push((key, requeue));
    }

    /// Adds an event for [`Controller::record`].
    pub fn record(&mut self, event: C::Event) {
        self.events.push(event);
    }

    /// The recorded events, in order.
    pub fn into_events(self) -> Vec<C::Event> {
        self.events
    }
}
