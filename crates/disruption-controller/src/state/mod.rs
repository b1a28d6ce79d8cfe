//! The state, and which keys a change enqueues. Which pods each budget has, and how many are healthy, is updated by
//! differences: a change of a pod costs the same in a namespace of 20 and of 20,000 pods.
//!
//! Numbers and views come from here alone: during a relist the state lags behind the store, and a count by the old
//! selector must not be written at the new version.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-12 | `State::scale_changed`, `below` | `tests/sync/stories/kinds.rs::the_scale_of_each_built_in_kind_counts_and_its_change_at_once` |
//! | DIS-13 | `State::pod_changed` | `src/state/tests/mod.rs::a_pod_wakes_every_budget_that_matches_it`, `tests/sync/stories/overlaps.rs::every_budget_over_a_pod_is_true_and_the_overlap_is_reported` |
//! | DIS-14 | `State::pod_changed`, `Namespace::matching`, `Budget::is_urgent` | `src/state/tests/urgency.rs::a_value_below_the_last_written_one_is_urgent`, `tests/properties.rs::each_step_counts_as_if_from_scratch_and_what_believes_in_too_much_goes_first` |
//! | DIS-16 | `State::pdb_changed` | `tests/sync/budgets.rs::a_deleted_budget_leaves_nothing_behind` |

mod blocked;
mod budget;
mod matches;
mod namespace;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use controller_core::cache::{Change, View};
use controller_core::controller::{ContextMut, LoopEvent, Requeue, Watches};
use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use controller_core::rival::Contests;

pub use self::blocked::{Blocked, CAUSES, MOST_NAMED};
pub(crate) use self::budget::Budget;
pub use self::budget::{Basis, ExpectedBy};
use self::namespace::Namespace;
use crate::decide::{Builtin, SYNC_FAILED, Situation, stale};
use crate::discovery::Kind;
use crate::events::Event;
use crate::route::{COALESCE, COALESCE_URGENT};
use crate::view::{NodeView, PdbView, PodView, WorkloadView};
use crate::{DisruptionController, Stores};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// Compute a budget.
    Budget(ObjectKey),
    /// Compute a budget because its time has come.
    Recheck(ObjectKey),
    /// Reset a pod's condition once it is stale.
    StalePod(ObjectKey),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Budget(key) | Self::Recheck(key) | Self::StalePod(key)) = self;
        key.fmt(f)
    }
}

/// A selector with more values causes a warning.
const LARGE_SELECTOR: usize = 1_000;

/// What the controller remembers between actions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    namespaces: BTreeMap<Arc<str>, Namespace>,
    /// By `apiVersion`, the kinds of each that has a kind with a scale: while a scale is found, discovery need not be
    /// queried again.
    pub(crate) kinds: BTreeMap<Arc<str>, Arc<Vec<Kind>>>,
    /// Budgets whose status another writer keeps undoing (CORE-17).
    pub(crate) rivals: Contests<ObjectKey>,
    /// Resources of pods and workloads whose watch is broken.
    away: BTreeSet<&'static str>,
}

/// A budget whose numbers may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Woken {
    pub pdb: ObjectKey,
    /// Less may be allowed than what was written last: then there is little time to wait (DIS-14).
    pub urgent: bool,
}

/// The effects of a change of a pod or of a budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The budgets to compute.
    pub enqueued: Vec<Woken>,
    /// A pod that several budgets match, and these budgets, if that is new (DIS-13).
    pub overlapping: Option<(Arc<PodView>, Vec<Arc<str>>)>,
}

impl Watches<PodView> for DisruptionController {
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, PodView>) {
        let (key, new) = is_now(&change);
        // Outside of a term, too: the next one hands the key out.
        let requeue = new
            .and_then(|pod| stale(pod))
            .map_or(Requeue::Cancel, Requeue::At);
        cx.out.requeue(Key::StalePod(key.clone()), requeue);
        let changed = cx.state.pod_changed(key, new, cx.now.uptime);
        tell(cx, changed);
    }
}

