//! A controller as a value, and the loop that runs it.
//!
//! A [`Controller`] says what it watches, what it remembers, what it would do next, and how that is phrased as a
//! request. It has no client, clock, lock or task. The [`Loop`] asks it, and is a value too: it holds the queues, the
//! passes and the requests in flight. [`run`] is the thin asynchronous part: it performs the loop's effects.
//! `docs/architecture.md` draws it.
//!
//! | file | answers |
//! |---|---|
//! | `pass` | what is a controller asked with, and what does it answer? |
//! | `queue`, `key_queue`, `levels`, `turns`, `timers`, `workers` | which key is next? |
//! | `retry` | when does a key come back whose pass failed? |
//! | `event_loop`, `effect` | what has happened, what is in flight, what is to be performed? |
//! | `passes`, `answers` | what becomes of a step, and of an answer? |
//! | `line` | who waits for a permit? |
//! | `requests` | what is out, and who waits for it? |
//! | `plans` | what would a dry run write? |
//! | `mutation` | what does an accepted write show, and what does a read? |
//! | `request` | how does a question or a write become a request? |
//! | `run` | who performs what the loop asks for? |
//! | `watching` | which informers tell the loop? |
//! | `explain` | what would be done with one object, and why? |
//!
//! `examples/dimmer.rs` is a whole controller in one file.
//!
//! Two properties hold for every controller; `harness::sim` checks them:
//!
//! - *Wake completeness*: if a change alters `next(key)`, the key is woken.
//! - *Done contract*: until the time that `Done` names, an unchanged world gives the same answer.

mod answers;
mod effect;
mod event_loop;
mod explain;
mod fair_queue;
mod informer_set;
mod key_queue;
mod levels;
mod mutation;
mod pass;
mod passes;
mod permit_queue;
mod plans;
mod queue;
mod request;
mod requests;
mod retry;
mod run;
mod seating;
mod timers;
mod workers;

use std::convert::Infallible;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use derive_where::derive_where;
use prometheus::Registry;

pub use self::effect::{Completed, Effect, Notification, Polled};
pub use self::event_loop::Loop;
pub use self::explain::{Explained, explain};
pub use self::informer_set::InformerSet;
pub use self::mutation::{CacheRead, CacheWrite};
pub use self::pass::{
    Accepted, Action, Description, Failed, Now, Object, Outcome, Pass, QueryPolicy, Reply, RequestOf,
    Requeue, ResultOf,
};
pub use self::permit_queue::Limit;
pub use self::queue::{Order, Priority, Queue};
pub use self::request::{Request, Sender, requests_to};
pub use self::retry::{Retry, RetryLimit, RetryShare};
pub use self::run::{Driver, ask_and_run, run};
use crate::api::CallFailed;
use crate::events::Recorder;
use crate::informer::{Change, Store, View};

/// When to look again at an object of which a read has told, and the cache does not yet.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// A controller. What it holds itself never changes: its configuration, and handles of its metrics.
pub trait Controller: Sized + Debug + Send + Sync + 'static {
    /// The stores of what it watches; empty at first.
    type Stores: Default + Send + Sync;
    /// What it remembers between steps; the default is that of a process that has just started.
    type State: Clone + Debug + Default + Eq + Hash + Send;
    /// What it is asked about.
    type Key: Clone + Debug + Display + Ord + Hash + Send + Sync;
    /// What it reads past the caches.
    type Query: Query;
    /// What it writes.
    type Write: Write;
    /// A change of the memory that needs no request.
    type StateChange: Clone + Debug + PartialEq + Send;
    /// What is told to people: events, lines of the log, metrics. Dropped outside a term.
    type Event: Debug + PartialEq + Send;

    /// The name of the binary, for the log.
    const NAME: &'static str;

    /// Its queues, the most urgent first; one that has its name, unless said otherwise.
    fn queues(&self) -> Vec<Queue> {
        vec![Queue {
            name: Some(Self::NAME),
            ..Queue::FIFO
        }]
    }

    /// Which of [`queues`](Self::queues) holds `key`.
    fn queue_of(&self, key: &Self::Key) -> usize {
        let _ = key;
        0
    }

    /// The namespace that `key` is for. Namespaces take turns, so that the keys of one delay those of another by at most
    /// one turn. All keys are of one, unless said otherwise.
    fn namespace_of<'a>(&self, key: &'a Self::Key) -> Option<&'a str> {
        let _ = key;
        None
    }

    /// How urgent `key` is among the keys of its queue, as far as the memory and the caches tell; all alike, unless said
    /// otherwise. Asked whenever the key is woken.
    fn priority(&self, state: &Self::State, stores: &Self::Stores, key: &Self::Key) -> Priority {
        let _ = (state, stores, key);
        Priority::default()
    }

    /// Something has happened besides a change of an object.
    fn on_event(&self, cx: &mut ContextMut<'_, Self>, observed: LoopEvent<'_, Self>);

    /// The one thing to do for `key` now. It changes nothing and is asked again after every effect.
    fn reconcile(&self, cx: &Context<'_, Self>, key: &Self::Key) -> Action<Self>;

    /// Remembers what came of a step of `key`.
    fn on_result(&self, cx: &mut ContextMut<'_, Self>, key: &Self::Key, result: ResultOf<'_, Self>);

    /// What `write` makes of its object once it is accepted; nothing, unless said otherwise.
    fn apply_to_cache(&self, write: &Self::Write, mutation: &mut CacheWrite<'_, Self>) {
        let _ = (write, mutation);
    }

    /// How long the watch may take to show `write`. After that its fate is unknown.
    fn watch_timeout(&self, write: &Self::Write) -> Duration {
        let _ = write;
        Duration::from_secs(30)
    }

    /// Which objects the answer to `query` shows as they are now; none, unless said otherwise.
    fn refresh_cache(&self, query: &Self::Query, reading: &mut CacheRead<'_, Self>) {
        let _ = (query, reading);
    }

    /// Whether the pass of the key has failed when this request has. Not where the object is gone, unless said
    /// otherwise.
    fn is_failure(&self, ask: &RequestOf<Self>, failed: &CallFailed) -> bool {
        let _ = ask;
        !failed.is_gone()
    }

    /// Tells people.
    fn record(&self, event: Self::Event, recorder: &Recorder);

    /// Registers the metrics that are computed at scrape time; none, unless said otherwise.
    fn register(driver: &Arc<Driver<Self>>, registry: &Registry) -> prometheus::Result<()> {
        let _ = (driver, registry);
        Ok(())
    }

    /// Whether its work is over, for one that does not run for ever; an error ends the process as a failure.
    fn finished(&self, state: &Self::State) -> Option<Result<(), String>> {
        let _ = state;
        None
    }
}

