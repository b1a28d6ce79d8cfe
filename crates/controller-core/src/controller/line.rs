//! Passes that wait for a permit, and the permits that are on their way to them.

use std::collections::VecDeque;
use std::time::Duration;

use derive_where::derive_where;

/// The client-side limit on requests.
pub trait Limit {
    /// Takes a permit, and tells in how long it is there.
    fn take(&self) -> Duration;

    /// Gives back a permit that was taken and is not needed.
    fn give_back(&self);
}

/// Whose turn it is: that of a pass in the line, or of one that comes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    First,
    Last,
}

/// So often a read goes before writes.
const ONE_READ_IN: u32 = 4;

/// Which passes go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// It has sent a write: what it sends next goes before what others begin.
    Begun,
    /// It is to begin with a write.
    Writes,
    /// It is to begin with a read: what one needs to know keeps nobody from what is known to be done.
    Reads,
}

/// The line. It holds no more permits than passes, so that no permit is lost and none is owed without end.
#[derive_where(Default)]
pub(super) struct Line<K> {
    /// By [`Rank`].
    waiting: [VecDeque<K>; 3],
    /// How many have left the line.
    popped: u32,
    /// Passes that no permit helps before a request has ended.
    blocked: Vec<(K, Rank)>,
    /// When each permit is there that was taken for the line, the first one first.
    permits: VecDeque<Duration>,
}

impl<K: PartialEq> Line<K> {
    /// How many passes wait for a permit.
    pub(super) fn len(&self) -> usize {
        self.waiting.iter().map(VecDeque::len).sum()
    }

    /// A permit for a request of now; if there is none, one is taken for the line.
    pub(super) fn permit(&mut self, turn: Turn, now: Duration, limit: &dyn Limit) -> bool {
        match self.permits.front() {
            Some(at) if turn == Turn::First => {
                let is_there = *at <= now;
                if is_there {
                    self.permits.pop_front();
                }
                is_there
            }
            first => {
                let is_empty = first.is_none();
                let wait = limit.take();
                if is_empty && wait.is_zero() {
                    return true;
                }
                self.permits.push_back(now.saturating_add(wait));
                false
            }
        }
    }

    /// In how long the first permit is there; `None` where none is on its way.
    pub(super) fn wait(&self, now: Duration) -> Option<Duration> {
        self.permits.front().map(|at| at.saturating_sub(now))
    }

    pub(super) fn push(&mut self, key: K, rank: Rank, turn: Turn) {
        let waiting = &mut self.waiting[rank as usize];
        match turn {
            Turn::First => waiting.push_front(key),
            Turn::Last => waiting.push_back(key),
        }
    }

    pub(super) fn block(&mut self, key: K, rank: Rank) {
        self.blocked.push((key, rank));
    }

    /// A request has ended.
    pub(super) fn unblock(&mut self) {
        for (key, rank) in std::mem::take(&mut self.blocked) {
            self.push(key, rank, Turn::Last);
        }
    }

    /// One in four is a read, if one waits: writes without end keep nobody from what it has to know.
    pub(super) fn pop(&mut self) -> Option<K> {
        self.popped = self.popped.wrapping_add(1);
        let [begun, writes, reads] = &mut self.waiting;
        let order = match self.popped % ONE_READ_IN {
            0 => [reads, begun, writes],
            _ => [begun, writes, reads],
        };
        order.into_iter().find_map(VecDeque::pop_front)
    }

    /// Of those that have not begun, whoever has waited longest in each rank.
    pub(super) fn first_fresh(&self) -> impl Iterator<Item = &K> {
        let [_, writes, reads] = &self.waiting;
        writes.front().into_iter().chain(reads.front())
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        for waiting in &mut self.waiting {
            waiting.retain(&keep);
        }
        self.blocked.retain(|(key, _)| keep(key));
    }

    /// Gives back the permits that nobody waits for.
    pub(super) fn give_back(&mut self, limit: &dyn Limit) {
        while self.permits.len() > self.len() {
            self.permits.pop_back();
            limit.give_back();
        }
    }
}
