//! What the rules demand of the existing objects, computed from scratch, without the controller's own code.

use std::collections::{BTreeMap, BTreeSet};

use controller_testing::objects::{condition, is_deleting, name, owner_of, uid};
use embedded_apiserver::{CUSTOM_RESOURCE_DEFINITIONS, PODS, Server};
use serde::Deserialize;
use serde_json::Value;

use crate::budget::{Numbers, numbers};
use crate::by_hand::{by_hand, counts_scales, matches};
use crate::world::WORKLOADS;

/// The existing objects, as one observer sees them.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    pub(super) pods: BTreeMap<String, Value>,
    /// By kind and name.
    pub(super) workloads: BTreeMap<(String, String), Value>,
    /// Widgets are not defined: nobody can say whether one exists.
    pub(super) has_no_widgets: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Owner {
    pub(super) kind: String,
    pub(super) name: String,
    uid: String,
}

/// What one controller adds to the expected pods: the uid of the scaled object, and its number; or nothing. The same
/// shape as the answer to a read of a `/scale`.
pub(super) type Share = Option<(String, i64)>;

impl Owner {
    fn of(object: &Value) -> Option<Self> {
        serde_json::from_value(owner_of(object)?.clone()).ok()
    }
}

fn is_healthy(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True" && !is_deleting(pod)
}

/// The workload's uid, and the number of pods that it wants itself.
fn own(workload: &Value) -> (String, i64) {
    (uid(workload), workload["spec"]["replicas"].as_i64().unwrap_or(1))
}

impl Sight {
    /// Everything on the server.
    pub(super) fn of(server: &Server) -> Self {
        let pods = server.list(&PODS).into_iter();
        let workloads = WORKLOADS.into_iter().flat_map(|resource| {
            let objects = server.list(resource).into_iter();
            objects.map(|object| ((resource.kind.to_owned(), name(&object)), object))
        });
        Self {
            pods: pods.map(|pod| (name(&pod), pod)).collect(),
            workloads: workloads.collect(),
            has_no_widgets: server.list(&CUSTOM_RESOURCE_DEFINITIONS).is_empty(),
        }
    }

    /// The pods of a budget, by name.
    fn pods_of(&self, pdb: &Value) -> impl Iterator<Item = (&String, &Value)> {
        let selector = &pdb["spec"]["selector"];
        self.pods
            .iter()
            .filter(|(_, pod)| matches(selector, &pod["metadata"]["labels"]))
    }

    /// The pod of this name, if it belongs to the budget.
    pub(super) fn pod_of(&self, pdb: &Value, name: &str) -> Option<&Value> {
        let pod = self.pods.get(name)?;
        matches(&pdb["spec"]["selector"], &pod["metadata"]["labels"]).then_some(pod)
    }

    /// The numbers that a budget may get, without `going` of its healthy pods; `None` if it cannot be computed. `ask`
    /// returns what a read of a `/scale` may have said: several answers if nobody knows which one was used.
    pub(super) fn numbers(
        &self,
        pdb: &Value,
        going: i64,
        ask: impl Fn(&Owner) -> Vec<Share>,
    ) -> Vec<Option<Numbers>> {
        let pods: Vec<&Value> = self.pods_of(pdb).map(|(_, pod)| pod).collect();
        let healthy = i64::try_from(pods.iter().filter(|pod| is_healthy(pod)).count()).unwrap();
        let spec = &pdb["spec"];
        let expected = match &spec["minAvailable"] {
            _ if counts_scales(spec) => self.wanted(&pods, ask),
            Value::Null => BTreeSet::from([Some(0)]),
            _ => BTreeSet::from([i64::try_from(pods.len()).ok()]),
        };
        let numbers = |expected: i64| {
            let [allowed, current, desired, expected] = by_hand(spec, healthy - going, expected);
            numbers(allowed, current, desired, expected)
        };
        expected
            .into_iter()
            .map(|expected| expected.map(numbers))
            .collect()
    }

