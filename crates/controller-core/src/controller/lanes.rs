//! Keys to be handed out: urgent ones first, namespaces in turn.

use derive_where::derive_where;

use super::queue::Priority;
use super::turns::{Place, Turns};

/// So often a key of normal priority goes before those of a high one.
const ONE_NORMAL_IN: u32 = 4;
/// So often one of a low priority goes before all others.
const ONE_LOW_IN: u32 = 16;

/// What the controller says of its keys.
pub(super) trait Seats<K> {
    fn priority(&self, key: &K) -> Priority;

    fn namespace<'a>(&self, key: &'a K) -> Option<&'a str>;
}

/// Where keys wait to be handed out, the least urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lane {
    Low,
    Normal,
    High,
    /// The last pass failed, as several before it.
    Failing,
}

/// The place of a key.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) lane: Lane,
    place: Place,
}

#[derive(Clone, Debug)]
#[derive_where(Default)]
pub(super) struct Lanes<K> {
    /// By [`Lane`].
    lanes: [Turns<K>; 4],
    /// How many keys have been handed out that do not fail.
    handed_out: u32,
}

impl From<Priority> for Lane {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::Low => Self::Low,
            Priority::Normal => Self::Normal,
            Priority::High => Self::High,
        }
    }
}

impl<K: Clone> Lanes<K> {
    pub(super) fn push(&mut self, lane: Lane, namespace: Option<&str>, key: K) -> Seat {
        let place = self.lanes[lane as usize].push(namespace, key);
        Seat { lane, place }
    }

    pub(super) fn remove(&mut self, seat: &Seat) {
        self.lanes[seat.lane as usize].remove(&seat.place);
    }

    pub(super) fn pop_failing(&mut self) -> Option<K> {
        self.lanes[Lane::Failing as usize].pop()
    }

    /// The next key that does not fail.
    pub(super) fn pop_ready(&mut self) -> Option<K> {
        let turn = self.handed_out.wrapping_add(1);
        let order = if turn.is_multiple_of(ONE_LOW_IN) {
            [Lane::Low, Lane::High, Lane::Normal]
        } else if turn.is_multiple_of(ONE_NORMAL_IN) {
            [Lane::Normal, Lane::High, Lane::Low]
        } else {
            [Lane::High, Lane::Normal, Lane::Low]
        };
        let mut lanes = order.into_iter();
        let key = lanes.find_map(|lane| self.lanes[lane as usize].pop())?;
        self.handed_out = turn;
        Some(key)
    }

    pub(super) fn has_failing(&self) -> bool {
        !self.lanes[Lane::Failing as usize].is_empty()
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.lanes[..Lane::Failing as usize].iter().all(Turns::is_empty)
    }

    pub(super) fn len(&self) -> usize {
        self.lanes.iter().map(Turns::len).sum()
    }

    /// The keys that do not fail, the most urgent first; for tests.
    pub(super) fn ready_keys(&self) -> impl Iterator<Item = K> {
        let ready = self.lanes[..Lane::Failing as usize].iter().rev();
        ready.flat_map(Turns::in_order)
    }
}
