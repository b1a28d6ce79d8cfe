//! `disruption-controller explain NAMESPACE/PDB`: every number with where it comes from, the pods that are not
//! healthy and why, and the scale of each controller.

mod read;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_core::clock::{Clock, saturating_add};
use controller_core::meta::{OwnerRef, Uid};
use jiff::Timestamp;

pub use self::read::find;
use crate::budgets::{Budgets, Snapshot};
use crate::decide::{
    DELETION_TIMEOUT, Decision, Demand, Fate, Owned, Scale, Scales, Situation, decide, demand,
};
use crate::view::{PdbView, PodView};

/// What is there to explain: a budget, the pods of its namespace and the scales of their controllers.
#[derive(Clone, Debug)]
pub struct Found {
    /// The budget.
    pub pdb: Arc<PdbView>,
    /// The other budgets of its namespace.
    pub others: Vec<Arc<PdbView>>,
    /// Every pod of its namespace.
    pub pods: Vec<Arc<PodView>>,
    /// The scales of the controllers of its pods, where they count.
    pub scales: Scales,
}

/// The answer, ready to print.
#[derive(Clone, Debug)]
pub struct Explanation {
    pdb: Arc<PdbView>,
    selected: i64,
    /// Nothing where the spec cannot be read.
    demand: Option<Demand>,
    /// Whose scales are the expected pods; none where those are counted.
    workloads: Vec<Workload>,
    /// Pods that nobody expects; none where the expected ones are counted.
    unmanaged: Vec<Arc<str>>,
    unhealthy: Vec<(Arc<str>, String)>,
    /// Pods that other budgets select, too, by those.
    shared: BTreeMap<Vec<Arc<str>>, Vec<Arc<str>>>,
    decision: Decision,
}

/// What wants pods, and how many of them are there.
#[derive(Clone, Debug)]
struct Workload {
    who: String,
    scale: Scale,
    pods: i64,
    terminating: i64,
}

/// Explains what was found, at `now`. What a controller that runs would remember is not known here.
pub fn explain(found: &Found, now: Timestamp) -> Option<Explanation> {
    let Found {
        pdb,
        others,
        pods,
        scales,
    } = found;
    let clock = Clock::system();
    let budgets = Budgets::default();
    for pod in pods {
        budgets.pod_changed(&pod.key, Some(pod), clock.instant());
    }
    budgets.pdb_changed(&pdb.key, Some(pdb), false);
    let snapshot = budgets.snapshot(&pdb.key)?;
    let situation = Situation {
        pdb,
        counts: &snapshot.counts,
        entries: &snapshot.entries,
        scales,
    };
    let smallest_pod = |owners: &[&OwnerRef]| budgets.smallest_pod(&pdb.key, owners);
    let decision = decide(&situation, smallest_pod, now);
    let demand = demand(pdb).ok();
    let scaled = demand.is_some_and(Demand::needs_scales);
    let mut selected: Vec<_> = pods
        .iter()
        .filter(|pod| pdb.selector.matches(&pod.labels))
        .collect();
    selected.sort_by_key(|pod| &pod.key.name);
    let unmanaged = selected.iter().filter(|pod| scaled && pod.controller.is_none());
    let unmanaged = unmanaged.map(|pod| Arc::clone(&pod.key.name));
    let unhealthy = selected.iter().filter_map(|pod| {
        let why = why_unhealthy(pod, &snapshot, now)?;
        Some((Arc::clone(&pod.key.name), why))
    });
    let mut shared = BTreeMap::<_, Vec<_>>::new();
    for pod in &selected {
        let others = others.iter().filter(|other| other.selector.matches(&pod.labels));
        let mut others: Vec<_> = others.map(|other| Arc::clone(&other.key.name)).collect();
        others.sort_unstable();
        if !others.is_empty() {
            shared.entry(others).or_default().push(Arc::clone(&pod.key.name));
        }
    }
    Some(Explanation {
        pdb: Arc::clone(pdb),
        selected: snapshot.counts.matched,
        demand,
        workloads: workloads(&snapshot.counts.controllers, scales),
        unmanaged: unmanaged.collect(),
        unhealthy: unhealthy.collect(),
        shared,
        decision,
    })
}

/// The controllers that are scaled as one (the `ReplicaSets` of a Deployment) are one.
fn workloads(controllers: &[Owned], scales: &Scales) -> Vec<Workload> {
    let mut at = BTreeMap::<&Uid, usize>::new();
    let mut workloads: Vec<Workload> = Vec::new();
    for owned in controllers {
        let owner = &owned.controller;
        let Some(scale) = scales.of(owner) else { continue };
        let (uid, who) = match scale {
            Scale::Of { uid, who, .. } => (uid, who.clone()),
            Scale::Gone | Scale::Unknown(_) => (&owner.uid, format!("{} {}", owner.kind, owner.name)),
        };
        let place = *at.entry(uid).or_insert(workloads.len());
        if let Some(workload) = workloads.get_mut(place) {
            workload.pods += owned.pods;
            workload.terminating += owned.terminating;
        } else {
            workloads.push(Workload {
                who,
                scale: scale.clone(),
                pods: owned.pods,
                terminating: owned.terminating,
            });
        }
    }
    workloads.sort_by(|a, b| a.who.cmp(&b.who));
    workloads
}

fn why_unhealthy(pod: &PodView, snapshot: &Snapshot, now: Timestamp) -> Option<String> {
    if pod.deleting {
        return Some("being deleted".to_owned());
    }
    if !pod.ready {
        let why = if pod.over { "it has ended" } else { "not ready" };
        return Some(why.to_owned());
    }
    let mut entries = snapshot.entries.iter();
    let entry = entries.find(|entry| entry.name == pod.key.name)?;
    let counts_again = saturating_add(entry.since, DELETION_TIMEOUT);
    let goes = matches!(entry.fate, Fate::Here { .. }) && now < counts_again;
    goes.then(|| {
        format!(
            "its eviction was approved at {}; should it stay, it counts again at {counts_again}",
            entry.since
        )
    })
}
