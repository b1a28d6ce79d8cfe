//! What is remembered of the taints of nodes: since when each counts, and for how long it has stayed (TE-4, TE-5).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::moment::{Moment, since};
use crate::view::Taint;

/// The two taints by which the node-lifecycle controller tells a node that does not answer; it swaps them.
/// Source: `k8s.io/api/core/v1`, `TaintNodeNotReady` and `TaintNodeUnreachable`.
pub const TAINTS_OF_A_FAILED_NODE: [&str; 2] =
    ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// A taint of a node and what is remembered of it for as long as it stays there (TE-5).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The taint.
    pub taint: Arc<Taint>,
    /// Since when it counts.
    pub since: Moment,
    /// Which stay on the node this is: a taint that was away has another one when it is back.
    pub stay: u64,
    /// The API server said, after the cache saw it last, that it is gone: if it is there again, that is another stay.
    pub is_missing: bool,
}

/// What is remembered of the taints of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaintMemory {
    /// In order of their names, so that the same events lead to the same evictions in the same order.
    nodes: BTreeMap<Arc<str>, Arc<[Seen]>>,
    last_stay: u64,
}

/// What is remembered of a node that has `taints` at `now`, after `known`. A taint that was there keeps its
/// stay, and so does the other one of [`TAINTS_OF_A_FAILED_NODE`] that takes its place (TE-5).
pub fn seen(
    known: &[Seen],
    taints: &[Taint],
    now: Timestamp,
    mut new_stay: impl FnMut() -> u64,
) -> Vec<Seen> {
    let mut all: Vec<Seen> = Vec::with_capacity(taints.len());
    for taint in taints {
        let same = known.iter().find(|known| is_same(&known.taint, taint));
        let kin = same.or_else(|| {
            let mut others = known.iter().chain(&all);
            others.find(|other| is_swapped(&other.taint, taint))
        });
        let stay = kin.map(|kin| kin.stay);
        let fresh = since(taint, now);
        let since = same.map_or(fresh, |same| same.since.earlier(fresh));
        all.push(Seen {
            taint: Arc::new(taint.clone()),
            since,
            stay: stay.unwrap_or_else(&mut new_stay),
            is_missing: kin.is_some_and(|kin| kin.is_missing),
        });
    }
    all
}

fn is_same(a: &Taint, b: &Taint) -> bool {
    a.key == b.key && a.value == b.value
}

fn is_swapped(a: &Taint, b: &Taint) -> bool {
    let tells_a_failed_node = |taint: &Taint| TAINTS_OF_A_FAILED_NODE.contains(&&*taint.key);
    tells_a_failed_node(a) && tells_a_failed_node(b)
}

impl TaintMemory {
    /// `node` has `taints` at `now`.
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

    /// The API server has these taints on `node` at `now`, whatever the cache says. A taint that it lacks has ended
    /// its stay, and begins another one once the API server has it again (TE-5).
    pub fn read(&mut self, node: &Arc<str>, taints: &[Taint], now: Timestamp) {
        let known = self.of(node);
        let is_there = |known: &Seen| {
            let mut there = taints.iter();
            there.any(|taint| is_same(&known.taint, taint) || is_swapped(&known.taint, taint))
        };
        if known.iter().all(|known| is_there(known) != known.is_missing) {
            return;
        }
        let read: Vec<Seen> = known
            .iter()
            .map(|known| match (is_there(known), known.is_missing) {
                (true, true) => {
                    self.last_stay += 1;
                    let taint = taints.iter().find(|taint| is_same(&known.taint, taint));
                    Seen {
                        taint: Arc::clone(&known.taint),
                        since: since(taint.unwrap_or(&known.taint), now),
                        stay: self.last_stay,
                        is_missing: false,
                    }
                }
                (is_there, _) => Seen {
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

    /// The taints of `node`; none when nothing is known of it.
    pub fn of(&self, node: &str) -> Arc<[Seen]> {
        self.nodes.get(node).cloned().unwrap_or_default()
    }

    /// The nodes that have taints.
    pub fn tainted(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.keys()
    }

    /// Whether `node` has a taint that may evict.
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
        let mut memory = TaintMemory::default();
        memory.observe(&node, std::slice::from_ref(&taint), at(10));
        let first = memory.of(&node);
        memory.read(&node, std::slice::from_ref(&taint), at(20));
        assert_eq!(memory.of(&node), first, "it has stayed");
        memory.read(&node, &[], at(30));
        memory.read(&node, &[], at(40));
        memory.observe(&node, std::slice::from_ref(&taint), at(50));
        assert_eq!(
            memory.of(&node)[0].stay,
            first[0].stay,
            "an old event tells nothing new"
        );
        memory.read(&node, std::slice::from_ref(&taint), at(60));
        let second = memory.of(&node);
        assert_ne!(second[0].stay, first[0].stay);
        assert_eq!(second[0].since, since(&taint, at(60)));
        memory.read(&node, std::slice::from_ref(&taint), at(70));
        assert_eq!(memory.of(&node), second);
    }
}
