//! `disruption-controller explain NAMESPACE/PDB`, and `--pod NAMESPACE/POD`: every number and its source, the pods that are not healthy and why,
//! and the scale of each controller.

mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::app::{Failure, Prepared};
use controller_core::controller::Pass;
use controller_core::meta::{ObjectKey, Uid};
use controller_core::time::saturating_add;
use jiff::Timestamp;

use crate::DisruptionController;
use crate::decide::{DELETION_TIMEOUT, Demand, Fate, OwnerRules, Scale, demand};
use crate::drain::world::{Missing, World};
use crate::drain::{Flags, Judged, judge};
use crate::requests::Query;
use crate::view::{PdbView, PodView};

/// The explanation, ready to print. What a running controller would remember is unknown here.
struct Explanation<'a> {
    judged: &'a Judged<'a>,
    /// The other budgets of its namespace.
    others: Vec<Arc<PdbView>>,
    /// `None` if the spec is invalid.
    demand: Option<Demand>,
    now: Timestamp,
}

/// What wants pods, and how many of them exist.
struct Workload {
    who: String,
    scale: Scale,
    pods: i64,
    terminating: i64,
}

/// Explains the budget `key` at `now`, once everything that counts for it is read.
pub fn explain(
    pass: &Pass<DisruptionController>,
    key: &ObjectKey,
    rules: &OwnerRules,
    now: Timestamp,
) -> Result<Prepared<Query>, Failure> {
    let world = World::read(pass, key.namespace.as_slice(), rules);
    Missing::prepared(world.and_then(|world| budget(&world, key, now)))
}

/// Explains at `now` whether the pod `key` can be evicted, and its budgets.
pub fn explain_pod(
    pass: &Pass<DisruptionController>,
    key: &ObjectKey,
    rules: &OwnerRules,
    now: Timestamp,
) -> Result<Prepared<Query>, Failure> {
    let world = World::read(pass, key.namespace.as_slice(), rules);
    Missing::prepared(world.and_then(|world| pod(&world, key, now)))
}

fn budget(world: &World<'_>, key: &ObjectKey, now: Timestamp) -> Result<String, Missing> {
    let mut judged = world.judged([key.clone()], now)?;
    let none = || Missing::Failed(format!("no PodDisruptionBudget {key}").into());
    let judged = judged.remove(key).ok_or_else(none)?;
    Ok(Explanation::new(world, &judged, now).to_string())
}

fn pod(world: &World<'_>, key: &ObjectKey, now: Timestamp) -> Result<String, Missing> {
    let none = || Missing::Failed(format!("no Pod {key}").into());
    let pod = *world.pods.get(key).ok_or_else(none)?;
    let judged = world.judged(world.budgets_of(&pod.pod), now)?;
    let budgets: Vec<_> = judged.values().collect();
    let mut text = judge(pod, &budgets, Flags::default(), now).line(pod) + "\n";
    for budget in budgets {
        text.push_str(&Explanation::new(world, budget, now).to_string());
    }
    Ok(text)
}

impl<'a> Explanation<'a> {
    fn new(world: &World<'_>, judged: &'a Judged<'a>, now: Timestamp) -> Self {
        let pdb = judged.pdb();
        let others = world
            .pdbs
            .values()
            .filter(|other| other.key.namespace == pdb.key.namespace && other.key != pdb.key);
        Self {
            others: others.cloned().collect(),
            demand: demand(pdb).ok(),
            judged,
            now,
        }
    }

    /// The workloads whose scales make up the expected pods. Controllers that are scaled as one (the `ReplicaSets` of a
    /// Deployment) are one.
    fn workloads(&self) -> Vec<Workload> {
        let mut by_who = BTreeMap::<(String, Option<&Uid>), Workload>::new();
        if !self.demand.is_some_and(Demand::needs_scales) {
            return Vec::new();
        }
        for (owner, owned) in &self.judged.situation.counts.controllers {
            let Some(scale) = self.judged.scales.get(owner) else {
                continue;
            };
            let who = match scale {
                Scale::Of { uid, who, .. } => (who.clone(), Some(uid)),
                Scale::Pods(kind) => (kind.to_string(), None),
                Scale::Gone | Scale::Unknown(_) => {
                    (format!("{} {}", owner.kind, owner.name), Some(&owner.uid))
                }
            };
            let workload = by_who.entry(who).or_insert_with_key(|(who, _)| Workload {
                who: who.clone(),
                scale: scale.clone(),
                pods: 0,
                terminating: 0,
            });
            workload.pods += owned.pods;
            workload.terminating += owned.terminating;
        }
        by_who.into_values().collect()
    }

    /// Pods that no controller expects; empty if the expected pods are counted.
    fn unmanaged(&self) -> Vec<Arc<str>> {
        let scaled = self.demand.is_some_and(Demand::needs_scales);
        let unmanaged = self.pods().filter(|pod| scaled && pod.controller.is_none());
        unmanaged.map(|pod| Arc::clone(&pod.key.name)).collect()
    }

    /// The pods that the budget selects, by name.
    fn pods(&self) -> impl Iterator<Item = &PodView> {
        self.judged.pods.iter().map(|pod| &*pod.pod)
    }

    /// The pods that do not count, and why.
    fn unhealthy(&self) -> Vec<(&Arc<str>, String)> {
        let pods = self.pods();
        let unhealthy = pods.filter_map(|pod| Some((&pod.key.name, self.why_unhealthy(pod)?)));
        unhealthy.collect()
    }

    fn why_unhealthy(&self, pod: &PodView) -> Option<String> {
        if pod.deleting {
            return Some("being deleted".to_owned());
        }
        if !pod.ready {
            let why = if pod.is_over() {
                "it has ended"
            } else {
                "not ready"
            };
            return Some(why.to_owned());
        }
        let mut entries = self.judged.situation.entries.iter();
        let entry = entries.find(|entry| entry.name == pod.key.name)?;
        let counts_again = saturating_add(entry.since, DELETION_TIMEOUT);
        let goes = matches!(entry.fate, Fate::Here { .. }) && self.now < counts_again;
        goes.then(|| {
            format!(
                "its eviction was approved at {}; should it stay, it counts again at {counts_again}",
                entry.since
            )
        })
    }

    /// Pods that other budgets select too, by those budgets.
    fn shared(&self) -> BTreeMap<Vec<Arc<str>>, Vec<Arc<str>>> {
        let mut shared = BTreeMap::<_, Vec<_>>::new();
        for pod in self.pods() {
            let others = self
                .others
                .iter()
                .filter(|other| other.selector.matches(&pod.labels));
            let mut others: Vec<_> = others.map(|other| Arc::clone(&other.key.name)).collect();
            others.sort_unstable();
            if !others.is_empty() {
                shared.entry(others).or_default().push(Arc::clone(&pod.key.name));
            }
        }
        shared
    }
}
