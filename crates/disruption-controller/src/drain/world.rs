//! The pods, budgets and workloads, read page by page.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use controller_core::api::CallFailed;
use controller_core::app::{Failure, Prepared};
use controller_core::cache::Page;
use controller_core::controller::Pass;
use controller_core::meta::{ObjectKey, OwnerRef};
use jiff::Timestamp;

use super::Judged;
use crate::DisruptionController;
use crate::decide::{Builtin, Outlook, OwnerRules};
use crate::requests::{Answer, Listed, Listing, Query};
use crate::scales::{Sources, known_scales};
use crate::state::State;
use crate::view::{DrainedPod, PdbView, PodView, WorkloadView};

/// The kinds of workloads that are listed.
const WORKLOADS: [Builtin; 4] = [
    Builtin::ReplicationController,
    Builtin::ReplicaSet,
    Builtin::Deployment,
    Builtin::StatefulSet,
];

/// Why there is no answer yet.
pub(crate) enum Missing {
    /// These queries must be sent first.
    Answers(Vec<Query>),
    /// Something cannot be read, or does not exist.
    Failed(Failure),
}

/// The pods and budgets of some namespaces.
pub(crate) struct World<'a> {
    /// By namespace and name.
    pub(crate) pods: BTreeMap<&'a ObjectKey, &'a DrainedPod>,
    /// By namespace and name.
    pub(crate) pdbs: BTreeMap<ObjectKey, Arc<PdbView>>,
    pub(crate) state: State,
    workloads: HashMap<(Builtin, &'a ObjectKey), &'a WorkloadView>,
    pass: &'a Pass<DisruptionController>,
    rules: &'a OwnerRules,
}

impl Missing {
    /// The result, or the queries to send first.
    pub(crate) fn prepared<T>(result: Result<T, Self>) -> Result<Prepared<Query, T>, Failure> {
        match result {
            Ok(result) => Ok(Prepared::Ready(result)),
            Err(Self::Answers(queries)) => Ok(Prepared::Queries(queries)),
            Err(Self::Failed(failure)) => Err(failure),
        }
    }
}

type AsPage<V> = fn(&Answer) -> Option<&Page<V>>;

impl<'a> World<'a> {
    /// Reads the namespaces; none stands for all.
    pub(crate) fn read(
        pass: &'a Pass<DisruptionController>,
        namespaces: &[Arc<str>],
        rules: &'a OwnerRules,
    ) -> Result<Self, Missing> {
        let mut lists = Lists {
            pass,
            namespaces,
            missing: Vec::new(),
        };
        let pdbs = lists.all::<PdbView>(&Listed::Pdbs, |answer| match answer {
            Answer::Pdbs(page) => Some(page),
            _ => None,
        })?;
        let pods = lists.all::<DrainedPod>(&Listed::Pods, |answer| match answer {
            Answer::Drained(page) => Some(page),
            _ => None,
        })?;
        // Without budgets nobody asks for scales.
        let kinds = if pdbs.is_empty() { &[][..] } else { &WORKLOADS };
        let mut workloads = HashMap::new();
        for kind in kinds {
            let listed = lists.all::<WorkloadView>(&Listed::Workloads(*kind), |answer| match answer {
                Answer::Workloads(page) => Some(page),
                _ => None,
            })?;
            workloads.extend(
                listed
                    .into_iter()
                    .map(|workload| ((*kind, &workload.key), workload)),
            );
        }
        if !lists.missing.is_empty() {
            return Err(Missing::Answers(lists.missing));
        }
        Ok(Self::of(pass, rules, pods, pdbs, workloads))
    }

