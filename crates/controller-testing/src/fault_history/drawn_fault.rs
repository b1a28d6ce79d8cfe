//! The faults that can happen in a history.

use std::fmt;
use std::time::Duration;

use super::draw::Draw;
use embedded_apiserver::{Fault, RecordedRequest, RequestVerb, Resource};

/// More requests than a history has.
const MANY: usize = 1_000_000;

/// A fault of a history.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum DrawnFault {
    /// The next requests of a kind meet a fault.
    Requests {
        /// The kind of requests.
        which: Which,
        /// The number of requests.
        count: usize,
        /// The fault that they meet.
        fault: Fault,
    },
    /// The server is unreachable for this time; connections break.
    Outage(Duration),
    /// The server is unreachable for this time, and afterwards watches cannot resume: it was restarted.
    Restart(Duration),
    /// The server's clock is wrong from here on.
    WrongClock {
        /// The error in seconds; positive: ahead, negative: behind.
        seconds: i32,
    },
    /// All watches end in good order, as after `--min-request-timeout`.
    WatchesEnd,
    /// History is compacted: requests that continue from an old version are answered 410.
    Compaction,
    /// A replica dies without notice, and is started again.
    Crash {
        /// Number of the replica, from 1.
        replica: usize,
        /// The moment of its death.
        moment: DeathPoint,
        /// Time until it is started again.
        restart: Duration,
    },
    /// A replica gets SIGTERM and is started again, as in a roll-out.
    Stop {
        /// Number of the replica, from 1.
        replica: usize,
        /// Time until it is started again.
        restart: Duration,
    },
    /// Somebody else's name is written into the Lease, and renewed for this time.
    LeaseStolen(Duration),
    /// The Lease is deleted.
    LeaseDeleted,
}

/// A kind of requests.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Which {
    /// Writes to this resource.
    Writes(&'static Resource),
    /// Lists of this resource, including those that are streams.
    Lists(&'static Resource),
    /// Watches of this resource; open ones end, so that new ones come.
    Watches(&'static Resource),
    /// Reads that ask for protobuf; open watches end, so that new ones come.
    InProtobuf,
    /// Reads and writes of the Lease.
    Lease,
}

/// When a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeathPoint {
    /// At the fault's time.
    Now,
    /// As its next write arrives, before the effect.
    BeforeWrite,
    /// After the effect of its next write, before the answer.
    AfterWrite,
}

impl DrawnFault {
    /// Draws a fault that concerns `resources` or one of the replicas.
    pub(super) fn draw(draw: &mut Draw, resources: &[&'static Resource], replicas: usize) -> Self {
        let seconds = |from, to| Duration::from_secs(from)..Duration::from_secs(to);
        match draw.number(0..24) {
            0..9 => {
                let resource = draw.pick(resources);
                let which = draw.pick(&[
                    Which::Writes(resource),
                    Which::Writes(resource),
                    Which::Lists(resource),
                    Which::Watches(resource),
                    Which::Lease,
                ]);
                Self::Requests {
                    which,
                    count: draw.number(1..8),
                    fault: which.fault(draw),
                }
            }
            9..11 => Self::Outage(draw.time(seconds(1, 60))),
            11..14 => Self::Restart(draw.time(seconds(1, 60))),
            // Lasts, as behind a new proxy.
            14 if draw.chance(50) => Self::Requests {
                which: Which::InProtobuf,
                count: MANY,
                fault: draw.pick(&[
                    Fault::status(406, "NotAcceptable"),
                    Fault::status(415, "UnsupportedMediaType"),
                ]),
            },
            14 => Self::WatchesEnd,
            15 => Self::Compaction,
            16..19 => Self::Crash {
                replica: draw.number(1..replicas + 1),
                moment: draw.pick(&[DeathPoint::Now, DeathPoint::BeforeWrite, DeathPoint::AfterWrite]),
                restart: draw.time(seconds(1, 30)),
            },
            19 => Self::Stop {
                replica: draw.number(1..replicas + 1),
                restart: draw.time(seconds(1, 30)),
            },
            20..22 => Self::LeaseStolen(draw.time(seconds(0, 60))),
            22 => Self::LeaseDeleted,
            _ => Self::WrongClock {
                seconds: i32::try_from(draw.number(0..240)).unwrap_or(0) - 120,
            },
        }
    }

    /// The replica that the fault concerns, if any.
    pub(super) fn replica(&self) -> Option<usize> {
        match self {
            Self::Crash { replica, .. } | Self::Stop { replica, .. } => Some(*replica),
            _ => None,
        }
    }
}

impl Which {
    /// Draws a fault that such requests can meet.
    fn fault(self, draw: &mut Draw) -> Fault {
        match (self, draw.number(0..3)) {
            (Self::Watches(_), 0) => draw.pick(&[Fault::WatchEnds, Fault::WatchSilent]),
            (Self::Watches(_), 1) => {
                Fault::WatchLags(draw.time(Duration::from_secs(1)..Duration::from_secs(30)))
            }
            (Self::Lists(_), 0) => list_fault(draw.time(Duration::from_secs(1)..Duration::from_mins(1))),
            _ => any_fault(draw),
        }
    }

    /// True if open watches end, so that new ones meet the fault.
    pub(super) fn ends_watches(self) -> bool {
        matches!(self, Self::Watches(_) | Self::InProtobuf)
    }

    pub(super) fn matches(self, request: &RecordedRequest) -> bool {
        let is_of =
            |resource: &Resource| request.resource == resource.plural && request.group == resource.group;
        match self {
            Self::Writes(resource) => request.verb.is_write() && is_of(resource),
            Self::Lists(resource) => request.lists() && is_of(resource),
            Self::Watches(resource) => {
                request.verb == RequestVerb::Watch && !request.lists() && is_of(resource)
            }
            Self::InProtobuf => request.accept.contains("protobuf"),
            Self::Lease => request.verb != RequestVerb::Watch && request.resource == "leases",
        }
    }
}

impl PartialEq for Which {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Writes(resource) => write!(f, "writes to {}", resource.plural),
            Self::Lists(resource) => write!(f, "lists of {}", resource.plural),
            Self::Watches(resource) => write!(f, "watches of {}", resource.plural),
            Self::InProtobuf => f.write_str("reads in protobuf"),
            Self::Lease => f.write_str("requests about the lease"),
        }
    }
}

