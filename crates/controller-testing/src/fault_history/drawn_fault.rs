//! The faults that can happen in a history.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;

use super::kind::FaultKind;
use super::which::Which;
use embedded_apiserver::Fault;

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
    /// For this time, the requests of a kind meet a fault.
    Refused {
        /// The kind of requests.
        which: Which,
        /// The fault that they meet.
        fault: Fault,
        /// How long they do.
        lasts: Duration,
    },
    /// One replica's requests get no answer for this time. Watches that are open tell on.
    CutOff {
        /// Number of the replica, from 1.
        replica: usize,
        /// How long it is cut off.
        lasts: Duration,
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
    /// A replica dies, and is started again where the clock is fast or slow, for the rest of the history.
    OtherClock {
        /// Number of the replica, from 1.
        replica: usize,
        /// How far its clock is ahead; negative: behind.
        ahead: SignedDuration,
    },
    /// The clock of a replica jumps, and is as wrong as this for the rest of the history.
    ClockJumps {
        /// Number of the replica, from 1.
        replica: usize,
        /// How far its clock is ahead from then on; negative: behind.
        ahead: SignedDuration,
    },
    /// All watches end, and for this time each read reaches one of three API servers: one that is up to date, and two
    /// whose watch caches lag.
    ApiServers {
        /// How far they lag.
        lags: [Duration; 2],
        /// How long there are three.
        lasts: Duration,
    },
    /// Etcd is set back to the state and version after the last step of the world, which loses what replicas have
    /// written since. The server is unreachable for this time.
    SetBack(Duration),
    /// For this time, another writer undoes every second what the controller has written.
    Rival(Duration),
    /// A replica dies, and is started again with `--dry-run`, for this time.
    DryRun {
        /// Number of the replica, from 1.
        replica: usize,
        /// Time until it is started again without.
        lasts: Duration,
    },
    /// All watches end in good order, as after `--min-request-timeout`.
    WatchesEnd,
    /// History is compacted, and all watches end: those that continue from an old version are answered 410.
    Compaction,
    /// A replica dies without notice, and is started again.
    Crash {
        /// Number of the replica, from 1.
        replica: usize,
        /// The moment of its death.
        moment: DeathPoint,
        /// Time from its death until it is started again.
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
    /// The kind that the fault is counted with.
    pub fn kind(&self) -> FaultKind {
        match self {
            Self::Requests {
                fault: Fault::LateEffect(_),
                ..
            } => FaultKind::LateEffects,
            Self::Refused { .. } => FaultKind::Refusals,
            Self::CutOff { .. } => FaultKind::CutOff,
            Self::Requests { which, .. } => match which {
                Which::Gets => FaultKind::Gets,
                Which::Writes(_) => FaultKind::Writes,
                Which::Lists(_) => FaultKind::Lists,
                Which::Watches(_) => FaultKind::Watches,
                Which::InProtobuf => FaultKind::Protobuf,
                Which::Lease => FaultKind::Lease,
            },
            Self::Outage(_) => FaultKind::Outage,
            Self::Restart(_) => FaultKind::Restart,
            Self::WrongClock { .. } => FaultKind::WrongClock,
            Self::OtherClock { ahead, .. } if ahead.is_negative() => FaultKind::SlowClock,
            Self::OtherClock { .. } => FaultKind::FastClock,
            Self::ClockJumps { .. } => FaultKind::ClockJumps,
            Self::ApiServers { .. } => FaultKind::ApiServers,
            Self::SetBack(_) => FaultKind::SetBack,
            Self::Rival(_) => FaultKind::Rival,
            Self::DryRun { .. } => FaultKind::DryRun,
            Self::WatchesEnd => FaultKind::WatchesEnd,
            Self::Compaction => FaultKind::Compaction,
            Self::Crash { .. } => FaultKind::Crash,
            Self::Stop { .. } => FaultKind::Stop,
            Self::LeaseStolen(_) => FaultKind::LeaseStolen,
            Self::LeaseDeleted => FaultKind::LeaseDeleted,
        }
    }

    /// The replica that the fault concerns, if any.
    pub(super) fn replica(&self) -> Option<usize> {
        match self {
            Self::Crash { replica, .. }
            | Self::Stop { replica, .. }
            | Self::CutOff { replica, .. }
            | Self::OtherClock { replica, .. }
            | Self::ClockJumps { replica, .. }
            | Self::DryRun { replica, .. } => Some(*replica),
            _ => None,
        }
    }
}

fn off(ahead: SignedDuration) -> String {
    let side = if ahead.is_negative() { "behind" } else { "ahead" };
    format!("{:?} {side}", ahead.unsigned_abs())
}

impl fmt::Display for DrawnFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests { which, count, fault } if which.ends_watches() => {
                write!(f, "all watches end, and the next {count} {which} {fault}")
            }
            Self::Requests { which, count, fault } => write!(f, "the next {count} {which} {fault}"),
            Self::Refused { which, fault, lasts } => write!(f, "for {lasts:?}, {which} {fault}"),
            Self::CutOff { replica, lasts } => {
                write!(f, "replica {replica} gets no answers for {lasts:?}")
            }
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
            Self::OtherClock { replica, ahead } => {
                let off = off(*ahead);
                write!(
                    f,
                    "replica {replica} dies, and comes back with a clock that is {off}"
                )
            }
            Self::ClockJumps { replica, ahead } => {
                write!(f, "the clock of replica {replica} jumps, and is {}", off(*ahead))
            }
            Self::ApiServers {
                lags: [one, other],
                lasts,
            } => write!(
                f,
                "all watches end, and for {lasts:?} two of three API servers lag by {one:?} and {other:?}"
            ),
            Self::Rival(lasts) => write!(f, "for {lasts:?} a rival undoes what the controller writes"),
            Self::SetBack(lasts) => write!(
                f,
                "etcd is set back to its state after the last step, which takes {lasts:?}"
            ),
            Self::DryRun { replica, lasts } => {
                write!(f, "replica {replica} dies, and is in dry run for {lasts:?}")
            }
            Self::WatchesEnd => f.write_str("all watches end"),
            Self::Compaction => f.write_str("history is compacted, and all watches end"),
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
