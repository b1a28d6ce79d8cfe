//! The pods that wait because a budget refuses their eviction, and how often the Eviction API is tried.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-19 | `Through` | `tests/sync/budgets.rs::two_thousand_refused_pods_cost_ten_requests_a_second_and_keep_no_other_waiting`, `tests/sync/budgets.rs::pods_that_no_budget_refuses_do_not_wait` |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use controller_core::controller::{Now, Requeue};
use controller_core::meta::{ObjectKey, Uid};
use controller_core::time::saturating_add;
use jiff::Timestamp;

use crate::decide::{self, tries_again_after};
use crate::state::Key;

const TRIES_A_SECOND: usize = decide::TRIES_A_SECOND as usize;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Through {
    waiting: BTreeMap<ObjectKey, Waiting>,
    /// Those of `waiting` that were never tried, by deadline.
    untried: BTreeSet<(Timestamp, ObjectKey)>,
    /// When the tries of the last second were sent that are not accepted, by uptime.
    tries: VecDeque<Duration>,
}

/// A pod that waits for its next try.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Waiting {
    uid: Uid,
    /// By our clock.
    deadline: Timestamp,
    /// No try before this uptime.
    next_try: Duration,
    /// A budget has refused it.
    pub(crate) is_refused: bool,
}

impl Waiting {
    /// Returns whether it is too early for the next try.
    pub(crate) fn waits(&self, now: Now) -> bool {
        now.uptime < self.next_try
    }

    /// When to look at it: after a refusal when its wait is over, else in the order of the deadlines.
    pub(crate) fn requeue(&self, now: Now) -> Requeue {
        if self.is_refused {
            Requeue::At(saturating_add(now.wall, self.next_try.saturating_sub(now.uptime)))
        } else {
            Requeue::At(self.deadline)
        }
    }

    /// The same for a pod that is deleted at `until`; its next try may have been cancelled while we saw nothing.
    pub(crate) fn requeues(&self, pod: &ObjectKey, until: Timestamp, now: Now) -> Vec<(Key, Requeue)> {
        let deleted = (Key::Evict(pod.clone()), Requeue::At(until));
        vec![deleted, (Key::Again(pod.clone()), self.requeue(now))]
    }
}

impl Through {
    pub(crate) fn of(&self, pod: &ObjectKey, uid: &Uid) -> Option<&Waiting> {
        self.waiting.get(pod).filter(|waiting| waiting.uid == *uid)
    }

    /// How long until a try may be sent; zero if one may be sent now.
    pub(crate) fn room_in(&self, now: Duration) -> Duration {
        let lately = self.tries.iter().rev().nth(TRIES_A_SECOND - 1);
        lately.map_or(Duration::ZERO, |at| {
            (*at + Duration::from_secs(1)).saturating_sub(now)
        })
    }

    /// A try is being sent.
    pub(crate) fn trying(&mut self, now: Duration) {
        while self.tries.len() >= TRIES_A_SECOND {
            self.tries.pop_front();
        }
        self.tries.push_back(now);
    }

    /// A try was accepted: it makes room for another. Returns the pod that was never tried and has the earliest deadline.
    pub(crate) fn accepted(&mut self) -> Option<ObjectKey> {
        self.tries.pop_back();
        self.untried.pop_first().map(|(_, pod)| pod)
    }

    /// The pod with this deadline waits for its next try, after one that was `refused` and after which the API server
    /// wants this wait, or for want of room. Returns when to look at it.
    pub(crate) fn wait(
        &mut self,
        pod: &ObjectKey,
        uid: &Uid,
        deadline: Timestamp,
        refused: Option<Duration>,
        now: Now,
    ) -> Requeue {
        let wait = refused.map(|wait| tries_again_after(self.waiting.len()).max(wait));
        let next_try = now.uptime.saturating_add(wait.unwrap_or_default());
        let waiting = Waiting {
            uid: uid.clone(),
            deadline,
            next_try,
            is_refused: refused.is_some(),
        };
        if waiting.is_refused {
            self.untried.remove(&(deadline, pod.clone()));
        } else {
            self.untried.insert((deadline, pod.clone()));
        }
        let requeue = waiting.requeue(now);
        self.waiting.insert(pod.clone(), waiting);
        requeue
    }

    /// The pod is gone, or stays. Returns whether it waited.
    pub(crate) fn left(&mut self, pod: &ObjectKey) -> bool {
        let waited = self.waiting.remove(pod);
        if let Some(Waiting { deadline, .. }) = &waited {
            self.untried.remove(&(*deadline, pod.clone()));
        }
        waited.is_some()
    }

    /// The pods that wait, and when to look at each.
    pub(crate) fn requeues(&self, now: Now) -> impl Iterator<Item = (&ObjectKey, Requeue)> {
        self.waiting
            .iter()
            .map(move |(pod, waiting)| (pod, waiting.requeue(now)))
    }

    /// The number of pods that wait, and how many seconds the first of them has been due at `now`.
    pub(crate) fn counts(&self, now: Timestamp) -> [i64; 2] {
        let first = self.waiting.values().map(|waiting| waiting.deadline).min();
        let longest = first.map_or(0, |first| now.duration_since(first).as_secs().max(0));
        [i64::try_from(self.waiting.len()).unwrap_or(i64::MAX), longest]
    }

    /// The number of entries about objects.
    pub(crate) fn held(&self) -> usize {
        self.waiting.len()
    }
}
