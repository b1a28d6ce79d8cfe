//! `maxPerHour`: how much each policy has deleted within the hour, and whether it waits for a person.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TAF-17 | `Brakes::room`, `Brakes::sending`, `Brakes::plan` | `tests/sync/policies/brake.rs::a_policy_that_would_delete_more_than_its_maximum_stops_and_says_so_once`, `tests/sync/policies/brake.rs::a_dry_run_stops_where_the_controller_would`, `tests/sync/policies/brake.rs::a_delete_that_is_refused_takes_nothing_from_a_later_one`, `tests/sync/policies/brake.rs::a_delete_that_is_tried_again_and_again_counts_once` |

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::state::Key;

/// A delete takes effect within this time of being sent, or never: then the client gives up.
const EFFECT_WITHIN: Duration = Duration::from_secs(30);

/// The brakes of the policies that have deleted something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Brakes {
    of: BTreeMap<Arc<str>, Brake>,
    /// The objects that are still there and whose delete has been counted: another try is no other delete.
    counted: BTreeMap<Key, Counted>,
    /// The objects whose delete has no answer yet, with the policy: as many as there are workers.
    in_flight: BTreeMap<Key, Arc<str>>,
}

/// A delete that a policy has sent, or that a dry run would have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Counted {
    policy: Arc<str>,
    /// The minute by which it takes effect.
    by: u64,
    /// This is a dry run.
    is_planned: bool,
    /// An earlier delete of the object may have been carried out.
    is_unsure: bool,
}

/// Whether a policy may delete one more object within the hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Left,
    /// Only if a delete that is in flight is refused.
    Unsure,
    None,
}

impl Brakes {
    pub(crate) fn is_engaged(&self, policy: &Arc<str>) -> bool {
        self.of.get(policy).is_some_and(|brake| brake.is_engaged)
    }

    /// Whether this policy may delete one more object.
    pub(crate) fn room(&self, policy: &Arc<str>, max_per_hour: u32, now: Duration) -> Room {
        let brake = self.of.get(policy);
        let done = brake.map_or(0, |brake| brake.within_the_hour(now));
        let most = u64::from(max_per_hour);
        if done < most {
            return Room::Left;
        }
        let in_flight = self.in_flight.values().filter(|of| *of == policy);
        if done.saturating_sub(in_flight.count() as u64) < most {
            Room::Unsure
        } else {
            Room::None
        }
    }

    pub(crate) fn engage(&mut self, policy: &Arc<str>) {
        self.of.entry(Arc::clone(policy)).or_default().is_engaged = true;
    }

    /// A delete by this policy is being sent. With an earlier one of the object it counts once.
    pub(crate) fn sending(&mut self, policy: &Arc<str>, object: Key, now: Duration) {
        let earlier = self.counted.remove(&object);
        if let Some(earlier) = &earlier {
            self.uncount(earlier);
        }
        let counted = Counted {
            policy: Arc::clone(policy),
            by: self.of.entry(Arc::clone(policy)).or_default().count(now),
            is_planned: false,
            is_unsure: earlier.is_some(),
        };
        self.in_flight.insert(object.clone(), Arc::clone(policy));
        self.counted.insert(object, counted);
    }

    /// The delete of this object has no answer.
    pub(crate) fn unanswered(&mut self, object: &Key) {
        self.in_flight.remove(object);
    }

    /// The delete of this object was accepted.
    pub(crate) fn accepted(&mut self, object: &Key) {
        self.in_flight.remove(object);
        self.counted.remove(object);
    }

    /// The delete of this object was refused, maybe because an earlier one was carried out.
    pub(crate) fn refused(&mut self, object: &Key) {
        self.in_flight.remove(object);
        let is_unsure = self.counted.get(object).is_none_or(|counted| counted.is_unsure);
        if !is_unsure && let Some(counted) = self.counted.remove(object) {
            self.uncount(&counted);
        }
    }

    fn uncount(&mut self, counted: &Counted) {
        if let Some(brake) = self.of.get_mut(&counted.policy) {
            brake.uncount(counted.by);
        }
    }

    /// A dry run would send a delete by this policy, maybe again.
    pub(crate) fn plan(&mut self, policy: &Arc<str>, object: &Key, now: Duration) {
        if !self.is_planned(object) {
            self.sending(policy, object.clone(), now);
            self.in_flight.remove(object);
            if let Some(counted) = self.counted.get_mut(object) {
                counted.is_planned = true;
            }
        }
    }

    pub(super) fn is_planned(&self, object: &Key) -> bool {
        self.counted.get(object).is_some_and(|counted| counted.is_planned)
    }

    /// True if a delete of this object would be no other one. What a dry run would have deleted would be gone.
    pub(super) fn is_counted(&self, object: &Key, now: Duration) -> bool {
        let counted = self.counted.get(object);
        self.is_planned(object) || counted.is_some_and(|counted| counts(counted.by, now))
    }

    /// The object is gone; its delete counts on.
    pub(super) fn gone(&mut self, object: &Key) {
        self.counted.remove(object);
    }

    /// The number of entries about objects.
    pub(super) fn held(&self) -> usize {
        self.counted.len() + self.in_flight.len()
    }
}

/// The deletes of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Brake {
    /// How many take effect by each minute, of those that count.
    minutes: VecDeque<(u64, u32)>,
    is_engaged: bool,
}

impl Brake {
    /// Counts a delete that is sent now; returns the minute by which it takes effect.
    fn count(&mut self, now: Duration) -> u64 {
        self.minutes.retain(|(by, _)| counts(*by, now));
        let by = minute(now.saturating_add(EFFECT_WITHIN));
        match self.minutes.back_mut() {
            Some((last, count)) if *last == by => *count += 1,
            _ => self.minutes.push_back((by, 1)),
        }
        by
    }

    fn uncount(&mut self, by: u64) {
        if let Some((_, count)) = self.minutes.iter_mut().find(|(of, _)| *of == by) {
            *count -= 1;
        }
    }

    fn within_the_hour(&self, now: Duration) -> u64 {
        let recent = self.minutes.iter().filter(|(by, _)| counts(*by, now));
        recent.map(|(_, count)| u64::from(*count)).sum()
    }
}

const fn minute(time: Duration) -> u64 {
    time.as_secs() / 60
}

/// True if an hour ago is not yet past this minute.
fn counts(by: u64, now: Duration) -> bool {
    minute(now).saturating_sub(by) <= 60
}
