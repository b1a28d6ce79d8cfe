//! The model of a controller's world, and the operations of a run.

use std::fmt::Debug;
use std::time::Duration;

use controller_core::api::{AnswerClass, Call, CallFailed, Verb};
use controller_core::controller::{self, Completed, Controller, Loop, Now, RequestOf};
use embedded_apiserver::Server;
use jiff::Timestamp;
use proptest::prelude::*;

use super::failure::SimFailure;
use super::process::{Process, ProcessBug, Role};
use super::resource::Watch;

/// The wall clock at the start of every run: 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// [`START`] as the loop's [`Now`].
pub const NOW: Now = Now {
    wall: START,
    uptime: Duration::ZERO,
};

/// Most steps of a run.
pub(super) const MOST_OPS: usize = 60;

/// A world around a controller.
pub trait Model {
    type Controller: Controller;
    type Act: Clone + Debug;

    /// Time until everything must be right, once nothing fails any more.
    const SETTLES_WITHIN: Duration = Duration::from_hours(12);

    /// The wall clocks of its processes may be wrong, and jump.
    const CLOCKS_JUMP: bool = true;

    /// The controller of a starting process.
    fn controller(&self) -> Self::Controller;

    /// Applies an action of somebody else; `now` is by the API server's clock, here and below.
    fn act(&mut self, action: &Self::Act, now: Now);

    /// Carries out a request that arrives at the API server.
    fn arrive(&mut self, ask: &RequestOf<Self::Controller>, now: Now) -> Completed<ModelAnswerOf<Self>>;

    /// An API server that holds what `ask` is about as this model does, which receives the request as it is phrased; `None`
    /// if the model alone answers.
    fn server(&self, ask: &RequestOf<Self::Controller>, now: Now) -> Option<Server> {
        let _ = (ask, now);
        None
    }

    /// An error unless that server holds the same as this model.
    fn compare_with(&self, ask: &RequestOf<Self::Controller>, server: &Server) -> Result<(), String> {
        let _ = (ask, server);
        Ok(())
    }

    /// The failure that a request sees where the API server fails with `failure`.
    fn told(&self, failure: SimFailure) -> SimFailure {
        failure
    }

    /// The watched resources, each by its plural name.
    fn watches(&mut self) -> Vec<(&'static str, &mut dyn Watch<Self::Controller>)>;

    /// Every key for which there may be something to do.
    fn keys(&self) -> Vec<KeyOf<Self>>;

    /// The keys that enqueue `key`, too.
    fn covers(&self, key: &KeyOf<Self>) -> Vec<KeyOf<Self>> {
        let _ = key;
        Vec::new()
    }

    /// The key that does the same work, and may come back in the place of `key`.
    fn twin(&self, key: &KeyOf<Self>) -> Option<KeyOf<Self>> {
        let _ = key;
        None
    }

    /// True if somebody else does the work for `key`, so that nothing is lost if no change enqueues it.
    fn is_left(&self, key: &KeyOf<Self>, stores: &<Self::Controller as Controller>::Stores) -> bool {
        let _ = (key, stores);
        false
    }

    /// Time until there is a permit for the next request: then it is a matter of chance which keys have begun when
    /// something happens.
    fn permit_every(&self) -> Duration {
        Duration::ZERO
    }

    /// How long after it was sent a request may still arrive, once its sender is gone. Zero: it arrives while its
    /// sender lives, or never.
    fn arrives_within(&self) -> Duration {
        Duration::MAX
    }

    /// Lets others finish what they have begun; returns whether there was anything.
    fn come_to_rest(&mut self) -> bool {
        false
    }

    fn clear(&mut self) {
        for (_, watch) in self.watches() {
            watch.clear();
        }
    }

    /// False if several processes may want different things.
    fn leaders_agree(&self) -> bool {
        true
    }

    /// False if nobody does this next to these processes.
    fn may_act(&self, action: &Self::Act, processes: &[&Process<Self>]) -> bool
    where
        Self: Sized,
    {
        let _ = (action, processes);
        true
    }

    /// What is wrong with its processes.
    fn process_bug(&self) -> Option<ProcessBug> {
        None
    }

    /// Number of keys that are rechecked for ever.
    fn rechecks(&self, event_loop: &Loop<Self::Controller>) -> usize {
        let _ = event_loop;
        0
    }

    /// True if a cache may remember a write whose answer was lost until the object goes, because nothing more has to be
    /// done with that object.
    fn leaves_writes(&self) -> bool {
        false
    }

    /// Number of entries about objects in the controller's state.
    fn remembered(&self, state: &<Self::Controller as Controller>::State) -> usize;

    /// Checks that everything is as it should be, once nothing fails any more.
    fn check(&self, event_loop: &Loop<Self::Controller>, now: Now) -> Result<(), String>;
}

/// The key of a model's controller.
pub type KeyOf<M> = <<M as Model>::Controller as Controller>::Key;
/// The answer to a query of a model's controller.
pub type ModelAnswerOf<M> = controller::AnswerOf<<M as Model>::Controller>;

/// A step of a run. Numbers choose among the candidates.
#[derive(Clone, Debug)]
pub enum Op<A> {
    /// Somebody else does something.
    Act(A),
    /// A watch delivers its next event.
    Deliver(usize),
    BeginList(usize),
    Arrive(usize),
    /// The answer to a request comes; the request arrives first if it has not.
    Answer(usize),
    /// A request gets this instead of its answer; it may have arrived, or arrive later.
    Lose(usize, SimFailure),
    /// A request gets this, and never arrives.
    Refuse(usize, SimFailure),
    /// A request fails after ten seconds.
    Hang(usize),
    Pass(Duration),
    /// The wall clock of the process jumps: now it is this number of seconds ahead of the API server's, or behind.
    Clock(i64),
    /// A term begins or ends; one that begins ends that of another process.
    Lead(bool),
    /// A term has lasted for another hour.
    Resync,
    /// The process dies and another starts. Requests in flight may still arrive.
    Crash,
}

/// A step, and the number of the process that takes it.
pub type StepOf<A> = (usize, Op<A>);

/// Steps of a run; `action` draws those of others.
pub fn ops<A: Clone + Debug + 'static>(
    action: impl Strategy<Value = A> + 'static,
) -> impl Strategy<Value = Vec<Op<A>>> {
    prop::collection::vec(op(action), 0..MOST_OPS)
}

