//! The kinds of faults, and how a fault of each is drawn.

use std::time::Duration;

use jiff::SignedDuration;

use super::Suite;
use super::draw::Draw;
use super::drawn_fault::{DeathPoint, DrawnFault};
use super::which::Which;
use embedded_apiserver::{Fault, Resource};

/// More requests than a history has.
const MANY: usize = 1_000_000;

/// What the table of strikes counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FaultKind {
    /// Writes meet a fault.
    Writes,
    /// Lists meet a fault.
    Lists,
    /// Watches meet a fault.
    Watches,
    /// Reads in protobuf are refused for good.
    Protobuf,
    /// Reads of single objects meet a fault.
    Gets,
    /// Writes take effect after their sender gave up.
    LateEffects,
    /// Writes to a resource are refused, or fail slowly, for as long as a quota, policy or webhook is wrong.
    Refusals,
    /// A replica cannot reach the server, others can.
    CutOff,
    /// Requests about the Lease meet a fault.
    Lease,
    /// The server is unreachable.
    Outage,
    /// The server is restarted.
    Restart,
    /// All watches end.
    WatchesEnd,
    /// History is compacted.
    Compaction,
    /// A replica dies.
    Crash,
    /// A replica is asked to stop.
    Stop,
    /// Somebody else takes the Lease.
    LeaseStolen,
    /// The Lease is deleted.
    LeaseDeleted,
    /// The server's clock is wrong.
    WrongClock,
    /// The clock of a replica is fast.
    FastClock,
    /// The clock of a replica is slow from its start on.
    SlowClock,
    /// The clock of a replica jumps ahead or back. A slow one makes it late, as documented.
    ClockJumps,
    /// There are several API servers, some of which lag.
    ApiServers,
    /// Etcd is set back to an earlier state and version.
    SetBack,
    /// A rival undoes what the controller writes.
    Rival,
    /// A replica runs with `--dry-run`.
    DryRun,
}

/// Each kind, as often as it is drawn in comparison with the others.
const WEIGHTS: [(FaultKind, usize); 25] = [
    (FaultKind::Writes, 7),
    (FaultKind::Lists, 4),
    (FaultKind::Watches, 4),
    (FaultKind::Protobuf, 1),
    (FaultKind::Gets, 4),
    (FaultKind::LateEffects, 4),
    (FaultKind::Refusals, 3),
    (FaultKind::CutOff, 3),
    (FaultKind::Lease, 3),
    (FaultKind::Outage, 4),
    (FaultKind::Restart, 6),
    (FaultKind::WatchesEnd, 2),
    (FaultKind::Compaction, 2),
    (FaultKind::Crash, 6),
    (FaultKind::Stop, 2),
    (FaultKind::LeaseStolen, 4),
    (FaultKind::LeaseDeleted, 2),
    (FaultKind::WrongClock, 2),
    (FaultKind::FastClock, 2),
    (FaultKind::SlowClock, 2),
    (FaultKind::ClockJumps, 2),
    (FaultKind::ApiServers, 3),
    (FaultKind::SetBack, 3),
    (FaultKind::Rival, 2),
    (FaultKind::DryRun, 2),
];

/// The kinds that can strike a controller.
fn weights<S: Suite>() -> impl Iterator<Item = (FaultKind, usize)> {
    let strikes = |&&(kind, _): &&(FaultKind, usize)| match kind {
        FaultKind::Gets => S::GETS,
        FaultKind::SetBack => S::REWINDS,
        FaultKind::Rival => S::HAS_RIVAL,
        _ => true,
    };
    WEIGHTS.iter().filter(strikes).copied()
}

impl FaultKind {
    /// All kinds that can strike a controller.
    pub fn all<S: Suite>() -> impl Iterator<Item = Self> {
        weights::<S>().map(|(kind, _)| kind)
    }

    /// Draws a kind.
    pub(super) fn draw<S: Suite>(draw: &mut Draw) -> Self {
        let often = weights::<S>().flat_map(|(kind, weight)| std::iter::repeat_n(kind, weight));
        draw.pick(&often.collect::<Vec<_>>())
    }

    /// The kind whose turn it is: so every kind is drawn in few seeds.
    pub(super) fn in_turn<S: Suite>(seed: u64) -> Self {
        let kinds: Vec<Self> = Self::all::<S>().collect();
        let turn = seed % kinds.len() as u64;
        kinds[usize::try_from(turn).unwrap_or(0)]
    }

