//! Which pods each budget has, and how many of them are healthy: kept up to date by differences, so that a change
//! of a pod costs the same in a namespace of 20 and of 20,000 pods.
//!
//! | rule | function | test |
//! |---|---|---|
//! | DIS-13 | `Budgets::pod_changed` | `src/budgets/tests.rs::a_pod_wakes_every_budget_that_matches_it`, `tests/sync/pods.rs::a_pod_that_several_budgets_match_counts_for_all` |
//! | DIS-14 | `Budgets::pod_changed`, `Namespace::matching`, `Budget::is_urgent` | `src/budgets/tests.rs::a_value_below_the_last_written_one_is_urgent`, `tests/decide_props.rs::incremental_counts_equal_a_count_from_scratch` |

mod namespace;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

use self::namespace::Namespace;
use crate::decide::{Counts, Decision, Entry, Fate, SYNC_FAILED, fate};
use crate::route;
use crate::view::{PdbView, PodView, Status};

/// All budgets with the pods that they match.
#[derive(Debug, Default)]
pub struct Budgets(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    namespaces: HashMap<Arc<str>, Namespace>,
    /// The budgets that have pods of the controller of this uid.
    owners: HashMap<Uid, BTreeSet<ObjectKey>>,
}

/// A budget whose pods have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Woken {
    /// Which.
    pub pdb: ObjectKey,
    /// Whether less may be allowed than what was written last: then there is nothing to wait for (DIS-14).
    pub urgent: bool,
}

/// What a change of a pod comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodChange {
    /// The budgets whose numbers may change.
    pub woken: Vec<Woken>,
    /// The budgets that match the pod, when there are several and there were not before (DIS-13).
    pub overlapping: Vec<Arc<str>>,
}

/// What a change of a budget comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PdbChange {
    /// Whether it is to be computed.
    pub wakes: bool,
    /// A pod that it matches beside other budgets, and all that match it, when it is new or selects anew (DIS-13).
    pub overlapping: Option<(Arc<PodView>, Vec<Arc<str>>)>,
}

/// One budget and what is known of it, at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The newest version of it that is known: that of the watch, or that of our own last write.
    pub pdb: Arc<PdbView>,
    /// Its pods.
    pub counts: Counts,
    /// Its `disruptedPods`.
    pub entries: Vec<Entry>,
    /// The status that we wrote last.
    pub ours: Option<Status>,
    /// Counts the changes of its controllers and their scales, so that one is noticed that comes while it is computed.
    pub turns: u64,
}

/// A budget.
#[derive(Debug)]
struct Budget {
    pdb: Arc<PdbView>,
    tally: tally::Tally,
    /// The pods of its `disruptedPods`: when each was approved to go, and which uid had its name when that was first
    /// seen (DIS-6).
    seen: HashMap<Arc<str>, (Timestamp, Option<Uid>)>,
    /// What a write allows that is on its way, or whose fate is unknown.
    sending: Option<i64>,
    /// The versions that our writes made and the watch has not shown yet, oldest first.
    unshown: VecDeque<Arc<str>>,
    /// What it was computed with last; nothing when that does not hold any more.
    basis: Option<Basis>,
    /// How often a controller of its pods, or the scale of one, has changed.
    turns: u64,
    /// Since when its status does not say what its pods are.
    behind: Option<Instant>,
    ours: Option<Status>,
}

/// What the number allowed is made of, besides the healthy pods.
#[derive(Clone, Copy, Debug)]
struct Basis {
    desired: i64,
    going: i64,
    by_scale: bool,
}

/// How many budgets there are in which state, for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States {
    /// They allow disruptions.
    pub allowed: usize,
    /// They allow none.
    pub blocked: usize,
    /// They cannot be computed.
    pub failed: usize,
}

impl Budgets {
    /// The pod `key` is `new` now, or gone, as of `now`.
    pub fn pod_changed(&self, key: &ObjectKey, new: Option<&Arc<PodView>>, now: Instant) -> PodChange {
        let mut state = self.0.lock();
        let State { namespaces, owners } = &mut *state;
        let Some(namespace) = &key.namespace else {
            return PodChange::default();
        };
        let held = namespaces.entry(Arc::clone(namespace)).or_default();
        let change = held.change_pod(key, new, owners, now);
        held.check();
        if held.is_empty() {
            namespaces.remove(namespace);
        }
        change
    }

