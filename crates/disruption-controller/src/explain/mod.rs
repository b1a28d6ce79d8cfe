//! `disruption-controller explain NAMESPACE/PDB`: every number with where it comes from, the pods that are not
//! healthy and why, and the scale of each controller.

mod text;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::CallFailed;
use controller_core::clock::saturating_add;
use controller_core::controller::{Explained, Pass};
use controller_core::informer::Page;
use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use controller_core::runtime::Failure;
use jiff::Timestamp;

use crate::DisruptionController;
use crate::decide::{
    Builtin, DELETION_TIMEOUT, Decision, Demand, Fate, Owned, Scale, Scales, Situation, decide, demand,
};
use crate::memory::{Memory, Snapshot};
use crate::requests::{Answer, Question};
use crate::scales::Sources;
use crate::view::{PdbView, PodView, WorkloadView};

/// The kinds of workloads that are listed.
const WORKLOADS: [Builtin; 4] = [
    Builtin::ReplicationController,
    Builtin::ReplicaSet,
    Builtin::Deployment,
    Builtin::StatefulSet,
];

/// What there is to explain.
struct Found {
    memory: Memory,
    /// The budget.
    snapshot: Snapshot,
    /// The other budgets of its namespace.
    others: Vec<Arc<PdbView>>,
    /// Its pods, by name.
    pods: Vec<Arc<PodView>>,
    /// The scales of the controllers of its pods, where they count.
    scales: Scales,
}

/// Why it is not all there.
enum Missing {
    /// This is to be asked first.
    Answers(Vec<Question>),
    /// It cannot be read, or does not exist.
    Failed(Failure),
}

/// The answer, ready to print.
#[derive(Clone, Debug)]
struct Explanation {
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

/// Explains the budget `key` at `now`, once all that counts for it is read.
pub fn explain(
    pass: &Pass<DisruptionController>,
    key: &ObjectKey,
    now: Timestamp,
) -> Result<Explained<Question>, Failure> {
    match find(pass, key) {
        Ok(found) => Ok(Explained::Text(explanation(found, now).to_string())),
        Err(Missing::Answers(questions)) => Ok(Explained::Ask(questions)),
        Err(Missing::Failed(failure)) => Err(failure),
    }
}

fn find(pass: &Pass<DisruptionController>, key: &ObjectKey) -> Result<Found, Missing> {
    let none = || Missing::Failed(format!("no PodDisruptionBudget {key}").into());
    let namespace = key.namespace.clone().unwrap_or_default();
    let pdbs = match read(pass, Question::Pdbs(Arc::clone(&namespace)))? {
        Answer::Pdbs(pdbs) => views(pdbs),
        _ => vec![],
    };
    let (asked, others): (Vec<_>, _) = pdbs.into_iter().partition(|pdb| pdb.key == *key);
    let pdb = asked.into_iter().next().ok_or_else(none)?;
    let mut pods = match read(pass, Question::Pods(Arc::clone(&namespace)))? {
        Answer::Pods(pods) => views(pods),
        _ => vec![],
    };
    let mut memory = Memory::default();
    for pod in &pods {
        memory.pod_changed(&pod.key, Some(pod), Duration::ZERO);
    }
    memory.pdb_changed(key, Some(&pdb), false);
    let snapshot = memory.snapshot(key).ok_or_else(none)?;
    pods.retain(|pod| pdb.selector.matches(&pod.labels));
    pods.sort_by(|a, b| a.key.name.cmp(&b.key.name));
    Ok(Found {
        scales: scales(pass, &namespace, &snapshot)?,
        memory,
        snapshot,
        others,
        pods,
    })
}

fn scales(
    pass: &Pass<DisruptionController>,
    namespace: &Arc<str>,
    snapshot: &Snapshot,
) -> Result<Scales, Missing> {
    let mut workloads: Vec<(Builtin, Arc<WorkloadView>)> = Vec::new();
    if demand(&snapshot.pdb).is_ok_and(Demand::needs_scales) {
        for kind in WORKLOADS {
            if let Answer::Workloads(listed) = read(pass, Question::Workloads(kind, Arc::clone(namespace)))? {
                workloads.extend(views(listed).into_iter().map(|workload| (kind, workload)));
            }
        }
    }
    let held = |kind: Builtin, key: &ObjectKey| {
        let mut held = workloads.iter();
        let found = held.find(|(held, workload)| *held == kind && workload.key == *key);
        found.map(|(_, workload)| Arc::clone(workload))
    };
    let sources = Sources {
        held: &held,
        kinds: &BTreeMap::new(),
        answer: &|question| pass.answer(question),
    };
    let found = sources.scales(snapshot).map_err(Missing::Answers)?;
    Ok(found.scales)
}

fn read(pass: &Pass<DisruptionController>, question: Question) -> Result<&Answer, Missing> {
    let failed = |failed: &CallFailed| Missing::Failed(failed.clone().into());
    match pass.answer(&question) {
        Some(reply) => reply.value.as_ref().map_err(failed),
        None => Err(Missing::Answers(vec![question])),
    }
}

fn views<V: Clone>(page: &Page<V>) -> Vec<Arc<V>> {
    let items = page.items.iter();
    items.map(|item| Arc::new(item.view.clone())).collect()
}

/// Explains what was found. What a controller that runs would remember is not known here.
fn explanation(found: Found, now: Timestamp) -> Explanation {
    let Found {
        memory,
        snapshot,
        others,
        pods,
        scales,
    } = found;
    let pdb = &snapshot.pdb;
    let situation = Situation {
        pdb,
        counts: &snapshot.counts,
        entries: &snapshot.entries,
        scales: &scales,
    };
    let smallest_pod = |owners: &[&OwnerRef]| memory.smallest_pod(&pdb.key, owners);
    let decision = decide(&situation, smallest_pod, now);
    let demand = demand(pdb).ok();
    let scaled = demand.is_some_and(Demand::needs_scales);
    let unmanaged = pods.iter().filter(|pod| scaled && pod.controller.is_none());
    let unmanaged = unmanaged.map(|pod| Arc::clone(&pod.key.name));
    let unhealthy = pods.iter().filter_map(|pod| {
        let why = why_unhealthy(pod, &snapshot, now)?;
        Some((Arc::clone(&pod.key.name), why))
    });
    let mut shared = BTreeMap::<_, Vec<_>>::new();
    for pod in &pods {
        let others = others.iter().filter(|other| other.selector.matches(&pod.labels));
        let mut others: Vec<_> = others.map(|other| Arc::clone(&other.key.name)).collect();
        others.sort_unstable();
        if !others.is_empty() {
            shared.entry(others).or_default().push(Arc::clone(&pod.key.name));
        }
    }
    Explanation {
        pdb: Arc::clone(pdb),
        selected: snapshot.counts.matched,
        demand,
        workloads: workloads(&snapshot.counts.controllers, &scales),
        unmanaged: unmanaged.collect(),
        unhealthy: unhealthy.collect(),
        shared,
        decision,
    }
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
