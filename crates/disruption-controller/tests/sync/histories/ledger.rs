//! What the rules make of what there is, computed from scratch: the controller's own code has no part in it.

use std::collections::{BTreeMap, BTreeSet};

use harness::objects::{each, text};
use serde_json::Value;

use crate::budget::Numbers;

/// What there is, as somebody sees it.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    /// By name.
    pub(super) pods: BTreeMap<String, Pod>,
    /// By kind and name.
    pub(super) workloads: BTreeMap<(String, String), Workload>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) uid: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) ready: bool,
    pub(super) terminating: bool,
    /// Who controls it.
    pub(super) owner: Option<Owner>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) uid: String,
    pub(super) replicas: i64,
    pub(super) owner: Option<Owner>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// What a read of a `/scale` says: uid and replicas, or that there is no such object.
pub(super) type Answer = Option<(String, i64)>;

/// What one controller adds to the expected pods: so many, by the uid of whom they are counted for, or nothing.
type Share = Option<(String, i64)>;

impl Pod {
    pub(super) fn of(pod: &Value) -> Self {
        let metadata = &pod["metadata"];
        let mut conditions = each(&pod["status"]["conditions"]);
        Self {
            uid: text(&metadata["uid"]),
            labels: serde_json::from_value(metadata["labels"].clone()).unwrap_or_default(),
            ready: conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True"),
            terminating: metadata.get("deletionTimestamp").is_some(),
            owner: Owner::of(pod),
        }
    }

    const fn is_healthy(&self) -> bool {
        self.ready && !self.terminating
    }
}

impl Workload {
    pub(super) fn of(workload: &Value) -> Self {
        Self {
            uid: text(&workload["metadata"]["uid"]),
            replicas: workload["spec"]["replicas"].as_i64().unwrap_or(1),
            owner: Owner::of(workload),
        }
    }
}

impl Owner {
    fn of(object: &Value) -> Option<Self> {
        let mut owners = each(&object["metadata"]["ownerReferences"]);
        let owner = owners.find(|owner| owner["controller"] == true)?;
        Some(Self {
            kind: text(&owner["kind"]),
            name: text(&owner["name"]),
            uid: text(&owner["uid"]),
        })
    }
}

impl Sight {
    /// The pods of a budget, by name.
    fn pods_of(&self, pdb: &Value) -> impl Iterator<Item = (&String, &Pod)> {
        let selector = &pdb["spec"]["selector"];
        self.pods.iter().filter(|(_, pod)| matches(selector, &pod.labels))
    }

    /// The pod of this name, if the budget is about it.
    pub(super) fn pod_of(&self, pdb: &Value, name: &str) -> Option<&Pod> {
        let pod = self.pods.get(name)?;
        matches(&pdb["spec"]["selector"], &pod.labels).then_some(pod)
    }

    /// The numbers that a budget may get, `going` of its healthy pods left out; none where it cannot be computed.
    /// `ask` tells what a read of a `/scale` may have said: several answers where nobody knows which one was used.
    pub(super) fn numbers(
        &self,
        pdb: &Value,
        going: i64,
        ask: impl Fn(&Owner) -> Vec<Answer>,
    ) -> Vec<Option<Numbers>> {
        let pods: Vec<&Pod> = self.pods_of(pdb).map(|(_, pod)| pod).collect();
        let healthy = pods.iter().filter(|pod| pod.is_healthy()).count();
        let current = i64::try_from(healthy).unwrap() - going;
        let matched = i64::try_from(pods.len()).unwrap();
        let (least, most) = (&pdb["spec"]["minAvailable"], &pdb["spec"]["maxUnavailable"]);
        let expected = match (least, most) {
            (Value::Null, Value::Null) => BTreeSet::from([Some(0)]),
            (Value::Number(_), _) => BTreeSet::from([Some(matched)]),
            _ => self.wanted(&pods, ask),
        };
        let numbers = |expected: i64| {
            let desired = match (part(least, expected), part(most, expected)) {
                (Some(least), _) => least,
                (None, Some(most)) => (expected - most).max(0),
                (None, None) => 0,
            };
            let spare = (current - desired).max(0);
            Numbers {
                allowed: if expected > 0 { spare } else { 0 },
                current,
                desired,
                expected,
            }
        };
        expected
            .into_iter()
            .map(|expected| expected.map(numbers))
            .collect()
    }