/// A controller that watches objects with this view.
pub trait Watches<V: View>: Controller {
    /// The store holds another view of an object: the watch has shown it, or a write of ours was accepted.
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, V>);
}

/// Which of the stores of a controller: each kind that it watches has one.
pub type StoreOf<C, V> = fn(&mut <C as Controller>::Stores) -> &mut Store<V>;

/// A read past the caches, as data.
pub trait Query: Clone + Debug + Ord + Hash + Send + Sync {
    /// What it tells.
    type Answer: Clone + Debug + PartialEq + Send + Sync;

    /// The request.
    fn request(&self) -> Request;

    /// Reads the body of the answer.
    fn read(&self, body: &[u8]) -> serde_json::Result<Self::Answer>;

    /// How it is asked.
    fn policy(&self) -> QueryPolicy {
        QueryPolicy::default()
    }

    /// How long this answer serves other keys; [`QueryPolicy::shared_for`], unless said otherwise.
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
    /// The actions of all writes that a dry run counts: `controller_planned_writes_total` shows each from the start.
    const PLANNED: &'static [&'static str];

    /// The request.
    fn request(&self) -> Request;

    /// Which object it changes.
    fn object(&self) -> Object;

    /// What it is for people.
    fn describe(&self) -> Description;

    /// Whether a dry run counts it; not where it is a step towards another write.
    fn is_planned(&self) -> bool {
        true
    }
}

/// What a question of this controller tells.
pub type AnswerOf<C> = <<C as Controller>::Query as Query>::Answer;

/// What a controller changes, sees, and wants to happen.
pub struct ContextMut<'a, C: Controller> {
    /// What it remembers.
    pub state: &'a mut C::State,
    /// The caches, with our own accepted writes on top.
    pub stores: &'a C::Stores,
    /// Whether this process leads.
    pub leading: bool,
    /// The time.
    pub now: Now,
    /// What it wants to happen.
    pub out: Output<C>,
}

/// What a controller looks at to say what is next for a key.
pub struct Context<'a, C: Controller> {
    /// What it remembers.
    pub state: &'a C::State,
    /// The caches, with our own accepted writes on top.
    pub stores: &'a C::Stores,
    /// What has happened in the pass of the key.
    pub pass: &'a Pass<C>,
    /// The time.
    pub now: Now,
    answers: &'a answers::Answers<C>,
}

/// What happens besides changes of objects.
#[derive_where(Clone, Copy, Debug, PartialEq)]
pub enum LoopEvent<'a, C: Controller> {
    /// The caches are full; told once, before any key is asked about.
    Synced,
    /// A term begins or is over.
    Leading(bool),
    /// An hour of the term has passed: everything is to be looked at again, also what seemed to be done.
    Resync,
    /// Whether the watch of this resource stands.
    Watching(&'static str, bool),
    /// The watch has not shown this write in time: its fate is unknown.
    Overdue(&'a C::Write),
}

/// Keys to be asked about, and what people are told.
#[derive_where(Debug, Default)]
pub struct Output<C: Controller> {
    requeues: Vec<(C::Key, Requeue)>,
    events: Vec<C::Event>,
}

impl<C: Controller> Context<'_, C> {
    /// The answer to `query` that another key has got lately; see [`QueryPolicy::shared_for`].
    pub fn shared(&self, query: &C::Query) -> Option<&Reply<AnswerOf<C>>> {
        self.answers.get(query)
    }

    /// What to do where nobody knows what became of our last write: `query` reads the object of `key` again. An
    /// answer that leaves it unknown is about another object of this name: the watch will tell.
    pub fn read_again(&self, key: &C::Key, query: C::Query) -> Action<C> {
        match self.pass.answer(&query).map(|reply| reply.value.is_ok()) {
            None => Action::Read(vec![query]),
            Some(false) => Action::Done(vec![]),
            Some(true) => Action::Done(vec![(key.clone(), Requeue::After(READ_AGAIN))]),
        }
    }
}

impl<C: Controller> Output<C> {
    /// Ask about `key` as soon as it is its turn.
    pub fn enqueue(&mut self, key: C::Key) {
        self.requeue(key, Requeue::Now);
    }

    /// Ask about `key` then.
    pub fn requeue(&mut self, key: C::Key, wake: Requeue) {
        self.requeues.push((key, wake));
    }

    /// Tell people.
    pub fn record(&mut self, event: C::Event) {
        self.events.push(event);
    }

    /// What people are to be told.
    pub fn into_events(self) -> Vec<C::Event> {
        self.events
    }
}
