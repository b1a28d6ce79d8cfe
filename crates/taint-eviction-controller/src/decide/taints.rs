//! The memory of the taints of nodes: since when each counts, and for how long it has stayed.
//!
//! | rule | function | test |
//! |---|---|---|
//! | TE-5 | `seen`, `confirmed`, `TaintMemory::read` | `tests/decide_table.rs::each_taint_keeps_its_own_deadline`, `tests/decide_table.rs::the_two_taints_of_a_failed_node_are_one`, `tests/sync/saved.rs::a_failure_behind_a_watch_that_lags_is_distinguished_from_a_swap`, `src/decide/taints.rs::a_taint_that_the_api_server_lacked_has_another_stay_when_it_is_back` |
//! | TE-17 | `TaintMemory::forget` | `tests/decide_table.rs::a_node_that_is_gone_has_no_taints` |

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::moment::{Moment, since};
use crate::view::Taint;

/// The two taints that the node-lifecycle controller puts on a node that does not answer; it swaps them. Source:
/// `k8s.io/api/core/v1`, `TaintNodeNotReady` and `TaintNodeUnreachable`.
pub const TAINTS_OF_A_FAILED_NODE: [&str; 2] =
    ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// A taint of a node, and what is remembered for as long as it stays there (TE-5).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TaintStay {
    pub taint: Arc<Taint>,
    /// Since when the taint counts.
    pub since: Moment,
    /// The number of this stay on the node: a taint that was away gets another number when it is back.
    pub stay: u64,
    /// The API server said, after the cache last showed the taint, that the taint is gone: if it is back, that is
    /// another stay.
    pub is_missing: bool,
}

/// What is remembered of the taints of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaintMemory {
    /// Sorted by name, so that the same events lead to the same evictions in the same order.
    nodes: BTreeMap<Arc<str>, Arc<[TaintStay]>>,
    last_stay: u64,
}

/// What to remember of a node that has `taints` at `now`, after `known`. A taint that was there keeps its stay. If the
/// other one of [`TAINTS_OF_A_FAILED_NODE`] takes its place, the stay goes on as well (TE-5).
pub fn seen(
    known: &[TaintStay],
    taints: &[Taint],
    now: Timestamp,
    mut new_stay: impl FnMut() -> u64,
) -> Vec<TaintStay> {
    let mut all: Vec<TaintStay> = Vec::with_capacity(taints.len());
    let by_name: BTreeMap<_, _> = known
        .iter()
        .rev()
        .map(|known| (name(&known.taint), known))
        .collect();
    for taint in taints {
        let same = by_name.get(&name(taint)).copied();
        let kin = same.or_else(|| {
            let mut others = known.iter().chain(&all).filter(|_| tells_a_failed_node(taint));
            others.find(|other| tells_a_failed_node(&other.taint))
        });
        let stay = kin.map(|kin| kin.stay);
        let fresh = since(taint, now);
        let since = same.map_or(fresh, |same| same.since.earlier(fresh));
        all.push(TaintStay {
            taint: Arc::new(taint.clone()),
            since,
            stay: stay.unwrap_or_else(&mut new_stay),
            is_missing: kin.is_some_and(|kin| kin.is_missing),
        });
    }
    all
}

/// Those of `known` that `taints`, an answer of the API server, has unchanged. The others may have been away in between.
pub fn confirmed(known: &[TaintStay], taints: &[Taint]) -> Vec<TaintStay> {
    let there: BTreeMap<_, _> = taints.iter().rev().map(|taint| (name(taint), taint)).collect();
    let is_unchanged = |known: &&TaintStay| there.get(&name(&known.taint)) == Some(&&*known.taint);
    known.iter().filter(is_unchanged).cloned().collect()
}

/// The identity of a taint: with another value it is another taint.
fn name(taint: &Taint) -> (&str, &str) {
    (&taint.key, &taint.value)
}

fn tells_a_failed_node(taint: &Taint) -> bool {
    TAINTS_OF_A_FAILED_NODE.contains(&&*taint.key)
}

impl TaintMemory {
    /// The cache shows `taints` on `node` at `now`.
    pub fn observe(&mut self, node: &Arc<str>, taints: &[Taint], now: Timestamp) {
        let known = self.of(node);
        let last_stay = &mut self.last_stay;
        let seen = seen(&known, taints, now, || {
            *last_stay += 1;
            *last_stay
        });
        if seen.is_empty() {
            self.nodes.remove(node);
        } else {
            self.nodes.insert(Arc::clone(node), seen.into());
        }
    }

    /// The API server has these taints on `node` at `now`, whatever the cache says. If it lacks a taint, the taint's
    /// stay is over, and another one begins once the API server has the taint again (TE-5).
    pub fn read(&mut self, node: &Arc<str>, taints: &[Taint], now: Timestamp) {
        let known = self.of(node);
        let there: BTreeMap<_, _> = taints.iter().rev().map(|taint| (name(taint), taint)).collect();
        let has_failed = taints.iter().any(tells_a_failed_node);
        let is_there = |TaintStay { taint, .. }: &TaintStay| {
            there.contains_key(&name(taint)) || has_failed && tells_a_failed_node(taint)
        };
        if known.iter().all(|known| is_there(known) != known.is_missing) {
            return;
        }
        let read: Vec<TaintStay> = known
            .iter()
            .map(|known| match (is_there(known), known.is_missing) {
                (true, true) => {
                    self.last_stay += 1;
                    let taint = there.get(&name(&known.taint)).copied();
                    TaintStay {
                        taint: Arc::clone(&known.taint),
                        since: since(taint.unwrap_or(&known.taint), now),
                        stay: self.last_stay,
                        is_missing: false,
                    }
                }
                (is_there, _) => TaintStay {
                    is_missing: !is_there,
                    ..known.clone()
                },
            })
            .collect();
        self.nodes.insert(Arc::clone(node), read.into());
    }

    /// `node` is gone, or has no `NoExecute` taint any more (TE-17).
    pub fn forget(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// The taints of `node`; empty if nothing is known of it.
    pub fn of(&self, node: &str) -> Arc<[TaintStay]> {
        self.nodes.get(node).cloned().unwrap_or_default()
    }

    /// The nodes that have taints.
    pub fn tainted(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.keys()
    }

    /// Returns whether `node` has a taint that may evict.
    pub fn is_tainted(&self, node: &str) -> bool {
        self.nodes.contains_key(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taint_that_the_api_server_lacked_has_another_stay_when_it_is_back() {
        let node: Arc<str> = "node-1".into();
        let taint = Taint {
            key: "node.kubernetes.io/not-ready".into(),
            value: "".into(),
            time_added: None,
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut state = TaintMemory::default();
        state.observe(&node, std::slice::from_ref(&taint), at(10));
        let first = state.of(&node);
        state.read(&node, std::slice::from_ref(&taint), at(20));
        assert_eq!(state.of(&node), first, "it has stayed");
        state.read(&node, &[], at(30));
        state.read(&node, &[], at(40));
        state.observe(&node, std::slice::from_ref(&taint), at(50));
        assert_eq!(
            state.of(&node)[0].stay,
            first[0].stay,
            "an old event tells nothing new"
        );
        state.read(&node, std::slice::from_ref(&taint), at(60));
        let second = state.of(&node);
        assert_ne!(second[0].stay, first[0].stay);
        assert_eq!(second[0].since, since(&taint, at(60)));
        state.read(&node, std::slice::from_ref(&taint), at(70));
        assert_eq!(state.of(&node), second);
    }
}
