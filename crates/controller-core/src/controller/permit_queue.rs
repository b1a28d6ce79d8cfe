//! Passes that wait for a permit.

use std::time::Duration;

use derive_where::derive_where;

use super::fair_queue::{FairQueue, Place};

/// The client-side limit on requests.
pub trait Limit {
    /// How long until there is a permit; zero where one is there.
    fn wait(&self) -> Duration;

    /// Takes the permit that is there.
    fn take(&self);
}

/// Whose turn it is: that of a pass of the line, or of one that comes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    First,
    Last,
}

/// How often what begins with a read goes before what begins with a write.
const ONE_READ_IN: u32 = 4;

/// How far a pass has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// It has sent one write: the second one of a pair goes first.
    FollowUp,
    /// It has sent several.
    Begun,
    /// It is to begin with a write.
    Writes,
    /// It is to begin with a read.
    Reads,
}

/// A place in the line.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    rank: Rank,
    place: Place,
}

/// The line. Passes with many writes and those that have not begun take turns, and so do namespaces in each rank: a pass with
/// thousands of writes delays nobody's first one, and is not put off by new ones either.
#[derive_where(Default)]
pub(super) struct PermitQueue<K> {
    /// By [`Rank`].
    waiting: [FairQueue<K>; 4],
    /// Whether the last one that left, follow-ups aside, had begun.
    begun_left: bool,
    /// How many have left that had not.
    fresh_left: u32,
}

impl<K> PermitQueue<K> {
    /// How many passes wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.iter().map(FairQueue::len).sum()
    }

    /// Takes a permit for a request of now, if there is one and nobody has waited longer for it.
    pub(super) fn permit(&self, turn: Turn, limit: &dyn Limit) -> bool {
        let is_there = (turn == Turn::First || self.len() == 0) && limit.wait().is_zero();
        if is_there {
            limit.take();
        }
        is_there
    }

    /// A pass comes to the line, or stays where it is.
    pub(super) fn push(&mut self, key: K, namespace: Option<&str>, rank: Rank, spot: &mut Option<Spot>) {
        if spot.as_ref().is_some_and(|spot| spot.rank == rank) {
            return;
        }
        self.leave(spot);
        let place = self.waiting[rank as usize].push(namespace, key);
        *spot = Some(Spot { rank, place });
    }

    /// A pass waits no more.
    pub(super) fn leave(&mut self, spot: &mut Option<Spot>) {
        if let Some(Spot { rank, place }) = spot.take() {
            self.waiting[rank as usize].remove(&place);
        }
    }

    pub(super) fn pop(&mut self) -> Option<K> {
        let [follow_ups, begun, writes, reads] = &mut self.waiting;
        if let Some(key) = follow_ups.pop() {
            return Some(key);
        }
        if !self.begun_left
            && let Some(key) = begun.pop()
        {
            self.begun_left = true;
            return Some(key);
        }
        let turn = self.fresh_left.wrapping_add(1);
        let order = if turn.is_multiple_of(ONE_READ_IN) {
            [reads, writes]
        } else {
            [writes, reads]
        };
        if let Some(key) = order.into_iter().find_map(FairQueue::pop) {
            (self.begun_left, self.fresh_left) = (false, turn);
            return Some(key);
        }
        begun.pop()
    }
}
