//! A controller's loop against a model of the API server: requests arrive late or never, answers get lost, watches lag
//! and are listed anew, terms end, processes crash. Everything is a value, so a run needs no time and no task.
//!
//! [`run`] takes the steps of a run and holds two properties at each of them, for every controller:
//!
//! - *wake completeness*: a change that alters what is to be done for a key wakes it;
//! - *done contract*: where nothing is left to do, every key says so, and comes back at the time that it names, and
//!   says the same until then.
//!
//! In the end everything that was on its way has come, and the model says whether its world is right.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::{Call, CallFailed, Outcome, Verb};
use controller_core::clock::saturating_add;
use controller_core::controller::{
    self, Ask, Completed, Controller, Effect, Limit, Loop, Now, Observed, Step, Told, Wake, Watches,
};
use controller_core::informer::{self, SourceEvent, Store, View, Writer};
use controller_core::leader::LeaseLost;
use controller_core::meta::{ObjectKey, Uid};
use jiff::Timestamp;
use proptest::prelude::*;

/// The wall clock at the start of every run: 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp::constant(1_767_225_600, 0);
/// So many passes may end without progress.
const MOST_REPEATS: usize = 20;
/// A run that takes more turns than this in one moment has no end.
const MOST_TURNS: usize = 10_000;

/// One resource: what the API server has, what the watch has still to tell, and the cache.
#[derive(Debug)]
pub struct Resource<V: View> {
    objects: BTreeMap<ObjectKey, Object<V>>,
    pending: VecDeque<SourceEvent<V>>,
    /// The items of a list that was asked for, until its answer comes.
    list: Option<Vec<SourceEvent<V>>>,
    writer: Writer<V>,
    versions: u64,
}

/// An object of the model's API server.
#[derive(Clone, Debug)]
pub struct Object<V> {
    /// What a view of it shows.
    pub view: V,
    /// Its uid.
    pub uid: Uid,
    /// Its resourceVersion.
    pub version: u64,
}

impl<V: View + Clone> Resource<V> {
    /// No objects.
    pub fn new() -> Self {
        Self {
            objects: BTreeMap::new(),
            pending: VecDeque::new(),
            list: None,
            writer: Writer::new(),
            versions: 0,
        }
    }

    /// The objects.
    pub fn objects(&self) -> &BTreeMap<ObjectKey, Object<V>> {
        &self.objects
    }

    /// The version that the next change makes.
    pub fn next_version(&self) -> u64 {
        self.versions + 1
    }

    /// The object is this now; another one than before if `uid` says so. Returns its new version.
    pub fn put(&mut self, view: V, uid: Uid) -> u64 {
        self.versions += 1;
        let version = self.versions;
        let key = view.key().clone();
        if self.objects.get(&key).is_some_and(|held| held.uid != uid) {
            self.delete(&key);
            return self.put(view, uid);
        }
        let object = Object { view, uid, version };
        self.pending.push_back(SourceEvent::Applied(observed(&object)));
        self.objects.insert(key, object);
        version
    }

    /// The next change has this version, for a model that counts them itself.
    pub const fn skip_to(&mut self, version: u64) {
        self.versions = version.saturating_sub(1);
    }

    /// The object is gone.
    pub fn delete(&mut self, key: &ObjectKey) {
        if let Some(object) = self.objects.remove(key) {
            self.versions += 1;
            self.pending.push_back(SourceEvent::Deleted(informer::Removed {
                key: key.clone(),
                uid: object.uid,
                view: Some(object.view),
                version: Some(self.versions.to_string().into()),
            }));
        }
    }

    /// A process has started: its cache is empty, and the next thing that it hears is a list.
    pub fn restart(&mut self) -> Store<V> {
        self.writer = Writer::new();
        self.pending.clear();
        self.list = Some(self.listed());
        self.writer.store()
    }

    fn listed(&self) -> Vec<SourceEvent<V>> {
        let items = self
            .objects
            .values()
            .map(|object| SourceEvent::InitItem(observed(object)));
        let done = SourceEvent::InitDone { version: None };
        [SourceEvent::Init]
            .into_iter()
            .chain(items)
            .chain([done])
            .collect()
    }

