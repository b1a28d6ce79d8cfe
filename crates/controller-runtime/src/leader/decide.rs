//! The rule: from what was observed of the Lease to create, take, renew or wait.
//!
//! Pure. Facts from client-go v0.36.3, `leaderelection.go` (`tryAcquireOrRenew`, `release`).

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::config::ElectionConfig;
use super::lease::{Lease, Record, micro_time};

/// This replica's knowledge of the Lease.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observed {
    /// The Lease as last read; `None` if there is none.
    pub(super) lease: Option<Lease>,
    /// When we first saw the record's present content. Its own times come from another machine and are only compared
    /// for change.
    pub(super) since: Instant,
    /// Time after `since` for which another replica may still believe that it leads.
    pub(super) held_for: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Holds a term.
    Leader,
    /// Holds no term.
    Standby,
}

/// The action to take, with the Lease to write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    /// Create the Lease, held by us.
    Create(Lease),
    /// Replace another holder, or none, by ourselves.
    Take(Lease),
    /// Renew our own Lease.
    Renew(Lease),
    /// Wait: another replica may lead until then.
    Wait(Instant),
}

impl Observed {
    /// Combines what was read at `now` with what was known.
    ///
    /// An edit that leaves the record alone (a label) is not a renewal. A Lease that vanished may have been renewed
    /// just before, unseen by us: its holder has one more lease duration to notice.
    pub(super) fn next(
        previous: Option<&Self>,
        lease: Option<Lease>,
        now: Instant,
        config: &ElectionConfig,
    ) -> Self {
        fn record(lease: Option<&Lease>) -> Option<&Record> {
            lease.map(|lease| &lease.record)
        }
        if let Some(previous) = previous
            && record(previous.lease.as_ref()) == record(lease.as_ref())
        {
            return Self {
                lease,
                since: previous.since,
                held_for: previous.held_for,
            };
        }
        let held_for = match (record(lease.as_ref()), previous) {
            (Some(record), _) if record.holder().is_none() => Duration::ZERO,
            (Some(record), _) => record.duration().unwrap_or(config.lease_duration),
            (None, Some(previous)) => previous.held_for.max(config.lease_duration),
            (None, None) => Duration::ZERO,
        };
        Self {
            lease,
            since: now,
            held_for,
        }
    }

    /// The holder of the Lease, if any.
    pub(super) fn holder(&self) -> Option<&str> {
        self.lease.as_ref().and_then(|lease| lease.record.holder())
    }

    fn free_at(&self) -> Instant {
        self.since + self.held_for
    }
}

/// Decides at `now` (monotonic); `wall` is the time to write.
pub(super) fn decide(
    observed: &Observed,
    role: Role,
    now: Instant,
    wall: Timestamp,
    config: &ElectionConfig,
) -> Decision {
    let ours = fresh(wall, config);
    let Some(lease) = &observed.lease else {
        // Only the leader itself can know that the vanished Lease was the leader's.
        return if role == Role::Leader || now >= observed.free_at() {
            Decision::Create(Lease::new(&config.namespace, &config.name, ours))
        } else {
            Decision::Wait(observed.free_at())
        };
    };
    let seen = &lease.record;
    if seen.holder() == Some(&config.identity) {
        Decision::Renew(lease.with(Record {
            acquire_time: seen.acquire_time.clone().or(ours.acquire_time),
            lease_transitions: Some(seen.transitions()),
            ..ours
        }))
    } else if now >= observed.free_at() {
        Decision::Take(lease.with(Record {
            lease_transitions: Some(seen.transitions().saturating_add(1)),
            ..ours
        }))
    } else {
        Decision::Wait(observed.free_at())
    }
}

/// Returns whether the Lease, which was `before` and is `now`, says that etcd may have been set back to an earlier
/// state: it is older, gone, or another one, which somebody else may have made, or etcd may have held then.
pub(super) fn set_back(before: &Lease, now: Option<&Lease>) -> bool {
    now.is_none_or(|now| now.uid() != before.uid() || now.version() < before.version())
}

/// The Lease `held` with its holder removed.
pub(super) fn released(held: &Lease, wall: Timestamp) -> Lease {
    held.with(Record {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(micro_time(wall)),
        renew_time: Some(micro_time(wall)),
        lease_transitions: Some(held.record.transitions()),
    })
}

fn fresh(wall: Timestamp, config: &ElectionConfig) -> Record {
    let rounded_up = config
        .lease_duration
        .as_secs()
        .saturating_add(u64::from(config.lease_duration.subsec_nanos() > 0));
    Record {
        holder_identity: Some(config.identity.clone()),
        lease_duration_seconds: Some(i32::try_from(rounded_up).unwrap_or(i32::MAX).max(1)),
        acquire_time: Some(micro_time(wall)),
        renew_time: Some(micro_time(wall)),
        lease_transitions: Some(0),
    }
}
