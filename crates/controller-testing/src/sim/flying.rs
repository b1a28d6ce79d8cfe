//! Requests in flight.

use std::time::Duration;

use controller_core::api::{CallFailed, LeaseLost};
use controller_core::controller::{Completed, Now, RequestOf};

use derive_where::derive_where;
use jiff::Timestamp;

use super::model::{Model, ModelAnswerOf, call};

/// A request that was sent.
#[derive_where(Clone, Debug)]
pub(super) struct Flying<M: Model> {
    /// `None` if the process that sent it is gone.
    pub(super) id: Option<u64>,
    pub(super) ask: RequestOf<M::Controller>,
    pub(super) answer: Option<Completed<ModelAnswerOf<M>>>,
    /// Set if the request has not arrived and will fail at that time.
    pub(super) fails_at: Option<Duration>,
    /// Once its sender is gone, it arrives before this time or never.
    pub(super) arrives_before: Duration,
}

pub(super) fn pick<M: Model>(in_flight: &mut [Flying<M>], which: usize) -> Option<&mut Flying<M>> {
    let count = in_flight.len();
    (count > 0).then(|| &mut in_flight[which % count])
}

/// The answer of the model; its `Date` has whole seconds.
pub(super) fn answer_of<M: Model>(
    model: &mut M,
    ask: &RequestOf<M::Controller>,
    now: Now,
) -> Completed<ModelAnswerOf<M>> {
    match model.arrive(ask, now) {
        Completed::Read(value, date) => Completed::Read(value, date.map(in_seconds)),
        wrote @ Completed::Wrote(_) => wrote,
    }
}

fn in_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap()
}

/// The result of a write that is dropped because its term is over.
pub(super) fn lost<M: Model>(flying: &mut Flying<M>) -> Option<(u64, Completed<ModelAnswerOf<M>>)> {
    let RequestOf::Write(_) = flying.ask else {
        return None;
    };
    let id = flying.id.take()?;
    let (call, source) = (call(), LeaseLost);
    Some((id, Completed::Wrote(Err(CallFailed::LeaseLost { call, source }))))
}