impl Watches<PdbView> for DisruptionController {
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, PdbView>) {
        let (key, new) = is_now(&change);
        if let Some(pdb) = is_now_large(&change) {
            cx.out.record(Event::LargeSelector(Arc::clone(pdb)));
        }
        let changed = cx.state.pdb_changed(key, new, cx.leading);
        if new.is_none() {
            cx.out.requeue(Key::Recheck(key.clone()), Requeue::Cancel);
        }
        tell(cx, changed);
    }
}

impl Watches<WorkloadView> for DisruptionController {
    /// Every change of the view concerns the budgets of its pods, because the view holds nothing else.
    fn on_change(&self, cx: &mut ContextMut<'_, Self>, change: Change<'_, WorkloadView>) {
        let (Change::Added(workload) | Change::Updated { new: workload, .. } | Change::Deleted(workload)) =
            change;
        let namespace = workload.key.namespace.as_ref();
        for uid in below(cx.stores, &workload.uid) {
            let enqueued = cx.state.scale_changed(namespace, &uid);
            let overlapping = None;
            tell(
                cx,
                Changed {
                    enqueued,
                    overlapping,
                },
            );
        }
    }
}

impl Watches<NodeView> for DisruptionController {
    /// Only the metrics read the cordoned nodes.
    fn on_change(&self, _: &mut ContextMut<'_, Self>, _: Change<'_, NodeView>) {}
}

/// Enqueues the budgets that a change concerns, and records new overlaps.
fn tell(cx: &mut ContextMut<'_, DisruptionController>, changed: Changed) {
    if !cx.leading {
        return;
    }
    if let Some((pod, pdbs)) = changed.overlapping {
        cx.out.record(Event::Overlap(pod, pdbs));
    }
    for Woken { pdb, urgent } in changed.enqueued {
        let collect = if urgent { COALESCE_URGENT } else { COALESCE };
        cx.out.requeue(Key::Budget(pdb), Requeue::After(collect));
    }
}

/// Handles every [`LoopEvent`]: all that happens besides changes of objects. A write that the watch does not show in
/// time needs no action, because the next write names its version.
pub(crate) fn observe(
    cx: &mut ContextMut<'_, DisruptionController>,
    event: &LoopEvent<'_, DisruptionController>,
) {
    let sees_again = match event {
        LoopEvent::Watching(resource, stands) => cx.state.watching(resource, *stands),
        LoopEvent::Leading(true) => {
            cx.state.late_from(cx.now.uptime);
            let large = cx.state.budgets().filter(|budget| is_large(&budget.pdb));
            let large = large.map(|budget| Event::LargeSelector(Arc::clone(&budget.pdb)));
            large.for_each(|event| cx.out.record(event));
            false
        }
        _ => false,
    };
    if *event == LoopEvent::Resync {
        let stale = cx
            .stores
            .pods
            .iter()
            .filter_map(|pod| Some((pod.key.clone(), stale(pod)?)));
        stale.for_each(|(pod, at)| cx.out.requeue(Key::StalePod(pod), Requeue::At(at)));
    }
    if sees_again || matches!(event, LoopEvent::Leading(true) | LoopEvent::Resync) {
        for budget in cx.state.budgets() {
            cx.out.enqueue(Key::Budget(budget.pdb.key.clone()));
        }
    }
}

/// The key of the object, and its new state.
fn is_now<'a, V: View>(change: &Change<'a, V>) -> (&'a ObjectKey, Option<&'a Arc<V>>) {
    match change {
        Change::Added(new) | Change::Updated { new, .. } => (new.key(), Some(new)),
        Change::Deleted(last) => (last.key(), None),
    }
}

/// The budget, if its selector has become large.
fn is_now_large<'a>(change: &Change<'a, PdbView>) -> Option<&'a Arc<PdbView>> {
    let (old, new) = match change {
        Change::Added(new) => (None, new),
        Change::Updated { old, new } => (Some(old), new),
        Change::Deleted(_) => return None,
    };
    let is_new = old.is_none_or(|old| old.selector != new.selector);
    (is_new && is_large(new)).then_some(new)
}