    /// The watch has broken: what it had still to tell is lost, and a list is asked for.
    pub fn begin_list(&mut self) {
        if self.list.is_none() {
            let mut items = self.listed();
            let rest = items.split_off(1);
            for init in items {
                let _ = self.writer.apply(init);
            }
            self.list = Some(rest);
            self.pending.clear();
        }
    }

    /// The loop hears of the next thing; whether there was one.
    pub fn deliver<C: Watches<V>>(&mut self, event_loop: &mut Loop<C>, now: Now) -> bool {
        let events = match self.list.take() {
            Some(items) => items,
            None => self.pending.pop_front().into_iter().collect(),
        };
        let heard = !events.is_empty();
        for event in events {
            for delta in self.writer.apply(event) {
                for change in delta.changes() {
                    event_loop.changed(change, now);
                }
            }
        }
        heard
    }
}

impl<V: View + Clone> Default for Resource<V> {
    fn default() -> Self {
        Self::new()
    }
}

/// The object as a list shows it.
pub fn observed<V: Clone>(object: &Object<V>) -> informer::Observed<V> {
    informer::Observed {
        view: object.view.clone(),
        uid: object.uid.clone(),
        version: Some(object.version.to_string().into()),
    }
}

/// A world around a controller.
pub trait Model {
    /// The controller.
    type Controller: Controller;
    /// What others do.
    type Action: Clone + Debug;

    /// How much time may pass until everything is right, once nothing goes wrong any more.
    const SETTLES_WITHIN: Duration = Duration::from_hours(12);

    /// The controller of a process that starts.
    fn controller(&self) -> Self::Controller;

    /// The caches of a process that starts.
    fn restart(&mut self) -> <Self::Controller as Controller>::Stores;

    /// Somebody else does something.
    fn act(&mut self, action: &Self::Action, now: Now);

    /// A request arrives at the API server.
    fn arrive(&mut self, ask: &Ask<Self::Controller>, now: Now) -> Completed<AnswerOf<Self>>;

    /// The watch of the resource of this number tells the next thing; whether there was one.
    fn deliver(&mut self, resource: usize, event_loop: &mut Loop<Self::Controller>, now: Now) -> bool;

    /// The watch of the resource of this number breaks.
    fn begin_list(&mut self, resource: usize);

    /// The resources that are watched.
    fn resources(&self) -> &'static [&'static str];

    /// Every key that there may be something to do for.
    fn keys(&self) -> Vec<KeyOf<Self>>;

    /// The keys by which `key` is woken, too.
    fn covers(&self, key: &KeyOf<Self>) -> Vec<KeyOf<Self>> {
        let _ = key;
        Vec::new()
    }

    /// Whether somebody else does what is to be done for `key`, so that nothing is lost if no change wakes it.
    fn is_left(&self, key: &KeyOf<Self>) -> bool {
        let _ = key;
        false
    }

    /// Others end what they have begun; whether there was anything.
    fn come_to_rest(&mut self) -> bool {
        false
    }

    /// Whether everything is as it should be, once nothing goes wrong any more.
    fn check(&self, event_loop: &Loop<Self::Controller>, now: Now) -> Result<(), String>;
}

/// The key of a model's controller.
pub type KeyOf<M> = <<M as Model>::Controller as Controller>::Key;
/// The answer of a model's controller.
pub type AnswerOf<M> = controller::AnswerOf<<M as Model>::Controller>;

/// A step of a run. Numbers choose among what there is.
#[derive(Clone, Debug)]
pub enum Op<A> {
    /// Somebody else does something.
    Act(A),
    /// A watch tells the next thing.
    Deliver(usize),
    /// A watch breaks.
    BeginList(usize),
    /// A request arrives.
    Arrive(usize),
    /// The answer to a request comes; if it had not arrived, it does first.
    Answer(usize),
    /// No answer to a request will come.
    Lose(usize),
    /// A request is refused.
    Refuse(usize),
    /// Time passes.
    Pass(Duration),
    /// A term begins or ends.
    Lead(bool),
    /// The process dies, and another starts. Requests on their way may still arrive.
    Crash,
}

