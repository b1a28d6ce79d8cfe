//! Judges what the loop makes of what its watches deliver.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use controller_core::controller::{Controller, Loop, Now, Priority};
use controller_core::meta::{ObjectKey, OwnerRef, Uid};
use controller_core::time::saturating_add;
use disruption_controller::decide::{Builtin, Cause, DELETION_TIMEOUT, Reading, scale_of};
use disruption_controller::state::Key;
use disruption_controller::view::{Amount, PdbView, PodView};
use disruption_controller::{DisruptionController, Stores};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::world::{DEPLOYMENT, SELECTORS, is_watched, numbered, wanted};
use crate::support::by_hand::{ByHand, by_hand, counts_scales};
use crate::support::decide_in;

/// The uid that a pod had when its entry in a budget with this uid and selector was first shown, or the first after
/// that.
type Seen = BTreeMap<(Uid, usize, Arc<str>, Timestamp), Option<Uid>>;

/// Judges what a loop knows, step by step.
pub(super) struct Judge<'a> {
    controller: &'a DisruptionController,
    seen: Seen,
}

/// The pods of a budget.
struct Counted<'a> {
    pods: Vec<&'a PodView>,
    current: i64,
}

impl<'a> Judge<'a> {
    pub(super) const fn new(controller: &'a DisruptionController) -> Self {
        let seen = Seen::new();
        Self { controller, seen }
    }

    /// Fails unless the pods are counted right, no more and no less is allowed than the delivered objects allow, now
    /// and when an entry's time is over, and what believes in too much goes first.
    pub(super) fn judge(&mut self, event_loop: &Loop<DisruptionController>, now: Now) {
        let (state, stores) = (event_loop.state(), event_loop.stores());
        assert_eq!(state.miscounted(), None, "the pods of a budget are miscounted");
        self.show(stores);
        let held = |kind: Builtin, name: &str| {
            let key = ObjectKey::namespaced("ns", name);
            stores.workloads.get(&kind)?.get(&key)
        };
        // What no watch shows is not there.
        let read = |_: &OwnerRef| Ok::<_, Infallible>(Reading::NotFound);
        let scale = |owner: &Arc<OwnerRef>| scale_of(owner, held, read).unwrap();
        for pdb in stores.pdbs.iter() {
            let entries = pdb.status.disrupted_pods.values();
            let ends = entries.map(|since| saturating_add(*since, DELETION_TIMEOUT));
            let ends = ends.flat_map(|end| [end.checked_sub(SignedDuration::from_secs(1)).unwrap(), end]);
            for time in ends.chain([now.wall]) {
                let decision = decide_in(state, &pdb.key, scale, time).unwrap();
                let found = decision.result.map_err(|failure| failure.cause.to_string());
                let found = found.map(|found| [found.allowed, found.current, found.desired, found.expected]);
                let expected = self.numbers(stores, pdb, time).map_err(|cause| cause.to_string());
                assert_eq!(
                    found.map(|found| found.map(i64::from)),
                    expected,
                    "{} at {time}",
                    pdb.key
                );
            }
            let numbers = self.numbers(stores, pdb, now.wall).ok();
            let found = self
                .controller
                .priority(state, stores, &Key::Budget(pdb.key.clone()));
            judge_priority(stores, pdb, numbers, found);
        }
    }

    /// What is delivered says.
    fn numbers(&self, stores: &Stores, pdb: &PdbView, time: Timestamp) -> Result<ByHand, Cause> {
        let pods = stores.pods.iter().map(|pod| &**pod);
        let counted = Counted::of(pdb, pods, |pod| self.is_going(pdb, pod, time));
        counted.numbers(pdb, |number| replicas(stores, number))
    }

    /// Remembers whom new entries are about.
    fn show(&mut self, stores: &Stores) {
        let mut now = Seen::new();
        for pdb in stores.pdbs.iter() {
            for (name, since) in &pdb.status.disrupted_pods {
                let entry = (pdb.uid.clone(), selector(pdb), Arc::clone(name), *since);
                let pod = stores.pods.get(&ObjectKey::namespaced("ns", &**name));
                let seen = match self.seen.remove(&entry) {
                    None => pod,
                    Some(None) => pod.filter(|pod| selects(pdb, pod)),
                    Some(Some(seen)) => {
                        now.insert(entry, Some(seen));
                        continue;
                    }
                };
                now.insert(entry, seen.map(|pod| pod.uid.clone()));
            }
        }
        self.seen = now;
    }

    /// True if the pod was approved to go and may still go at `time`.
    fn is_going(&self, pdb: &PdbView, pod: &PodView, time: Timestamp) -> bool {
        let since = pdb.status.disrupted_pods.get(&pod.key.name);
        since.is_some_and(|since| {
            let entry = (pdb.uid.clone(), selector(pdb), Arc::clone(&pod.key.name), *since);
            let is_meant = self.seen[&entry].as_ref().is_none_or(|seen| *seen == pod.uid);
            time < saturating_add(*since, DELETION_TIMEOUT) && (is_meant || pod.created <= since.as_second())
        })
    }
}