fn is_large(pdb: &PdbView) -> bool {
    pdb.selector.values() > LARGE_SELECTOR
}

/// The controllers of pods that follow this workload: the workload itself, and the `ReplicaSets` that it controls.
fn below(stores: &Stores, workload: &Uid) -> Vec<Uid> {
    let replica_sets = stores.workloads.get(&Builtin::ReplicaSet);
    let below = replica_sets.map(|replica_sets| replica_sets.by_index(workload));
    let below = below.iter().flatten().map(|replica_set| replica_set.uid.clone());
    below.chain([workload.clone()]).collect()
}

impl State {
    /// The pod `key` is `new` now, or gone, as of `now`.
    pub fn pod_changed(&mut self, key: &ObjectKey, new: Option<&Arc<PodView>>, now: Duration) -> Changed {
        self.in_namespace(key, |namespace| namespace.change_pod(key, new, now))
    }

    /// The budget `key` is `new` now, or gone. Overlaps with others are only searched if somebody listens.
    pub fn pdb_changed(
        &mut self,
        key: &ObjectKey,
        new: Option<&Arc<PdbView>>,
        look_for_overlaps: bool,
    ) -> Changed {
        if new.is_none() {
            self.rivals.forget(key);
        }
        self.in_namespace(key, |namespace| namespace.change_pdb(key, new, look_for_overlaps))
    }

    fn in_namespace(&mut self, key: &ObjectKey, change: impl FnOnce(&mut Namespace) -> Changed) -> Changed {
        let Some(name) = &key.namespace else {
            return Changed::default();
        };
        let namespace = self.namespaces.entry(Arc::clone(name)).or_default();
        let changed = change(namespace);
        if namespace.is_empty() {
            self.namespaces.remove(name);
        }
        changed
    }

    /// The budget `key` as it is now; `None` if it does not exist.
    pub fn snapshot(&self, key: &ObjectKey) -> Option<Situation> {
        let (namespace, budget) = self.find(key)?;
        Some(Situation {
            pdb: Arc::clone(&budget.pdb),
            counts: budget.counts.clone(),
            entries: namespace.entries(budget),
        })
    }

    /// The budgets that select this pod, in order.
    pub fn matching(&self, pod: &PodView) -> Vec<ObjectKey> {
        let namespace = pod.key.namespace.as_ref();
        let found = namespace.and_then(|name| Some((name, self.namespaces.get(name)?)));
        let names = found.map(|(name, namespace)| (name, namespace.matching(&pod.labels)));
        let (name, pdbs) = names.unzip();
        let key = |pdb| ObjectKey {
            namespace: name.cloned(),
            name: pdb,
        };
        pdbs.into_iter().flatten().map(key).collect()
    }

    /// The number of pods of this controller, in the namespace of `key`, that are neither deleted nor over.
    pub fn live_of(&self, key: &ObjectKey, controller: &Uid) -> i64 {
        let namespace = key.namespace.as_ref().and_then(|name| self.namespaces.get(name));
        namespace
            .and_then(|namespace| namespace.live.get(controller))
            .copied()
            .unwrap_or_default()
    }

    /// The name of the budget's first pod that one of these controllers owns. Scans the namespace.
    pub fn smallest_pod(&self, key: &ObjectKey, controllers: &[&OwnerRef]) -> Option<Arc<str>> {
        let (namespace, budget) = self.find(key)?;
        let mut pods = namespace.pods.values();
        let first = pods.find(|pod| {
            let controller = pod.controller.as_deref();
            controller.is_some_and(|controller| controllers.contains(&controller))
                && budget.pdb.selector.matches(&pod.labels)
        });
        first.map(|pod| Arc::clone(&pod.key.name))
    }