/// Steps, those of others drawn by `action`.
pub fn ops<A: Clone + Debug + 'static>(
    action: impl Strategy<Value = A> + 'static,
) -> impl Strategy<Value = Vec<Op<A>>> {
    let seconds = prop::sample::select(vec![1_u64, 5, 31, 61, 400]).prop_map(Duration::from_secs);
    let millis = (1..500_u64).prop_map(Duration::from_millis);
    let op = prop_oneof![
        6 => action.prop_map(Op::Act),
        8 => (0..4_usize).prop_map(Op::Deliver),
        1 => (0..4_usize).prop_map(Op::BeginList),
        4 => (0..8_usize).prop_map(Op::Arrive),
        8 => (0..8_usize).prop_map(Op::Answer),
        1 => (0..8_usize).prop_map(Op::Lose),
        1 => (0..8_usize).prop_map(Op::Refuse),
        3 => millis.prop_map(Op::Pass),
        2 => seconds.prop_map(Op::Pass),
        1 => any::<bool>().prop_map(Op::Lead),
        1 => Just(Op::Crash),
    ];
    prop::collection::vec(op, 0..60)
}

/// Takes `ops`, then lets everything come to its end. Panics where a property does not hold.
pub fn run<M: Model>(model: M, ops: &[Op<M::Action>]) {
    let mut sim = Sim::new(model);
    for op in ops {
        sim.take(op);
        sim.turn();
    }
    sim.settle();
}

struct Sim<M: Model> {
    model: M,
    event_loop: Loop<M::Controller>,
    now: Now,
    leading: bool,
    in_flight: Vec<Flying<M>>,
    /// Resources whose watch has broken and has not come back.
    away: BTreeSet<usize>,
    /// How many passes have ended without progress: an answer that the watch has overtaken may cost one.
    no_progress: usize,
}

struct Flying<M: Model> {
    /// Nothing where the process that sent it is gone.
    id: Option<u64>,
    ask: Ask<M::Controller>,
    answer: Option<Completed<AnswerOf<M>>>,
}

/// As many permits as are wanted: what the limit is worth is tried on the loop alone.
struct Unlimited;

impl Limit for Unlimited {
    fn take(&self) -> Duration {
        Duration::ZERO
    }

    fn give_back(&self) {}
}

impl<M: Model> Sim<M> {
    fn new(mut model: M) -> Self {
        let now = Now {
            wall: START,
            uptime: Duration::ZERO,
        };
        let event_loop = started(&mut model, now);
        let mut sim = Self {
            model,
            event_loop,
            now,
            leading: false,
            in_flight: Vec::new(),
            away: BTreeSet::new(),
            no_progress: 0,
        };
        sim.lead(true);
        sim.turn();
        sim
    }

    fn take(&mut self, op: &Op<M::Action>) {
        match op {
            Op::Act(action) => self.model.act(action, self.now),
            Op::Deliver(which) => {
                self.deliver(which % self.model.resources().len());
            }
            Op::BeginList(which) => {
                let which = which % self.model.resources().len();
                self.model.begin_list(which);
                self.away.insert(which);
                self.watching(which, false);
            }
            Op::Arrive(which) => {
                if let Some(flying) = pick(&mut self.in_flight, *which) {
                    arrive(&mut self.model, flying, self.now);
                }
            }
            Op::Answer(which) => self.answer(*which),
            Op::Lose(which) => self.fail(*which, true),
            Op::Refuse(which) => self.fail(*which, false),
            Op::Pass(time) => self.pass(*time),
            Op::Lead(leading) => self.lead(*leading),
            Op::Crash => self.crash(),
        }
    }

    /// Polls until the loop wants nothing more at this moment.
    fn turn(&mut self) {
        for _ in 0..MOST_TURNS {
            let polled = self.event_loop.poll(self.now, &Unlimited);
            self.no_progress += polled
                .told
                .iter()
                .filter(|told| matches!(told, Told::NoProgress(_)))
                .count();
            assert!(
                self.no_progress <= MOST_REPEATS,
                "the same is asked for again and again"
            );
            for Effect { id, ask, .. } in polled.effects {
                let id = Some(id);
                self.in_flight.push(Flying {
                    id,
                    ask,
                    answer: None,
                });
            }
            if polled.again != Some(Duration::ZERO) {
                return;
            }
        }
        panic!("the loop has no end at {:?}", self.now);
    }

    fn deliver(&mut self, which: usize) -> bool {
        let before = self.steps();
        let heard = self.model.deliver(which, &mut self.event_loop, self.now);
        self.assert_woken(&before);
        if self.away.remove(&which) {
            self.watching(which, true);
        }
        heard
    }