    /// The sums that the controllers of these pods may want together; `None` if one of them cannot be found.
    fn wanted(&self, pods: &[&Value], ask: impl Fn(&Owner) -> Vec<Share>) -> BTreeSet<Option<i64>> {
        let owners: BTreeSet<Owner> = pods.iter().filter_map(|pod| Owner::of(pod)).collect();
        let mut sums = BTreeSet::from([Some(BTreeMap::new())]);
        for owner in owners {
            let mut its = pods.iter().filter(|pod| Owner::of(pod).as_ref() == Some(&owner));
            let all_go = its.all(|pod| is_deleting(pod));
            let shares = self.shares(&owner, &ask);
            let with = |sum: &Option<BTreeMap<String, i64>>, share: &Result<Share, ()>| {
                let share = share.clone().ok().filter(|share| share.is_some() || all_go)?;
                let mut sum = sum.clone()?;
                sum.extend(share);
                Some(sum)
            };
            let mut next = BTreeSet::new();
            for sum in &sums {
                next.extend(shares.iter().map(|share| with(sum, share)));
            }
            sums = next;
        }
        let total = |sum: BTreeMap<String, i64>| sum.into_values().sum();
        sums.into_iter().map(|sum| sum.map(total)).collect()
    }

    /// The numbers of a budget once nothing changes any more: several if it depends on when a kind was looked for.
    pub(super) fn truths(&self, pdb: &Value) -> Vec<Option<Numbers>> {
        self.numbers(pdb, 0, |_| vec![None])
    }

    /// What a controller may add; an error for one that nobody could query.
    fn shares(&self, owner: &Owner, ask: &impl Fn(&Owner) -> Vec<Share>) -> Vec<Result<Share, ()>> {
        let asked = |owner: &Owner| {
            let answers = ask(owner).into_iter();
            let shares = answers.map(|answer| Ok(answer.filter(|(uid, _)| *uid == owner.uid)));
            let shares: Vec<Result<Share, ()>> = shares.collect();
            if shares.is_empty() { vec![Err(())] } else { shares }
        };
        // A kind that goes brings no event: its object may have been found gone before.
        if self.is_unknown(owner) {
            return vec![Err(()), Ok(None)];
        }
        let Some(workload) = self.held(owner) else {
            return asked(owner);
        };
        let above = Owner::of(workload);
        let Some(above) = above.filter(|above| owner.kind == "ReplicaSet" && above.kind == "Deployment")
        else {
            return vec![Ok(Some(own(workload)))];
        };
        if let Some(deployment) = self.held(&above) {
            return vec![Ok(Some(own(deployment)))];
        }
        let shares = asked(&above).into_iter();
        shares
            .map(|share| share.map(|share| share.or_else(|| Some(own(workload)))))
            .collect()
    }

    /// The pods, by name, whose controller does not exist, except those whose siblings all terminate, too.
    pub(super) fn orphans(&self, pdb: &Value) -> Vec<&String> {
        let is_lost = |owner: &Owner| self.held(owner).is_none() && !self.is_unknown(owner);
        let lost = |pod: &Value| Owner::of(pod).filter(is_lost);
        let stays = self.pods_of(pdb).filter(|(_, pod)| !is_deleting(pod));
        let missed: BTreeSet<Owner> = stays.filter_map(|(_, pod)| lost(pod)).collect();
        let is_missed = |pod: &Value| lost(pod).is_some_and(|owner| missed.contains(&owner));
        self.pods_of(pdb)
            .filter(|(_, pod)| is_missed(pod))
            .map(|(name, _)| name)
            .collect()
    }

    /// Returns whether a pod of the budget is of a kind that is not defined.
    pub(super) fn has_unknown(&self, pdb: &Value) -> bool {
        let mut owners = self.pods_of(pdb).filter_map(|(_, pod)| Owner::of(pod));
        owners.any(|owner| self.is_unknown(&owner))
    }

    fn is_unknown(&self, owner: &Owner) -> bool {
        self.has_no_widgets && owner.kind == "Widget"
    }

    fn held(&self, owner: &Owner) -> Option<&Value> {
        let workload = self.workloads.get(&(owner.kind.clone(), owner.name.clone()));
        workload.filter(|workload| uid(workload) == owner.uid)
    }

    /// The number of a budget's pods that would count as healthy and, by `is_on_its_way`, are about to go.
    pub(super) fn going(&self, pdb: &Value, is_on_its_way: impl Fn(&str, &str, &Value) -> bool) -> i64 {
        let going = approved(pdb).filter(|(name, since)| {
            let pod = self.pod_of(pdb, name);
            pod.is_some_and(|pod| is_healthy(pod) && is_on_its_way(name, since, pod))
        });
        i64::try_from(going.count()).unwrap()
    }
}

/// The entries of `disruptedPods`: pod and time.
pub(super) fn approved(pdb: &Value) -> impl Iterator<Item = (&str, &str)> {
    let entries = pdb["status"]["disruptedPods"].as_object();
    let entries = entries.into_iter().flatten();
    entries.map(|(name, since)| (name.as_str(), since.as_str().unwrap_or_default()))
}
