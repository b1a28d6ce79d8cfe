//! What blocks drains, counted for the metrics.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use controller_core::meta::ObjectKey;

use super::State;
use super::budget::Budget;
use super::matches::Matched;
use super::namespace::Namespace;
use crate::decide::eviction::asks_no_budget;
use crate::decide::{SYNC_FAILED, Verdict, evicts};
use crate::view::PodView;

/// A pod that is blocked for so long is counted apart.
const LONG: i64 = 3_600;
/// A status that differs from ours for so long is counted.
const DISAGREES_AFTER: Duration = Duration::from_mins(1);
/// The most budgets and nodes that are named.
pub const MOST_NAMED: usize = 100;

/// Each verdict on a budget, with its cause. The causes of `never` are those of [`Never`](crate::decide::Never).
pub const CAUSES: [(Verdict, &str); 15] = [
    (Verdict::Now, "Evictable"),
    (Verdict::Now, "NoPods"),
    (Verdict::Waits, "NotComputed"),
    (Verdict::Waits, "StatusOutdated"),
    (Verdict::Waits, "NotComputable"),
    (Verdict::Waits, "NotEnoughHealthy"),
    (Verdict::Never, "SeveralBudgets"),
    (Verdict::Never, "MaxUnavailableZero"),
    (Verdict::Never, "MinAvailableTooHigh"),
    (Verdict::Never, "SelectorTooNarrow"),
    (Verdict::Never, "UnmanagedPods"),
    (Verdict::Never, "NothingExpected"),
    (Verdict::Never, "ControllerGone"),
    (Verdict::Never, "NoScale"),
    (Verdict::Never, "InvalidBudget"),
];

/// What blocks drains in the namespaces that were counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    /// The number of budgets by verdict and cause.
    pub budgets: BTreeMap<(Verdict, &'static str), i64>,
    /// The nodes that have pods.
    pub nodes: HashMap<Arc<str>, OnNode>,
    /// The number of pods that are blocked for an hour.
    pub long: i64,
    /// The first budgets that never let a pod go, and why.
    pub never: Vec<(ObjectKey, &'static str)>,
    /// The number of budgets whose status differs from ours for a minute.
    pub disagree: i64,
}

/// What blocks a drain of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnNode {
    /// The worst of its pods.
    pub verdict: Verdict,
    /// The number of its pods that budgets block.
    pub pods: i64,
}

impl State {
    /// The names of all namespaces.
    pub fn namespaces(&self) -> Vec<Arc<str>> {
        self.namespaces.keys().cloned().collect()
    }

    /// Counts what blocks drains in one namespace. `seconds` is the wall time since 1970, `uptime` that of the process.
    pub fn count_blocked(&self, namespace: &Arc<str>, seconds: i64, uptime: Duration, blocked: &mut Blocked) {
        let Some(namespace) = self.namespaces.get(namespace) else {
            return;
        };
        let mut blocks = false;
        for budget in namespace.budgets.values() {
            let (verdict, cause) = budget.standing();
            *blocked.budgets.entry((verdict, cause)).or_default() += 1;
            if verdict == Verdict::Never && blocked.never.len() < MOST_NAMED {
                blocked.never.push((budget.pdb.key.clone(), cause));
            }
            blocked.disagree += i64::from(budget.disagrees_at(uptime));
            blocks |= verdict != Verdict::Now || budget.sole != budget.counts.matched;
        }
        let pods = namespace.pods.values().filter(|pod| !pod.is_of_daemon_set());
        for pod in pods {
            let Some(node) = &pod.node else { continue };
            let (verdict, since) = if blocks {
                namespace.verdict(pod)
            } else {
                (Verdict::Now, None)
            };
            let is_long = since.is_some_and(|since| seconds.saturating_sub(since) >= LONG);
            blocked.long += i64::from(verdict != Verdict::Now && is_long);
            blocked.on(node, verdict);
        }
    }
}

impl Blocked {
    fn on(&mut self, node: &Arc<str>, verdict: Verdict) {
        let pods = i64::from(verdict != Verdict::Now);
        match self.nodes.get_mut(node) {
            Some(on) => {
                on.verdict = on.verdict.min(verdict);
                on.pods += pods;
            }
            None => drop(self.nodes.insert(Arc::clone(node), OnNode { verdict, pods })),
        }
    }

    /// The number of nodes by the worst verdict on their pods.
    pub fn by_verdict(&self) -> [(Verdict, i64); 3] {
        [Verdict::Now, Verdict::Waits, Verdict::Never].map(|verdict| {
            let nodes = self.nodes.values().filter(|on| on.verdict == verdict);
            (verdict, i64::try_from(nodes.count()).unwrap_or(i64::MAX))
        })
    }
}

impl Namespace {
    /// Whether the pod can be evicted, and if not, since when, in seconds since 1970.
    fn verdict(&self, pod: &PodView) -> (Verdict, Option<i64>) {
        let budget = match self.matched(&pod.key.name) {
            Some(Matched::Several(_)) if !asks_no_budget(pod) => return (Verdict::Never, Some(pod.created)),
            Some(Matched::One(name)) => self.budgets.get(name),
            _ => None,
        };
        let Some(budget) = budget.filter(|budget| evicts(pod, &[&budget.pdb]).is_err()) else {
            return (Verdict::Now, None);
        };
        let (verdict, _) = budget.standing();
        let condition = budget.pdb.status.condition.as_ref();
        let since = condition
            .filter(|condition| !condition.allowed)
            .and_then(|condition| condition.since);
        let since = since.map(|since| since.as_second().max(pod.created));
        (verdict.min(Verdict::Waits), since)
    }
}

impl Budget {
    /// Whether the budget lets its ready pods go, and why not.
    fn standing(&self) -> (Verdict, &'static str) {
        let status = &self.pdb.status;
        let seen = self.seen.as_ref();
        let failed = |reason: &str| reason == SYNC_FAILED;
        match () {
            () if self.counts.matched == 0 => (Verdict::Now, "NoPods"),
            () if self.sole == 0 => (Verdict::Never, "SeveralBudgets"),
            () if status.disruptions_allowed > 0 && status.observed_generation >= self.pdb.generation => {
                (Verdict::Now, "Evictable")
            }
            () if seen.is_none() => (Verdict::Waits, "NotComputed"),
            () if let Some(never) = seen.and_then(|seen| seen.never) => (Verdict::Never, never),
            () if status.observed_generation < self.pdb.generation => (Verdict::Waits, "StatusOutdated"),
            () if status
                .condition
                .as_ref()
                .is_some_and(|condition| failed(&condition.reason)) =>
            {
                (Verdict::Waits, "NotComputable")
            }
            () => (Verdict::Waits, "NotEnoughHealthy"),
        }
    }

    fn disagrees_at(&self, uptime: Duration) -> bool {
        let disagrees = self.disagrees.map(|since| uptime.saturating_sub(since));
        disagrees.is_some_and(|time| time >= DISAGREES_AFTER)
    }
}
