//! The pods and budgets of one namespace, and which belong together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use controller_core::meta::{ObjectKey, Uid};

use super::budget::Budget;
use super::matches::{Matched, Matches};
use super::{Changed, Woken};
use crate::decide::{Counts, DisruptedPod};
use crate::labels::Labels;
use crate::route;
use crate::selector::Selector;
use crate::view::{PdbView, PodView};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Namespace {
    pub(super) pods: BTreeMap<Arc<str>, Arc<PodView>>,
    /// The budgets that match each pod, if any.
    matched: Matches,
    pub(super) budgets: BTreeMap<Arc<str>, Budget>,
    /// Budgets by label pairs (key, value). Each pod of a budget has exactly one of the budget's pairs.
    by_pair: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Selectors>>,
    /// Budgets whose selector has no such pairs.
    unpaired: Selectors,
    /// The budgets that have pods of the controller of this uid.
    pub(super) owners: Owners,
    /// The number of pods of each controller that are neither deleted nor over.
    pub(super) live: BTreeMap<Uid, i64>,
}

/// Budgets with their selectors.
type Selectors = BTreeMap<Arc<str>, Arc<Selector>>;

type Owners = BTreeMap<Uid, BTreeSet<ObjectKey>>;

impl Namespace {
    pub(super) fn is_empty(&self) -> bool {
        self.pods.is_empty() && self.budgets.is_empty()
    }

    /// The entries of a budget with their fates, in order.
    pub(super) fn entries(&self, budget: &Budget) -> Vec<DisruptedPod> {
        let entries = budget.pdb.status.disrupted_pods.iter();
        entries
            .map(|(name, since)| DisruptedPod {
                name: Arc::clone(name),
                since: *since,
                fate: budget.fate(name, *since, self.pods.get(name)),
            })
            .collect()
    }

    pub(super) fn change_pod(
        &mut self,
        key: &ObjectKey,
        new: Option<&Arc<PodView>>,
        now: Duration,
    ) -> Changed {
        let old = match new {
            Some(new) => self.pods.insert(Arc::clone(&new.key.name), Arc::clone(new)),
            None => self.pods.remove(&key.name),
        };
        let old = old.as_deref();
        if let (Some(old), Some(new)) = (old, new)
            && route::counts_alike(old, new)
        {
            return Changed::default();
        }
        let controllers = self.count_live(old, new.map(|new| &**new));
        let before = old.map(|old| self.matching(&old.labels)).unwrap_or_default();
        let after = match (old, new) {
            (_, None) => Vec::new(),
            (Some(old), Some(new)) if old.labels == new.labels => before.clone(),
            (_, Some(new)) => self.matching(&new.labels),
        };
        let mut touched: Vec<_> = before.iter().chain(&after).cloned().collect();
        touched.sort_unstable();
        touched.dedup();
        let mut enqueued = Vec::new();
        for name in touched {
            let old = old.filter(|_| before.binary_search(&name).is_ok());
            let new = new
                .filter(|_| after.binary_search(&name).is_ok())
                .map(|new| &**new);
            let Some(budget) = self.budgets.get_mut(&name) else {
                continue;
            };
            let urgent = budget.replace_pod(old, new, &mut self.owners);
            budget.behind.get_or_insert(now);
            enqueued.push(Woken {
                pdb: budget.pdb.key.clone(),
                urgent,
            });
        }
        // What the controller wants is shared with those of its pods that a budget does not select.
        let theirs = controllers
            .iter()
            .filter_map(|uid| self.owners.get(uid))
            .flatten();
        let touched = |pdb: &&ObjectKey| {
            [&before, &after]
                .iter()
                .any(|names| names.binary_search(&pdb.name).is_ok())
        };
        let theirs = theirs.filter(|pdb| !touched(pdb));
        enqueued.extend(theirs.map(|pdb| Woken {
            pdb: pdb.clone(),
            urgent: false,
        }));
        self.count_sole(&before, -1);
        self.count_sole(&after, 1);
        self.matched.set(&key.name, &after);
        let is_new = after.len() > 1 && before.len() <= 1;
        Changed {
            enqueued,
            overlapping: new.filter(|_| is_new).map(|pod| (Arc::clone(pod), after)),
        }
    }

