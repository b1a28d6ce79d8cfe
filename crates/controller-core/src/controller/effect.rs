//! What the loop asks for, and what it is told.

use std::time::Duration;

use derive_where::derive_where;
use jiff::Timestamp;

use super::{Accepted, Controller, Description, Object, RequestOf};
use crate::api::CallFailed;

/// What is to be performed, then told by [`Loop::completed`](super::Loop::completed).
#[derive_where(Clone, Debug, PartialEq)]
pub struct Effect<C: Controller> {
    /// The number of the request.
    pub id: u64,
    /// For whom.
    pub key: C::Key,
    /// How often the passes of the key have failed, for the log.
    pub attempt: u32,
    /// How long it has waited for its permit.
    pub waited: Duration,
    /// What is asked or written.
    pub ask: RequestOf<C>,
}

/// How a request ended.
#[derive(Debug)]
pub enum Completed<A> {
    /// A question, with the `Date` of its answer.
    Read(Result<A, CallFailed>, Option<Timestamp>),
    /// A write.
    Wrote(Result<Accepted, CallFailed>),
}

/// What people are to be told, once nothing is locked any more.
#[derive_where(Debug)]
pub enum Notification<C: Controller> {
    /// The controller tells something.
    Event(C::Event),
    /// The API server accepted this write of a key to this object.
    Wrote(C::Key, Object, Description),
    /// A dry run left this write of a key to this object undone.
    Planned(C::Key, Object, Description),
    /// A request of a key failed.
    Failed(C::Key, CallFailed),
    /// The pass of a key failed, for this reason and text.
    PassFailed(C::Key, &'static str, String),
    /// A key asks for the same again and again.
    NoProgress(C::Key),
}

/// What came of a turn.
#[derive_where(Debug)]
pub struct Polled<C: Controller> {
    /// To be performed.
    pub effects: Vec<Effect<C>>,
    /// To be told.
    pub told: Vec<Notification<C>>,
    /// In how long to poll again; `None`: not before something happens.
    pub again: Option<Duration>,
}