    /// The budget `key` is `new` now, or gone. Overlaps with others are looked for only where somebody listens.
    pub fn pdb_changed(
        &self,
        key: &ObjectKey,
        new: Option<&Arc<PdbView>>,
        look_for_overlaps: bool,
    ) -> PdbChange {
        let mut state = self.0.lock();
        let State { namespaces, owners } = &mut *state;
        let Some(namespace) = &key.namespace else {
            return PdbChange::default();
        };
        let held = namespaces.entry(Arc::clone(namespace)).or_default();
        let change = held.change_pdb(key, new, owners, look_for_overlaps);
        held.check();
        if held.is_empty() {
            namespaces.remove(namespace);
        }
        change
    }

    /// The budget `key` as it is now; nothing when there is none.
    pub fn snapshot(&self, key: &ObjectKey) -> Option<Snapshot> {
        self.with(key, |namespace, budget| Snapshot {
            pdb: Arc::clone(&budget.pdb),
            counts: budget.tally.counts(),
            entries: namespace.entries(budget),
            ours: budget.ours.clone(),
            turns: budget.turns,
        })
    }

    /// The name of the first pod of the budget that is of one of these controllers.
    pub fn smallest_pod(&self, key: &ObjectKey, controllers: &[&OwnerRef]) -> Option<Arc<str>> {
        self.with(key, |namespace, budget| {
            let pods = namespace.pods().filter(|pod| {
                let controller = pod.controller.as_deref();
                controller.is_some_and(|controller| controllers.contains(&controller))
                    && budget.pdb.selector.matches(&pod.labels)
            });
            pods.map(|pod| &pod.key.name).min().cloned()
        })?
    }

    /// Those that have pods of the controller of this uid (DIS-12).
    pub fn owned_by(&self, controller: &Uid) -> Vec<ObjectKey> {
        let state = self.0.lock();
        let budgets = state.owners.get(controller);
        budgets.into_iter().flatten().cloned().collect()
    }

    /// Every budget, in order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        let state = self.0.lock();
        let budgets = state.namespaces.values().flat_map(Namespace::budgets);
        let mut keys: Vec<_> = budgets.map(|budget| budget.pdb.key.clone()).collect();
        keys.sort_unstable();
        keys
    }

    /// The budget was computed from `snapshot`, and less than this is urgent from now on.
    pub fn computed(&self, snapshot: &Snapshot, decision: &Decision, by_scale: bool) {
        self.change(&snapshot.pdb.key, |budget| {
            if budget.turns != snapshot.turns {
                return;
            }
            // What fails allows nothing: nothing is less.
            budget.basis = Some(match decision.result {
                Ok(numbers) => Basis {
                    desired: numbers.desired.into(),
                    going: decision.going,
                    by_scale,
                },
                Err(_) => Basis {
                    desired: i64::MAX,
                    going: 0,
                    by_scale: false,
                },
            });
        });
    }

    /// A write that allows so many is on its way.
    pub fn sending(&self, key: &ObjectKey, allowed: i64) {
        self.change(key, |budget| budget.sending = Some(allowed));
    }

    /// Whether a write that allows so many would raise what the API server believes to more than the pods that are
    /// there now allow: numbers are taken at the moment of writing (DIS-14).
    pub fn allows_too_much(&self, key: &ObjectKey, allowed: i64) -> bool {
        let too_much = self.with(key, |_, budget| {
            allowed > budget.pdb.status.disruptions_allowed && allowed > budget.estimate()
        });
        too_much.unwrap_or(true)
    }

    /// The scale of a controller of its pods has changed.
    pub fn scale_changed(&self, key: &ObjectKey) {
        self.change(key, Budget::turn);
    }

    /// The write certainly had no effect.
    pub fn refused(&self, key: &ObjectKey) {
        self.change(key, |budget| budget.sending = None);
    }

    /// Its status is about to say what the pods are: since when it did not.
    pub fn catch_up(&self, key: &ObjectKey) -> Option<Instant> {
        self.change(key, |budget| budget.behind.take())?
    }

    /// Its status was not written after all.
    pub fn fell_behind(&self, key: &ObjectKey, since: Option<Instant>) {
        self.change(key, |budget| budget.behind = since.or(budget.behind));
    }

    /// Our write to the version `base` of a budget was accepted and made it `new`.
    pub fn wrote(&self, base: &str, new: &Arc<PdbView>) {
        let mut state = self.0.lock();
        let namespace = new.key.namespace.as_ref();
        if let Some(namespace) = namespace.and_then(|namespace| state.namespaces.get_mut(namespace)) {
            namespace.wrote(base, new);
        }
    }

    /// How many there are in which state.
    pub fn states(&self) -> States {
        let state = self.0.lock();
        let mut states = States::default();
        for budget in state.namespaces.values().flat_map(Namespace::budgets) {
            let held = &budget.pdb.status;
            let condition = held.condition.as_ref();
            if condition.is_some_and(|condition| *condition.reason == *SYNC_FAILED) {
                states.failed += 1;
            } else if held.disruptions_allowed > 0 {
                states.allowed += 1;
            } else {
                states.blocked += 1;
            }
        }
        states
    }

    /// The counts of the budget `key`, counted from scratch: what [`Budgets::snapshot`] must say.
    pub fn recounted(&self, key: &ObjectKey) -> Option<Counts> {
        self.with(key, |namespace, budget| namespace.recount(budget).counts())
    }

    fn with<T>(&self, key: &ObjectKey, read: impl FnOnce(&Namespace, &Budget) -> T) -> Option<T> {
        let state = self.0.lock();
        let namespace = state.namespaces.get(key.namespace.as_ref()?)?;
        Some(read(namespace, namespace.budget(&key.name)?))
    }

    fn change<T>(&self, key: &ObjectKey, change: impl FnOnce(&mut Budget) -> T) -> Option<T> {
        let mut state = self.0.lock();
        let namespace = state.namespaces.get_mut(key.namespace.as_ref()?)?;
        namespace.budget_mut(&key.name).map(change)
    }
}