/// The processes of a run, and its steps, each by the process with its number.
pub fn runs<A: Clone + Debug + 'static>(
    action: impl Strategy<Value = A> + 'static,
) -> impl Strategy<Value = (Vec<Role>, Vec<StepOf<A>>)> {
    let roles = prop::sample::select(vec![
        vec![Role::Elected],
        vec![Role::Elected, Role::Elected],
        vec![Role::Elected, Role::DryRun],
    ]);
    (
        roles,
        prop::collection::vec((0..2_usize, op(action)), 0..2 * MOST_OPS),
    )
}

pub fn op<A: Clone + Debug + 'static>(
    action: impl Strategy<Value = A> + 'static,
) -> impl Strategy<Value = Op<A>> {
    let seconds = prop::sample::select(vec![1_u64, 5, 31, 61, 400]).prop_map(Duration::from_secs);
    let ahead = prop::sample::select(vec![0, 2, 3_600, -2, -300]);
    let millis = (1..500_u64).prop_map(Duration::from_millis);
    prop_oneof![
        6 => action.prop_map(Op::Act),
        8 => (0..4_usize).prop_map(Op::Deliver),
        1 => (0..4_usize).prop_map(Op::BeginList),
        4 => (0..8_usize).prop_map(Op::Arrive),
        8 => (0..8_usize).prop_map(Op::Answer),
        1 => (0..8_usize, SimFailure::any_late()).prop_map(|(which, failure)| Op::Lose(which, failure)),
        2 => (0..8_usize, SimFailure::any()).prop_map(|(which, failure)| Op::Refuse(which, failure)),
        1 => (0..8_usize).prop_map(Op::Hang),
        3 => millis.prop_map(Op::Pass),
        2 => seconds.prop_map(Op::Pass),
        1 => ahead.prop_map(Op::Clock),
        1 => any::<bool>().prop_map(Op::Lead),
        1 => Just(Op::Resync),
        1 => Just(Op::Crash),
    ]
}

pub(super) fn call() -> Call {
    Call {
        verb: Verb::Patch,
        resource: "model",
        target: String::new(),
    }
}

/// The failure if the object does not exist, or is another one.
pub fn gone() -> CallFailed {
    failed(AnswerClass::Gone, Some(404))
}

/// The failure of a delete if the object does not exist.
pub fn deleted_before() -> CallFailed {
    failed(AnswerClass::Done, Some(404))
}

/// The failure if the object is not the one that was judged.
pub fn conflict() -> CallFailed {
    failed(AnswerClass::Conflict, Some(409))
}

/// The failure with this outcome; with the code of the answer, if there was one.
pub fn failed(outcome: AnswerClass, code: Option<u16>) -> CallFailed {
    CallFailed::Answered {
        call: call(),
        outcome,
        code,
        message: "failed by the test".to_owned(),
    }
}
