//! Passes that wait for a permit.

use std::time::Duration;

use derive_where::derive_where;

use super::fair_queue::{FairQueue, Place};

/// The client-side limit on requests.
pub trait Limit {
    /// Time until a permit is available; zero if one is.
    fn wait(&self) -> Duration;

    /// Takes the available permit.
    fn take(&self);
}

/// Whether a pass was taken from the queue for permits, or comes after those that wait in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    First,
    Last,
}

/// Of the passes that have sent no write, one in this many starts with a read, although others wait to write.
const ONE_READ_IN: u32 = 4;

/// How far a pass has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// Has sent one write: the second write of a pair goes first.
    FollowUp,
    /// Has sent several writes.
    Begun,
    /// Starts with a write.
    Writes,
    /// Starts with a read. Reads queue behind writes, so lookups do not delay writes already decided.
    Reads,
}

/// A place in the queue.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    rank: Rank,
    place: Place,
}

/// Passes with many writes and passes without one take turns, and so do namespaces within each rank. A pass with
/// thousands of writes delays no first write, and new passes do not put off the thousands.
#[derive(Clone)]
#[derive_where(Debug; K: Clone + std::fmt::Debug)]
#[derive_where(Default)]
pub(super) struct PermitQueue<K> {
    /// Indexed by [`Rank`].
    waiting: [FairQueue<K>; 4],
    /// True if the last pass that left, follow-ups aside, was [`Rank::Begun`].
    begun_left: bool,
    /// How many passes have left that had sent no write.
    fresh_left: u32,
}

impl<K> PermitQueue<K> {
    pub(super) fn len(&self) -> usize {
        self.waiting.iter().map(FairQueue::len).sum()
    }

    /// Takes a permit for a request now, if one is available and no other pass has waited longer for it.
    pub(super) fn permit(&self, turn: Turn, limit: &dyn Limit) -> bool {
        let is_there = (turn == Turn::First || self.len() == 0) && limit.wait().is_zero();
        if is_there {
            limit.take();
        }
        is_there
    }

    /// Adds a pass; one whose rank is unchanged keeps its place.
    pub(super) fn push(&mut self, key: K, namespace: Option<&str>, rank: Rank, spot: &mut Option<Spot>) {
        if spot.as_ref().is_some_and(|spot| spot.rank == rank) {
            return;
        }
        self.leave(spot);
        let place = self.waiting[rank as usize].push(namespace, key);
        *spot = Some(Spot { rank, place });
    }

    /// Removes a pass that no longer waits.
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