impl Budget {
    fn new(pdb: &Arc<PdbView>) -> Self {
        Self {
            pdb: Arc::clone(pdb),
            tally: tally::Tally::default(),
            seen: HashMap::new(),
            sending: None,
            unshown: VecDeque::new(),
            basis: None,
            turns: 0,
            behind: None,
            ours: None,
        }
    }

    /// Takes over a newer version, and remembers which pod each new entry is about, as of now.
    fn renew(&mut self, pdb: &Arc<PdbView>, pods: &HashMap<Arc<str>, Arc<PodView>>) {
        self.pdb = Arc::clone(pdb);
        let entries = &self.pdb.status.disrupted_pods;
        self.seen
            .retain(|name, (since, _)| entries.get(name) == Some(&*since));
        for (name, since) in entries {
            let uid = || pods.get(name).map(|pod| pod.uid.clone());
            self.seen
                .entry(Arc::clone(name))
                .or_insert_with(|| (*since, uid()));
        }
    }

    /// Whether the watch is still behind our own writes when it shows `version`.
    fn lags(&mut self, version: &str) -> bool {
        let shown = self.unshown.iter().position(|unshown| **unshown == *version);
        match shown {
            Some(at) => drop(self.unshown.drain(..=at)),
            // Somebody else's, which comes after all of ours.
            None => self.unshown.clear(),
        }
        !self.unshown.is_empty()
    }

    /// The pod of a name that an entry is about has come after the entry: it may be the one that is to go.
    fn note_pod(&mut self, pod: &PodView) {
        if let Some((_, seen @ None)) = self.seen.get_mut(&pod.key.name) {
            *seen = Some(pod.uid.clone());
        }
    }

    /// The most that the API server may believe to be allowed.
    fn promised(&self) -> i64 {
        let held = self.pdb.status.disruptions_allowed;
        self.sending.map_or(held, |sending| sending.max(held))
    }

    fn fate(&self, name: &Arc<str>, since: Timestamp, pod: Option<&Arc<PodView>>) -> Fate {
        let pod = pod.filter(|pod| self.pdb.selector.matches(&pod.labels));
        let seen = self.seen.get(name).and_then(|(_, seen)| seen.as_ref());
        fate(pod.map(|pod| &**pod), seen, since)
    }

    /// Whether less may be allowed now than the API server believes. `other_controllers` says that a controller
    /// came or went.
    fn is_urgent(&mut self, other_controllers: bool) -> bool {
        if other_controllers {
            self.turn();
        }
        self.basis.is_none() || route::urgency(self.estimate(), self.promised())
    }

    /// The scales that it was computed with do not hold any more.
    fn turn(&mut self) {
        self.turns += 1;
        self.basis = self.basis.filter(|basis| !basis.by_scale);
    }

    /// What is allowed now for certain: nothing, when what it was computed with last does not hold any more.
    fn estimate(&self) -> i64 {
        self.basis.map_or(0, |basis| {
            let healthy = self.tally.healthy().saturating_sub(basis.going);
            healthy.saturating_sub(basis.desired).max(0)
        })
    }
}
