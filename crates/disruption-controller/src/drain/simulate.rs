//! How many rounds a drain of several nodes takes.
//!
//! In each round the Eviction API lets as many pods go as the budgets allow, and before the next these are ready on a
//! node that is not drained. Nodes begin in the order of their names; another begins in the round after one is empty.

use std::collections::BTreeMap;

use controller_core::meta::ObjectKey;
use serde::Serialize;

use super::filters::Obstacle;
use super::print::Item;
use super::words::some_of;
use super::{Judged, Reason};
use crate::decide::{Outlook, Verdict};

/// What must leave one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    /// The number of pods without a budget.
    pub free: u64,
    /// The number of pods of each budget, by its index.
    pub held: BTreeMap<usize, u64>,
}

/// How many pods of one budget go in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// In the first round, by the state in which its pods are now.
    pub first: u64,
    /// In the others, in which all its pods are ready; at least 1.
    pub then: u64,
}

/// How long a drain takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    pub rounds: u64,
    /// The nodes that are empty only after the last round, by index.
    pub nodes: Vec<usize>,
    /// The budgets of the pods that go in the last round, by index.
    pub budgets: Vec<usize>,
}

/// The drain of `nodes`, of which at most `parallel` are drained at a time. `paces` is by budget.
pub fn simulate(nodes: &[Leaving], paces: &[Pace], parallel: usize) -> Rounds {
    let mut drain = Drain::default();
    let mut next = nodes.iter().enumerate();
    let mut done = Rounds::default();
    loop {
        while drain.left.len() + drain.empty.len() < parallel.max(1)
            && let Some((number, node)) = next.next()
        {
            drain.begin(number, node);
        }
        if drain.left.is_empty() && drain.empty.is_empty() {
            return done;
        }
        done.rounds += 1;
        done.budgets = drain.round(|budget| match paces.get(budget) {
            Some(pace) if done.rounds == 1 => pace.first,
            Some(pace) => pace.then.max(1),
            None => u64::MAX,
        });
        done.nodes = std::mem::take(&mut drain.empty);
        done.nodes.sort_unstable();
    }
}

/// The nodes that are drained now.
#[derive(Default)]
struct Drain {
    /// The number of pods with a budget on each.
    left: BTreeMap<usize, u64>,
    /// The number of pods of each budget on each.
    held: BTreeMap<usize, BTreeMap<usize, u64>>,
    /// Those that are empty after this round.
    empty: Vec<usize>,
}

impl Drain {
    fn begin(&mut self, number: usize, node: &Leaving) {
        for (budget, pods) in node.held.iter().filter(|(_, pods)| **pods > 0) {
            self.held.entry(*budget).or_default().insert(number, *pods);
        }
        match node.held.values().sum() {
            0 if node.free > 0 => self.empty.push(number),
            0 => {}
            held => drop(self.left.insert(number, held)),
        }
    }

    /// Lets that number of pods of each budget go. Returns the budgets whose pods have gone.
    fn round(&mut self, pace: impl Fn(usize) -> u64) -> Vec<usize> {
        let mut went = Vec::new();
        for (budget, on) in &mut self.held {
            let mut may = pace(*budget);
            if may > 0 {
                went.push(*budget);
            }
            while may > 0
                && let Some(mut first) = on.first_entry()
            {
                let goes = may.min(*first.get());
                may -= goes;
                *first.get_mut() -= goes;
                if let Some(left) = self.left.get_mut(first.key()) {
                    *left -= goes;
                    if *left == 0 {
                        self.left.remove(first.key());
                        self.empty.push(*first.key());
                    }
                }
                if *first.get() == 0 {
                    first.remove();
                }
            }
        }
        self.held.retain(|_, on| !on.is_empty());
        went
    }
}

/// The drain of the nodes of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Simulation {
    rounds: u64,
    /// The number of nodes with pods that go.
    nodes: usize,
    parallel: usize,
    /// The nodes that are empty only after the last round.
    last: Vec<String>,
    /// The budgets of the pods that go in the last round, as `namespace/name`.
    budgets: Vec<String>,
    /// The number of pods that never go, which the rounds leave out.
    never: u64,
}

impl Simulation {
    pub(super) fn of<'a>(items: impl Iterator<Item = Item<'a>>, parallel: usize) -> Self {
        let (mut nodes, mut never) = (BTreeMap::<_, Leaving>::new(), 0);
        let (mut budgets, mut paces) = (BTreeMap::<&ObjectKey, usize>::new(), Vec::new());
        for Item {
            pod,
            budgets: of,
            finding,
        } in items
        {
            let is_stuck = matches!(finding.reason, Reason::Held(Obstacle::Terminating(..)));
            if finding.verdict == Verdict::Never || is_stuck {
                never += 1;
                continue;
            }
            let Some(node) = &pod.pod.node else { continue };
            let node = nodes.entry(node).or_default();
            let asks_none = finding.verdict == Verdict::Now && !pod.pod.is_healthy();
            match of.first().filter(|_| !asks_none) {
                None => node.free += 1,
                Some(budget) => {
                    let number = *budgets.entry(&budget.pdb().key).or_insert_with(|| {
                        paces.push(Pace::of(budget));
                        paces.len() - 1
                    });
                    *node.held.entry(number).or_default() += 1;
                }
            }
        }
        let leaving: Vec<_> = nodes.values().cloned().collect();
        let found = simulate(&leaving, &paces, parallel);
        let names: Vec<_> = nodes.keys().collect();
        let last = found.nodes.iter().filter_map(|number| names.get(*number));
        let of_last = budgets
            .into_iter()
            .filter(|(_, number)| found.budgets.contains(number));
        Self {
            rounds: found.rounds,
            nodes: nodes.len(),
            parallel,
            last: last.map(ToString::to_string).collect(),
            budgets: of_last.map(|(budget, _)| budget.to_string()).collect(),
            never,
        }
    }

    /// In one line.
    pub(super) fn text(&self) -> String {
        let nodes = match self.nodes {
            0 => return "a drain takes no round: no pods go\n".to_owned(),
            1 => "1 node".to_owned(),
            nodes if self.parallel == 1 => format!("{nodes} nodes, one after the other,"),
            nodes => format!("{nodes} nodes, {} at a time,", self.parallel),
        };
        let rounds = match self.rounds {
            1 => "1 round".to_owned(),
            rounds => format!("{rounds} rounds"),
        };
        let last = some_of(self.last.clone());
        let by = match self.budgets.as_slice() {
            [] => String::new(),
            [budget] => format!(", held by PodDisruptionBudget {budget}"),
            budgets => format!(", held by the PodDisruptionBudgets {}", some_of(budgets.to_vec())),
        };
        let without = match self.never {
            0 => String::new(),
            1 => "; it leaves out 1 pod that never goes".to_owned(),
            pods => format!("; it leaves out {pods} pods that never go"),
        };
        format!("a drain of {nodes} takes {rounds}, the last on {last}{by}{without}\n")
    }
}

impl Pace {
    fn of(budget: &Judged<'_>) -> Self {
        let pods = |allowed: i64| u64::try_from(allowed).unwrap_or_default();
        Self {
            first: pods(budget.said().allowed),
            then: match &budget.outlook {
                Outlook::Allows(best) => pods(best.allowed.into()),
                Outlook::Never(..) | Outlook::Unknown(_) => 1,
            },
        }
    }
}