    pub(super) fn change_pdb(
        &mut self,
        key: &ObjectKey,
        new: Option<&Arc<PdbView>>,
        look_for_overlaps: bool,
    ) -> Changed {
        let Some(new) = new else {
            let known = self.remove_pdb(&key.name);
            let enqueued = known.map(|known| self.left_alone(&known)).unwrap_or_default();
            return Changed {
                enqueued,
                overlapping: None,
            };
        };
        let enqueued = || {
            vec![Woken {
                pdb: key.clone(),
                urgent: true,
            }]
        };
        if let Some(budget) = self.budgets.get_mut(&key.name)
            && budget.pdb.uid == new.uid
            && budget.pdb.selector == new.selector
        {
            let concerns_a_rule = budget.renew(new, &self.pods);
            return Changed {
                enqueued: concerns_a_rule.then(enqueued).unwrap_or_default(),
                overlapping: None,
            };
        }
        let known = self.remove_pdb(&key.name);
        let mut others = known
            .as_ref()
            .map(|known| self.left_alone(known))
            .unwrap_or_default();
        let known = known.filter(|known| known.pdb.uid == new.uid);
        let mut budget = Budget::new(new, known.and_then(|known| known.seen));
        budget.renew(new, &self.pods);
        let mut shared = Vec::new();
        for pod in self.pods.values() {
            if new.selector.matches(&pod.labels) {
                budget.replace_pod(None, Some(pod), &mut self.owners);
                match self.matched.add(&pod.key.name, &new.key.name) {
                    1 => budget.sole += 1,
                    2 => shared.push(Arc::clone(pod)),
                    _ => {}
                }
            }
        }
        for pod in shared {
            let only = self.matching(&pod.labels);
            self.count_sole(&only, -1);
        }
        self.index(new);
        self.budgets.insert(Arc::clone(&new.key.name), budget);
        let overlapping = look_for_overlaps.then(|| self.overlapping(&new.selector));
        others.extend(enqueued());
        Changed {
            enqueued: others,
            overlapping: overlapping.flatten(),
        }
    }

    pub(super) fn change_scale(&mut self, controller: &Uid) -> Vec<Woken> {
        let budgets = self.owners.get(controller).into_iter().flatten();
        let enqueued = budgets.filter_map(|pdb| {
            let urgent = self.budgets.get_mut(&pdb.name)?.is_urgent(true, false);
            let pdb = pdb.clone();
            Some(Woken { pdb, urgent })
        });
        enqueued.collect()
    }

    /// Counts `new` instead of `old`. Returns the controllers that have another number of live pods now.
    fn count_live(&mut self, old: Option<&PodView>, new: Option<&PodView>) -> Vec<Uid> {
        let controller = |pod: Option<&PodView>| {
            let live = pod.filter(|pod| pod.is_live())?;
            Some(live.controller.as_ref()?.uid.clone())
        };
        let (old, new) = (controller(old), controller(new));
        if old == new {
            return Vec::new();
        }
        if let Some(new) = &new {
            *self.live.entry(new.clone()).or_default() += 1;
        }
        if let Some(old) = &old {
            remove(&mut self.live, old, |live| *live -= 1);
        }
        old.into_iter().chain(new).collect()
    }

    /// Adjusts `sole` if one budget alone matches a pod.
    fn count_sole(&mut self, matching: &[Arc<str>], difference: i64) {
        if let [only] = matching
            && let Some(budget) = self.budgets.get_mut(only)
        {
            budget.sole += difference;
        }
    }

    /// A budget is gone: others that now alone match one of its pods may matter again.
    fn left_alone(&mut self, gone: &Budget) -> Vec<Woken> {
        let mut alone = Vec::new();
        for pod in self.pods.values() {
            if gone.pdb.selector.matches(&pod.labels) && self.matched.remove(&pod.key.name) == 1 {
                alone.push(Arc::clone(pod));
            }
        }
        let mut enqueued = BTreeMap::new();
        for pod in alone {
            let only = self.matching(&pod.labels);
            self.count_sole(&only, 1);
            self.matched.set(&pod.key.name, &only);
            for budget in only.iter().filter_map(|name| self.budgets.get(name)) {
                let urgent = budget.promises_too_much();
                enqueued.insert(budget.pdb.key.clone(), urgent);
            }
        }
        let enqueued = enqueued.into_iter();
        enqueued.map(|(pdb, urgent)| Woken { pdb, urgent }).collect()
    }

    /// The first pod, by name, that the selector and another budget match.
    fn overlapping(&self, selector: &Selector) -> Option<(Arc<PodView>, Vec<Arc<str>>)> {
        if self.budgets.len() < 2 {
            return None;
        }
        let mut ours = self.pods.values().filter(|pod| selector.matches(&pod.labels));
        ours.find_map(|pod| {
            let matching = self.matching(&pod.labels);
            (matching.len() > 1).then(|| (Arc::clone(pod), matching))
        })
    }

