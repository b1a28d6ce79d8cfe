//! What a search takes in, and what it has seen.

use std::fmt::{self, Display};
use std::iter;
use std::time::Duration;

/// Adds this number to the [`Bounds`] on acts and on faults; those of one process may then be of any kind.
const MORE: &str = "EXPLORE_MORE";

/// How often each may happen in a run.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Acts of others.
    pub acts: u8,
    /// Faults, all together.
    pub faults: u8,
    /// Answers that are lost.
    pub lost: u8,
    /// Requests that are refused.
    pub refused: u8,
    /// Watches that break.
    pub lists: u8,
    /// Processes that die.
    pub crashes: u8,
    /// Terms that end.
    pub terms: u8,
    /// Times at which nothing happens for a while.
    pub waits: u8,
    /// Events that a watch has not shown, at most.
    pub lag: usize,
    /// Processes, one of which has the term.
    pub processes: usize,
}

/// What was explored.
#[derive(Debug)]
pub(super) struct Report {
    pub states: usize,
    pub transitions: usize,
    pub settled: usize,
    /// Steps of the longest run.
    pub depth: usize,
    pub took: Duration,
    pub bounds: Bounds,
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            states,
            transitions,
            settled,
            depth,
            took,
            bounds,
        } = self;
        let rate = *states as u128 * 1000 / took.as_millis().max(1);
        write!(
            f,
            "explored {states} states, {transitions} transitions, {settled} settled, depth {depth}, {:.1} s, \
             {rate} states a second, {bounds:?}",
            took.as_secs_f64()
        )
    }
}

impl Bounds {
    /// One act, and one fault: a lost answer, a crash or the end of a term.
    pub const FEW: Self = Self {
        acts: 1,
        faults: 1,
        lost: 1,
        refused: 0,
        lists: 0,
        crashes: 1,
        terms: 1,
        waits: 1,
        lag: 2,
        processes: 1,
    };

    /// These bounds; in long tests with each kind of fault, and then with one act next to a second process that may take
    /// the term.
    pub(super) fn each(self) -> impl Iterator<Item = Self> {
        let more = std::env::var(MORE).ok();
        let more: u8 = more.and_then(|more| more.parse().ok()).unwrap_or(0);
        let each_kind = crate::long_or_short(1, more.min(1));
        let first = Self {
            acts: self.acts + more,
            faults: self.faults + more,
            lost: self.lost.max(each_kind),
            refused: self.refused.max(each_kind),
            lists: self.lists.max(each_kind),
            crashes: self.crashes.max(each_kind),
            terms: self.terms.max(each_kind),
            ..self
        };
        let second = (self.processes == 1).then_some(Self {
            acts: self.acts.min(1),
            terms: self.terms.max(1),
            processes: 2,
            ..self
        });
        iter::once(first).chain(crate::long_or_short(second, None))
    }
}