    /// The scale of the controller with this uid has changed: it is now unknown to the budgets that have pods of the
    /// controller (DIS-12).
    pub fn scale_changed(&mut self, namespace: Option<&Arc<str>>, controller: &Uid) -> Vec<Woken> {
        let namespace = namespace.and_then(|name| self.namespaces.get_mut(name));
        namespace.map_or_else(Vec::new, |namespace| namespace.change_scale(controller))
    }

    /// Remembers what discovery says of the kinds of `api_version`, if anything.
    pub(crate) fn discovered(&mut self, api_version: &Arc<str>, kinds: Option<&Arc<Vec<Kind>>>) {
        match kinds.filter(|kinds| kinds.iter().any(|kind| kind.scales)) {
            Some(kinds) => drop(self.kinds.insert(Arc::clone(api_version), Arc::clone(kinds))),
            None => drop(self.kinds.remove(api_version)),
        }
    }

    /// The watch of `resource` is established or broken. Returns true if this ended the last gap.
    fn watching(&mut self, resource: &'static str, stands: bool) -> bool {
        match (resource, stands) {
            // A write of a budget's status is judged by what the API server has, and no number depends on nodes.
            ("poddisruptionbudgets" | "nodes", _) => false,
            (_, true) => self.away.remove(resource) && self.away.is_empty(),
            (_, false) => {
                self.away.insert(resource);
                false
            }
        }
    }

    /// A term begins at `now`: a status that was behind before was not ours to write.
    fn late_from(&mut self, now: Duration) {
        let namespaces = self.namespaces.values_mut();
        for budget in namespaces.flat_map(|namespace| namespace.budgets.values_mut()) {
            budget.behind = budget.behind.map(|_| now);
        }
    }

    /// The number of entries about objects; 0 once no object is left. For tests.
    pub fn held(&self) -> usize {
        self.namespaces.len() + self.rivals.held()
    }

    /// True if pods or workloads may have changed without our seeing it: then no more is allowed than now.
    pub(crate) fn is_blind(&self) -> bool {
        !self.away.is_empty()
    }

    /// The numbers of budgets that allow disruptions, that allow none, and that cannot be computed.
    pub fn states(&self) -> [i64; 3] {
        let mut states = [0; 3];
        for budget in self.budgets() {
            let held = &budget.pdb.status;
            let condition = held.condition.as_ref();
            let failed = condition.is_some_and(|condition| *condition.reason == *SYNC_FAILED);
            let state = match (failed, held.disruptions_allowed) {
                (true, _) => 2,
                (false, 1..) => 0,
                (false, _) => 1,
            };
            states[state] += 1;
        }
        states
    }

    /// A budget whose counted pods differ from a count from scratch; for tests.
    pub fn miscounted(&self) -> Option<&ObjectKey> {
        let budget = self.namespaces.values().find_map(Namespace::miscounted)?;
        Some(&budget.pdb.key)
    }

    /// Every budget, in order.
    fn budgets(&self) -> impl Iterator<Item = &Budget> {
        let namespaces = self.namespaces.values();
        namespaces.flat_map(|namespace| namespace.budgets.values())
    }

    fn find(&self, key: &ObjectKey) -> Option<(&Namespace, &Budget)> {
        let namespace = self.namespaces.get(key.namespace.as_ref()?)?;
        Some((namespace, namespace.budgets.get(&key.name)?))
    }

    pub(crate) fn budget(&self, key: &ObjectKey) -> Option<&Budget> {
        self.find(key).map(|(_, budget)| budget)
    }

    /// Applies `change` to the budget of this name, and of this uid if given, if it exists.
    pub(crate) fn change<T>(
        &mut self,
        key: &ObjectKey,
        uid: Option<&Uid>,
        change: impl FnOnce(&mut Budget) -> T,
    ) -> Option<T> {
        let namespace = self.namespaces.get_mut(key.namespace.as_ref()?)?;
        let budget = namespace.budgets.get_mut(&key.name)?;
        uid.is_none_or(|uid| budget.pdb.uid == *uid)
            .then(|| change(budget))
    }
}