impl fmt::Display for DrawnFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests { which, count, fault } if which.ends_watches() => {
                write!(f, "all watches end, and the next {count} {which} {fault}")
            }
            Self::Requests { which, count, fault } => write!(f, "the next {count} {which} {fault}"),
            Self::Outage(lasts) => write!(f, "the server is out of reach for {lasts:?}"),
            Self::Restart(lasts) => write!(f, "the server is restarted, which takes {lasts:?}"),
            Self::WrongClock { seconds } if *seconds < 0 => {
                write!(
                    f,
                    "the server's clock is {} s behind from here on",
                    seconds.unsigned_abs()
                )
            }
            Self::WrongClock { seconds } => write!(f, "the server's clock is {seconds} s ahead from here on"),
            Self::WatchesEnd => f.write_str("all watches end"),
            Self::Compaction => f.write_str("history is compacted"),
            Self::Crash {
                replica,
                moment,
                restart,
            } => {
                let moment = match moment {
                    DeathPoint::Now => "",
                    DeathPoint::BeforeWrite => " before its next write takes effect",
                    DeathPoint::AfterWrite => " after its next write took effect",
                };
                write!(f, "replica {replica} dies{moment}, back {restart:?} later")
            }
            Self::Stop { replica, restart } => {
                write!(f, "replica {replica} is asked to stop, back {restart:?} later")
            }
            Self::LeaseStolen(lasts) => write!(f, "the lease is stolen, and held for {lasts:?}"),
            Self::LeaseDeleted => f.write_str("the lease is deleted"),
        }
    }
}

/// Faults that the writes of one tenant can meet for minutes, because of the tenant's quota, policy or webhook:
/// refusals, and slow failures.
pub fn refusals() -> Vec<Fault> {
    let throttled = Fault::Status {
        code: 429,
        reason: "TooManyRequests".to_owned(),
        retry_after: Some(Duration::from_secs(1)),
    };
    let slow = Fault::Timeout {
        after: Duration::from_secs(10),
        takes_effect: false,
    };
    vec![
        Fault::status(403, "Forbidden"),
        Fault::status(422, "Invalid"),
        throttled,
        slow,
    ]
}

/// A fault of lists alone: streams are not served, stall or end too soon, or pages show old data.
fn list_fault(by: Duration) -> Fault {
    match by.as_millis() % 4 {
        0 => Fault::status(422, "Invalid"),
        1 => Fault::WatchSilent,
        2 => Fault::WatchEnds,
        _ => Fault::Stale { by, illegal: false },
    }
}

/// The wait that a server asks for; some proxies ask for hours, which no client has to grant.
fn wish(wait: Duration) -> Duration {
    if wait.as_millis().is_multiple_of(5) {
        wait + Duration::from_hours(24)
    } else {
        wait
    }
}

/// Draws a fault that every request can meet.
fn any_fault(draw: &mut Draw) -> Fault {
    let wait = Duration::from_secs(1)..Duration::from_secs(20);
    let takes_effect = draw.chance(50);
    match draw.number(0..12) {
        0 => Fault::Delay(draw.time(Duration::from_millis(10)..Duration::from_secs(40))),
        1 => Fault::DropBefore,
        2 => Fault::DropAfterEffect,
        3 => Fault::status(409, "Conflict"),
        4 => Fault::Status {
            code: 429,
            reason: "TooManyRequests".to_owned(),
            retry_after: Some(wish(draw.time(wait))),
        },
        5 => Fault::Throttled {
            retry_after: wish(draw.time(wait)),
        },
        6 if takes_effect => Fault::NoSuchPage,
        6 => Fault::status(500, "InternalError"),
        7 => Fault::Status {
            code: 503,
            reason: "ServiceUnavailable".to_owned(),
            retry_after: takes_effect.then_some(wish(Duration::ZERO)),
        },
        8 => Fault::Timeout {
            after: draw.time(wait),
            takes_effect,
        },
        9 => Fault::CutAnswer,
        10 => Fault::Garbage,
        _ => Fault::NoAnswer { takes_effect },
    }
}
