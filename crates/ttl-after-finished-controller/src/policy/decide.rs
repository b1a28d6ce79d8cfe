//! Which policy applies to an object, and what the policy wants now.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-14 | `applying` | `tests/policies/table.rs::the_first_policy_that_selects_an_object_counts`, `tests/properties.rs::every_run_ends_with_nothing_that_a_policy_wants_to_go` |
//! | TAF-15 | `judge`, `Beginning` | `tests/policies/table.rs::an_object_goes_when_ttl_and_grace_have_passed`, `tests/policies/table.rs::an_object_is_new_by_the_servers_clock_as_well`, `tests/sync/policies/grace.rs::nothing_goes_within_the_grace_period_of_a_start` |

use std::time::Duration;

use controller_core::controller::Now;
use controller_core::selector::Selector;
use controller_core::time::saturating_add;
use jiff::{SignedDuration, Timestamp};

use super::view::{Candidate, NamespaceView};
use super::{FinishedKind, Policies, Policy};
use crate::view::Finish;

/// An object that is seen for the first time and finished this long ago, or less, is new: nobody has changed its labels
/// since, so the grace period does not count for it.
const SEEN_AT_ONCE: Duration = Duration::from_mins(1);

/// Why an object stays; a policy is given by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeftBecause {
    /// It has a deletionTimestamp.
    BeingDeleted,
    /// A Job with a ttl of its own goes by that.
    OwnTtl,
    /// A kubelet would make the pod again.
    Mirror,
    /// It is annotated to be kept.
    Kept,
    /// Its namespace is annotated to be kept.
    NamespaceKept,
    /// Nobody knows the labels of its namespace yet.
    NamespaceUnknown,
    /// No policy selects it.
    NoPolicy,
    /// It has a controller, and the policy does not include such objects.
    Owned(usize),
    /// It has not finished.
    NotFinished(usize),
    /// The policy says never.
    Never(usize),
    /// It is among the last that failed, and the policy keeps them.
    LastFailed(usize),
    /// Its ttl has passed, but a finalizer would hold it.
    Finalizers(usize),
    /// Its ttl has passed, but the policy has deleted too much, and waits for a person.
    Braked(usize),
}

/// What is remembered about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// When its policy began to apply, in uptime.
    pub since: Duration,
    /// Before this, in uptime, nobody knows how much its policy has deleted within the hour.
    pub counts_from: Duration,
    /// It is among the last that failed.
    pub is_last_failed: bool,
    /// The brake of its policy is engaged.
    pub is_braked: bool,
}

impl Memory {
    /// When the policy may delete the object, in uptime.
    pub fn allowed(self, grace: Duration) -> Duration {
        self.since.saturating_add(grace).max(self.counts_from)
    }
}

/// What a policy wants of an object now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Left(LeftBecause),
    /// It has finished, but nobody knows when.
    Undated(usize),
    /// Its ttl passes later.
    Waits {
        policy: usize,
        finish: Timestamp,
        due: Timestamp,
    },
    /// Its ttl has passed; the policy has not applied to it for long enough.
    InGrace {
        policy: usize,
        finish: Timestamp,
        due: Timestamp,
        left: Duration,
    },
    /// It must be deleted.
    Due {
        policy: usize,
        finish: Timestamp,
        due: Timestamp,
    },
}

/// The policy that applies to an object, whether the object has finished or not.
pub fn applying(
    policies: &Policies,
    object: &Candidate,
    namespace: Option<&NamespaceView>,
) -> Result<usize, LeftBecause> {
    if object.object.deleting {
        return Err(LeftBecause::BeingDeleted);
    }
    if object.kind == FinishedKind::Job && object.object.ttl_seconds.is_some() {
        return Err(LeftBecause::OwnTtl);
    }
    if object.mirror {
        return Err(LeftBecause::Mirror);
    }
    let namespace = namespace.ok_or(LeftBecause::NamespaceUnknown)?;
    if object.keep {
        return Err(LeftBecause::Kept);
    }
    if namespace.keep {
        return Err(LeftBecause::NamespaceKept);
    }
    let mut list = policies.list.iter().enumerate();
    let first = list.find(|(_, policy)| selects(policy, object, namespace));
    match first {
        None => Err(LeftBecause::NoPolicy),
        Some((index, policy)) if object.owner.is_some() && !policy.include_owned => {
            Err(LeftBecause::Owned(index))
        }
        Some((index, _)) => Ok(index),
    }
}

