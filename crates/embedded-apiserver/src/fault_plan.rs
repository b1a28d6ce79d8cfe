//! The combined effect of a request's faults, from its arrival to the end of its answer.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use super::connections;
use super::encoding::Encoding;
use super::failure::StatusError;
use super::faults::{self, Fault};
use super::reply::{self, Body};

/// JSON, so that a client cannot tell it by its syntax.
const PAGE: &[u8] = br#"{"message":"Sign in to continue"}"#;

/// The treatment of a request.
#[derive(Debug, Default)]
pub(super) struct FaultPlan {
    /// Delay before the request is treated.
    pub(super) delay: Duration,
    pub(super) before: Before,
    pub(super) after: After,
    pub(super) read_faults: ReadFaults,
}

/// What happens instead of carrying out the request.
#[derive(Debug, Default)]
pub(super) enum Before {
    #[default]
    Nothing,
    Refuse(Refusal),
    Break,
    /// The connection breaks, and the request is carried out this much later.
    Late(Duration),
    Hang,
    TimeOut(Duration),
}

/// An answer decided beforehand.
#[derive(Debug)]
pub(super) enum Refusal {
    Status(StatusError),
    Throttled(Duration),
    NoSuchPage,
    Garbage,
}

/// What happens to the answer of a request that was carried out.
#[derive(Debug, Default)]
pub(super) enum After {
    #[default]
    Nothing,
    Break,
    Hang,
    TimeOut(Duration),
    BreakOff,
    Garble,
}

/// Changes to how a read is carried out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadFaults {
    /// The watch ends at once.
    pub(super) ends: bool,
    /// The watch reports nothing.
    pub(super) silent: bool,
    /// Delay of everything that the watch reports.
    pub(super) lag: Duration,
    /// The read shows the past: how far back, and whether even reads that did not allow it.
    pub(super) stale: Option<(Duration, bool)>,
}

impl FaultPlan {
    pub(super) fn of(faults: Vec<Fault>) -> Self {
        let mut plan = Self::default();
        for fault in faults {
            plan.add(fault);
        }
        plan
    }

    /// True if the client gets part of the answer, or a page instead of it.
    pub(super) const fn garbles(&self) -> bool {
        match self.before {
            Before::Nothing => matches!(self.after, After::BreakOff | After::Garble),
            Before::Refuse(Refusal::Garbage) => true,
            _ => false,
        }
    }

    fn add(&mut self, fault: Fault) {
        match fault {
            Fault::Status {
                code,
                reason,
                retry_after,
            } => {
                let failure = faults::refusal(code, &reason, retry_after);
                self.before = Before::Refuse(Refusal::Status(failure));
            }
            Fault::Throttled { retry_after } => {
                self.before = Before::Refuse(Refusal::Throttled(retry_after));
            }
            Fault::NoSuchPage => self.before = Before::Refuse(Refusal::NoSuchPage),
            Fault::DropBefore => self.before = Before::Break,
            Fault::DropAfterEffect => self.after = After::Break,
            Fault::LateEffect(late) => self.before = Before::Late(late),
            Fault::NoAnswer { takes_effect: false } => self.before = Before::Hang,
            Fault::NoAnswer { takes_effect: true } => self.after = After::Hang,
            Fault::Timeout {
                after,
                takes_effect: false,
            } => self.before = Before::TimeOut(after),
            Fault::Timeout {
                after,
                takes_effect: true,
            } => self.after = After::TimeOut(after),
            Fault::CutAnswer => self.after = After::BreakOff,
            Fault::Garbage { takes_effect: false } => self.before = Before::Refuse(Refusal::Garbage),
            Fault::Garbage { takes_effect: true } => self.after = After::Garble,
            Fault::Delay(wait) => self.delay += wait,
            Fault::WatchEnds => self.read_faults.ends = true,
            Fault::WatchSilent => self.read_faults.silent = true,
            Fault::WatchLags(lag) => self.read_faults.lag = lag,
            Fault::Stale { by, illegal } => self.read_faults.stale = Some((by, illegal)),
        }
    }
}

impl Refusal {
    pub(super) fn into_response(self, encoding: Encoding) -> Response<Body> {
        match self {
            Self::Status(failure) => reply::refused(&failure, encoding),
            Self::Throttled(retry_after) => reply::throttled(retry_after),
            Self::NoSuchPage => reply::no_such_page(),
            Self::Garbage => garbled(),
        }
    }
}

/// The answer of an API server that gave up waiting (apiserver `endpoints/filters`, `NewTimeoutError`).
pub(super) fn timed_out(encoding: Encoding) -> Response<Body> {
    let message = "Timeout: request did not complete within requested timeout - context deadline exceeded";
    reply::refused(&StatusError::new(504, "Timeout", message), encoding)
}

/// The answer up to the middle of its first frame, where the connection breaks.
pub(super) fn broken_off(response: Response<Body>) -> Response<Body> {
    response.map(|body| {
        let half = body
            .into_data_stream()
            .take(1)
            .map(|frame: io::Result<Bytes>| frame.map(|bytes| Frame::data(bytes.slice(..bytes.len() / 2))));
        StreamBody::new(half.chain(stream::once(async { Err(connections::reset()) }))).boxed_unsync()
    })
}

/// An answer that does not come from an API server.
pub(super) fn garbled() -> Response<Body> {
    reply::respond(
        StatusCode::OK,
        "application/json",
        reply::whole(Bytes::from_static(PAGE)),
    )
}
