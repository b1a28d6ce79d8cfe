//! What the loop wants performed, and the results that it receives.

use std::time::Duration;

use derive_where::derive_where;
use jiff::Timestamp;

use super::{Accepted, Controller, Description, Object, RequestOf};
use crate::api::CallFailed;

/// A request to send; its result goes to [`Loop::completed`](super::Loop::completed).
#[derive_where(Clone, Debug, PartialEq)]
pub struct Effect<C: Controller> {
    /// The number of the request.
    pub id: u64,
    /// The key that it is for.
    pub key: C::Key,
    /// How often the passes of the key have failed in a row, for the log.
    pub attempt: u32,
    /// How long the request has waited for its permit.
    pub waited: Duration,
    /// The query or write.
    pub ask: RequestOf<C>,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub enum Completed<A> {
    /// The answer to a query, and its `Date` header.
    Read(Result<A, CallFailed>, Option<Timestamp>),
    /// The answer to a write.
    Wrote(Result<Accepted, CallFailed>),
}

/// Events, log lines and metrics to emit after the loop's lock is released.
#[derive_where(Clone, Debug)]
pub enum Notification<C: Controller> {
    /// An event of the controller.
    Event(C::Event),
    /// The API server accepted this write of a key to this object.
    Wrote(C::Key, Object, Description),
    /// A dry run did not send this write of a key to this object.
    Planned(C::Key, Object, Description),
    /// A request of a key failed.
    Failed(C::Key, CallFailed),
    /// The pass of a key failed, for this reason and text.
    PassFailed(C::Key, &'static str, String),
    /// The passes of a key repeat the same action.
    NoProgress(C::Key),
}

/// The result of a turn.
#[derive_where(Debug)]
pub struct Polled<C: Controller> {
    /// Requests to send.
    pub effects: Vec<Effect<C>>,
    /// Notifications to emit.
    pub told: Vec<Notification<C>>,
    /// Time until the next poll; `None`: not before something happens.
    pub again: Option<Duration>,
}