    fn watching(&mut self, which: usize, stands: bool) {
        let resource = self.model.resources()[which];
        self.event_loop
            .observe(Observed::Watching(resource, stands), self.now);
    }

    fn answer(&mut self, which: usize) {
        let Some(flying) = pick(&mut self.in_flight, which) else {
            return;
        };
        arrive(&mut self.model, flying, self.now);
        let flying = self.in_flight.swap_remove(which % self.in_flight.len());
        if let (Some(id), Some(answer)) = (flying.id, flying.answer) {
            self.event_loop.completed(id, answer, self.now);
        }
    }

    /// The request gets no answer, or is refused before it has arrived.
    fn fail(&mut self, which: usize, fate_unknown: bool) {
        let count = self.in_flight.len();
        let Some(flying) = pick(&mut self.in_flight, which) else {
            return;
        };
        let arrived = flying.answer.is_some();
        // What has arrived is not refused.
        let Some(id) = flying.id.take_if(|_| fate_unknown || !arrived) else {
            return;
        };
        let failed = CallFailed::Answered {
            call: call(),
            outcome: Outcome::Retry { fate_unknown },
            code: None,
            message: "failed by the test".to_owned(),
        };
        let completed = match &flying.ask {
            Ask::Question(_) => Completed::Read(Err(failed), None),
            Ask::Write(_) => Completed::Wrote(Err(failed)),
        };
        if arrived || !fate_unknown {
            self.in_flight.swap_remove(which % count);
        }
        self.event_loop.completed(id, completed, self.now);
    }

    fn pass(&mut self, time: Duration) {
        self.now.uptime += time;
        self.now.wall = saturating_add(self.now.wall, time);
    }

    fn lead(&mut self, leading: bool) {
        if self.leading == leading {
            return;
        }
        self.leading = leading;
        self.event_loop.observe(Observed::Leading(leading), self.now);
        if !leading {
            // The shell drops what is on its way; it may arrive all the same.
            let ids: Vec<_> = self.in_flight.iter_mut().filter_map(lost).collect();
            for (id, completed) in ids {
                self.event_loop.completed(id, completed, self.now);
            }
        }
    }

    fn crash(&mut self) {
        for flying in &mut self.in_flight {
            flying.id = None;
        }
        let leading = self.leading;
        self.event_loop = started(&mut self.model, self.now);
        self.away.clear();
        self.leading = false;
        self.lead(leading);
    }

    /// Nothing goes wrong any more: everything comes, as often as it takes.
    fn settle(&mut self) {
        self.lead(true);
        let mut left = M::SETTLES_WITHIN;
        for _ in 0..MOST_TURNS {
            self.turn();
            while !self.in_flight.is_empty() {
                self.answer(0);
                self.turn();
            }
            let mut heard = false;
            for which in 0..self.model.resources().len() {
                heard |= self.deliver(which);
            }
            if heard || self.model.come_to_rest() {
                continue;
            }
            let again = self.event_loop.poll(self.now, &Unlimited).again;
            self.assert_idle(again);
            match again {
                Some(wait) if wait <= left => {
                    left -= wait;
                    self.pass(wait);
                }
                _ => break,
            }
        }
        self.model.check(&self.event_loop, self.now).unwrap();
    }

    fn steps(&self) -> Vec<(KeyOf<M>, Step<M::Controller>)> {
        let keys = self.model.keys().into_iter();
        keys.map(|key| (key.clone(), self.event_loop.next_of(&key, self.now)))
            .collect()
    }

    /// Wake completeness.
    fn assert_woken(&mut self, before: &[(KeyOf<M>, Step<M::Controller>)]) {
        for (key, before) in before {
            let after = self.event_loop.next_of(key, self.now);
            if *before == after || self.model.is_left(key) || (self.needs_term(key) && !self.leading) {
                continue;
            }
            let covers = self.model.covers(key);
            let is_woken = |key: &KeyOf<M>| self.event_loop.is_woken(key, self.now);
            assert!(
                is_woken(key) || covers.iter().any(is_woken) || self.is_kept(key, &after, self.now),
                "a change made {after:?} of {before:?} for {key}, and did not wake it"
            );
        }
    }

