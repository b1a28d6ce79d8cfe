//! A loop around a [`Scripted`] controller; the test plays the API server, the clock and the limit.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{AnswerClass, Call, CallFailed, Verb};
use controller_core::controller::{
    Accepted, Action, Completed, Effect, Limit, Loop, LoopEvent, Notification, Now, Polled, QueryPolicy,
    Queue, RequestOf, Requeue, RetryShare,
};
use controller_core::time::saturating_add;
use controller_core::workqueue::{QueueMetrics, TokenBucket};
use controller_testing::sim::NOW;

use crate::scripted::{ASKING, Q, Said, Scripted, Seen, Text, W};

pub(crate) const NOTHING: [&str; 0] = [];
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MS: Duration = Duration::from_millis(1);

/// Maximum turns at one moment; a loop that needs more never settles.
const MOST_TURNS: usize = 1_000;

/// The parts of a rig; by default one FIFO queue, no limit, and a term.
pub(crate) struct Setup {
    pub(crate) queues: Vec<Queue>,
    pub(crate) metrics: Vec<Option<QueueMetrics>>,
    pub(crate) querying: fn(Text) -> QueryPolicy,
    pub(crate) limit: Permits,
    pub(crate) retries: RetryShare,
    pub(crate) dry_run: bool,
    pub(crate) leading: bool,
}

#[derive(Default)]
pub(crate) struct Permits {
    bucket: Option<RefCell<TokenBucket>>,
    now: Cell<Duration>,
    /// Number of permits taken.
    pub(crate) taken: Cell<usize>,
}

pub(crate) struct Rig {
    pub(crate) event_loop: Loop<Scripted>,
    pub(crate) now: Now,
    pub(crate) limit: Permits,
    /// Time until the loop wants to be polled again.
    pub(crate) again: Option<Duration>,
    said: Arc<Said>,
    in_flight: Vec<Effect<Scripted>>,
    told: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            queues: vec![Queue::FIFO],
            metrics: vec![None, None],
            querying: |_| QueryPolicy::default(),
            limit: Permits::default(),
            retries: RetryShare::default(),
            dry_run: false,
            leading: true,
        }
    }
}

impl Setup {
    /// One FIFO queue with this many workers.
    pub(crate) fn workers(workers: usize) -> Self {
        Self::queue(Queue {
            workers,
            ..Queue::FIFO
        })
    }

    pub(crate) fn queue(queue: Queue) -> Self {
        Self {
            queues: vec![queue],
            ..Self::default()
        }
    }

    pub(crate) fn limit(self, limit: Permits) -> Self {
        Self { limit, ..self }
    }

