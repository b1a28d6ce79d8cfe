//! Keys to be handed out: urgent ones first, namespaces in turn.

use derive_where::derive_where;

use super::fair_queue::{FairQueue, Place};
use super::queue::Priority;

/// One key in this many is of normal priority, although keys of high priority wait.
const ONE_NORMAL_IN: u32 = 4;
/// One key in this many is of low priority, although other keys wait.
const ONE_LOW_IN: u32 = 16;

/// Priorities and namespaces of keys, as the controller gives them.
pub(super) trait Seats<K> {
    fn priority(&self, key: &K) -> Priority;

    fn namespace<'a>(&self, key: &'a K) -> Option<&'a str>;
}

/// Where keys wait to be handed out, the least urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Low,
    Normal,
    High,
    /// Its passes keep failing, beyond the retries that the queue grants at once.
    Failing,
}

/// Where a key waits.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) level: Level,
    place: Place,
}

#[derive(Clone)]
#[derive_where(Debug; K: Clone + std::fmt::Debug)]
#[derive_where(Default)]
pub(super) struct Levels<K> {
    /// Indexed by [`Level`].
    levels: [FairQueue<K>; 4],
    /// How many keys below [`Level::Failing`] have been handed out.
    #[derive_where(skip(Debug))]
    handed_out: u32,
}

impl From<Priority> for Level {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::Low => Self::Low,
            Priority::Normal => Self::Normal,
            Priority::High => Self::High,
        }
    }
}

impl<K: Clone> Levels<K> {
    pub(super) fn push(&mut self, level: Level, namespace: Option<&str>, key: K) -> Seat {
        let place = self.levels[level as usize].push(namespace, key);
        Seat { level, place }
    }

    pub(super) fn remove(&mut self, seat: &Seat) {
        self.levels[seat.level as usize].remove(&seat.place);
    }

    /// Stops handing out the keys of this namespace, or starts again.
    pub(super) fn suspend(&mut self, namespace: &str, is_suspended: bool) {
        for level in &mut self.levels {
            level.suspend(namespace, is_suspended);
        }
    }

    pub(super) fn pop_failing(&mut self) -> Option<K> {
        self.levels[Level::Failing as usize].pop()
    }

    /// Takes the next key below [`Level::Failing`].
    pub(super) fn pop_ready(&mut self) -> Option<K> {
        let turn = self.handed_out.wrapping_add(1);
        let order = if turn.is_multiple_of(ONE_LOW_IN) {
            [Level::Low, Level::High, Level::Normal]
        } else if turn.is_multiple_of(ONE_NORMAL_IN) {
            [Level::Normal, Level::High, Level::Low]
        } else {
            [Level::High, Level::Normal, Level::Low]
        };
        let mut levels = order.into_iter();
        let key = levels.find_map(|level| self.levels[level as usize].pop())?;
        self.handed_out = turn;
        Some(key)
    }

    pub(super) fn has_failing(&self) -> bool {
        !self.levels[Level::Failing as usize].is_empty()
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.levels[..Level::Failing as usize]
            .iter()
            .all(FairQueue::is_empty)
    }

    pub(super) fn len(&self) -> usize {
        self.levels.iter().map(FairQueue::len).sum()
    }

    /// The keys below [`Level::Failing`], the most urgent first; for tests.
    pub(super) fn ready_keys(&self) -> impl Iterator<Item = K> {
        let ready = self.levels[..Level::Failing as usize].iter().rev();
        ready.flat_map(FairQueue::in_order)
    }
}