    /// Draws a fault of this kind.
    pub(super) fn fault<S: Suite>(self, draw: &mut Draw, replicas: usize) -> DrawnFault {
        let seconds = |from, to| Duration::from_secs(from)..Duration::from_secs(to);
        match self {
            Self::Writes => some(draw, S::WRITES, Which::Writes),
            Self::Lists => some(draw, S::READS, Which::Lists),
            Self::Watches => some(draw, S::READS, Which::Watches),
            Self::Gets => DrawnFault::Requests {
                which: Which::Gets,
                count: draw.number(1..8),
                fault: if draw.chance(30) {
                    Fault::status(403, "Forbidden")
                } else {
                    any_fault(draw)
                },
            },
            Self::LateEffects => DrawnFault::Requests {
                which: Which::Writes(draw.pick(S::WRITES)),
                count: draw.number(1..4),
                fault: Fault::LateEffect(draw.time(seconds(1, 60))),
            },
            Self::Refusals => DrawnFault::Refused {
                which: Which::Writes(draw.pick(S::WRITES)),
                fault: draw.pick(&refusals()),
                lasts: draw.time(seconds(20, 120)),
            },
            Self::CutOff => DrawnFault::CutOff {
                replica: draw.number(1..replicas + 1),
                lasts: draw.time(seconds(1, 60)),
            },
            Self::Lease => requests(draw, Which::Lease),
            // Lasts, as behind a new proxy.
            Self::Protobuf => DrawnFault::Requests {
                which: Which::InProtobuf,
                count: MANY,
                fault: draw.pick(&[
                    Fault::status(406, "NotAcceptable"),
                    Fault::status(415, "UnsupportedMediaType"),
                ]),
            },
            Self::Outage if draw.chance(20) => DrawnFault::Outage(draw.time(seconds(600, 3600))),
            Self::Outage => DrawnFault::Outage(draw.time(seconds(1, 60))),
            Self::Restart => DrawnFault::Restart(draw.time(seconds(1, 60))),
            Self::WatchesEnd => DrawnFault::WatchesEnd,
            Self::Compaction => DrawnFault::Compaction,
            Self::Crash => DrawnFault::Crash {
                replica: draw.number(1..replicas + 1),
                moment: draw.pick(&[DeathPoint::Now, DeathPoint::BeforeWrite, DeathPoint::AfterWrite]),
                restart: draw.time(seconds(1, 30)),
            },
            Self::Stop => DrawnFault::Stop {
                replica: draw.number(1..replicas + 1),
                restart: draw.time(seconds(1, 30)),
            },
            Self::LeaseStolen => DrawnFault::LeaseStolen(draw.time(seconds(0, 60))),
            Self::LeaseDeleted => DrawnFault::LeaseDeleted,
            Self::WrongClock => {
                let wrong = i32::try_from(draw.number(1..120)).unwrap_or(1);
                let seconds = if draw.chance(50) { wrong } else { -wrong };
                DrawnFault::WrongClock { seconds }
            }
            Self::FastClock => DrawnFault::OtherClock {
                replica: draw.number(1..replicas + 1),
                ahead: signed(draw.time(seconds(1, 3600))),
            },
            Self::SlowClock => DrawnFault::OtherClock {
                replica: draw.number(1..replicas + 1),
                ahead: -signed(draw.time(seconds(1, 180))),
            },
            Self::ClockJumps => DrawnFault::ClockJumps {
                replica: draw.number(1..replicas + 1),
                ahead: if draw.chance(50) {
                    signed(draw.time(seconds(1, 3600)))
                } else {
                    -signed(draw.time(seconds(1, 180)))
                },
            },
            Self::ApiServers => DrawnFault::ApiServers {
                lags: [
                    draw.time(Duration::from_millis(100)..Duration::from_secs(3)),
                    draw.time(seconds(3, 30)),
                ],
                lasts: draw.time(seconds(30, 120)),
            },
            Self::Rival => DrawnFault::Rival(draw.time(seconds(60, 150))),
            Self::SetBack => DrawnFault::SetBack(draw.time(seconds(1, 20))),
            Self::DryRun => DrawnFault::DryRun {
                replica: draw.number(1..replicas + 1),
                lasts: draw.time(seconds(10, 60)),
            },
        }
    }
}

fn signed(time: Duration) -> SignedDuration {
    SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
}

/// Requests about one of these resources meet a fault.
fn some(
    draw: &mut Draw,
    resources: &[&'static Resource],
    which: fn(&'static Resource) -> Which,
) -> DrawnFault {
    let which = which(draw.pick(resources));
    requests(draw, which)
}

/// Some of these requests meet a fault.
fn requests(draw: &mut Draw, which: Which) -> DrawnFault {
    DrawnFault::Requests {
        which,
        count: draw.number(1..8),
        fault: which.fault(draw),
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
            // Streams are not served, stall or end too soon.
            (Self::Lists(_), 0) => draw.pick(&[
                Fault::status(422, "Invalid"),
                Fault::status(410, "Expired"),
                Fault::WatchSilent,
                Fault::WatchEnds,
            ]),
            _ => any_fault(draw),
        }
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
        10 => Fault::Garbage { takes_effect },
        _ => Fault::NoAnswer { takes_effect },
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
