//! Pods whose eviction was approved and that still exist.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-4 | `disrupted` | `tests/decide_table.rs::pods_that_were_approved_to_go_are_not_healthy_for_two_minutes` |
//! | DIS-6 | `fate`, `disrupted` | `tests/decide_table.rs::entries_of_disrupted_pods_go_when_they_have_had_their_effect` |
//! | DIS-6 | `overdue`, `confirmed` | `tests/decide_table.rs::an_overdue_entry_goes_when_the_api_server_confirms_it` |

use std::sync::Arc;
use std::time::Duration;

use controller_core::meta::Uid;
use controller_core::time::saturating_add;
use jiff::Timestamp;

use crate::decide::DELETION_TIMEOUT;
use crate::view::PodView;

/// How soon a pod is read again if the API server did not confirm that it still exists.
const CONFIRM_AGAIN: Duration = Duration::from_secs(10);

/// An entry of a budget's `disruptedPods`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptedPod {
    /// The name of the pod.
    pub name: Arc<str>,
    /// When its eviction was approved.
    pub since: Timestamp,
    pub fate: Fate,
}

/// What has become of a pod whose eviction was approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The pod does not exist, or does not belong to the budget.
    Gone,
    /// The pod is being deleted.
    Terminating,
    /// Another pod has its name.
    Replaced,
    /// The pod still exists.
    Here {
        uid: Uid,
        /// The pod is ready.
        healthy: bool,
    },
    /// Its time is over by our clock and cache, but the API server does not confirm that the pod stayed: it may still
    /// go.
    Unconfirmed {
        /// The pod is ready.
        healthy: bool,
        /// When to read the pod again.
        again: Timestamp,
    },
}

/// What the API server says of a pod whose time is over by our clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveRead {
    /// No query was sent, or none was answered.
    Unread,
    /// The API server has no such pod, or one that is being deleted.
    Going,
    /// The API server has this pod at this time of its clock.
    Here(Uid, Timestamp),
}

/// The sum of a budget's entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disrupted {
    /// Pods on their way that would count as healthy.
    pub healthy: i64,
    /// The entries that have had their effect, or will have none, in order.
    pub dropped: Vec<Arc<str>>,
    /// The dropped entries whose pods were to be deleted and were not.
    pub overdue: Vec<(Arc<str>, Uid)>,
    /// When the next entry is too old.
    pub look_again: Option<Timestamp>,
}

/// The fate of the pod of an entry that was made at `since`. `pod` has its name now and belongs to the budget; `seen`
/// is the uid that had the name when the entry was first seen, if any.
///
/// The watch of pods may have lagged behind that of budgets then: a pod as old as the entry may be the approved one,
/// whichever pod was seen before.
pub fn fate(pod: Option<&PodView>, seen: Option<&Uid>, since: Timestamp) -> Fate {
    let came_later = |pod: &PodView| pod.created > since.as_second();
    match pod {
        None => Fate::Gone,
        Some(pod) if pod.deleting => Fate::Terminating,
        Some(pod) if seen.is_some_and(|seen| *seen != pod.uid) && came_later(pod) => Fate::Replaced,
        Some(pod) => Fate::Here {
            uid: pod.uid.clone(),
            healthy: pod.ready,
        },
    }
}

/// The entries that are overdue at `now` although the cache still shows their pods. Those pods must be read first.
pub fn overdue(entries: &mut [DisruptedPod], now: Timestamp) -> impl Iterator<Item = &mut DisruptedPod> {
    let is_overdue = move |entry: &&mut DisruptedPod| {
        matches!(entry.fate, Fate::Here { .. }) && now >= saturating_add(entry.since, DELETION_TIMEOUT)
    };
    entries.iter_mut().filter(is_overdue)
}

/// The fate of an overdue entry, by a live read of its pod. A slow cache or a fast clock of ours must not drop an
/// entry: that would allow one disruption too many.
pub fn confirmed(entry: &DisruptedPod, sight: &LiveRead, now: Timestamp) -> Fate {
    let Fate::Here { uid, healthy } = &entry.fate else {
        return entry.fate.clone();
    };
    let ends = saturating_add(entry.since, DELETION_TIMEOUT);
    match sight.read_again(uid, ends) {
        None => entry.fate.clone(),
        Some(wait) => Fate::Unconfirmed {
            healthy: *healthy,
            again: saturating_add(now, wait),
        },
    }
}

impl LiveRead {
    /// The wait before the pod is read again; `None` if the API server has the pod with this `uid` at `ends` of its
    /// clock or later.
    pub fn read_again(&self, uid: &Uid, ends: Timestamp) -> Option<Duration> {
        match self {
            Self::Here(read, date) if read == uid => {
                let left = Duration::try_from(ends.duration_since(*date)).unwrap_or_default();
                Some(left).filter(|left| !left.is_zero())
            }
            Self::Unread | Self::Going | Self::Here(..) => Some(CONFIRM_AGAIN),
        }
    }
}

/// Sums up `entries` at `now`.
pub fn disrupted(entries: &[DisruptedPod], now: Timestamp) -> Disrupted {
    let mut sum = Disrupted::default();
    for DisruptedPod { name, since, fate } in entries {
        let ends = saturating_add(*since, DELETION_TIMEOUT);
        match fate {
            Fate::Here { healthy, .. } if now < ends => {
                sum.healthy += i64::from(*healthy);
                sum.look_again = Some(sum.look_again.map_or(ends, |sooner| sooner.min(ends)));
            }
            Fate::Here { uid, .. } => {
                sum.dropped.push(Arc::clone(name));
                sum.overdue.push((Arc::clone(name), uid.clone()));
            }
            Fate::Unconfirmed { healthy, again } => {
                sum.healthy += i64::from(*healthy);
                sum.look_again = Some(sum.look_again.map_or(*again, |sooner| sooner.min(*again)));
            }
            Fate::Gone | Fate::Terminating | Fate::Replaced => sum.dropped.push(Arc::clone(name)),
        }
    }
    sum
}
