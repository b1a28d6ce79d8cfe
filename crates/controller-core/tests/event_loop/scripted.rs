//! A controller scripted by its test. Keys, queries, answers, writes and state changes are texts.

use std::cell::Cell;
use std::sync::Arc;

use controller_core::controller::{
    self, Action, Context, ContextMut, Controller, Description, LoopEvent, Now, Object, Outcome, Pass,
    Priority, QueryPolicy, Queue, Reply, Request, RequestOf, Requeue, ResultOf,
};
use controller_core::events::Recorder;
use controller_core::meta::ObjectKey;
use derive_where::derive_where;
use parking_lot::Mutex;

pub(crate) type Text = &'static str;
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Q(pub(crate) Text);

/// `object=value`; the dry run does not plan a write that begins with `step`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct W(pub(crate) Text);

thread_local! {
    /// The policy of a query, by its kind: the text before the colon.
    pub(crate) static ASKING: Cell<fn(kind: Text) -> QueryPolicy> = const { Cell::new(|_| USUAL) };
}

const USUAL: QueryPolicy = QueryPolicy {
    kind: std::borrow::Cow::Borrowed(""),
    at_most: usize::MAX,
    shared_for: std::time::Duration::ZERO,
};

pub(crate) fn reads(queries: impl IntoIterator<Item = Text>) -> Action<Scripted> {
    Action::Read(queries.into_iter().map(Q).collect())
}

pub(crate) fn writes(writes: impl IntoIterator<Item = Text>) -> Action<Scripted> {
    Action::Write(writes.into_iter().map(W).collect())
}

/// The `reconcile` of a test.
pub(crate) type Next = dyn Fn(&Seen<'_>) -> Action<Scripted> + Send + Sync;

#[derive_where(Debug)]
pub(crate) struct Scripted {
    pub(crate) queues: Vec<Queue>,
    #[derive_where(skip)]
    pub(crate) next: Box<Next>,
    pub(crate) said: Arc<Said>,
}

/// State that a test shares with its controller.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Requeues for the next event.
    pub(crate) requeues: Mutex<Vec<(Text, Requeue)>>,
    /// The keys that `reconcile` was called for.
    pub(crate) asked: Mutex<Vec<Text>>,
}

/// Arguments of `reconcile`.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) key: Text,
    /// Results and events so far, as texts.
    pub(crate) state: &'a [String],
    pub(crate) cx: &'a Context<'a, Scripted>,
    pub(crate) pass: &'a Pass<Scripted>,
    pub(crate) now: Now,
}

impl Seen<'_> {
    /// The answer to `query` in this pass.
    pub(crate) fn answer(&self, query: Text) -> Option<Text> {
        self.pass.answer(&Q(query))?.value.as_ref().ok().copied()
    }

    pub(crate) fn reply(&self, query: Text) -> Option<&Reply<Text>> {
        self.pass.answer(&Q(query))
    }

    pub(crate) fn outcome(&self, write: Text) -> Option<&Outcome> {
        self.pass.outcome(&W(write))
    }

    /// The answer that another key received recently.
    pub(crate) fn shared(&self, query: Text) -> Option<&Reply<Text>> {
        self.cx.shared(&Q(query))
    }

    pub(crate) fn is_accepted(&self, write: Text) -> bool {
        matches!(self.pass.outcome(&W(write)), Some(Outcome::Accepted(_)))
    }

    pub(crate) fn knows(&self, text: &str) -> bool {
        self.state.iter().any(|known| known == text)
    }
}

impl controller::Query for Q {
    type Answer = Text;

    fn request(&self) -> Request {
        unreachable!("nothing is sent")
    }

    fn read(&self, _: &[u8]) -> serde_json::Result<Text> {
        unreachable!("nothing is sent")
    }

    fn policy(&self) -> QueryPolicy {
        ASKING.get()(self.0.split(':').next().unwrap_or_default())
    }
}

impl controller::Write for W {
    const PLANNED: &'static [&'static str] = &["set"];

    fn request(&self) -> Request {
        unreachable!("nothing is sent")
    }

    fn object(&self) -> Object {
        let name = self.0.split('=').next().unwrap_or_default();
        Object {
            resource: "objects",
            key: ObjectKey::cluster(name),
        }
    }

    fn describe(&self) -> Description {
        Description {
            action: "set",
            text: self.0.to_owned(),
        }
    }

    fn is_planned(&self) -> bool {
        !self.0.starts_with("step")
    }
}

impl Controller for Scripted {
    type Stores = ();
    type State = Vec<String>;
    type Key = Text;
    type Query = Q;
    type Write = W;
    type StateChange = Text;
    type Event = String;

    const NAME: &'static str = "scripted";

    fn queues(&self) -> Vec<Queue> {
        self.queues.clone()
    }

    /// The second queue holds the keys that begin with `low`.
    fn queue_of(&self, key: &Text) -> usize {
        usize::from(key.starts_with("low"))
    }

    /// The text before the slash.
    fn namespace_of<'a>(&self, key: &'a Text) -> Option<&'a str> {
        key.split_once('/').map(|(namespace, _)| namespace)
    }

    fn priority(&self, state: &Vec<String>, (): &(), key: &Text) -> Priority {
        let is =
            |word: &str| key.ends_with(word) || state.iter().any(|known| *known == format!("{key} {word}"));
        match () {
            () if is("urgent") => Priority::High,
            () if is("idle") => Priority::Low,
            () => Priority::Normal,
        }
    }

    fn on_event(&self, cx: &mut ContextMut<'_, Self>, observed: LoopEvent<'_, Self>) {
        for (key, enqueue) in std::mem::take(&mut *self.said.requeues.lock()) {
            cx.out.requeue(key, enqueue);
        }
        if !matches!(observed, LoopEvent::Watching(..)) {
            cx.state.push(format!("{observed:?}"));
            cx.out.record(format!("{observed:?}"));
        }
    }

    fn reconcile(&self, cx: &Context<'_, Self>, key: &Text) -> Action<Self> {
        self.said.asked.lock().push(key);
        (self.next)(&Seen {
            key,
            state: cx.state,
            cx,
            pass: cx.pass,
            now: cx.now,
        })
    }

    fn on_result(&self, cx: &mut ContextMut<'_, Self>, _: &Text, result: ResultOf<'_, Self>) {
        cx.state.push(match result {
            ResultOf::Remembered(note) => {
                cx.out.record(note.to_owned());
                note.to_owned()
            }
            ResultOf::Sent(RequestOf::Query(Q(query))) => format!("asks {query}"),
            ResultOf::Sent(RequestOf::Write(W(write))) => format!("writes {write}"),
            ResultOf::Outcome(W(write), Outcome::Accepted(_)) => format!("{write}: accepted"),
            ResultOf::Outcome(W(write), Outcome::Planned) => format!("{write}: planned"),
            ResultOf::Outcome(W(write), Outcome::Failed(failed)) => format!("{write}: {}", failed.reason()),
            ResultOf::Answer(Q(query), reply) => match &reply.value {
                Ok(answer) => format!("{query}: {answer}"),
                Err(failed) => format!("{query}: {}", failed.reason()),
            },
        });
    }

    fn record(&self, _: String, _: &dyn Recorder) {}
}
