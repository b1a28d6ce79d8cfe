//! `disruption-controller explain NAMESPACE/PDB`: every number and its source, the pods that are not healthy and why,
//! and the scale of each controller.

mod text;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::CallFailed;
use controller_core::app::{Failure, Prepared};
use controller_core::cache::Page;
use controller_core::controller::Pass;
use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use controller_core::time::saturating_add;
use jiff::Timestamp;

use crate::DisruptionController;
use crate::decide::{
    Builtin, DELETION_TIMEOUT, Decision, Demand, Fate, Scale, Scales, Situation, decide, demand,
};
use crate::requests::{Answer, Query};
use crate::scales::Sources;
use crate::state::State;
use crate::view::{PdbView, PodView};

/// The kinds of workloads that are listed.
const WORKLOADS: [Builtin; 4] = [
    Builtin::ReplicationController,
    Builtin::ReplicaSet,
    Builtin::Deployment,
    Builtin::StatefulSet,
];

/// The explanation, ready to print. What a running controller would remember is unknown here.
struct Explanation {
    situation: Situation,
    /// The other budgets of its namespace.
    others: Vec<Arc<PdbView>>,
    /// Its pods, by name.
    pods: Vec<Arc<PodView>>,
    /// The scales of the controllers of its pods; empty if the expected pods are counted.
    scales: Scales,
    /// `None` if the spec is invalid.
    demand: Option<Demand>,
    decision: Decision,
    now: Timestamp,
}

/// Why there is no explanation yet.
enum Missing {
    /// These queries must be sent first.
    Answers(Vec<Query>),
    /// The budget cannot be read, or does not exist.
    Failed(Failure),
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
    now: Timestamp,
) -> Result<Prepared<Query>, Failure> {
    match explanation(pass, key, now) {
        Ok(explanation) => Ok(Prepared::Ready(explanation.to_string())),
        Err(Missing::Answers(queries)) => Ok(Prepared::Queries(queries)),
        Err(Missing::Failed(failure)) => Err(failure),
    }
}

fn explanation(
    pass: &Pass<DisruptionController>,
    key: &ObjectKey,
    now: Timestamp,
) -> Result<Explanation, Missing> {
    let none = || Missing::Failed(format!("no PodDisruptionBudget {key}").into());
    let namespace = key.namespace.clone().unwrap_or_default();
    let pdbs = match read(pass, Query::Pdbs(Arc::clone(&namespace)))? {
        Answer::Pdbs(pdbs) => views(pdbs),
        _ => vec![],
    };
    let (asked, others): (Vec<_>, _) = pdbs.into_iter().partition(|pdb| pdb.key == *key);
    let pdb = asked.into_iter().next().ok_or_else(none)?;
    let mut pods = match read(pass, Query::Pods(Arc::clone(&namespace)))? {
        Answer::Pods(pods) => views(pods),
        _ => vec![],
    };
    let mut state = State::default();
    for pod in &pods {
        state.pod_changed(&pod.key, Some(pod), Duration::ZERO);
    }
    state.pdb_changed(key, Some(&pdb), false);
    let situation = state.snapshot(key).ok_or_else(none)?;
    pods.retain(|pod| pdb.selector.matches(&pod.labels));
    pods.sort_by(|a, b| a.key.name.cmp(&b.key.name));
    let scales = scales(pass, &namespace, &situation)?;
    let smallest_pod = |owners: &[&OwnerRef]| state.smallest_pod(key, owners);
    Ok(Explanation {
        decision: decide(&situation, &scales, smallest_pod, now),
        demand: demand(&pdb).ok(),
        situation,
        others,
        pods,
        scales,
        now,
    })
}

fn scales(
    pass: &Pass<DisruptionController>,
    namespace: &Arc<str>,
    situation: &Situation,
) -> Result<Scales, Missing> {
    let mut workloads = BTreeMap::new();
    if demand(&situation.pdb).is_ok_and(Demand::needs_scales) {
        for kind in WORKLOADS {
            if let Answer::Workloads(listed) = read(pass, Query::Workloads(kind, Arc::clone(namespace)))? {
                let listed = views(listed).into_iter();
                workloads.extend(listed.map(|workload| ((kind, workload.key.clone()), workload)));
            }
        }
    }
    let held = |kind: Builtin, key: &ObjectKey| workloads.get(&(kind, key.clone())).cloned();
    let sources = Sources {
        held: &held,
        kinds: &BTreeMap::new(),
        answer: &|query| pass.answer(query),
    };
    sources.scales(situation).map_err(Missing::Answers)
}

fn read(pass: &Pass<DisruptionController>, query: Query) -> Result<&Answer, Missing> {
    let failed = |failed: &CallFailed| Missing::Failed(failed.clone().into());
    match pass.answer(&query) {
        Some(reply) => reply.value.as_ref().map_err(failed),
        None => Err(Missing::Answers(vec![query])),
    }
}

fn views<V: Clone>(page: &Page<V>) -> Vec<Arc<V>> {
    let items = page.items.iter();
    items.map(|item| Arc::new(item.view.clone())).collect()
}

impl Explanation {
    /// The workloads whose scales make up the expected pods. Controllers that are scaled as one (the `ReplicaSets` of a
    /// Deployment) are one.
    fn workloads(&self) -> Vec<Workload> {
        let mut by_uid = BTreeMap::<&Uid, Workload>::new();
        for (owner, owned) in &self.situation.counts.controllers {
            let Some(scale) = self.scales.get(owner) else {
                continue;
            };
            let (uid, who) = match scale {
                Scale::Of { uid, who, .. } => (uid, who.clone()),
                Scale::Gone | Scale::Unknown(_) => (&owner.uid, format!("{} {}", owner.kind, owner.name)),
            };
            let workload = by_uid.entry(uid).or_insert_with(|| Workload {
                who,
                scale: scale.clone(),
                pods: 0,
                terminating: 0,
            });
            workload.pods += owned.pods;
            workload.terminating += owned.terminating;
        }
        let mut workloads: Vec<_> = by_uid.into_values().collect();
        workloads.sort_by(|a, b| a.who.cmp(&b.who));
        workloads
    }

    /// Pods that no controller expects; empty if the expected pods are counted.
    fn unmanaged(&self) -> Vec<Arc<str>> {
        let scaled = self.demand.is_some_and(Demand::needs_scales);
        let unmanaged = self.pods.iter().filter(|pod| scaled && pod.controller.is_none());
        unmanaged.map(|pod| Arc::clone(&pod.key.name)).collect()
    }

    /// The pods that do not count, and why.
    fn unhealthy(&self) -> Vec<(&Arc<str>, String)> {
        let pods = self.pods.iter();
        let unhealthy = pods.filter_map(|pod| Some((&pod.key.name, self.why_unhealthy(pod)?)));
        unhealthy.collect()
    }

    fn why_unhealthy(&self, pod: &PodView) -> Option<String> {
        if pod.deleting {
            return Some("being deleted".to_owned());
        }
        if !pod.ready {
            let why = if pod.over { "it has ended" } else { "not ready" };
            return Some(why.to_owned());
        }
        let mut entries = self.situation.entries.iter();
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
        for pod in &self.pods {
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