    /// The names of the budgets that match these labels, in order.
    pub(super) fn matching(&self, labels: &Labels) -> Vec<Arc<str>> {
        let paired = { labels.iter() }.filter_map(|(key, value)| self.by_pair.get(key)?.get(value));
        let candidates = paired.flatten().chain(&self.unpaired);
        let matching = candidates.filter(|(_, selector)| selector.matches(labels));
        let mut names: Vec<_> = matching.map(|(name, _)| Arc::clone(name)).collect();
        names.sort_unstable();
        names
    }

    fn index(&mut self, pdb: &PdbView) {
        let (name, selector) = (&pdb.key.name, Arc::clone(&pdb.selector));
        match selector.pairs() {
            None => drop(self.unpaired.insert(Arc::clone(name), selector)),
            Some(pairs) => {
                for (key, value) in pairs {
                    let selectors = self.by_pair.entry(key).or_default().entry(value).or_default();
                    selectors.insert(Arc::clone(name), Arc::clone(&selector));
                }
            }
        }
    }

    fn remove_pdb(&mut self, name: &Arc<str>) -> Option<Budget> {
        let budget = self.budgets.remove(name)?;
        for controller in budget.counts.controllers.keys() {
            disown(&mut self.owners, &controller.uid, &budget.pdb.key);
        }
        match budget.pdb.selector.pairs() {
            None => drop(self.unpaired.remove(name)),
            Some(pairs) => {
                for (key, value) in pairs {
                    remove(&mut self.by_pair, &key, |by_value| {
                        remove(by_value, &value, |selectors| _ = selectors.remove(name));
                    });
                }
            }
        }
        Some(budget)
    }

    /// The budgets that match this pod, if any.
    pub(super) fn matched(&self, pod: &str) -> Option<&Matched> {
        self.matched.get(pod)
    }

    /// The first budget whose counts differ from a count from scratch.
    pub(super) fn miscounted(&self) -> Option<&Budget> {
        let mut counted = BTreeMap::<_, (Counts, i64)>::new();
        for pod in self.pods.values() {
            let budgets = self.budgets.values().map(|budget| &budget.pdb);
            let matching: Vec<_> = budgets.filter(|pdb| pdb.selector.matches(&pod.labels)).collect();
            for pdb in &matching {
                let (counts, sole) = counted.entry(&pdb.key.name).or_default();
                counts.count(pod, 1);
                *sole += i64::from(matching.len() == 1);
            }
            let names: Vec<_> = matching.iter().map(|pdb| Arc::clone(&pdb.key.name)).collect();
            let mut matched = Matches::default();
            matched.set(&pod.key.name, &names);
            if self.matched.get(&pod.key.name) != matched.get(&pod.key.name) {
                return names.first().and_then(|name| self.budgets.get(name));
            }
        }
        self.budgets.values().find(|budget| {
            let counted = counted.remove(&budget.pdb.key.name).unwrap_or_default();
            (&budget.counts, budget.sole) != (&counted.0, counted.1)
        })
    }
}

impl Budget {
    /// Counts `new` instead of `old`. Returns whether the budget is now urgent to compute.
    fn replace_pod(&mut self, old: Option<&PodView>, new: Option<&PodView>, owners: &mut Owners) -> bool {
        let mut other_controllers = false;
        // Added first, so that a controller with one pod does not come and go when that pod changes.
        if let Some(new) = new {
            self.note_pod(old, new);
            if self.counts.count(new, 1) {
                other_controllers = true;
                if let Some(controller) = &new.controller {
                    let budgets = owners.entry(controller.uid.clone()).or_default();
                    budgets.insert(self.pdb.key.clone());
                }
            }
        }
        if let Some(old) = old
            && self.counts.count(old, -1)
        {
            other_controllers = true;
            if let Some(controller) = &old.controller {
                let mut left = self.counts.controllers.keys();
                if left.all(|owner| owner.uid != controller.uid) {
                    disown(owners, &controller.uid, &self.pdb.key);
                }
            }
        }
        self.is_urgent(other_controllers, old.is_some() != new.is_some())
    }
}

fn disown(owners: &mut Owners, controller: &Uid, pdb: &ObjectKey) {
    remove(owners, controller, |budgets| _ = budgets.remove(pdb));
}

/// Takes something out of the value under `key`, and removes the value if nothing is left.
fn remove<K: Ord, V: Default + PartialEq>(held: &mut BTreeMap<K, V>, key: &K, take: impl FnOnce(&mut V)) {
    if let Some(under) = held.get_mut(key) {
        take(under);
        if *under == V::default() {
            held.remove(key);
        }
    }
}