/// Fails unless the budget goes last where the API server refuses the eviction of each of its pods anyway, and there
/// alone, and first where it believes that more is allowed than is.
fn judge_priority(stores: &Stores, pdb: &PdbView, numbers: Option<ByHand>, found: Priority) {
    let has_others = |pod: &&PodView| stores.pdbs.iter().filter(|pdb| selects(pdb, pod)).count() > 1;
    let Counted { pods, .. } = Counted::of(pdb, stores.pods.iter().map(|pod| &**pod), |_| false);
    let cannot_matter = !pods.is_empty() && pods.iter().all(has_others);
    assert_eq!(found == Priority::Low, cannot_matter, "{} is {found:?}", pdb.key);
    let mut owners = pods.iter().filter_map(|pod| pod.controller.as_ref());
    let is_watched = |owner: &Arc<OwnerRef>| is_watched(owner, |number| replicas(stores, number));
    let is_known = !counts_scales(&spec(pdb)) || owners.all(is_watched);
    let is_too_much = numbers.map_or(0, |[allowed, ..]| allowed) < pdb.status.disruptions_allowed;
    let (key, status) = (&pdb.key, &pdb.status);
    assert!(
        cannot_matter || found == Priority::High || !is_known || !is_too_much,
        "{key} is {found:?} and believes in {status:?}, not in {numbers:?}"
    );
}

/// Fails unless the status of a budget says what these pods are, once nothing fails any more.
pub(super) fn judge_settled<'a>(
    pdb: &PdbView,
    pods: impl Iterator<Item = &'a PodView>,
    find: impl Fn(usize) -> Option<i64> + Copy,
) -> Result<(), String> {
    let status = &pdb.status;
    let found = [
        status.disruptions_allowed,
        status.current_healthy,
        status.desired_healthy,
        status.expected_pods,
    ];
    let counted = Counted::of(pdb, pods, |_| false);
    let (key, current) = (&pdb.key, counted.current);
    match counted.numbers(pdb, find) {
        Ok(expected) if found != expected => Err(format!("{key} says {found:?}, and not {expected:?}")),
        Ok(_) if !status.disrupted_pods.is_empty() => {
            Err(format!("{key} still has {:?}", status.disrupted_pods))
        }
        Err(_) if (status.disruptions_allowed, status.current_healthy) != (0, current) => Err(format!(
            "{key} cannot be computed and says {found:?}, not 0 and {current}"
        )),
        Ok(_) | Err(_) if status.observed_generation != pdb.generation => {
            Err(format!("the generation of {key} was not observed"))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

fn selector(pdb: &PdbView) -> usize {
    let mut selectors = SELECTORS.iter();
    selectors
        .position(|selects| selects.compiled == pdb.selector)
        .unwrap()
}

/// As it was written.
fn spec(pdb: &PdbView) -> Value {
    let amount = |amount: &Option<Amount>| match amount {
        Some(Amount::Int(pods)) => json!(pods),
        Some(Amount::Text(percent)) => json!(**percent),
        _ => Value::Null,
    };
    let (least, most) = (amount(&pdb.min_available), amount(&pdb.max_unavailable));
    json!({ "minAvailable": least, "maxUnavailable": most })
}

fn selects(pdb: &PdbView, pod: &PodView) -> bool {
    SELECTORS[selector(pdb)].apps.contains(&pod.labels.get("app"))
}

/// How many pods the workload wants itself, if the process was shown that.
fn replicas(stores: &Stores, number: usize) -> Option<i64> {
    let kind = if number == DEPLOYMENT {
        Builtin::Deployment
    } else {
        Builtin::ReplicaSet
    };
    let mut held = stores.workloads.get(&kind)?.iter();
    let held = held.find(|held| numbered(&held.key.name) == number);
    held.map(|held| held.replicas)
}

impl<'a> Counted<'a> {
    /// Those of `pods` that the budget selects, in order.
    fn of(
        pdb: &PdbView,
        pods: impl Iterator<Item = &'a PodView>,
        is_going: impl Fn(&PodView) -> bool,
    ) -> Self {
        let mut pods: Vec<_> = pods.filter(|pod| selects(pdb, pod)).collect();
        pods.sort_unstable_by_key(|pod| &pod.key);
        let healthy = pods
            .iter()
            .filter(|pod| pod.ready && !pod.deleting && !is_going(pod));
        let current = i64::try_from(healthy.count()).unwrap();
        Self { pods, current }
    }

    /// The numbers of the budget; an error if a controller is gone. `find` says how many pods a workload wants itself.
    fn numbers(&self, pdb: &PdbView, find: impl Fn(usize) -> Option<i64> + Copy) -> Result<ByHand, Cause> {
        let spec = spec(pdb);
        let count = |count: usize| i64::try_from(count).unwrap();
        if !counts_scales(&spec) {
            return Ok(by_hand(&spec, self.current, count(self.pods.len())));
        }
        let owned = self
            .pods
            .iter()
            .filter_map(|pod| Some((pod, pod.controller.as_ref()?)));
        let gone = owned.clone().filter(|(_, owner)| wanted(owner, find).is_none());
        let missed: BTreeSet<_> = { gone.clone() }
            .filter(|(pod, _)| !pod.deleting)
            .map(|(_, owner)| owner)
            .collect();
        let mut orphans = gone.filter(|(_, owner)| missed.contains(owner));
        if let Some((first, _)) = orphans.next() {
            let (first, others) = (Arc::clone(&first.key.name), count(orphans.count()));
            return Err(Cause::NoController(first, others));
        }
        // Controllers below the same one count once.
        let wanted: BTreeMap<_, _> = owned.filter_map(|(_, owner)| wanted(owner, find)).collect();
        let expected = wanted.into_values().map(|replicas| replicas.max(0)).sum();
        Ok(by_hand(&spec, self.current, expected))
    }
}