    /// The sums that the controllers of these pods may want together; none where one of them is not to be found.
    fn wanted(&self, pods: &[&Pod], ask: impl Fn(&Owner) -> Vec<Answer>) -> BTreeSet<Option<i64>> {
        let owners: BTreeSet<&Owner> = pods.iter().filter_map(|pod| pod.owner.as_ref()).collect();
        let mut sums = BTreeSet::from([Some(BTreeMap::new())]);
        for owner in owners {
            let its = pods.iter().filter(|pod| pod.owner.as_ref() == Some(owner));
            let all_go = { its }.all(|pod| pod.terminating);
            let mut shares: Vec<Result<Share, ()>> = self.shares(owner, &ask);
            for share in &mut shares {
                if *share == Ok(None) && !all_go {
                    *share = Err(());
                }
            }
            let mut next = BTreeSet::new();
            for sum in &sums {
                for share in &shares {
                    next.insert(match (sum, share) {
                        (None, _) | (_, Err(())) => None,
                        (Some(sum), Ok(None)) => Some(sum.clone()),
                        (Some(sum), Ok(Some((uid, replicas)))) => {
                            let mut sum = sum.clone();
                            sum.insert(uid.clone(), *replicas);
                            Some(sum)
                        }
                    });
                }
            }
            sums = next;
        }
        let total = |sum: BTreeMap<String, i64>| sum.into_values().sum();
        sums.into_iter().map(|sum| sum.map(total)).collect()
    }

    /// What a controller may add; an error is one that nobody could ask about.
    fn shares(&self, owner: &Owner, ask: &impl Fn(&Owner) -> Vec<Answer>) -> Vec<Result<Share, ()>> {
        let asked = |owner: &Owner| {
            let answers = ask(owner).into_iter();
            let shares = answers.map(|answer| Ok(answer.filter(|(uid, _)| *uid == owner.uid)));
            let shares: Vec<Result<Share, ()>> = shares.collect();
            if shares.is_empty() { vec![Err(())] } else { shares }
        };
        let Some(workload) = self.held(owner) else {
            return asked(owner);
        };
        let own = (workload.uid.clone(), workload.replicas);
        let above = workload.owner.as_ref();
        let Some(deployment) = above.filter(|above| owner.kind == "ReplicaSet" && above.kind == "Deployment")
        else {
            return vec![Ok(Some(own))];
        };
        if let Some(held) = self.held(deployment) {
            return vec![Ok(Some((held.uid.clone(), held.replicas)))];
        }
        let shares = asked(deployment).into_iter();
        shares
            .map(|share| share.map(|share| share.or_else(|| Some(own.clone()))))
            .collect()
    }

    /// The pods of a budget whose controller is nowhere, by name; those left out whose siblings all go, too.
    pub(super) fn orphans(&self, pdb: &Value) -> Vec<&String> {
        let lost = |pod: &Pod| {
            pod.owner
                .as_ref()
                .filter(|owner| self.held(owner).is_none())
                .cloned()
        };
        let stays = self.pods_of(pdb).filter(|(_, pod)| !pod.terminating);
        let missed: BTreeSet<Owner> = stays.filter_map(|(_, pod)| lost(pod)).collect();
        let orphans = self
            .pods_of(pdb)
            .filter(|(_, pod)| lost(pod).is_some_and(|owner| missed.contains(&owner)));
        orphans.map(|(name, _)| name).collect()
    }

    fn held(&self, owner: &Owner) -> Option<&Workload> {
        let workload = self.workloads.get(&(owner.kind.clone(), owner.name.clone()))?;
        (workload.uid == owner.uid).then_some(workload)
    }

    /// How many pods of a budget that would count as healthy are on their way, where `is_on_its_way` says so.
    pub(super) fn going(&self, pdb: &Value, is_on_its_way: impl Fn(&str, &str, &Pod) -> bool) -> i64 {
        let going = approved(pdb).filter(|(name, since)| {
            let pod = self.pod_of(pdb, name);
            pod.is_some_and(|pod| pod.is_healthy() && is_on_its_way(name, since, pod))
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

/// So many pods, or so many percent of these, rounded up.
fn part(amount: &Value, of: i64) -> Option<i64> {
    match amount {
        Value::Number(number) => number.as_i64(),
        Value::String(percent) => {
            let percent: i64 = percent.strip_suffix('%')?.parse().ok()?;
            Some((of * percent + 99) / 100)
        }
        _ => None,
    }
}

pub(super) fn matches(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    if selector.is_null() {
        return false;
    }
    let pairs = selector["matchLabels"].as_object();
    let mut expressions = each(&selector["matchExpressions"]);
    let has_pair = |(key, value): (&String, &Value)| labels.get(key).is_some_and(|held| value == held);
    let meets = |expression: &Value| {
        let held = labels.get(expression["key"].as_str().unwrap_or_default());
        let listed = held.is_some_and(|held| each(&expression["values"]).any(|value| value == held));
        match expression["operator"].as_str() {
            Some("In") => listed,
            Some("NotIn") => !listed,
            Some("Exists") => held.is_some(),
            Some("DoesNotExist") => held.is_none(),
            _ => false,
        }
    };
    pairs.into_iter().flatten().all(has_pair) && expressions.all(meets)
}