    /// A loop with full caches; in a term if `leading` is set.
    pub(crate) fn rig(self, next: impl Fn(&Seen<'_>) -> Action<Scripted> + Send + Sync + 'static) -> Rig {
        let leading = self.leading;
        let mut rig = self.unsynced(next);
        rig.event_loop.on_event(LoopEvent::Synced, rig.now);
        if leading {
            rig.lead(true);
        }
        rig
    }

    /// A loop whose caches are not yet full.
    pub(crate) fn unsynced(
        self,
        next: impl Fn(&Seen<'_>) -> Action<Scripted> + Send + Sync + 'static,
    ) -> Rig {
        let said = Arc::new(Said::default());
        ASKING.set(self.querying);
        let controller = Scripted {
            queues: self.queues,
            next: Box::new(next),
            said: Arc::clone(&said),
        };
        Rig {
            event_loop: Loop::new(Arc::new(controller), self.metrics, self.dry_run)
                .retrying_within(self.retries),
            now: NOW,
            limit: self.limit,
            again: None,
            said,
            in_flight: Vec::new(),
            told: Vec::new(),
        }
    }
}

impl Permits {
    /// `qps` permits a second, `burst` at once.
    pub(crate) fn new(qps: f64, burst: u32) -> Self {
        Self {
            bucket: Some(RefCell::new(TokenBucket::new(qps, burst))),
            ..Self::default()
        }
    }
}

impl Limit for Permits {
    fn wait(&self) -> Duration {
        let bucket = self.bucket.as_ref();
        bucket.map_or(Duration::ZERO, |bucket| bucket.borrow().wait(self.now.get()))
    }

    fn take(&self) {
        self.taken.set(self.taken.get() + 1);
        if let Some(bucket) = &self.bucket {
            bucket.borrow_mut().take(self.now.get());
        }
    }
}

impl Rig {
    /// Polls until the loop wants nothing more at this moment; returns what it sent.
    pub(crate) fn turn(&mut self) -> Vec<String> {
        let mut sent = Vec::new();
        for _ in 0..MOST_TURNS {
            let Polled { effects, told, again } = self.event_loop.poll(self.now, &self.limit);
            sent.extend(effects.iter().map(text));
            self.in_flight.extend(effects);
            self.told.extend(told.iter().map(told_text));
            self.again = again;
            if again != Some(Duration::ZERO) {
                return sent;
            }
        }
        panic!("the loop has no end");
    }

    /// Advances time, then polls.
    pub(crate) fn after(&mut self, time: Duration) -> Vec<String> {
        self.now.uptime += time;
        self.now.wall = saturating_add(self.now.wall, time);
        self.limit.now.set(self.now.uptime);
        self.turn()
    }

    /// Everything sent in this time, with its millisecond, if the loop is polled whenever it asks for it; `answer`
    /// answers at once.
    pub(crate) fn timeline(
        &mut self,
        time: Duration,
        answer: impl Fn(&RequestOf<Scripted>) -> Completed<Text>,
    ) -> Vec<(u128, String)> {
        let end = self.now.uptime + time;
        let mut timeline = Vec::new();
        let mut sent = self.turn();
        loop {
            let now = self.now.uptime.as_millis();
            timeline.extend(sent.into_iter().map(|text| (now, text)));
            for effect in std::mem::take(&mut self.in_flight) {
                let completed = answer(&effect.ask);
                self.event_loop.completed(effect.id, completed, self.now);
            }
            sent = self.turn();
            if !sent.is_empty() {
                continue;
            }
            match self.again {
                Some(again) if self.now.uptime + again <= end => sent = self.after(again),
                _ => return timeline,
            }
        }
    }

    /// How long each request in flight has waited for its permit.
    pub(crate) fn waited(&self) -> Vec<(Text, Duration)> {
        let in_flight = self.in_flight.iter();
        in_flight.map(|effect| (what_of(effect), effect.waited)).collect()
    }

    pub(crate) fn enqueue(&mut self, key: Text) {
        self.requeue_at(key, Requeue::Now);
    }

    /// Enqueues a key, then polls.
    pub(crate) fn enqueued(&mut self, key: Text) -> Vec<String> {
        self.enqueue(key);
        self.turn()
    }

    pub(crate) fn enqueue_all(&mut self, keys: impl IntoIterator<Item = Text>) {
        for key in keys {
            self.enqueue(key);
        }
    }

    pub(crate) fn requeue_at(&mut self, key: Text, enqueue: Requeue) {
        self.said.requeues.lock().push((key, enqueue));
        self.change();
    }

    pub(crate) fn change(&mut self) {
        self.event_loop
            .on_event(LoopEvent::Watching("objects", true), self.now);
    }

    pub(crate) fn lead(&mut self, leading: bool) {
        self.event_loop.on_event(LoopEvent::Leading(leading), self.now);
    }

    /// Answers the query in flight.
    pub(crate) fn answer(&mut self, query: Text, answer: Text) {
        self.complete(query, Completed::Read(Ok(answer), None));
    }

    /// Answers the query in flight, then polls.
    pub(crate) fn answered(&mut self, query: Text, answer: Text) -> Vec<String> {
        self.answer(query, answer);
        self.turn()
    }

    /// Accepts the write in flight.
    pub(crate) fn accept(&mut self, write: Text) {
        self.complete(write, Completed::Wrote(Ok(Accepted::default())));
    }

    /// Accepts the write in flight, then polls.
    pub(crate) fn accepted(&mut self, write: Text) -> Vec<String> {
        self.accept(write);
        self.turn()
    }

    /// Fails the request in flight.
    pub(crate) fn fail(&mut self, what: Text, outcome: AnswerClass) {
        self.fail_with(what, failed(outcome));
    }

    /// Runs a pass of this key; its one request fails.
    pub(crate) fn fail_once(&mut self, key: Text, what: Text, outcome: AnswerClass) {
        self.enqueue(key);
        self.turn();
        self.fail(what, outcome);
        assert_eq!(self.turn(), NOTHING);
    }

    pub(crate) fn fail_with(&mut self, what: Text, failed: CallFailed) {
        let completed = match self.in_flight.iter().find(|effect| what_of(effect) == what) {
            Some(Effect {
                ask: RequestOf::Query(_),
                ..
            }) => Completed::Read(Err(failed), None),
            _ => Completed::Wrote(Err(failed)),
        };
        self.complete(what, completed);
    }

    fn complete(&mut self, what: Text, completed: Completed<Text>) {
        let mut in_flight = self.in_flight.iter();
        let place = in_flight.position(|effect| what_of(effect) == what);
        let effect = self.in_flight.remove(place.expect("it is in flight"));
        self.event_loop.completed(effect.id, completed, self.now);
    }

    /// The keys that `reconcile` was called for since the last call, in order.
    pub(crate) fn asked(&mut self) -> Vec<Text> {
        std::mem::take(&mut *self.said.asked.lock())
    }

    /// The notifications since the last call.
    pub(crate) fn told(&mut self) -> Vec<String> {
        let told = self.event_loop.take_notifications();
        self.told.extend(told.iter().map(told_text));
        std::mem::take(&mut self.told)
    }

    /// The results and events that the controller received.
    pub(crate) fn result(&self) -> &[String] {
        self.event_loop.state()
    }
}

/// A request that failed with this outcome.
pub(crate) fn failed(outcome: AnswerClass) -> CallFailed {
    CallFailed::Answered {
        call: call(),
        outcome,
        code: None,
        message: "failed by the test".to_owned(),
    }
}

pub(crate) fn call() -> Call {
    Call {
        verb: Verb::Patch,
        resource: "objects",
        target: String::new(),
    }
}

fn what_of(effect: &Effect<Scripted>) -> Text {
    let (RequestOf::Query(Q(what)) | RequestOf::Write(W(what))) = effect.ask;
    what
}

fn text(effect: &Effect<Scripted>) -> String {
    match effect.ask {
        RequestOf::Query(Q(query)) => format!("{} asks {query}", effect.key),
        RequestOf::Write(W(write)) => format!("{} writes {write}", effect.key),
    }
}

fn told_text(told: &Notification<Scripted>) -> String {
    match told {
        Notification::Event(event) => event.clone(),
        Notification::Wrote(key, _, description) => format!("{key} wrote {}", description.text),
        Notification::Planned(key, _, description) => format!("{key} would write {}", description.text),
        Notification::Failed(key, failed) => format!("{key} failed: {}", failed.reason()),
        Notification::PassFailed(key, reason, text) => format!("{key} failed: {reason}: {text}"),
        Notification::NoProgress(key) => format!("{key} makes no progress"),
    }
}
