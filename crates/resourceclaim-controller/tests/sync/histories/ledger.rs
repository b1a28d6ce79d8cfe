//! What was, and what follows from that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controller_testing::objects::name;
use embedded_apiserver::{RESOURCE_CLAIM_TEMPLATES, RecordedRequest, RequestVerb, Server};
use serde_json::Value;

use super::sight::{Claim, Claimant, ENTRY, Sight};

/// How long a finalizer must have been alone before it is removed (RC-11).
const IDLE_FINALIZER_AGE: Duration = Duration::from_mins(5);

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The claim names that were recorded for the pod or the group with this uid.
    recorded: BTreeMap<String, BTreeSet<String>>,
    /// The specs that each template has had, with their labels and annotations.
    templates: BTreeMap<String, Vec<Value>>,
    /// By uid: the version of a claim, and since when.
    versions: BTreeMap<String, (String, Duration)>,
    /// By uid: when the controller sent the write that takes the last reservation off a claim, until its effect is
    /// seen.
    released: BTreeMap<String, Duration>,
    /// Removed reservations: process, claim and pod.
    taken_off: BTreeSet<(String, String, String)>,
    /// By uid of a pod: the uids of its groups, one after the other.
    groups: BTreeMap<String, BTreeSet<String>>,
    /// The names of groups that have had a pod on a node.
    bound: BTreeSet<String>,
    /// The names of claims that were created again while a create that the controller had given up could still take
    /// effect.
    late: BTreeSet<String>,
    /// The first violation.
    pub(super) wrong: Option<String>,
}

impl Ledger {
    /// Takes in the current state.
    pub(super) fn look(&mut self, server: &Server) -> Sight {
        let sight = Sight::of(server);
        for claimant in sight.pods.iter().chain(&sight.groups) {
            let recorded = self.recorded.entry(claimant.uid.clone()).or_default();
            recorded.extend(claimant.recorded.values().cloned());
            let Some(named) = &claimant.group else { continue };
            if claimant.bound {
                self.bound.insert(named.clone());
            }
            if let Some(group) = sight.group(named) {
                let groups = self.groups.entry(claimant.uid.clone()).or_default();
                groups.insert(group.uid.clone());
            }
        }
        for template in server.list(&RESOURCE_CLAIM_TEMPLATES) {
            let specs = self.templates.entry(name(&template)).or_default();
            if !specs.contains(&template["spec"]) {
                specs.push(template["spec"].clone());
            }
        }
        for claim in sight.claims.values() {
            let now = || (claim.version.clone(), server.elapsed());
            let seen = self.versions.entry(claim.uid.clone()).or_insert_with(now);
            if seen.0 != claim.version {
                let released = self.released.remove(&claim.uid);
                let released = released.filter(|_| claim.reserved.is_empty());
                *seen = (
                    claim.version.clone(),
                    released.unwrap_or_else(|| server.elapsed()),
                );
            }
        }
        self.late = late(server);
        if let Err(wrong) = sight.is_right(self) {
            self.wrong.get_or_insert(wrong);
        }
        sight
    }

    /// Somebody drops the record of this claim, so that nobody who has not seen it can know of it.
    pub(super) fn forgets(&mut self, pod: &str, claim: &str) {
        self.recorded.entry(pod.to_owned()).or_default().remove(claim);
    }

    /// Returns whether the claimant with this uid ever had a claim of this name recorded.
    pub(super) fn was_recorded(&self, pod: &str, claim: &str) -> bool {
        self.recorded
            .get(pod)
            .is_some_and(|recorded| recorded.contains(claim))
    }

    pub(super) fn came_late(&self, claim: &str) -> bool {
        self.late.contains(claim)
    }

    /// Returns whether the pod's group went while the pod was in it.
    pub(super) fn has_lost_its_group(&self, sight: &Sight, pod: &Claimant) -> bool {
        let group = pod.group.as_ref().and_then(|group| sight.group(group));
        let groups = self.groups.get(&pod.uid).into_iter().flatten();
        groups
            .into_iter()
            .any(|uid| group.is_none_or(|group| group.uid != *uid))
    }

    /// Returns whether a pod of a group of this name was on a node: a watch of pods that lags shows it next to a later
    /// group.
    pub(super) fn was_bound(&self, group: &str) -> bool {
        self.bound.contains(group)
    }

    /// Returns whether a template has ever described this claim.
    pub(super) fn is_of_template(&self, template: &str, claim: &Value) -> bool {
        let specs = self.templates.get(template);
        specs.into_iter().flatten().any(|spec| {
            let mut annotations = claim["metadata"]["annotations"].clone();
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.remove(ENTRY);
            }
            spec["spec"] == claim["spec"]
                && spec["metadata"]["labels"] == claim["metadata"]["labels"]
                && spec["metadata"]["annotations"] == annotations
        })
    }

    /// The controller takes the last reservation off the claim.
    pub(super) fn releases(&mut self, claim: &Claim, now: Duration) {
        self.released.insert(claim.uid.clone(), now);
    }

    /// The process takes the pod's reservation off the claim.
    pub(super) fn takes_off(&mut self, process: &str, claim: &Claim, pod: &str) {
        self.taken_off
            .insert((process.to_owned(), claim.uid.clone(), pod.to_owned()));
    }

    /// Returns whether the process has seen that the pod no longer needs the claim.
    pub(super) fn has_taken_off(&self, process: &str, claim: &Claim, pod: &str) -> bool {
        let pair = (process.to_owned(), claim.uid.clone(), pod.to_owned());
        self.taken_off.contains(&pair)
    }

    /// Returns whether a finalizer without an allocation may be removed now.
    pub(super) fn may_lose_its_finalizer(&self, claim: &Claim, now: Duration) -> bool {
        let unchanged = self
            .versions
            .get(&claim.uid)
            .map(|(_, since)| now.saturating_sub(*since));
        claim.deleting || unchanged.is_some_and(|unchanged| unchanged >= IDLE_FINALIZER_AGE)
    }
}

/// The names of claims that were created although a create that was given up may take effect, too.
fn late(server: &Server) -> BTreeSet<String> {
    let creates = server.requests_where(|request| {
        request.verb == RequestVerb::Create && request.resource == "resourceclaims"
    });
    let named = |is: fn(&RecordedRequest) -> bool| -> BTreeSet<_> {
        creates
            .iter()
            .filter(|create| is(create))
            .map(|create| name(&create.body))
            .collect()
    };
    let given_up = named(|create| create.served.is_some() && create.code.is_none());
    &given_up & &named(|create| create.code == Some(201))
}