    /// The done contract: no key has anything to do, each comes back at the time that it names, and says the same until
    /// something is to happen.
    fn assert_idle(&mut self, again: Option<Duration>) {
        let half = again.unwrap_or(Duration::from_secs(1)) / 2;
        let meanwhile = Now {
            wall: saturating_add(self.now.wall, half),
            uptime: self.now.uptime + half,
        };
        for (key, step) in self.steps() {
            assert!(
                self.is_kept(&key, &step, self.now),
                "nothing is on its way, and for {key} there is {step:?}"
            );
            let later = self.event_loop.next_of(&key, meanwhile);
            assert!(
                self.is_kept(&key, &later, meanwhile),
                "nothing happens, and for {key} there is {later:?} after {step:?}"
            );
        }
    }

    /// Whether `key` comes back at the time that `step` names for it at `now`, if any. Where it asks questions, what it
    /// says once they are answered counts; no watch tells of new answers, so it may also come back by another key.
    fn is_kept(&mut self, key: &KeyOf<M>, step: &Step<M::Controller>, now: Now) -> bool {
        if let Step::Read(_) = step {
            let (model, event_loop) = (&mut self.model, &self.event_loop);
            let answer = |question: &_| match model.arrive(&Ask::Question(Clone::clone(question)), now) {
                Completed::Read(value, date) => (value, date),
                Completed::Wrote(_) => panic!("the answer to a write"),
            };
            let answered = event_loop.next_answered(key, now, answer);
            let covers = self.model.covers(key);
            let comes_back = |key: &KeyOf<M>| self.event_loop.scheduled_at(key).is_some();
            return covers.iter().any(comes_back)
                || (!matches!(answered, Step::Read(_)) && self.is_kept(key, &answered, now));
        }
        let Step::Done(wakes) = step else {
            // One whose pass failed is retried.
            return self.event_loop.is_waiting(key);
        };
        let own = wakes.iter().find(|(woken, _)| woken == key);
        match own {
            None | Some((_, Wake::Never)) => true,
            Some((_, Wake::At(at))) => self
                .event_loop
                .scheduled_at(key)
                .is_some_and(|known| known <= *at),
            Some((_, Wake::Now | Wake::Afresh | Wake::Within(_))) => self.event_loop.is_waiting(key),
        }
    }

    fn needs_term(&self, key: &KeyOf<M>) -> bool {
        let controller = self.model.controller();
        controller.queues()[controller.queue_of(key)].needs_term
    }
}

fn pick<M: Model>(in_flight: &mut [Flying<M>], which: usize) -> Option<&mut Flying<M>> {
    let count = in_flight.len();
    (count > 0).then(|| &mut in_flight[which % count])
}

fn arrive<M: Model>(model: &mut M, flying: &mut Flying<M>, now: Now) {
    if flying.answer.is_none() {
        flying.answer = Some(model.arrive(&flying.ask, now));
    }
}

/// A write that is dropped because its term is over.
fn lost<M: Model>(flying: &mut Flying<M>) -> Option<(u64, Completed<AnswerOf<M>>)> {
    let Ask::Write(_) = flying.ask else { return None };
    let id = flying.id.take()?;
    let (call, source) = (call(), LeaseLost);
    Some((id, Completed::Wrote(Err(CallFailed::LeaseLost { call, source }))))
}

fn call() -> Call {
    Call {
        verb: Verb::Patch,
        resource: "model",
        target: String::new(),
    }
}

/// The API server says that the object does not exist, or is another one.
pub fn gone() -> CallFailed {
    CallFailed::Answered {
        call: call(),
        outcome: Outcome::Gone,
        code: Some(404),
        message: "not found".to_owned(),
    }
}

fn started<M: Model>(model: &mut M, now: Now) -> Loop<M::Controller> {
    let controller = Arc::new(model.controller());
    let queues = controller.queues().len();
    let stores = model.restart();
    let mut event_loop = Loop::new(controller, stores, (0..queues).map(|_| None), false);
    for (which, resource) in model.resources().iter().enumerate() {
        model.deliver(which, &mut event_loop, now);
        event_loop.observe(Observed::Watching(resource, true), now);
    }
    event_loop.observe(Observed::Synced, now);
    event_loop
}
