//! What a model says of its world, and the words of a run.

use std::fmt::Debug;
use std::time::Duration;

use controller_core::api::{Call, CallFailed, Outcome, Verb};
use controller_core::controller::{self, Accepted, Completed, Controller, Loop, Now, RequestOf};
use controller_core::meta::Uid;
use jiff::Timestamp;
use proptest::prelude::*;

use super::resource::Watch;

/// The wall clock at the start of every run: 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// That, as the loop tells it.
pub const NOW: Now = Now {
    wall: START,
    uptime: Duration::ZERO,
};

/// So many steps has a run at most.
pub(super) const MOST_OPS: usize = 60;

/// A world around a controller.
pub trait Model {
    type Controller: Controller;
    type Act: Clone + Debug;

    /// How much time may pass until everything is right, once nothing goes wrong any more.
    const SETTLES_WITHIN: Duration = Duration::from_hours(12);

    /// The controller of a process that starts.
    fn controller(&self) -> Self::Controller;

    /// Somebody else does something.
    fn act(&mut self, action: &Self::Act, now: Now);

    /// A request arrives at the API server.
    fn arrive(&mut self, ask: &RequestOf<Self::Controller>, now: Now) -> Completed<AnswerOf<Self>>;

    /// The resources that are watched, each by its plural name.
    fn watches(&mut self) -> Vec<(&'static str, &mut dyn Watch<Self::Controller>)>;

    /// Every key that there may be something to do for.
    fn keys(&self) -> Vec<KeyOf<Self>>;

    /// The keys by which `key` is woken, too.
    fn covers(&self, key: &KeyOf<Self>) -> Vec<KeyOf<Self>> {
        let _ = key;
        Vec::new()
    }

    /// Whether somebody else does what is to be done for `key`, so that nothing is lost if no change wakes it.
    fn is_left(&self, key: &KeyOf<Self>, stores: &<Self::Controller as Controller>::Stores) -> bool {
        let _ = (key, stores);
        false
    }

    /// How long it takes until there is a permit for the next request: which keys have begun when something happens is a
    /// matter of chance then.
    fn permit_every(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether a request arrives while the process that sent it lives, or never.
    fn is_prompt(&self) -> bool {
        false
    }

    /// Others end what they have begun; whether there was anything.
    fn come_to_rest(&mut self) -> bool {
        false
    }

    fn clear(&mut self) {
        for (_, watch) in self.watches() {
            watch.clear();
        }
    }

    /// How many keys are looked at again for ever.
    fn rechecks(&self, event_loop: &Loop<Self::Controller>) -> usize {
        let _ = event_loop;
        0
    }

    /// Whether a cache may remember a write whose answer was lost until its object goes, because nothing more is to be done
    /// with that object.
    fn leaves_writes(&self) -> bool {
        false
    }

    /// How much of what the controller remembers is about objects.
    fn remembered(&self, state: &<Self::Controller as Controller>::State) -> usize;

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
    BeginList(usize),
    Arrive(usize),
    /// The answer to a request comes; if it had not arrived, it does first.
    Answer(usize),
    /// No answer to a request will come.
    Lose(usize),
    /// A request is refused.
    Refuse(usize),
    /// A request fails, after ten seconds.
    Hang(usize),
    Pass(Duration),
    /// A term begins or ends.
    Lead(bool),
    /// A term has gone on for an hour.
    Resync,
    /// The process dies, and another starts. Requests on their way may still arrive.
    Crash,
}

/// Steps, those of others drawn by `action`.
pub fn ops<A: Clone + Debug + 'static>(
    action: impl Strategy<Value = A> + 'static,
) -> impl Strategy<Value = Vec<Op<A>>> {
    prop::collection::vec(op(action), 0..MOST_OPS)
}

pub fn op<A: Clone + Debug + 'static>(
    action: impl Strategy<Value = A> + 'static,
) -> impl Strategy<Value = Op<A>> {
    let seconds = prop::sample::select(vec![1_u64, 5, 31, 61, 400]).prop_map(Duration::from_secs);
    let millis = (1..500_u64).prop_map(Duration::from_millis);
    prop_oneof![
        6 => action.prop_map(Op::Act),
        8 => (0..4_usize).prop_map(Op::Deliver),
        1 => (0..4_usize).prop_map(Op::BeginList),
        4 => (0..8_usize).prop_map(Op::Arrive),
        8 => (0..8_usize).prop_map(Op::Answer),
        1 => (0..8_usize).prop_map(Op::Lose),
        1 => (0..8_usize).prop_map(Op::Refuse),
        1 => (0..8_usize).prop_map(Op::Hang),
        3 => millis.prop_map(Op::Pass),
        2 => seconds.prop_map(Op::Pass),
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

/// The API server says that the object does not exist, or is another one.
pub fn gone() -> CallFailed {
    failed(Outcome::Gone, Some(404))
}

/// The API server says that the object is not the one that was judged.
pub fn conflict() -> CallFailed {
    failed(Outcome::Conflict, Some(409))
}

/// A request that came to this; with the code of the answer, if there was one.
pub fn failed(outcome: Outcome, code: Option<u16>) -> CallFailed {
    CallFailed::Answered {
        call: call(),
        outcome,
        code,
        message: "failed by the test".to_owned(),
    }
}

/// The object of a write as the answer has it, which is not being deleted.
pub fn accepted(uid: Uid, version: u64) -> Accepted {
    Accepted {
        uid: Some(uid),
        version: Some(version),
        deleting: false,
    }
}