fn selects(policy: &Policy, object: &Candidate, namespace: &NamespaceView) -> bool {
    let meets = |selector: &Option<Selector>, labels| {
        selector.as_ref().is_none_or(|selector| selector.matches(labels))
    };
    policy.kinds.contains(&object.kind)
        && meets(&policy.namespaces, &namespace.labels)
        && meets(&policy.objects, &object.labels)
}

/// Returns whether an object that is seen for the first time is new.
pub fn is_new(object: &Candidate, now: Timestamp) -> bool {
    match object.object.finish {
        None => true,
        Some(Finish::Undated) => false,
        Some(Finish::At(finish)) => is_just_past(finish, now),
    }
}

/// Returns whether a namespace that is seen for the first time is new.
pub fn is_new_namespace(namespace: &NamespaceView, now: Timestamp) -> bool {
    namespace
        .created
        .is_some_and(|created| is_just_past(created, now))
}

/// A time in the future says that clocks differ, so nobody knows.
fn is_just_past(time: Timestamp, now: Timestamp) -> bool {
    now.duration_since(time).unsigned_abs() <= SEEN_AT_ONCE
}

/// The API server's time by its `Date`, in whole seconds, and when it was asked for and came, in uptime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerDate {
    pub date: Timestamp,
    pub asked: Duration,
    pub answered: Duration,
}

impl ServerDate {
    /// Returns whether `time` was just past at this uptime, whenever within the request and the second the API server
    /// read its clock.
    fn was_just_past(self, time: Timestamp, uptime: Duration) -> bool {
        let then = |told: Duration, rounded: SignedDuration| {
            let [uptime, told] = [uptime, told].map(|at| SignedDuration::try_from(at).unwrap_or_default());
            self.date.checked_add(uptime - told + rounded)
        };
        let earliest = then(self.answered, SignedDuration::ZERO);
        let latest = then(self.asked, SignedDuration::from_secs(1));
        [earliest, latest]
            .into_iter()
            .all(|then| then.is_ok_and(|then| is_just_past(time, then)))
    }
}

/// When a policy began to apply to an object, in uptime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Beginning {
    pub at: Duration,
    /// When the object ended, or its namespace was created, if that was just past by our clock.
    pub just_past: Option<Timestamp>,
}

impl Beginning {
    /// Returns whether the policy has applied from the object's begin. A slow clock of ours makes nothing new; without
    /// a `Date` it is all that counts.
    pub fn is_of_new_object(self, servers: Option<ServerDate>) -> bool {
        self.just_past
            .is_some_and(|time| servers.is_none_or(|servers| servers.was_just_past(time, self.at)))
    }
}

/// What the policy with this index wants of an object to which it applies. `now.wall` is a time of the slower clock.
pub fn judge(policies: &Policies, index: usize, object: &Candidate, memory: Memory, now: Now) -> Verdict {
    let Some(policy) = policies.list.get(index) else {
        return Verdict::Left(LeftBecause::NoPolicy);
    };
    let finish = match object.object.finish {
        None => return Verdict::Left(LeftBecause::NotFinished(index)),
        Some(Finish::Undated) => return Verdict::Undated(index),
        Some(Finish::At(finish)) => finish,
    };
    let ttl = if object.failed {
        policy.after_failed
    } else {
        policy.after_succeeded
    };
    let Some(ttl) = ttl else {
        return Verdict::Left(LeftBecause::Never(index));
    };
    if memory.is_last_failed {
        return Verdict::Left(LeftBecause::LastFailed(index));
    }
    let due = saturating_add(finish, ttl);
    if now.wall < due {
        return Verdict::Waits {
            policy: index,
            finish,
            due,
        };
    }
    let allowed = memory.allowed(policies.grace);
    let left = allowed.saturating_sub(now.uptime);
    if !left.is_zero() {
        return Verdict::InGrace {
            policy: index,
            finish,
            due,
            left,
        };
    }
    if object.finalizers.is_some() {
        return Verdict::Left(LeftBecause::Finalizers(index));
    }
    if memory.is_braked {
        return Verdict::Left(LeftBecause::Braked(index));
    }
    Verdict::Due {
        policy: index,
        finish,
        due,
    }
}