    fn of(
        pass: &'a Pass<DisruptionController>,
        rules: &'a OwnerRules,
        pods: Vec<&'a DrainedPod>,
        pdbs: Vec<&'a PdbView>,
        workloads: HashMap<(Builtin, &'a ObjectKey), &'a WorkloadView>,
    ) -> Self {
        let mut state = State::default();
        let pdbs = pdbs
            .into_iter()
            .map(|pdb| (pdb.key.clone(), Arc::new(pdb.clone())));
        let pdbs: BTreeMap<_, _> = pdbs.collect();
        // Budgets first: then each pod finds its own by their index.
        for (key, pdb) in &pdbs {
            state.pdb_changed(key, Some(pdb), false);
        }
        for pod in &pods {
            state.pod_changed(&pod.pod.key, Some(&pod.pod), Duration::ZERO);
        }
        Self {
            pods: pods.into_iter().map(|pod| (&pod.pod.key, pod)).collect(),
            pdbs,
            state,
            workloads,
            pass,
            rules,
        }
    }

    /// The budgets that select this pod, in order.
    pub(crate) fn budgets_of(&self, pod: &PodView) -> Vec<ObjectKey> {
        self.state.matching(pod)
    }

    /// Judges these budgets at `now`, once the scales of their controllers are read.
    pub(crate) fn judged(
        &self,
        keys: impl IntoIterator<Item = ObjectKey>,
        now: Timestamp,
    ) -> Result<BTreeMap<ObjectKey, Judged<'a>>, Missing> {
        let mut pods: BTreeMap<_, _> = keys.into_iter().map(|key| (key, Vec::new())).collect();
        if !pods.is_empty() {
            for pod in self.pods.values() {
                for key in self.state.matching(&pod.pod) {
                    if let Some(pods) = pods.get_mut(&key) {
                        pods.push(*pod);
                    }
                }
            }
        }
        let mut missing = Vec::new();
        let mut judged = BTreeMap::new();
        for (key, pods) in pods {
            match self.judged_one(&key, pods, now) {
                Ok(budget) => judged.extend(budget.map(|budget| (key, budget))),
                Err(queries) => missing.extend(queries),
            }
        }
        if missing.is_empty() {
            return Ok(judged);
        }
        missing.sort_unstable();
        missing.dedup();
        Err(Missing::Answers(missing))
    }

    fn judged_one(
        &self,
        key: &ObjectKey,
        pods: Vec<&'a DrainedPod>,
        now: Timestamp,
    ) -> Result<Option<Judged<'a>>, Vec<Query>> {
        let Some(situation) = self.state.snapshot(key) else {
            return Ok(None);
        };
        let held = |kind: Builtin, key: &ObjectKey| {
            let workload = self.workloads.get(&(kind, key))?;
            Some(Arc::new((*workload).clone()))
        };
        let sources = Sources {
            rules: self.rules,
            held: &held,
            kinds: &BTreeMap::new(),
            answer: &|query| self.pass.answer(query),
        };
        let others =
            |controller: &OwnerRef, selected: i64| self.state.live_of(key, &controller.uid) - selected;
        let judged = |situation, scales, pods| {
            let smallest_pod = |owners: &[&OwnerRef]| self.state.smallest_pod(key, owners);
            Judged::new(situation, scales, pods, others, smallest_pod, now)
        };
        let scales = sources.scales(&situation)?;
        let (scales, all_known) = known_scales(&situation, scales, &sources);
        let first = judged(situation, scales, pods);
        if all_known || matches!(first.outlook, Outlook::Allows(_)) {
            return Ok(Some(first));
        }
        // A controller that no informer has may want more pods than it has, and one whose scale fails may soon have none.
        let scales = sources.of_controllers(&first.situation, false)?;
        Ok(Some(judged(first.situation, scales, first.pods)))
    }
}

/// Lists of objects under way.
struct Lists<'a, 'n> {
    pass: &'a Pass<DisruptionController>,
    namespaces: &'n [Arc<str>],
    /// The pages to read next.
    missing: Vec<Query>,
}

impl<'a> Lists<'a, '_> {
    /// The objects of all pages that are read; the next pages become missing.
    fn all<V>(&mut self, of: &Listed, as_page: AsPage<V>) -> Result<Vec<&'a V>, Missing> {
        let all = [None];
        let some: Vec<_> = self.namespaces.iter().cloned().map(Some).collect();
        let namespaces = if some.is_empty() { &all[..] } else { &some };
        let mut objects = Vec::new();
        for namespace in namespaces {
            let mut token = None;
            loop {
                let query = Query::Page(Listing {
                    of: of.clone(),
                    namespace: namespace.clone(),
                    token,
                });
                let Some(answer) = answered(self.pass, &query)? else {
                    self.missing.push(query);
                    break;
                };
                let Some(page) = as_page(answer) else { break };
                objects.extend(page.items.iter().map(|item| &item.view));
                match page.token.as_deref() {
                    Some(next) => token = Some(Arc::from(next)),
                    None => break,
                }
            }
        }
        Ok(objects)
    }
}

/// The answer to a query, if there is one; an error if it has failed.
pub(crate) fn answered<'a>(
    pass: &'a Pass<DisruptionController>,
    query: &Query,
) -> Result<Option<&'a Answer>, Missing> {
    let failed = |failed: &CallFailed| Missing::Failed(failed.clone().into());
    let reply = pass.answer(query);
    reply
        .map(|reply| reply.value.as_ref().map_err(failed))
        .transpose()
}
